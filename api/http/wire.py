"""Shared parts of the resources: who asks, pages by cursor, idempotent creation, units on the wire."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from fastapi import Depends, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from alerts.calendar import iso_instant
from analysis.units import QUANTITIES, from_si
from api.problems import ProblemError, invalid
from api.security import Principal
from api.service import CommandError, Commands, Service
from store.records import Json

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Key: TypeAlias = tuple[int | str, ...]

LARGEST_ID: Final = 2**63 - 1  # the store counts no further
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
PUBLIC_UNITS: Final = {"length": "mm", "temperature": "c", "pressure": "pa"}


class Page(BaseModel, Generic[M]):
    """One page of a list; ``next`` is the cursor of the next one, null on the last."""

    items: list[M]
    next: str | None


class Strict(BaseModel):
    """A request's body: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _principal(request: Request) -> Principal:
    principal: Principal | None = request.state.principal
    if principal is None:
        raise ProblemError(401, "sign in, or send a key: Authorization: Bearer ql_…")
    return principal


ServiceDep = Annotated[Service, Depends(_service)]
PrincipalDep = Annotated[Principal, Depends(_principal)]
CursorQuery = Annotated[str | None, Query(description="`next` of the page before.", max_length=400)]
LimitQuery = Annotated[int, Query(ge=1, le=1000, description="Items a page.")]
IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key and body again give the first answer again, and create nothing.",
    ),
]


# ---- cursors -----------------------------------------------------------------------------------------


def encode_cursor(key: Key) -> str:
    """A cursor as a client sees it: opaque."""
    return base64.urlsafe_b64encode(msgspec.json.encode(list(key))).decode().rstrip("=")


def decode_cursor(cursor: str, like: Sequence[type]) -> Key:
    """The key inside a cursor.

    Raises
    ------
    ProblemError
        It is none that a list of this kind gave.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = msgspec.json.decode(raw)
    except ValueError:  # of base64 and of JSON alike
        parts = None
    fits = isinstance(parts, list) and len(parts) == len(like)
    if not fits or any(not _fits(part, kind) for part, kind in zip(parts, like, strict=True)):
        raise invalid("cursor", "not a cursor of this list; leave it out to begin at the start")
    return tuple(parts)


def _fits(part: Any, kind: type) -> bool:
    return type(part) is kind and (not isinstance(part, int) or abs(part) <= LARGEST_ID)


def paged(
    rows: Sequence[T],
    key: Callable[[T], Key],
    show: Callable[[T], M],
    *,
    cursor: str | None,
    limit: int,
    newest_first: bool = False,
) -> Page[M]:
    """One page of rows, in order of their keys."""
    ordered = sorted(rows, key=key, reverse=newest_first)
    if cursor is not None:
        like = [type(part) for part in key(ordered[0])] if ordered else None
        after = decode_cursor(cursor, like) if like is not None else ()
        ordered = [row for row in ordered if (key(row) < after if newest_first else key(row) > after)]
    shown, more = ordered[:limit], len(ordered) > limit
    return Page(items=[show(row) for row in shown], next=encode_cursor(key(shown[-1])) if more else None)


# ---- creation ----------------------------------------------------------------------------------------


def create(
    request: Request,
    service: Service,
    principal: Principal,
    idempotency_key: str | None,
    body: Any,
    make: Callable[[Commands], BaseModel],
    *,
    status: int = 201,
) -> Response:
    """Run a creating command once for its Idempotency-Key, in one transaction with the memory of its answer.

    Raises
    ------
    ProblemError
        422: the key was used with another body, or the command names something that is not there.
    """
    scope = f"{principal.identity} {request.method} {request.url.path} {idempotency_key}"
    try:
        digest = hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
    except UnicodeEncodeError:
        raise invalid(
            "body", "half of a character (\\ud800 to \\udfff alone) is no text; send whole ones"
        ) from None

    def run(commands: Commands) -> tuple[int, str, bool]:
        ledger = commands.store.ledger
        known = ledger.remembered(scope) if idempotency_key is not None else None
        if known is not None:
            if known[0] != digest:
                raise ProblemError(
                    422,
                    "this Idempotency-Key was used with another body; use a new key for a new request",
                    slug="idempotency-key-reused",
                )
            return known[1], known[2], True
        answer = make(commands).model_dump_json()
        if idempotency_key is not None:
            ledger.remember(scope, digest, status, answer, commands.now_us)
        return status, answer, False

    try:
        code, answer, again = service.submit(run)
    except CommandError as error:
        field, _, expected = str(error).partition(": ")
        raise invalid(field, expected) if expected else ProblemError(422, str(error)) from None
    headers = {"Idempotency-Replayed": "true"} if again else {}
    return Response(answer, status_code=code, media_type="application/json", headers=headers)


# ---- units and times ---------------------------------------------------------------------------------


def iso(at_us: int | None) -> str | None:
    """An instant as the wire writes it."""
    return None if at_us is None else iso_instant(at_us)


def micros(at: datetime) -> int:
    """An aware instant [us since the epoch]."""
    return (at - _EPOCH) // _MICROSECOND  # near the first and last year another offset would not fit


def milli(value: float | None) -> float | None:
    """Metres as millimetres, cubic metres as litres; to a thousandth."""
    return None if value is None or not math.isfinite(value) else round(value * 1000, 3)


def public_values(values: dict[str, float]) -> dict[str, float]:
    """SI columns as the public quantities with their units: ``fog_bottom_m`` becomes ``fog_bottom_mm``."""
    shown: dict[str, float] = {}
    for quantity in QUANTITIES.values():
        if quantity.column in values:
            unit = PUBLIC_UNITS.get(quantity.dimension)
            name = quantity.name if unit is None else f"{quantity.name}_{unit}"
            shown[name] = round(from_si(values[quantity.column], unit or quantity.unit or "s"), 6)
    return shown


def without_none(body: BaseModel) -> Json:
    """What a request said, as plain JSON."""
    return body.model_dump(mode="json", exclude_none=True)
