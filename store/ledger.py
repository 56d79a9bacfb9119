"""Alerts, orders, papers, decisions, journal, outbox, keys and sign-ins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from store import schema
from store.ports import StoreError
from store.records import (
    Alert,
    ApiKey,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    Gap,
    HotDischargeRecord,
    JournalEntry,
    Json,
    Manifest,
    Order,
    OutboxItem,
    PumpOutRecord,
    SignIn,
)
from store.rows import as_record, as_row, fetch, upsert, upsert_all

if TYPE_CHECKING:
    from store.sql import SqlStore

R = TypeVar("R")


class SqlLedger:
    """The ledger port over SQLAlchemy."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    # ---- journal and named values --------------------------------------------------------------------

    def append(
        self, at_us: int, type: str, interceptor: str | None, body: Json
    ) -> JournalEntry:  # the port's word
        """Append one line; its number follows the last one."""
        last = self._store.writer.execute(sa.select(sa.func.max(schema.journal.c.seq))).scalar()
        entry = JournalEntry((last or 0) + 1, at_us, type, interceptor, body)
        self._store.writer.execute(sa.insert(schema.journal).values(**as_row(entry)))
        return entry

    def journal(
        self, *, after: int = 0, limit: int = 1000, types: Sequence[str] = (), interceptor: str | None = None
    ) -> list[JournalEntry]:
        """Lines after a number, in order."""
        table = schema.journal
        query = self._lines(types, interceptor).where(table.c.seq > after).order_by(table.c.seq)
        return self._records(JournalEntry, query.limit(limit))

    def journal_tail(
        self, *, limit: int, types: Sequence[str] = (), interceptor: str | None = None
    ) -> list[JournalEntry]:
        """The newest lines, newest first."""
        query = self._lines(types, interceptor).order_by(schema.journal.c.seq.desc())
        return self._records(JournalEntry, query.limit(limit))

    @staticmethod
    def _lines(types: Sequence[str], interceptor: str | None) -> sa.Select[Any]:
        query = sa.select(schema.journal)
        if types:
            query = query.where(schema.journal.c.type.in_(types))
        if interceptor is not None:
            query = query.where(schema.journal.c.interceptor == interceptor)
        return query

    def get_meta(self, name: str) -> str | None:
        """A named value of the service."""
        value = self._scalar(sa.select(schema.meta.c.value).where(schema.meta.c.name == name))
        return None if value is None else str(value)

    def set_meta(self, name: str, value: str) -> None:
        """Set a named value."""
        upsert(self._store.writer, schema.meta, {"name": name, "value": value})

    # ---- alerts and orders ---------------------------------------------------------------------------

    def put_alert(self, alert: Alert) -> None:
        """Insert or update an alert."""
        self._put(schema.alerts, alert)

    def alerts(
        self, *, open_only: bool = False, interceptor: str | None = None, limit: int = 10_000
    ) -> list[Alert]:
        """Alerts, newest change first."""
        table = schema.alerts
        query = self._of(table, interceptor).order_by(table.c.changed_us.desc(), table.c.id)
        if open_only:
            query = query.where(table.c.state != "resolved")
        return self._records(Alert, query.limit(limit))

    def put_order(self, order: Order) -> None:
        """Insert or update an order; a second open one of the same interceptor is refused."""
        try:
            self._put(schema.orders, order)
        except sa.exc.IntegrityError:
            raise StoreError(
                f"order {order.id!r}: interceptor {order.interceptor!r} has another open order"
            ) from None

    def order(self, id: str) -> Order | None:  # the port's word
        """One order."""
        found = self._records(Order, sa.select(schema.orders).where(schema.orders.c.id == id))
        return found[0] if found else None

    def orders(
        self,
        *,
        open_only: bool = False,
        interceptor: str | None = None,
        hauler: str | None = None,
        limit: int = 10_000,
    ) -> list[Order]:
        """Orders, newest first."""
        table = schema.orders
        query = self._of(table, interceptor).order_by(table.c.opened_us.desc(), table.c.id)
        if open_only:
            query = query.where(table.c.state.not_in(schema.OVER))
        if hauler is not None:
            query = query.where(table.c.hauler == hauler)
        return self._records(Order, query.limit(limit))

    # ---- records and papers --------------------------------------------------------------------------

    def put_pump_out(self, pump_out: PumpOutRecord) -> None:
        """Insert or correct an observed pump-out."""
        self._put(schema.pump_outs, pump_out)

    def pump_outs(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[PumpOutRecord]:
        """Observed pump-outs, newest first."""
        return self._newest(PumpOutRecord, schema.pump_outs, schema.pump_outs.c.start_us, interceptor, limit)

    def put_hot_discharge(self, hot: HotDischargeRecord) -> None:
        """Insert or update a hot discharge."""
        self._put(schema.hot_discharges, hot)

    def hot_discharges(
        self, *, interceptor: str | None = None, limit: int = 10_000
    ) -> list[HotDischargeRecord]:
        """Hot discharges, newest first."""
        table = schema.hot_discharges
        return self._newest(HotDischargeRecord, table, table.c.start_us, interceptor, limit)

    def put_gap(self, gap: Gap) -> None:
        """Insert or correct a gap."""
        self._put(schema.gaps, gap)

    def gaps(
        self,
        *,
        sensor: str | None = None,
        interceptor: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        limit: int = 10_000,
    ) -> list[Gap]:
        """Gaps by their beginning, newest first."""
        table = schema.gaps
        query = self._of(table, interceptor).order_by(table.c.start_us.desc(), table.c.id)
        if sensor is not None:
            query = query.where(table.c.sensor == sensor)
        if since_us is not None:
            query = query.where(table.c.start_us >= since_us)
        if until_us is not None:
            query = query.where(table.c.start_us < until_us)
        return self._records(Gap, query.limit(limit))

    def put_manifest(self, manifest: Manifest) -> None:
        """File a manifest."""
        self._put(schema.manifests, manifest)

    def manifests(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[Manifest]:
        """Manifests, newest pump-out first."""
        return self._newest(Manifest, schema.manifests, schema.manifests.c.pumped_us, interceptor, limit)

    def put_core_sample(self, sample: CoreSample) -> None:
        """File a core sample."""
        self._put(schema.core_samples, sample)

    def core_samples(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[CoreSample]:
        """Core samples, newest first."""
        table = schema.core_samples
        return self._newest(CoreSample, table, table.c.sampled_us, interceptor, limit)

    def put_frequency_decision(self, decision: FrequencyDecision) -> None:
        """File a frequency decision."""
        self._put(schema.frequency_decisions, decision)

    def frequency_decisions(self, *, interceptor: str | None = None) -> list[FrequencyDecision]:
        """Frequency decisions, newest first."""
        table = schema.frequency_decisions
        return self._newest(FrequencyDecision, table, table.c.decided_us, interceptor, None)

    def put_frequency_proposal(self, proposal: FrequencyProposal) -> None:
        """Insert or update a frequency proposal."""
        self._put(schema.frequency_proposals, proposal)

    def frequency_proposals(self, *, interceptor: str | None = None) -> list[FrequencyProposal]:
        """Frequency proposals, newest first."""
        table = schema.frequency_proposals
        return self._newest(FrequencyProposal, table, table.c.at_us, interceptor, None)

    def put_latest(self, at_us: int, bodies: Mapping[str, Json]) -> None:
        """Rewrite the newest assessments of these interceptors."""
        rows = [
            {"interceptor": interceptor, "at_us": at_us, "body": _text(body)}
            for interceptor, body in bodies.items()
        ]
        upsert_all(self._store.writer, schema.latest, rows)

    def latest(self, interceptor: str | None = None) -> dict[str, tuple[int, Json]]:
        """The newest assessment by interceptor."""
        rows = self._rows(self._of(schema.latest, interceptor).order_by(schema.latest.c.interceptor))
        return {row["interceptor"]: (row["at_us"], json.loads(row["body"])) for row in rows}

    # ---- outbox --------------------------------------------------------------------------------------

    def enqueue(self, item: OutboxItem) -> None:
        """Put an item into the outbox unless it is there."""
        writer = self._store.writer
        insert = postgresql.insert if writer.dialect.name == "postgresql" else sqlite.insert
        writer.execute(insert(schema.outbox).values(**as_row(item)).on_conflict_do_nothing())

    def due(self, now_us: int, *, limit: int = 50) -> list[OutboxItem]:
        """Waiting items whose time has come, the longest due first."""
        table = schema.outbox
        query = sa.select(table).where(table.c.state == "waiting", table.c.due_us <= now_us)
        return self._records(
            OutboxItem, query.order_by(table.c.due_us, table.c.created_us, table.c.id).limit(limit)
        )

    def put_outbox(self, item: OutboxItem) -> None:
        """Write how a delivery went."""
        self._put(schema.outbox, item)

    def outbox(self, *, state: str | None = None, limit: int = 1000) -> list[OutboxItem]:
        """Outbox items, newest first."""
        table = schema.outbox
        query = sa.select(table).order_by(table.c.created_us.desc(), table.c.id)
        if state is not None:
            query = query.where(table.c.state == state)
        return self._records(OutboxItem, query.limit(limit))

    # ---- keys, sign-ins, repeated requests -----------------------------------------------------------

    def put_key(self, key: ApiKey) -> None:
        """Insert or update an API key."""
        self._put(schema.api_keys, key)

    def keys(self, *, id: str | None = None, subject: str | None = None) -> list[ApiKey]:
        """API keys, oldest first; all of them, the one of an id, or those of a hauler or sensor."""
        table = schema.api_keys
        query = sa.select(table).order_by(table.c.created_us, table.c.id)
        if id is not None:
            query = query.where(table.c.id == id)
        if subject is not None:
            query = query.where(table.c.subject == subject)
        return self._records(ApiKey, query)

    def put_sign_in(self, sign_in: SignIn) -> None:
        """Insert a session or a one-time link."""
        self._put(schema.sign_ins, sign_in)

    def sign_in(self, digest: str) -> SignIn | None:
        """The session or link of a digest."""
        query = sa.select(schema.sign_ins).where(schema.sign_ins.c.digest == digest)
        found = self._records(SignIn, query)
        return found[0] if found else None

    def delete_sign_in(self, digest: str) -> bool:
        """True when it was there."""
        with self._store.transaction():
            gone = self._store.writer.execute(
                sa.delete(schema.sign_ins).where(schema.sign_ins.c.digest == digest)
            )
        return gone.rowcount > 0

    def remembered(self, key: str) -> tuple[str, int, str] | None:
        """The answer given to a repeated request the first time."""
        table = schema.idempotency
        rows = self._rows(sa.select(table).where(table.c.key == key))
        return (rows[0]["digest"], rows[0]["status"], rows[0]["body"]) if rows else None

    def remember(self, key: str, digest: str, status: int, body: str, now_us: int) -> None:
        """Keep the answer to a request that may be repeated."""
        row = {"key": key, "digest": digest, "status": status, "body": body, "at_us": now_us}
        self._store.writer.execute(sa.insert(schema.idempotency).values(**row))

    # ---- how -----------------------------------------------------------------------------------------

    def _put(self, table: sa.Table, record: Any) -> None:
        upsert(self._store.writer, table, as_row(record))

    @staticmethod
    def _of(table: sa.Table, interceptor: str | None) -> sa.Select[Any]:
        query = sa.select(table)
        return query if interceptor is None else query.where(table.c.interceptor == interceptor)

    def _newest(
        self,
        kind: type[R],
        table: sa.Table,
        order: sa.ColumnElement[Any],
        interceptor: str | None,
        limit: int | None,
    ) -> list[R]:
        query = self._of(table, interceptor).order_by(order.desc(), table.c.id)
        return self._records(kind, query if limit is None else query.limit(limit))

    def _records(self, kind: type[R], query: sa.Select[Any]) -> list[R]:
        return [as_record(kind, row) for row in self._rows(query)]

    def _rows(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        with self._store.reading() as connection:
            return fetch(connection, query)

    def _scalar(self, query: sa.Select[Any]) -> Any:
        with self._store.reading() as connection:
            return connection.execute(query).scalar()


def _text(body: Json) -> str:
    return json.dumps(body, sort_keys=True, ensure_ascii=False)
