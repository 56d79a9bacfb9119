"""What could not become a reading, and what is missing: listed, exported, tried again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from api.http.models import QuarantinedOut
from api.http.wire import (
    LARGEST_ID,
    CursorQuery,
    IdempotencyHeader,
    LimitQuery,
    Page,
    PrincipalDep,
    ServiceDep,
    create,
    decode_cursor,
    encode_cursor,
    iso,
    micros,
    paged,
)
from api.retry import MOST, Chosen, counts, export_line
from api.service import Commands
from store.records import Gap

router = APIRouter(prefix="/api/v1", tags=["Watching"])

SensorQuery = Annotated[str | None, Query(description="Only this sensor's.")]
ReasonQuery = Annotated[str | None, Query(description="Only this reason's, such as not_json.")]
WaitingQuery = Annotated[bool, Query(description="Only those that were not taken when tried again.")]
_ALL = 1_000_000


class RetryIn(BaseModel):
    """Which items to try again; without anything, all that were not taken since."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[int, Field(ge=1, le=LARGEST_ID)]] = Field(default_factory=list, max_length=MOST)
    sensor: str | None = None
    reason: str | None = None


class TriedOut(BaseModel):
    id: int
    sensor: str | None
    outcome: str = Field(description="stored, duplicate, heartbeat, quarantined (as before) or cut.")
    reason: str | None
    detail: str | None


class RetriedOut(BaseModel):
    """What became of the items."""

    counts: dict[str, int]
    more: bool = Field(
        description=f"More than {MOST} were chosen: ask again, with `after` as it stands here."
    )
    after: int = Field(description="Id of the last item that was tried.")
    items: list[TriedOut]


class GapOut(BaseModel):
    id: str
    sensor: str
    interceptor: str | None
    kind: str = Field(
        description="sequence: the counter skipped; cadence: three intervals and an hour of silence."
    )
    start: str = Field(description="The reading before.")
    end: str = Field(description="The reading after.")
    missing: int = Field(description="How many readings; 0 where late ones have closed it.")
    first_seq: int | None
    last_seq: int | None
    noticed_at: str

    @classmethod
    def of(cls, one: Gap) -> GapOut:
        return cls(
            id=one.id,
            sensor=one.sensor,
            interceptor=one.interceptor,
            kind=one.kind,
            start=iso(one.start_us) or "",
            end=iso(one.end_us) or "",
            missing=one.missing,
            first_seq=one.first_seq,
            last_seq=one.last_seq,
            noticed_at=iso(one.noticed_us) or "",
        )


@router.get("/quarantine")
def list_quarantine(
    service: ServiceDep,
    sensor: SensorQuery = None,
    reason: ReasonQuery = None,
    waiting: WaitingQuery = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[QuarantinedOut]:
    """Items that could not become readings, with reason and bytes, in order of their ids."""
    after = int(decode_cursor(cursor, (int,))[0]) if cursor is not None else 0
    rows = service.store.history.quarantine(
        after_id=after,
        limit=limit + 1,
        sensor=None if sensor is None else sensor.lower(),
        reason=reason,
        waiting_only=waiting,
    )
    items = [QuarantinedOut.of(one) for one in rows[:limit]]
    return Page(items=items, next=encode_cursor((rows[limit - 1].id,)) if len(rows) > limit else None)


@router.get("/quarantine/export", response_class=StreamingResponse)
def export_quarantine(
    service: ServiceDep,
    sensor: SensorQuery = None,
    reason: ReasonQuery = None,
    waiting: WaitingQuery = False,
) -> StreamingResponse:
    """All of them as JSON lines, to be kept or looked into."""

    def lines() -> Iterator[bytes]:
        chosen = Chosen(sensor=sensor, reason=reason)
        for one in chosen.items(service.store, waiting_only=waiting):
            yield msgspec.json.encode(export_line(one)) + b"\n"

    return StreamingResponse(
        lines(),
        media_type="application/x-ndjson",
        headers={"content-disposition": 'attachment; filename="quarantine.jsonl"'},
    )


@router.post("/quarantine/retry", response_model=RetriedOut)
def retry_quarantine(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: RetryIn,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID, description="Only items after this id.")] = 0,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Try items again, as of when they were received: after a device profile or the fleet has changed."""

    def make(commands: Commands) -> BaseModel:
        chosen = Chosen(tuple(body.ids), body.sensor, body.reason)
        found = list(islice(chosen.items(commands.store, after_id=after), MOST + 1))
        tried = commands.retry(found[:MOST])
        return RetriedOut(
            counts=counts(tried),
            more=len(found) > MOST,
            after=tried[-1].id if tried else after,
            items=[TriedOut(**one.as_json()) for one in tried],
        )

    return create(request, service, principal, idempotency_key, [body.model_dump(), after], make, status=200)


@router.get("/gaps")
def list_gaps(
    service: ServiceDep,
    sensor: SensorQuery = None,
    interceptor: Annotated[str | None, Query(description="Only this interceptor's.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="That began at this time or later.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="That began before this time.")] = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[GapOut]:
    """Readings that are missing, by counter or cadence, newest first."""
    rows = service.store.ledger.gaps(
        sensor=None if sensor is None else sensor.lower(),
        interceptor=interceptor,
        since_us=None if since is None else micros(since),
        until_us=None if until is None else micros(until),
        limit=_ALL,
    )
    return paged(rows, lambda g: (g.start_us, g.id), GapOut.of, cursor=cursor, limit=limit, newest_first=True)
