"""The identity rules of contracts.md §2: what a window's items are to the history and to one another.

The identity of a value is (sensor, time, quantity). An item whose values all stand there already is a duplicate;
one that brings something new and contradicts nothing is stored, completing the row of its instant; one that
contradicts any value is quarantined whole. Within a window the order of reception decides.

A completed row carries the reception of its *latest* quantity, so that :meth:`~store.ports.History.scan` finds it,
whole, among what was received since the last decision. That is reproducible because every instant up to a message's
reception is decided before the message is taken: no decision still to be made looks at the row as it was before.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from store.many import parts, write_many, write_part
from store.readings import Place, Profile, Reading, insert, lookup, write
from store.records import Item, Quarantined, StoredReading

KEPT_BYTES: Final = 4096
_FIND_KEYS: Final = "SELECT k.sensor_key, k.key, k.received_us FROM ("
_BY_KEY: Final = ") AS asked CROSS JOIN item_keys k ON k.sensor_key = asked.column1 AND k.key = asked.column2"
_REL: Final = 1e-9  # equality of two values after conversion to SI, contracts.md §2


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a window's items."""

    readings: tuple[StoredReading, ...]  # rows that changed, as they now stand, in order of first change
    stored: int
    duplicates: int
    conflicts: tuple[Quarantined, ...]
    others: Mapping[int, str]  # items that were not stored, by their place: duplicate, quarantined


def settle(raw: sqlite3.Connection, items: Sequence[Item], keys: Mapping[str, int]) -> Settled:
    """Store what is new of a window's items; ``keys`` numbers their sensors."""
    places = [(keys[item.sensor], item.time_us) for item in items]
    alone = _alone(items, places)
    found = insert(raw.cursor(), ((items[n], places[n]) for n in alone))
    if len(alone) == len(items) and not found:
        return Settled(tuple(_as_stored(item) for item in items), len(items), 0, (), {})
    new = {n for n in alone if places[n] not in found}
    work = _Work(raw.cursor())
    rest = [n for n in range(len(items)) if n not in new]
    work.expect({places[n]: items[n].sensor for n in rest}, found)
    work.expect_keys([(places[n][0], key) for n in rest if (key := items[n].key) is not None])
    for n, item in enumerate(items):
        if n in new:
            work.note_new(item)
        else:
            work.take(n, item, places[n])
    return work.finish()


def _alone(items: Sequence[Item], places: Sequence[Place]) -> Sequence[int]:
    """Items that share their place with no other of the window, whatever happens to the others."""
    moving = {place[0] for item, place in zip(items, places, strict=True) if item.key is not None}
    if not moving and len(set(places)) == len(places):
        return range(len(items))
    count = Counter(places)
    return [n for n, place in enumerate(places) if count[place] == 1 and place[0] not in moving]


