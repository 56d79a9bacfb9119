"""The data directory: who holds it, and what lies in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from store.ports import StoreError
from store.sql import FILE_NAME

LOCK: Final = ".lock"
#: The store's file and what SQLite keeps beside it while it is open.
STORE_FILES: Final = tuple(FILE_NAME + end for end in ("", "-wal", "-shm", "-journal"))


@contextmanager
def held(directory: Path, *, what: str = "the data directory") -> Iterator[None]:
    """Hold a directory for this process alone, making it where it is missing; the end of the process lets it go.

    Raises
    ------
    StoreError
        Another process holds it; the text names it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{directory}: cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            raise StoreError(
                f"{directory}: {what} is in use by process {holder or '(unknown)'}; end that first"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
