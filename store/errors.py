"""Errors of the engine as errors of the port."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from store.ports import StoreError, StoreFull

_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)


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
    if code in _FULL:
        return StoreFull(
            "the disk is full: make room; nothing is acknowledged until the store can write again"
        )
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StoreError(f"{name}: {error}")
