"""Errors of the engine as errors of the port."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from store.ports import StoreError, StoreFull

#: What a full disk, or a quota used up, looks like besides SQLITE_FULL.
_CANNOT_WRITE: Final = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY, sqlite3.SQLITE_BUSY_SNAPSHOT)
_PATIENCE: Final = "nothing is stored until the store can write again"


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the engine as errors of the port."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise _as_port(error.orig if isinstance(error.orig, sqlite3.Error) else error) from error
    except sqlite3.Error as error:
        raise _as_port(error) from error


def _as_port(error: BaseException) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"the disk is full: make room; {_PATIENCE}")
    if code in _CANNOT_WRITE:
        return StoreFull(f"the disk cannot be written ({name}), it may be full: make room; {_PATIENCE}")
    if code in _BUSY:
        return StoreError(f"another process is writing to this store ({name}): end it, or try again")
    return StoreError(f"{name}: {error}")
