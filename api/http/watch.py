"""What the service sees and says: readings, estimates, alerts, ordinances, the event stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel, Field
from starlette.concurrency import run_in_threadpool

from alerts.ordinance import Ordinance
from api.bell import Bell
from api.http.models import (
    AssessmentOut,
    HotDischargeOut,
    PumpOutOut,
    ReadingOut,
)
from api.http.paper_models import AlertOut
from api.http.wire import (
    CursorQuery,
    LimitQuery,
    Page,
    ServiceDep,
    decode_cursor,
    encode_cursor,
    iso,
    micros,
    paged,
)
from api.problems import not_found
from store.ports import History, Ledger
from store.records import JournalEntry, StoredReading

router = APIRouter(prefix="/api/v1", tags=["Watching"])

InterceptorQuery = Annotated[str | None, Query(description="Only this interceptor's.")]
_ALL = 1_000_000
_DAY_US = 86_400_000_000
_SPAN_US = 7 * _DAY_US
_BEAT_S = 15.0
_BATCH = 200


# ---- readings ----------------------------------------------------------------------------------------


@router.get("/readings")
def list_readings(
    service: ServiceDep,
    sensor: Annotated[str, Query(description="The sensor's id.")],
    since: Annotated[AwareDatetime | None, Query(description="From this time on; default a day ago.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before this time; default now.")] = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 500,
) -> Page[ReadingOut]:
    """One sensor's readings in order of their times."""
    identity = sensor.lower()
    if not any(one.id == identity for one in service.store.registry.sensors()):
        raise not_found("sensor", sensor)
    now_us = round(service.now() * 1e6)
    until_us = micros(until) if until is not None else now_us + _DAY_US
    since_us = micros(since) if since is not None else now_us - _DAY_US
    if cursor is not None:
        since_us = int(decode_cursor(cursor, (int,))[0])
    rows = read_span(service.store.history, identity, since_us, until_us, limit + 1)
    more = rows[limit].time_us if len(rows) > limit else None
    items = [ReadingOut.of(one) for one in rows[:limit]]
    return Page(items=items, next=None if more is None else encode_cursor((more,)))


def read_span(history: History, sensor: str, since_us: int, until_us: int, limit: int) -> list[StoredReading]:
    """The first ``limit`` readings of a span, read in steps so that a long span costs little."""
    first = history.first_us([sensor])
    if first is None:
        return []
    at, step = max(since_us, first), _SPAN_US
    rows: list[StoredReading] = []
    while at < until_us and len(rows) < limit:
        end = min(at + step, until_us)
        found = history.readings([sensor], since_us=at, until_us=end)
        rows += found
        at, step = end, step if found else step * 4
    return rows[:limit]


# ---- estimates and what was noticed ------------------------------------------------------------------


