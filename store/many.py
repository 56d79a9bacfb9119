"""Many rows in few steps of the engine.

Each step of a statement lets go of the interpreter's lock and must win it back from the thread that reads the
network: row by row that costs several times the write itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

_SIZES: Final = (256, 64, 16, 4, 1)  # rows a statement: few sizes, so that each is compiled once


def write_many(
    raw: sqlite3.Connection | sqlite3.Cursor, head: str, rows: Sequence[tuple[Any, ...]], tail: str = ""
) -> None:
    """Write rows of one width: ``head VALUES (…), … tail``."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            part = rows[start : start + size]
            raw.execute(_statement(head, len(part[0]), size, tail), [value for row in part for value in row])
            start += size


@cache
def _statement(head: str, width: int, size: int, tail: str) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{head} VALUES {', '.join([row] * size)} {tail}"
