"""A store's file copied while it is written to, and looked at before it is trusted."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store.errors import translated
from store.ports import StoreError

_PAGES: Final = 4096  # copied between two words about how far it is
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What a store's file holds."""

    integrity: str  # ok, or what is wrong
    revision: str | None  # of the schema
    rows: dict[str, int]  # by table
    counters: dict[str, int]  # over all time


def copy_file(source: Path, target: Path, progress: Callable[[int, int], None] = lambda *_: None) -> None:
    """Copy a store as it stands at one instant, into one file that needs no log beside it; others go on writing.

    ``progress`` is told pages done and pages in all.

    Raises
    ------
    StoreError
        The source cannot be read, or the target cannot be written; an unfinished target is removed.
    """
    try:
        with translated(), closing(_open(source)) as here, closing(sqlite3.connect(target)) as there:
            target.chmod(0o600)
            here.execute("BEGIN")
            here.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on one instant
            here.backup(
                there, pages=_PAGES, sleep=0, progress=lambda _, left, total: progress(total - left, total)
            )
            here.execute("ROLLBACK")
            there.execute("PRAGMA journal_mode = DELETE")
        flush(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def facts(file: Path) -> Facts:
    """Read a file whole and say what it holds.

    Raises
    ------
    StoreError
        It is no store's file, or is too damaged to be read.
    """
    with translated(), closing(_open(file)) as raw:
        integrity = verdict(raw, "integrity_check")
        if integrity != "ok":  # what a count would stumble over
            return Facts(integrity, None, {}, {})
        names = [
            row[0]
            for row in raw.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
        ]
        if "alembic_version" not in names:
            raise StoreError(f"{file}: is no store of this program")
        revision = raw.execute("SELECT version_num FROM alembic_version").fetchone()
        rows = {name: raw.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
        counters = dict(raw.execute("SELECT name, count FROM totals ORDER BY name"))
    return Facts(integrity, None if revision is None else revision[0], rows, counters)


def verdict(raw: sqlite3.Connection, check: str) -> str:
    """``ok``, or what the engine's own check says is damaged; errors that are no damage are raised."""
    try:
        return "; ".join(str(row[0]) for row in raw.execute(f"PRAGMA {check}(5)"))
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
            return str(error)
        raise


def flush(path: Path) -> None:
    """Let the disk have a file, or a directory's names, before anything is said of it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _open(file: Path) -> sqlite3.Connection:
    if not file.is_file():
        raise StoreError(f"{file}: there is no such file")
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_S, isolation_level=None
    )
