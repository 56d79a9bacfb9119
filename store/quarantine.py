"""What could not become a reading: kept with its reason, tried again, and the oldest dropped beyond a bound."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from store.identity import KEPT_BYTES
from store.records import Quarantined

SELECT: Final = (
    "SELECT sensor, topic, received_us, reason, detail, payload, size, sha256, device_profile, id, outcome, tried_us "
    "FROM quarantine"
)


def insert(raw: sqlite3.Connection, items: Sequence[Quarantined]) -> tuple[Quarantined, ...]:
    """Keep items, the first 4 KiB of each; returns them with their ids."""
    kept = []
    for one in items:
        short = one.payload[:KEPT_BYTES]
        cursor = raw.execute(
            "INSERT INTO quarantine (sensor, topic, received_us, reason, detail, payload, size, sha256, "
            "device_profile) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                one.sensor,
                one.topic,
                one.received_us,
                one.reason,
                one.detail,
                short,
                one.size,
                one.sha256,
                one.device_profile,
            ),
        )
        assert cursor.lastrowid is not None
        kept.append(replace(one, id=cursor.lastrowid, payload=short))
    return tuple(kept)


def chosen(
    after_id: int, sensor: str | None, reason: str | None, *, waiting_only: bool
) -> tuple[str, tuple[Any, ...]]:
    """The condition and its arguments."""
    parts = ["id > ?"]
    values: list[Any] = [after_id]
    if sensor is not None:
        parts.append("sensor = ?")
        values.append(sensor)
    if reason is not None:
        parts.append("reason = ?")
        values.append(reason)
    if waiting_only:
        parts.append("outcome IS NULL")
    return "WHERE " + " AND ".join(parts), tuple(values)


def tried(
    raw: sqlite3.Connection, id: int, at_us: int, outcome: str | None, reason: str, detail: str
) -> None:
    """Note what became of one item."""
    raw.execute(
        "UPDATE quarantine SET outcome = ?, tried_us = ?, reason = CASE WHEN ? = '' THEN reason ELSE ? END, "
        "detail = CASE WHEN ? = '' THEN detail ELSE ? END WHERE id = ?",
        (outcome, at_us, reason, reason, detail, detail, id),
    )


def trim(raw: sqlite3.Connection, most: int, most_of_one: int, sensors: Iterable[str | None]) -> int:
    """Drop the oldest beyond the bounds; returns how many. Ids are dense but for what was dropped."""
    dropped = 0
    for sensor in sensors:
        oldest = raw.execute(
            "SELECT id FROM quarantine WHERE sensor IS ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (sensor, most_of_one),
        ).fetchone()
        if oldest is not None:
            dropped += raw.execute(
                "DELETE FROM quarantine WHERE sensor IS ? AND id <= ?", (sensor, oldest[0])
            ).rowcount
    newest = raw.execute("SELECT max(id) FROM quarantine").fetchone()[0]
    if newest is not None:
        dropped += raw.execute("DELETE FROM quarantine WHERE id <= ?", (newest - most,)).rowcount
    return dropped
