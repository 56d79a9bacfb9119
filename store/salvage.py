"""A damaged store: found at the start, and what can still be read of it carried into a fresh one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from store import schema
from store.backup import verdict
from store.errors import translated
from store.ports import StoreError

#: What a backup brings back; the counters go with the items they count.
_LEFT: Final = ("readings", "item_keys", "quarantine", "totals", "unknown_fields", "sensor_keys")


def damage(file: Path) -> str | None:
    """What is wrong with a store's file; None where it is sound, new, or not there.

    Raises
    ------
    StoreError
        It cannot be read for another reason: that is no damage.
    """
    if not file.is_file() or file.stat().st_size == 0:
        return None
    with translated(), closing(sqlite3.connect(file, timeout=10.0)) as raw:
        found = verdict(raw, "quick_check")
    return None if found == "ok" else found


def salvage(damaged: Path, fresh: Path) -> tuple[dict[str, int], list[str]]:
    """Copy every table but the history's, each whole or not at all; the rows by table, and tables that were lost.

    Raises
    ------
    StoreError
        The fresh store cannot be written.
    """
    names = [table.name for table in schema.metadata.sorted_tables if table.name not in _LEFT]
    kept: dict[str, int] = {}
    lost: list[str] = []
    with translated(), closing(sqlite3.connect(fresh, isolation_level=None)) as target:
        for name in names:
            try:
                columns, rows = _read(damaged, name)
            except sqlite3.Error:
                lost.append(name)
                continue
            kept[name] = _write(target, name, columns, rows)
    return kept, lost


def _read(file: Path, name: str) -> tuple[list[str], list[tuple[object, ...]]]:
    with closing(sqlite3.connect(file)) as raw:
        cursor = raw.execute(f'SELECT * FROM "{name}"')
        return [column[0] for column in cursor.description], cursor.fetchall()


def _write(
    target: sqlite3.Connection, name: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> int:
    known = {row[1] for row in target.execute(f'PRAGMA table_info("{name}")')}
    if not set(columns) <= known:
        raise StoreError(f"{name}: the damaged store is of another version of this program; restore a backup")
    marks, quoted = ", ".join("?" * len(columns)), ", ".join(f'"{one}"' for one in columns)
    target.execute("BEGIN")
    try:
        target.executemany(f'INSERT OR REPLACE INTO "{name}" ({quoted}) VALUES ({marks})', rows)
    except BaseException:
        with suppress(sqlite3.Error):
            target.execute("ROLLBACK")
        raise
    target.execute("COMMIT")
    return len(rows)
