"""Many rows in few steps of the engine.

Each step of a statement lets go of the interpreter's lock and must win it back from the thread that reads the
network: row by row that costs several times the write itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

_SIZES: Final = (
    250,
    50,
    10,
)  # rows a statement: few sizes, so that each is compiled once; the rest in one more


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
    rest = rows[start:]
    if rest:
        raw.execute(_statement(head, len(rest[0]), len(rest), tail), [value for row in rest for value in row])


@cache
def _statement(head: str, width: int, size: int, tail: str) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{head} VALUES {', '.join([row] * size)} {tail}"
