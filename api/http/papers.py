"""Orders and their answers, manifests, core samples, frequency requests and decisions."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from alerts.calendar import local_date
from alerts.conditions import subject_of
from alerts.orders import AnswerError
from api.fleet_file import frequency_check
from api.http.paper_models import (
    AnswerIn,
    CoreSampleIn,
    CoreSampleOut,
    FrequencyDecisionIn,
    FrequencyDecisionOut,
    FrequencyRequestOut,
    ManifestIn,
    ManifestOut,
    OrderOut,
)
from api.http.wire import (
    CursorQuery,
    IdempotencyHeader,
    LimitQuery,
    Page,
    PrincipalDep,
    ServiceDep,
    create,
    micros,
    paged,
    without_none,
)
from api.problems import ProblemError, invalid, not_found
from api.security import HAULER, Principal
from api.service import Commands, Service
from store.records import CoreSample, FrequencyDecision, Interceptor, Manifest, Order

router = APIRouter(prefix="/api/v1", tags=["Orders and papers"])

InterceptorQuery = Annotated[str | None, Query(description="Only this interceptor's.")]
_AHEAD_US = 300_000_000  # clocks of people may be this far before ours
_ALL = 1_000_000


def _mine(principal: Principal, order: Order) -> bool:
    return principal.role != HAULER or order.hauler == principal.subject


def _past(field: str, at_us: int, commands: Commands) -> int:
    if at_us > commands.now_us + _AHEAD_US:
        raise invalid(field, "expected a time that has been; this one is still to come")
    return at_us


# ---- orders ------------------------------------------------------------------------------------------


@router.get("/orders")
def list_orders(
    service: ServiceDep,
    principal: PrincipalDep,
    interceptor: InterceptorQuery = None,
    open: Annotated[bool, Query(description="Only those still under way.")] = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[OrderOut]:
    """Orders, newest first; a hauler sees those put to it."""
    hauler = principal.subject if principal.role == HAULER else None
    rows = service.store.ledger.orders(open_only=open, interceptor=interceptor, hauler=hauler, limit=_ALL)
    mine = [one for one in rows if _mine(principal, one)]
    return paged(
        mine, lambda o: (o.opened_us, o.id), OrderOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.get("/orders/{id}")
def get_order(service: ServiceDep, principal: PrincipalDep, id: str) -> OrderOut:
    """One order."""
    order = service.store.ledger.order(id)
    if order is None or not _mine(principal, order):
        raise not_found("order", id)
    return OrderOut.of(order)


@router.post("/orders/{id}/answers", status_code=201, response_model=OrderOut)
def answer_order(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    id: str,
    body: AnswerIn,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Accept or decline an offer; answers with the order as it then stands."""

    def make(commands: Commands) -> OrderOut:
        order = commands.store.ledger.order(id)
        if order is None or not _mine(principal, order):
            raise not_found("order", id)
        hauler = principal.subject if principal.role == HAULER else body.hauler or order.hauler
        if principal.role == HAULER and body.hauler not in (None, principal.subject):
            raise invalid("hauler", f"this key speaks for {principal.subject!r} only; leave it out")
        if hauler is None:
            raise invalid("hauler", "the order is offered to nobody now; say who answers")
        scheduled = None if body.scheduled_at is None else micros(body.scheduled_at)
        try:
            return OrderOut.of(commands.answer(id, hauler, body.answer, scheduled))
        except AnswerError as error:
            raise ProblemError(409, str(error), slug="no-answer-awaited") from None

    return create(request, service, principal, idempotency_key, without_none(body), make)


# ---- manifests ---------------------------------------------------------------------------------------


