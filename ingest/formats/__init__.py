"""One small codec a file: bytes in, parts out, no input or output. :mod:`ingest.formats.registry` lists them."""
