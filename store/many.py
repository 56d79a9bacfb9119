"""Many rows in few steps of the engine.

Each step of a statement lets go of the interpreter's lock and must win it back from the thread that reads the
network: row by row that costs several times the write itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

Raw = sqlite3.Connection | sqlite3.Cursor
Rows = Sequence[tuple[Any, ...]]

_SIZES: Final = (
    250,
    50,
    10,
)  # rows a statement: few sizes, so that each is compiled once; the rest in one more


def parts(rows: Rows) -> Iterator[Rows]:
    """Cut rows into the sizes of :func:`write_part`."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
    if start < len(rows):
        yield rows[start:]


def write_part(raw: Raw, head: str, part: Rows, tail: str = "") -> sqlite3.Cursor:
    """``head VALUES (…), … tail`` with rows of one width, in one statement: all of them or none."""
    return raw.execute(
        _statement(head, len(part[0]), len(part), tail), [value for row in part for value in row]
    )


def write_many(raw: Raw, head: str, rows: Rows, tail: str = "") -> None:
    """Write any number of rows of one width: ``head VALUES (…), … tail``."""
    for part in parts(rows):
        write_part(raw, head, part, tail)


@lru_cache(maxsize=1024)
def _statement(head: str, width: int, size: int, tail: str) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{head} VALUES {', '.join([row] * size)} {tail}"
