"""Readings, quarantine and counters: the identity rules of contracts.md §2, in one transaction a window.

A reading's row carries the reception of its *latest* quantity: after a restart, what was received since an
instant is then found again by :meth:`SqlHistory.scan`, completed rows among it.
"""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from analysis.units import COLUMNS
from store.errors import translated
from store.many import write_many
from store.records import (
    CommitResult,
    IngestWindow,
    Item,
    Quarantined,
    StoredReading,
    Totals,
)

if TYPE_CHECKING:
    from store.sql import SqlStore

Profile = tuple[float | None, ...]

KEPT_BYTES: Final = 4096
_REL: Final = 1e-9  # equality of two values after conversion to SI, contracts.md §2
_CHUNK: Final = 20_000
_NAMES: Final = ", ".join(COLUMNS)
_SELECT: Final = f"received_us, flags, seq, {_NAMES}, profile"
_INTO_READINGS: Final = (
    f"INSERT INTO readings (sensor_key, time_us, received_us, flags, seq, {_NAMES}, profile)"
)
_REPLACE_READINGS: Final = _INTO_READINGS.replace("INSERT", "INSERT OR REPLACE", 1)
_ONE: Final = f"SELECT {_SELECT} FROM readings WHERE sensor_key = ? AND time_us = ?"
_COUNTS: Final = ("messages", "received", "stored", "duplicate", "quarantined", "retained", "heartbeat")

Place = tuple[int, int]  # sensor key, time


