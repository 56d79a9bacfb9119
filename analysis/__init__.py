"""Floor 0: the numeric core. Arrays in, arrays out; no I/O, no clock, no log."""
