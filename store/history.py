"""Readings, quarantine and counters: one window, one transaction.

What an item is to the history is decided in :mod:`store.identity`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from store import quarantine
from store.identity import Settled, settle
from store.many import write_many
from store.readings import FIELDS, as_stored
from store.records import CommitResult, IngestWindow, Item, Quarantined, StoredReading, Totals

if TYPE_CHECKING:
    from store.sql import SqlStore

_CHUNK: Final = 20_000
_END: Final = 2**62
_COUNTS: Final = ("messages", "received", "stored", "duplicate", "quarantined", "retained", "heartbeat")
_DROPPED: Final = "quarantine_dropped"
_ADD: Final = "ON CONFLICT DO UPDATE SET count = count + excluded.count"
_COLUMNS: Final = ", ".join(("k.id", "r.time_us", *(f"r.{name}" for name in FIELDS)))
#: Sensors as one argument: a fleet may have more than the engine takes arguments.
_ASKED: Final = "k.id IN (SELECT value FROM json_each(?))"


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
            settled = settle(raw, window.items, self._sensor_keys(raw, window.items))
            quarantined = quarantine.insert(raw, (*window.quarantined, *settled.conflicts))
            self._notes(raw, window)
            self._count(raw, window, settled, len(quarantined))
        return CommitResult(settled.readings, settled.duplicates, quarantined, settled.others)

    def _sensor_keys(self, raw: sqlite3.Connection, items: Sequence[Item]) -> Mapping[str, int]:
        for sensor in {item.sensor for item in items} - self._keys.keys():
            row = raw.execute("SELECT key FROM sensor_keys WHERE id = ?", (sensor,)).fetchone()
            if row is None:
                row = raw.execute(
                    "INSERT INTO sensor_keys (id) VALUES (?) RETURNING key", (sensor,)
                ).fetchone()
            self._keys[sensor] = row[0]
        return self._keys

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
            sorted(window.contacts),
            "ON CONFLICT DO UPDATE SET received_us = excluded.received_us "
            "WHERE excluded.received_us > received_us",
        )
        write_many(
            raw,
            "INSERT INTO paces (sensor, full_us)",
            window.paces,
            "ON CONFLICT DO UPDATE SET full_us = excluded.full_us",
        )

    @staticmethod
    def _count(raw: sqlite3.Connection, window: IngestWindow, settled: Settled, quarantined: int) -> None:
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
            _ADD,
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
        rows = self._fetch(
            f"WHERE {_ASKED} AND r.time_us >= ? AND r.time_us < ? AND r.received_us < ? "
            "ORDER BY r.time_us, k.id",
            (_texts(sensors), since_us, until_us, _END if received_before_us is None else received_before_us),
        )
        return [as_stored(row) for row in rows]

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
            yield [as_stored(row) for row in rows]
            after = (rows[-1][2], rows[-1][0], rows[-1][1])

    def last(self, sensors: Sequence[str]) -> dict[str, StoredReading]:
        """The newest reading of each sensor that has one."""
        rows = self._fetch(
            f"WHERE {_ASKED} AND r.time_us = (SELECT max(time_us) FROM readings WHERE sensor_key = k.key) "
            "ORDER BY k.id",
            (_texts(sensors),),
        )
        return {row[0]: as_stored(row) for row in rows}

    def first_us(self, sensors: Sequence[str]) -> int | None:
        """The oldest event time of these sensors' readings."""
        rows = self._query(
            "SELECT min((SELECT min(time_us) FROM readings WHERE sensor_key = k.key)) "
            f"FROM sensor_keys k WHERE {_ASKED}",
            (_texts(sensors),),
        )
        first: int | None = rows[0][0]
        return first

    def totals(self) -> Totals:
        """Counts over all time."""
        counts = dict(self._query("SELECT name, count FROM totals", ()))
        return Totals(**{name: int(counts.get(name, 0)) for name in _COUNTS})

    def quarantine(
        self,
        *,
        after_id: int = 0,
        limit: int = 100,
        sensor: str | None = None,
        reason: str | None = None,
        waiting_only: bool = False,
        newest_first: bool = False,
    ) -> list[Quarantined]:
        """Quarantined items in order of id, or the newest of them first."""
        where, arguments = quarantine.chosen(after_id, sensor, reason, waiting_only=waiting_only)
        order = "id DESC" if newest_first else "id"
        rows = self._query(f"{quarantine.SELECT} {where} ORDER BY {order} LIMIT ?", (*arguments, limit))
        return [Quarantined(*row) for row in rows]

    def tried(self, id: int, *, at_us: int, outcome: str | None, reason: str = "", detail: str = "") -> None:
        """Note what became of a quarantined item that was tried again."""
        with self._store.transaction():
            quarantine.tried(self._store.raw(self._store.writer), id, at_us, outcome, reason, detail)

    def trim_quarantine(self, *, most: int, most_of_one: int, sensors: Iterable[str | None]) -> int:
        """Drop the oldest beyond the bounds, of these sensors and of all; returns how many, and counts them."""
        with self._store.transaction():
            raw = self._store.raw(self._store.writer)
            dropped = quarantine.trim(raw, most, most_of_one, sensors)
            if dropped:
                write_many(raw, "INSERT INTO totals (name, count)", [(_DROPPED, dropped)], _ADD)
        return dropped

    def quarantine_dropped(self) -> int:
        """How many quarantined items were dropped for want of room, over all time."""
        rows = self._query("SELECT count FROM totals WHERE name = ?", (_DROPPED,))
        return int(rows[0][0]) if rows else 0

    def paces(self) -> dict[str, int]:
        """When each hasty sensor's token bucket would be full again [us]."""
        return dict(self._query("SELECT sensor, full_us FROM paces", ()))

    def before(
        self, sensor: str, time_us: int, *, limit: int, received_before_us: int = _END
    ) -> list[StoredReading]:
        """The last readings of a sensor before a time, newest first."""
        rows = self._fetch(
            "WHERE k.id = ? AND r.time_us < ? AND r.received_us < ? ORDER BY r.time_us DESC LIMIT ?",
            (sensor, time_us, received_before_us, limit),
        )
        return [as_stored(row) for row in rows]

    def after(self, sensor: str, time_us: int, *, received_before_us: int = _END) -> StoredReading | None:
        """The first reading of a sensor after a time."""
        rows = self._fetch(
            "WHERE k.id = ? AND r.time_us > ? AND r.received_us < ? ORDER BY r.time_us LIMIT 1",
            (sensor, time_us, received_before_us),
        )
        return as_stored(rows[0]) if rows else None

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
        return self._query(
            f"SELECT {_COLUMNS} FROM readings r JOIN sensor_keys k ON k.key = r.sensor_key {where}", arguments
        )

    def _query(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._store.reading() as connection:
            return self._store.raw(connection).execute(sql, tuple(arguments)).fetchall()


def _texts(sensors: Sequence[str]) -> str:
    return json.dumps(list(sensors))