class SqlHistory:
    """The history port over SQLite."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._keys: dict[str, int] = {}

    def forget(self) -> None:
        """Forget sensor keys that an undone transaction may have made."""
        self._keys.clear()

    # ---- writing -------------------------------------------------------------------------------------

    def commit(self, window: IngestWindow) -> CommitResult:
        """Write one window by the identity rules; conflicts are quarantined whole."""
        with self._store.transaction():
            raw = self._store.raw(self._store.writer)
            settled = self._settle(raw, window.items)
            quarantined = self._quarantine(raw, (*window.quarantined, *settled.conflicts))
            self._notes(raw, window)
            self._count(raw, window, settled, len(quarantined))
        return CommitResult(settled.readings, settled.duplicates, quarantined)

    def _settle(self, raw: sqlite3.Connection, items: Sequence[Item]) -> _Settled:
        """Store a window's items: hoping that all are new, and looking each one up where the hope fails."""
        keys = self._sensor_keys(raw, items)
        rows = _hopeful_rows(items, keys)
        if rows is not None:
            raw.execute("SAVEPOINT hopeful")
            try:
                write_many(raw, _INTO_READINGS, rows)
            except sqlite3.IntegrityError:  # something of it is there already
                raw.execute("ROLLBACK TO hopeful")
            else:
                return _Settled(tuple(_as_reading(item) for item in items), len(items), 0, ())
            finally:
                raw.execute("RELEASE hopeful")
        work = _Work(raw.cursor(), keys)
        work.run(items)
        readings = tuple(work.reading(place) for place in work.order)
        return _Settled(readings, work.stored, work.duplicates, tuple(work.conflicts))

    def _sensor_keys(self, raw: sqlite3.Connection, items: Sequence[Item]) -> dict[str, int]:
        for sensor in {item.sensor for item in items} - self._keys.keys():
            row = raw.execute("SELECT key FROM sensor_keys WHERE id = ?", (sensor,)).fetchone()
            if row is None:
                row = raw.execute(
                    "INSERT INTO sensor_keys (id) VALUES (?) RETURNING key", (sensor,)
                ).fetchone()
            self._keys[sensor] = row[0]
        return self._keys

    @staticmethod
    def _quarantine(raw: sqlite3.Connection, items: Sequence[Quarantined]) -> tuple[Quarantined, ...]:
        kept = []
        for one in items:
            cursor = raw.execute(
                "INSERT INTO quarantine (sensor, topic, received_us, reason, detail, payload, size, sha256, "
                "device_profile) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    one.sensor,
                    one.topic,
                    one.received_us,
                    one.reason,
                    one.detail,
                    one.payload[:KEPT_BYTES],
                    one.size,
                    one.sha256,
                    one.device_profile,
                ),
            )
            assert cursor.lastrowid is not None
            kept.append(replace(one, id=cursor.lastrowid, payload=one.payload[:KEPT_BYTES]))
        return tuple(kept)

    @staticmethod
    def _notes(raw: sqlite3.Connection, window: IngestWindow) -> None:
        write_many(
            raw,
            "INSERT INTO unknown_fields (sensor, field, count)",
            window.unknown_fields,
            "ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )
        write_many(
            raw,
            "INSERT INTO connectivity (sensor, online, received_us)",
            window.statuses,
            "ON CONFLICT DO UPDATE SET online = excluded.online, received_us = excluded.received_us "
            "WHERE excluded.received_us >= received_us",
        )
        write_many(
            raw,
            "INSERT INTO contacts (sensor, received_us)",
            list(dict(window.contacts).items()),
            "ON CONFLICT DO UPDATE SET received_us = max(received_us, excluded.received_us)",
        )

    @staticmethod
    def _count(raw: sqlite3.Connection, window: IngestWindow, settled: _Settled, quarantined: int) -> None:
        received = len(window.items) + len(window.quarantined) + window.retained + window.heartbeats
        counts = {
            "messages": window.messages,
            "received": received,
            "stored": settled.stored,
            "duplicate": settled.duplicates,
            "quarantined": quarantined,
            "retained": window.retained,
            "heartbeat": window.heartbeats,
        }
        write_many(
            raw,
            "INSERT INTO totals (name, count)",
            list(counts.items()),
            "ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )

    # ---- reading -------------------------------------------------------------------------------------

    def readings(
        self,
        sensors: Sequence[str],
        *,
        since_us: int,
        until_us: int,
        received_before_us: int | None = None,
    ) -> list[StoredReading]:
        """Readings with since <= time < until, ordered by (time, sensor)."""
        if not sensors:
            return []
        rows = self._fetch(
            f"WHERE k.id IN ({', '.join('?' * len(sensors))}) AND r.time_us >= ? AND r.time_us < ? "
            "AND r.received_us < ? ORDER BY r.time_us, k.id",
            (*sensors, since_us, until_us, _END if received_before_us is None else received_before_us),
        )
        return [_row(row) for row in rows]

    def scan(self, *, received_since_us: int, received_before_us: int) -> Iterator[list[StoredReading]]:
        """Readings by reception, in chunks."""
        after = (received_since_us, "", -_END)
        while True:
            rows = self._fetch(
                "WHERE r.received_us >= ? AND r.received_us < ? AND (r.received_us, k.id, r.time_us) > (?, ?, ?) "
                f"ORDER BY r.received_us, k.id, r.time_us LIMIT {_CHUNK}",
                (after[0], received_before_us, *after),
            )
            if not rows:
                return
            yield [_row(row) for row in rows]
            after = (rows[-1][2], rows[-1][0], rows[-1][1])

    def last(self, sensors: Sequence[str]) -> dict[str, StoredReading]:
        """The newest reading of each sensor that has one."""
        found = {}
        for sensor in sensors:
            rows = self._fetch("WHERE k.id = ? ORDER BY r.time_us DESC LIMIT 1", (sensor,))
            if rows:
                found[sensor] = _row(rows[0])
        return found

    def first_us(self, sensors: Sequence[str]) -> int | None:
        """The oldest event time of these sensors' readings."""
        firsts = []
        for sensor in sensors:
            rows = self._fetch("WHERE k.id = ? ORDER BY r.time_us LIMIT 1", (sensor,))
            if rows:
                firsts.append(int(rows[0][1]))
        return min(firsts, default=None)

    def totals(self) -> Totals:
        """Counts over all time."""
        counts = dict(self._query("SELECT name, count FROM totals", ()))
        return Totals(**{name: int(counts.get(name, 0)) for name in _COUNTS})

    def quarantine(
        self, *, after_id: int = 0, limit: int = 100, sensor: str | None = None
    ) -> list[Quarantined]:
        """Quarantined items in order of id."""
        only, arguments = ("", ()) if sensor is None else ("AND sensor = ? ", (sensor,))
        rows = self._query(
            "SELECT sensor, topic, received_us, reason, detail, payload, size, sha256, device_profile, id "
            f"FROM quarantine WHERE id > ? {only}ORDER BY id LIMIT ?",
            (after_id, *arguments, limit),
        )
        return [Quarantined(*row) for row in rows]

    def unknown_fields(self) -> dict[tuple[str, str], int]:
        """How often each field was ignored."""
        rows = self._query("SELECT sensor, field, count FROM unknown_fields ORDER BY sensor, field", ())
        return {(sensor, field): count for sensor, field, count in rows}

    def connectivity(self) -> dict[str, tuple[bool, int]]:
        """Last status by sensor."""
        rows = self._query("SELECT sensor, online, received_us FROM connectivity ORDER BY sensor", ())
        return {sensor: (bool(online), at) for sensor, online, at in rows}

    def contacts(self) -> dict[str, int]:
        """When each sensor was last heard."""
        return dict(self._query("SELECT sensor, received_us FROM contacts ORDER BY sensor", ()))

    def _fetch(self, where: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        columns = ", ".join(f"r.{name}" for name in ("received_us", "flags", "seq", *COLUMNS, "profile"))
        return self._query(
            f"SELECT k.id, r.time_us, {columns} FROM readings r JOIN sensor_keys k ON k.key = r.sensor_key {where}",
            arguments,
        )

    def _query(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        with translated():
            return self._store.raw(self._store.reader).execute(sql, tuple(arguments)).fetchall()


_END: Final = 2**62


@dataclass(frozen=True, slots=True)
class _Settled:
    """What became of a window's items."""

    readings: tuple[StoredReading, ...]
    stored: int
    duplicates: int
    conflicts: tuple[Quarantined, ...]


def _hopeful_rows(items: Sequence[Item], keys: Mapping[str, int]) -> list[tuple[Any, ...]] | None:
    """Rows to insert if every item is new; None where an item must be looked up or two meet in one row."""
    rows = []
    for item in items:
        if item.key is not None:
            return None
        get = item.values.get
        rows.append(
            (
                keys[item.sensor],
                item.time_us,
                item.received_us,
                item.flags,
                item.seq,
                *[get(name) for name in COLUMNS],
                _pack(item.profile),
            )
        )
    return rows if len({row[:2] for row in rows}) == len(rows) else None


def _as_reading(item: Item) -> StoredReading:
    return StoredReading(
        item.sensor, item.time_us, item.received_us, item.values, item.profile, item.flags, item.seq
    )


class _Row:
    """A row as it will stand: values by column position, and what was there before."""

    __slots__ = ("flags", "fresh", "profile", "received_us", "sensor", "seq", "time_us", "values")

    def __init__(self, sensor: str, time_us: int, stored: tuple[Any, ...] | None) -> None:
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


class _Work:
    """One window's items against what is stored and against each other, in order of reception."""

    def __init__(self, cursor: sqlite3.Cursor, keys: dict[str, int]) -> None:
        self._cursor = cursor
        self._keys = keys
        self._rows: dict[Place, _Row] = {}
        self._known: dict[tuple[int, bytes], int] = {}
        self.order: list[Place] = []  # rows that change, once each, in order of first change
        self._changed: set[Place] = set()
        self.conflicts: list[Quarantined] = []
        self.stored = self.duplicates = 0

    def run(self, items: Sequence[Item]) -> None:
        for item in items:
            self.take(item)
        self.write()

    def take(self, item: Item) -> None:
        sensor_key = self._keys[item.sensor]
        time_us = item.time_us
        if item.key is not None:
            if item.check_key and self._is_known(sensor_key, item):
                self.duplicates += 1
                return
            while not self._free(item.sensor, sensor_key, time_us):
                time_us += 1
            self._known[sensor_key, item.key] = item.received_us
        place = (sensor_key, time_us)
        row = self._at(item.sensor, place)
        clash = _clash(row, item)
        if clash is not None:
            self.conflicts.append(_conflict(item, clash))
        elif not self._merge(row, item):
            self.duplicates += 1
        else:
            self.stored += 1
            if place not in self._changed:
                self._changed.add(place)
                self.order.append(place)

    def write(self) -> None:
        rows = [self._arguments(place) for place in self.order]
        fresh = all(self._rows[place].fresh for place in self.order)
        write_many(self._cursor, _INTO_READINGS if fresh else _REPLACE_READINGS, rows)
        write_many(
            self._cursor,
            "INSERT INTO item_keys (sensor_key, key, received_us)",
            [(sensor, key, at) for (sensor, key), at in self._known.items()],
            "ON CONFLICT DO UPDATE SET received_us = excluded.received_us",
        )

    def reading(self, place: Place) -> StoredReading:
        row = self._rows[place]
        return StoredReading(
            row.sensor, row.time_us, row.received_us, row.values, row.profile, row.flags, row.seq
        )

    def _at(self, sensor: str, place: Place) -> _Row:
        row = self._rows.get(place)
        if row is None:
            row = _Row(sensor, place[1], self._cursor.execute(_ONE, place).fetchone())
            self._rows[place] = row
        return row

    def _free(self, sensor: str, sensor_key: int, time_us: int) -> bool:
        row = self._at(sensor, (sensor_key, time_us))
        return row.fresh and not row.values and row.profile is None

    def _is_known(self, sensor_key: int, item: Item) -> bool:
        assert item.key is not None
        at = self._known.get((sensor_key, item.key))
        if at is None:
            found = self._cursor.execute(
                "SELECT received_us FROM item_keys WHERE sensor_key = ? AND key = ?", (sensor_key, item.key)
            ).fetchone()
            at = None if found is None else found[0]
        return at is not None and at >= item.key_since_us

    @staticmethod
    def _merge(row: _Row, item: Item) -> bool:
        new = item.values.keys() - row.values.keys()
        profile_is_new = item.profile is not None and row.profile is None
        if not new and not profile_is_new:
            return False
        if row.values or row.profile is not None:
            row.values = {**row.values, **{name: item.values[name] for name in new}}
        else:
            row.values = dict(item.values)
        if profile_is_new:
            row.profile = item.profile
        row.received_us = max(row.received_us, item.received_us)
        row.flags |= item.flags
        row.seq = item.seq if row.seq is None else row.seq
        return True

    def _arguments(self, place: Place) -> tuple[Any, ...]:
        row = self._rows[place]
        get = row.values.get
        values = [get(name) for name in COLUMNS]
        return (*place, row.received_us, row.flags, row.seq, *values, _pack(row.profile))


def _clash(row: _Row, item: Item) -> str | None:
    """The field in which an item contradicts what is stored, with both values."""
    for name, value in item.values.items():
        stored = row.values.get(name)
        if stored is not None and not math.isclose(stored, value, rel_tol=_REL, abs_tol=0.0):
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


def _present(values: Sequence[float | None]) -> dict[str, float]:
    return {name: value for name, value in zip(COLUMNS, values, strict=True) if value is not None}


def _pack(profile: Profile | None) -> bytes | None:
    if profile is None:
        return None
    return struct.pack(f"<{len(profile)}d", *(math.nan if value is None else value for value in profile))


def _unpack(data: bytes | None) -> Profile | None:
    if data is None:
        return None
    return tuple(None if math.isnan(value) else value for value in struct.unpack(f"<{len(data) // 8}d", data))


def _row(row: Sequence[Any]) -> StoredReading:
    return StoredReading(
        sensor=row[0],
        time_us=row[1],
        received_us=row[2],
        flags=row[3],
        seq=row[4],
        values=_present(row[5:-1]),
        profile=_unpack(row[-1]),
    )