class _Work:
    """Items taken one after the other, against what is stored and against each other."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor
        self._rows: dict[Place, Reading] = {}
        self._known: dict[tuple[int, bytes], int] = {}  # keys of this window, with their reception
        self._stored_keys: dict[tuple[int, bytes], int] = {}
        self._next: dict[Place, int] = {}  # where a search for a free instant goes on
        self._changed: dict[Place, Reading] = {}
        self._out: list[StoredReading | Reading] = []
        self._conflicts: list[Quarantined] = []
        self._others: dict[int, str] = {}
        self._stored = self._duplicates = 0

    def expect(self, sensors: Mapping[Place, str], found: Mapping[Place, tuple[object, ...]]) -> None:
        """Read the rows of these places, but for those found already, in few statements."""
        there = {**found, **lookup(self._cursor, [place for place in sensors if place not in found])}
        for place, sensor in sensors.items():
            self._rows[place] = Reading(sensor, place[1], there.get(place))

    def expect_keys(self, keys: Sequence[tuple[int, bytes]]) -> None:
        """Read when these keys were stored, in few statements."""
        for part in parts(keys):
            self._stored_keys.update(
                (row[:2], row[2]) for row in write_part(self._cursor, _FIND_KEYS, part, _BY_KEY).fetchall()
            )

    def note_new(self, item: Item) -> None:
        """Count an item that has been inserted as it is."""
        self._stored += 1
        self._out.append(_as_stored(item))

    def take(self, n: int, item: Item, place: Place) -> None:
        """Store, complete, count as duplicate or quarantine the window's item ``n``."""
        if item.key is not None:
            if item.check_key and self._is_known(place[0], item):
                self._duplicates += 1
                self._others[n] = "duplicate"
                return
            place = self._free_place(item, place)
            self._known[place[0], item.key] = item.received_us
        row = self._at(item.sensor, place)
        clash = _clash(row, item)
        if clash is not None:
            self._conflicts.append(_conflict(item, clash))
            self._others[n] = "quarantined"
        elif not _merge(row, item):
            self._duplicates += 1
            self._others[n] = "duplicate"
        else:
            self._stored += 1
            if place not in self._changed:
                self._changed[place] = row
                self._out.append(row)

    def finish(self) -> Settled:
        """Write the changed rows and the keys."""
        write(self._cursor, self._changed)
        write_many(
            self._cursor,
            "INSERT INTO item_keys (sensor_key, key, received_us)",
            [(sensor, key, at) for (sensor, key), at in self._known.items()],
            "ON CONFLICT DO UPDATE SET received_us = excluded.received_us",
        )
        readings = tuple(row.record() if isinstance(row, Reading) else row for row in self._out)
        return Settled(readings, self._stored, self._duplicates, tuple(self._conflicts), self._others)

    def _at(self, sensor: str, place: Place) -> Reading:
        row = self._rows.get(place)
        if row is None:
            row = Reading(sensor, place[1], lookup(self._cursor, [place]).get(place))
            self._rows[place] = row
        return row

    def _free_place(self, item: Item, place: Place) -> Place:
        """The item's instant, or the next microsecond at which its sensor has said nothing."""
        sensor_key, time_us = place[0], self._next.get(place, place[1])
        while not self._at(item.sensor, (sensor_key, time_us)).free:
            time_us += 1
        self._next[place] = time_us
        return sensor_key, time_us

    def _is_known(self, sensor_key: int, item: Item) -> bool:
        assert item.key is not None
        name = (sensor_key, item.key)
        at = self._known.get(name, self._stored_keys.get(name))
        return at is not None and at >= item.key_since_us


def _as_stored(item: Item) -> StoredReading:
    return StoredReading(
        item.sensor, item.time_us, item.received_us, item.values, item.profile, item.flags, item.seq
    )


def _merge(row: Reading, item: Item) -> bool:
    """Complete a row by what is new in an item that does not contradict it; False where nothing is."""
    new = item.values.keys() - row.values.keys()
    profile_is_new = item.profile is not None and row.profile is None
    if not new and not profile_is_new:
        return False
    row.values = {**row.values, **{name: value for name, value in item.values.items() if name in new}}
    if profile_is_new:
        row.profile = item.profile
    row.received_us = max(row.received_us, item.received_us)
    row.flags |= item.flags
    row.seq = item.seq if row.seq is None else row.seq
    return True


def _clash(row: Reading, item: Item) -> str | None:
    """The field in which an item contradicts what is stored, with both values."""
    for name, value in item.values.items():
        stored = row.values.get(name)
        if stored is None or stored == value or math.isclose(stored, value, rel_tol=_REL, abs_tol=0.0):
            continue
        return f"{name}: {stored!r} is stored for this sensor and time, {value!r} came"
    if item.profile is not None and row.profile is not None and not _same_profile(row.profile, item.profile):
        return f"profile: {list(row.profile)} is stored for this sensor and time, {list(item.profile)} came"
    return None


def _same_profile(one: Profile, other: Profile) -> bool:
    return len(one) == len(other) and all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=_REL, abs_tol=0.0)
        for a, b in zip(one, other, strict=True)
    )


def _conflict(item: Item, clash: str) -> Quarantined:
    return Quarantined(
        sensor=item.sensor,
        topic=item.topic,
        received_us=item.received_us,
        reason="conflict",
        detail=f"{clash}; the first stays: a correction needs a time of its own",
        payload=item.raw[:KEPT_BYTES],
        size=len(item.raw),
        sha256=sha256(item.raw).hexdigest(),
        device_profile=item.device_profile,
    )
