"""Rows of the table ``readings``: what one holds, written and read many at a time."""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from analysis.units import COLUMNS
from store.many import parts, write_many, write_part
from store.records import Item, StoredReading

Profile = tuple[float | None, ...]
Place = tuple[int, int]  # sensor key, time [us]
Row = tuple[Any, ...]
_Parts = tuple[Place, int, int, int | None, dict[str, float], Profile | None]

#: What follows sensor and time in every row that is read.
FIELDS: Final = ("received_us", "flags", "seq", *COLUMNS, "profile")
_KEYS: Final = ("sensor_key", "time_us")
_ALWAYS: Final = (*_KEYS, "received_us", "flags", "seq")
_REWRITE: Final = f"ON CONFLICT ({', '.join(_KEYS)}) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in FIELDS
)
_FIND: Final = f"SELECT r.sensor_key, r.time_us, {', '.join(f'r.{name}' for name in FIELDS)} FROM ("
# the left side of a cross join is walked, the right side looked up by its key
_BY_KEY: Final = (
    ") AS asked CROSS JOIN readings r ON r.sensor_key = asked.column1 AND r.time_us = asked.column2"
)


class Reading:
    """A row as it will stand; ``fresh`` where it is not in the table yet."""

    __slots__ = ("flags", "fresh", "profile", "received_us", "sensor", "seq", "time_us", "values")

    def __init__(self, sensor: str, time_us: int, stored: Row | None = None) -> None:
        self.sensor = sensor
        self.time_us = time_us
        self.fresh = stored is None
        self.values: dict[str, float] = {}
        self.profile: Profile | None = None
        self.received_us = self.flags = 0
        self.seq: int | None = None
        if stored is not None:
            self.received_us, self.flags, self.seq = stored[:3]
            self.values = _present(stored[3:-1])
            self.profile = _unpack(stored[-1])

    @property
    def free(self) -> bool:
        """Nothing is stored here and nothing is about to be."""
        return self.fresh and not self.values and self.profile is None

    def record(self) -> StoredReading:
        """The row as a record."""
        return StoredReading(
            self.sensor, self.time_us, self.received_us, self.values, self.profile, self.flags, self.seq
        )

    def row(self, sensor_key: int) -> Row:
        """All columns, in the table's order."""
        get = self.values.get
        values = [get(name) for name in COLUMNS]
        return (
            sensor_key, self.time_us, self.received_us, self.flags, self.seq, *values, _pack(self.profile),
        )  # fmt: skip


def insert(cursor: sqlite3.Cursor, items: Iterable[tuple[Item, Place]]) -> dict[Place, Row]:
    """Insert items of different places; returns the rows that stood there already, which stay as they are.

    Most windows are all new, so a part is looked up only when it turned out not to be.
    """
    found: dict[Place, Row] = {}
    hopeful = True
    for head, rows in _by_shape(
        (place, item.received_us, item.flags, item.seq, item.values, item.profile) for item, place in items
    ):
        for part in parts(rows):
            if hopeful:
                try:
                    write_part(cursor, head, part)
                except sqlite3.IntegrityError:  # some are there; the statement left nothing
                    hopeful = False
                else:
                    continue
            there = lookup(cursor, [row[:2] for row in part])
            found.update(there)
            write_many(cursor, head, [row for row in part if row[:2] not in there])
    return found


def write(cursor: sqlite3.Cursor, rows: Mapping[Place, Reading]) -> None:
    """Insert rows, or put them in the place of those that are there."""
    fresh = (
        (place, row.received_us, row.flags, row.seq, row.values, row.profile)
        for place, row in rows.items()
        if row.fresh
    )
    for head, new in _by_shape(fresh):
        write_many(cursor, head, new)
    rest = sorted(place for place, row in rows.items() if not row.fresh)
    write_many(cursor, _head((*COLUMNS, "profile")), [rows[place].row(place[0]) for place in rest], _REWRITE)


def _by_shape(rows: Iterable[_Parts]) -> Iterator[tuple[str, list[Row]]]:
    """Statements and their rows: only the columns a row has, in the order of the key, where neighbours share a page."""
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for place, received_us, flags, seq, values, profile in rows:
        shape = (*values, "") if profile is None else (*values, "profile")
        row = (*place, received_us, flags, seq, *values.values())
        shapes.setdefault(shape, []).append(row if profile is None else (*row, _pack(profile)))
    for shape, found in shapes.items():
        found.sort()  # by place alone, which no two share
        yield _head(shape), found


def lookup(cursor: sqlite3.Cursor, places: Sequence[Place]) -> dict[Place, Row]:
    """The rows that stand at these places, without sensor and time."""
    found = {}
    for part in parts(places):
        for row in write_part(cursor, _FIND, part, _BY_KEY).fetchall():
            found[row[:2]] = row[2:]
    return found


def as_stored(row: Row) -> StoredReading:
    """The record of a row read as sensor id, time and :data:`FIELDS`."""
    return StoredReading(
        sensor=row[0],
        time_us=row[1],
        received_us=row[2],
        flags=row[3],
        seq=row[4],
        values=_present(row[5:-1]),
        profile=_unpack(row[-1]),
    )


@lru_cache(maxsize=1024)
def _head(shape: tuple[str, ...]) -> str:
    names = [name for name in shape if name]
    unknown = set(names) - {*COLUMNS, "profile"}
    if unknown:
        raise ValueError(f"no column of readings: {', '.join(sorted(unknown))}")
    return f"INSERT INTO readings ({', '.join((*_ALWAYS, *names))})"


def _present(values: Sequence[float | None]) -> dict[str, float]:
    return {name: value for name, value in zip(COLUMNS, values, strict=True) if value is not None}


def _pack(profile: Profile | None) -> bytes | None:
    """float64, little-endian, from the floor up; NaN is a dead electrode."""
    if profile is None:
        return None
    return struct.pack(f"<{len(profile)}d", *(math.nan if value is None else value for value in profile))


def _unpack(data: bytes | None) -> Profile | None:
    if data is None:
        return None
    return tuple(None if math.isnan(value) else value for value in struct.unpack(f"<{len(data) // 8}d", data))
