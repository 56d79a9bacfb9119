"""Floor 3: the composition root. Settings, wiring, HTTP, dashboard, command line."""