@router.get("/manifests")
def list_manifests(
    service: ServiceDep,
    principal: PrincipalDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[ManifestOut]:
    """Manifests, newest first; a hauler sees its own."""
    rows = service.store.ledger.manifests(interceptor=interceptor, limit=_ALL)
    mine = [one for one in rows if principal.role != HAULER or one.hauler == principal.subject]
    return paged(
        mine, lambda m: (m.received_us, m.id), ManifestOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.post("/manifests", status_code=201, response_model=ManifestOut)
def file_manifest(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: ManifestIn,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """File the paper of a pump-out; levels are those before pumping."""

    def make(commands: Commands) -> ManifestOut:
        hauler = body.hauler
        if principal.role == HAULER:
            hauler = _own_manifest(commands, principal, body)
        manifest = Manifest(
            id="",
            interceptor=body.interceptor,
            pumped_us=_past("pumped_at", micros(body.pumped_at), commands),
            received_us=commands.now_us,
            complete=body.complete,
            number=body.number,
            hauler=hauler,
            volume_m3=None if body.volume_l is None else body.volume_l / 1000,
            fog_m=None if body.fog_mm is None else body.fog_mm / 1000,
            solids_m=None if body.solids_mm is None else body.solids_mm / 1000,
            fields=dict(body.fields),
        )
        return ManifestOut.of(commands.manifest(manifest))

    return create(request, service, principal, idempotency_key, without_none(body), make)


def _own_manifest(commands: Commands, principal: Principal, body: ManifestIn) -> str:
    """A hauler files its own paper, for an interceptor of which it has or had an order."""
    assert principal.subject is not None  # a hauler's key has one
    if body.hauler not in (None, principal.subject):
        raise invalid("hauler", f"this key speaks for {principal.subject!r} only; leave it out")
    if not commands.store.ledger.orders(interceptor=body.interceptor, hauler=principal.subject, limit=1):
        raise ProblemError(403, f"{principal.subject!r} has had no order for {body.interceptor!r}")
    return principal.subject


# ---- core samples ------------------------------------------------------------------------------------


@router.get("/core-samples")
def list_core_samples(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[CoreSampleOut]:
    """Hand measurements, newest first."""
    rows = service.store.ledger.core_samples(interceptor=interceptor, limit=_ALL)
    return paged(
        rows, lambda c: (c.received_us, c.id), CoreSampleOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.post("/core-samples", status_code=201, response_model=CoreSampleOut)
def file_core_sample(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: CoreSampleIn,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """File a hand measurement of both layers."""

    def make(commands: Commands) -> CoreSampleOut:
        sample = CoreSample(
            id="",
            interceptor=body.interceptor,
            compartment=body.compartment,
            sampled_us=_past("sampled_at", micros(body.sampled_at), commands),
            received_us=commands.now_us,
            fog_m=body.fog_mm / 1000,
            solids_m=body.solids_mm / 1000,
            by=body.by or principal.name,
        )
        return CoreSampleOut.of(commands.core_sample(sample))

    return create(request, service, principal, idempotency_key, without_none(body), make)


# ---- frequency ---------------------------------------------------------------------------------------


@router.get("/frequency-requests")
def list_frequency_requests(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[FrequencyRequestOut]:
    """Proposed frequencies with their evidence, newest first."""
    rows = service.store.ledger.frequency_proposals(interceptor=interceptor)
    return paged(
        rows, lambda p: (p.at_us, p.id), FrequencyRequestOut.of, cursor=cursor, limit=limit, newest_first=True
    )


@router.get("/frequency-decisions")
def list_frequency_decisions(
    service: ServiceDep,
    interceptor: InterceptorQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = 100,
) -> Page[FrequencyDecisionOut]:
    """What people decided, and why; newest first."""
    rows = service.store.ledger.frequency_decisions(interceptor=interceptor)
    return paged(
        rows,
        lambda d: (d.decided_us, d.id),
        FrequencyDecisionOut.of,
        cursor=cursor,
        limit=limit,
        newest_first=True,
    )


@router.post("/frequency-decisions", status_code=201, response_model=FrequencyDecisionOut)
def file_frequency_decision(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: FrequencyDecisionIn,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Approve, modify or deny a frequency; never beyond the ordinance's maximum."""

    def make(commands: Commands) -> FrequencyDecisionOut:
        if body.decision != "denied":
            _check_frequency(service, commands, body)
        decision = FrequencyDecision(
            id="",
            interceptor=body.interceptor,
            decision=body.decision,
            frequency=body.frequency,
            effective=None if body.effective is None else body.effective.isoformat(),
            decided_us=commands.now_us,
            by=body.by or principal.name,
            reason=body.reason,
            proposal=body.proposal,
        )
        return FrequencyDecisionOut.of(commands.frequency_decision(decision))

    return create(request, service, principal, idempotency_key, without_none(body), make)


def _check_frequency(service: Service, commands: Commands, body: FrequencyDecisionIn) -> None:
    if body.frequency is None:
        raise invalid("frequency", "missing: expected an ISO 8601 duration such as P3M, unless denied")
    interceptor = _interceptor(commands, body.interceptor)
    site = next(one for one in commands.store.registry.sites() if one.id == interceptor.site)
    day: date = body.effective or local_date(commands.now_us, site.timezone)
    expected = frequency_check(service.ordinances, day)(
        body.frequency, site.ordinance, subject_of(interceptor, site)
    )
    if expected is not None:
        raise invalid("frequency", expected)


def _interceptor(commands: Commands, identity: str) -> Interceptor:
    for one in commands.store.registry.interceptors():
        if one.id == identity:
            return one
    raise invalid("interceptor", f"{identity!r} is not in the fleet")
