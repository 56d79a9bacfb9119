"""Retention's part of the store: thinning readings, and what the estimate remembers of those that were thinned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from analysis.units import COLUMNS
from store import schema
from store.records import KeptState
from store.rows import as_record, as_row, fetch, upsert

if TYPE_CHECKING:
    from store.sql import SqlStore

#: The estimate's memory of an interceptor at the border before which its readings were thinned.
kept_states: Final = sa.Table(
    "kept_states",
    schema.metadata,
    sa.Column("interceptor", sa.Text, primary_key=True),
    sa.Column("time_us", schema.Micros, nullable=False),
    sa.Column("newest_us", schema.Micros),
    sa.Column("daily_us", schema.Micros, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)

#: Which columns a row has: rows of unlike messages stand for different things and are thinned apart.
_SHAPE: Final = " || ".join(f"({name} IS NULL)" for name in (*COLUMNS, "profile"))
_OURS: Final = (
    "sensor_key IN (SELECT key FROM sensor_keys WHERE id IN (SELECT value FROM json_each(:sensors)))"
)
_SPAN: Final = f"{_OURS} AND time_us >= :since AND time_us < :until"
_FREE: Final = (
    "NOT EXISTS (SELECT 1 FROM json_each(:spared) AS w WHERE readings.time_us >= json_extract(w.value, '$[0]') "
    "AND readings.time_us <= json_extract(w.value, '$[1]'))"
)
_THINNABLE: Final = (
    f"{_SPAN} AND {_FREE} AND (sensor_key, time_us) NOT IN (SELECT sensor_key, min(time_us) FROM readings "
    f"WHERE {_SPAN} GROUP BY sensor_key, time_us / :bucket, {_SHAPE})"
)

Span = tuple[int, int]


class SqlKeeping:
    """The keeping port over SQLite."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    # ---- what the estimate remembers -----------------------------------------------------------------

    def kept_states(self) -> list[KeptState]:
        """Of every interceptor whose readings were thinned."""
        with self._store.reading() as connection:
            rows = fetch(connection, sa.select(kept_states).order_by(kept_states.c.interceptor))
        return [as_record(KeptState, row) for row in rows]

    def kept_state(self, interceptor: str) -> KeptState | None:
        """Of one interceptor."""
        query = sa.select(kept_states).where(kept_states.c.interceptor == interceptor)
        with self._store.reading() as connection:
            rows = fetch(connection, query)
        return as_record(KeptState, rows[0]) if rows else None

    def put_kept_state(self, state: KeptState) -> None:
        """Insert or update."""
        upsert(self._store.writer, kept_states, as_row(state))

    # ---- readings ------------------------------------------------------------------------------------

    def next_us(self, sensors: Sequence[str], since_us: int) -> int | None:
        """The oldest event time not before an instant."""
        found: int | None = self._one(
            f"SELECT min(time_us) FROM readings WHERE {_SPAN}", sensors=sensors, since=since_us, until=2**62
        )
        return found

    def newest_reception_us(self, sensors: Sequence[str], since_us: int, until_us: int) -> int | None:
        """When the last of a span's readings was received."""
        found: int | None = self._one(
            f"SELECT max(received_us) FROM readings WHERE {_SPAN}",
            sensors=sensors,
            since=since_us,
            until=until_us,
        )
        return found

    def thin(
        self, sensors: Sequence[str], since_us: int, until_us: int, bucket_us: int, spared: Sequence[Span]
    ) -> int:
        """Keep the first reading of each bucket and kind of message, and those in ``spared``; returns how many went."""
        return self._write(
            f"DELETE FROM readings WHERE {_THINNABLE}",
            sensors=sensors, since=since_us, until=until_us, bucket=bucket_us, spared=spared,
        )  # fmt: skip

    def thinnable(
        self, sensors: Sequence[str], since_us: int, until_us: int, bucket_us: int, spared: Sequence[Span]
    ) -> int:
        """How many readings :meth:`thin` would remove."""
        count: int = self._one(
            f"SELECT count(*) FROM readings WHERE {_THINNABLE}",
            sensors=sensors, since=since_us, until=until_us, bucket=bucket_us, spared=spared,
        )  # fmt: skip
        return count

    def delete(self, sensors: Sequence[str], before_us: int, spared: Sequence[Span], limit: int) -> int:
        """Remove readings older than an instant, the oldest first, at most so many; returns how many went."""
        return self._write(
            f"DELETE FROM readings WHERE (sensor_key, time_us) IN (SELECT sensor_key, time_us FROM readings "
            f"WHERE {_SPAN} AND {_FREE} ORDER BY time_us LIMIT :limit)",
            sensors=sensors, since=-(2**62), until=before_us, spared=spared, limit=limit,
        )  # fmt: skip

    def deletable(self, sensors: Sequence[str], before_us: int, spared: Sequence[Span]) -> int:
        """How many readings :meth:`delete` would remove in the end."""
        count: int = self._one(
            f"SELECT count(*) FROM readings WHERE {_SPAN} AND {_FREE}",
            sensors=sensors, since=-(2**62), until=before_us, spared=spared,
        )  # fmt: skip
        return count

    def _one(self, sql: str, **values: Any) -> Any:
        with self._store.reading() as connection:
            return self._store.raw(connection).execute(sql, _arguments(values)).fetchone()[0]

    def _write(self, sql: str, **values: Any) -> int:
        with self._store.transaction():
            return self._store.raw(self._store.writer).execute(sql, _arguments(values)).rowcount


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(list(v)) if isinstance(v, Sequence) else v for name, v in values.items()}