@router.get("/assessments")
def list_assessments(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    history: Annotated[bool, Query(description="The daily ones of the past instead of the latest.")] = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[AssessmentOut]:
    """The latest estimate of each interceptor, or with ``history`` the daily ones in order."""
    ledger = service.store.ledger
    if not history:
        latest = [(key, at, line) for key, (at, line) in ledger.latest(interceptor).items()]
        return paged(
            latest,
            lambda row: (row[0],),
            lambda row: AssessmentOut.of(row[1], row[0], row[2]),
            cursor=cursor,
            limit=limit,
        )
    after = int(decode_cursor(cursor, (int,))[0]) if cursor is not None else 0
    lines = ledger.journal(after=after, limit=limit + 1, types=["assessment"], interceptor=interceptor)
    items = [AssessmentOut.of(one.at_us, one.interceptor or "", one.body) for one in lines[:limit]]
    return Page(items=items, next=encode_cursor((lines[limit - 1].seq,)) if len(lines) > limit else None)


@router.get("/pump-outs")
def list_pump_outs(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[PumpOutOut]:
    """Pump-outs that sensors saw, newest first."""
    rows = service.store.ledger.pump_outs(interceptor=interceptor, limit=_ALL)
    return paged(
        rows, lambda p: (p.start_us, p.id), PumpOutOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.get("/hot-discharges")
def list_hot_discharges(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[HotDischargeOut]:
    """Wastewater above the ordinance's limit at an inlet, newest first."""
    rows = service.store.ledger.hot_discharges(interceptor=interceptor, limit=_ALL)
    return paged(
        rows, lambda h: (h.start_us, h.id), HotDischargeOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.get("/alerts")
def list_alerts(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    open: Annotated[bool, Query(description="Only those not resolved.")] = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[AlertOut]:
    """Alerts, newest first."""
    rows = service.store.ledger.alerts(open_only=open, interceptor=interceptor, limit=_ALL)
    return paged(
        rows, lambda a: (a.since_us, a.id), AlertOut.of, cursor=cursor, limit=limit, newest_first=True
    )


# ---- ordinances --------------------------------------------------------------------------------------


class ClauseOut(BaseModel):
    key: str
    value: Any
    unit: str | None
    sections: list[str]
    read_on: str
    adopted_reading: bool
    note: str


class VersionOut(BaseModel):
    adopted_on: str | None
    effective_on: str | None
    repealed_on: str | None
    note: str
    kinds: dict[str, str] = Field(description="Which rule set each kind of device falls under.")
    values: list[ClauseOut]


class OrdinanceOut(BaseModel):
    id: str
    name: str
    cite: str
    source: str
    read_on: str
    versions: list[VersionOut]

    @classmethod
    def of(cls, one: Ordinance) -> OrdinanceOut:
        return cls(
            id=one.id,
            name=one.name,
            cite=one.cite,
            source=one.source,
            read_on=one.read_on.isoformat(),
            versions=[
                VersionOut(
                    adopted_on=version.adopted_on.isoformat() if version.adopted_on else None,
                    effective_on=version.effective_on.isoformat() if version.effective_on else None,
                    repealed_on=version.repealed_on.isoformat() if version.repealed_on else None,
                    note=version.note,
                    kinds={kind: rule.rules for kind, rule in version.kinds.items()},
                    values=[
                        ClauseOut(
                            key=key,
                            value=clause.value,
                            unit=clause.unit,
                            sections=list(clause.sections),
                            read_on=clause.read_on.isoformat(),
                            adopted_reading=clause.adopted_reading,
                            note=clause.note,
                        )
                        for key, clauses in version.values.items()
                        for clause in clauses
                    ],
                )
                for version in one.versions
            ],
        )


@router.get("/ordinances")
def list_ordinances(
    service: ServiceDep, cursor: CursorQuery = None, limit: LimitQuery = 100
) -> Page[OrdinanceOut]:
    """The rules of each city, every value with the sections it was read from."""
    rows = list(service.ordinances.values())
    return paged(rows, lambda o: (o.id,), OrdinanceOut.of, cursor=cursor, limit=limit)


@router.get("/ordinances/{id}")
def get_ordinance(service: ServiceDep, id: str) -> OrdinanceOut:
    """One city's rules."""
    if id not in service.ordinances:
        raise not_found("ordinance", id)
    return OrdinanceOut.of(service.ordinances[id])


# ---- events ------------------------------------------------------------------------------------------


@router.get("/events", response_class=StreamingResponse)
async def stream_events(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    after: Annotated[int | None, Query(ge=0, description="Begin after this id; 0 is the very start.")] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> StreamingResponse:
    """The journal as server-sent events: ``id`` is the line's number; without a start, only what is new."""
    ledger, bell = service.store.ledger, service.subscribe()
    if last_event_id is not None and last_event_id.isdigit():
        start = int(last_event_id)
    elif after is not None:
        start = after
    else:
        tail = await run_in_threadpool(ledger.journal_tail, limit=1)
        start = tail[0].seq if tail else 0
    return StreamingResponse(
        _lines(ledger, bell, start, interceptor),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _lines(ledger: Ledger, bell: Bell, start: int, interceptor: str | None) -> AsyncIterator[bytes]:
    seq = start
    yield b"retry: 2000\n\n"
    while not bell.closed:
        heard = bell.seq
        found = await run_in_threadpool(ledger.journal, after=seq, limit=_BATCH, interceptor=interceptor)
        for entry in found:
            yield _event(entry)
        if found:
            seq = found[-1].seq
        if len(found) < _BATCH:
            seq = max(seq, heard)
            if not await bell.wait(seq, _BEAT_S):
                yield b": still here\n\n"


def _event(entry: JournalEntry) -> bytes:
    line = {"at": iso(entry.at_us), "type": entry.type, "interceptor": entry.interceptor, **entry.body}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.seq, entry.type.encode(), msgspec.json.encode(line))
