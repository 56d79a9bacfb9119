"""Sites, interceptors, sensors, haulers: read, and put one by one as the fleet file would write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response
from pydantic import BaseModel

from api.fleet_file import FleetError, Known, frequency_check, parse_object
from api.http.models import HaulerOut, InterceptorOut, SensorOut, SiteOut
from api.http.wire import (
    CursorQuery,
    IdempotencyHeader,
    LimitQuery,
    Page,
    PrincipalDep,
    ServiceDep,
    create,
    paged,
)
from api.problems import ProblemError, not_found
from api.security import HAULER, Principal
from api.service import Commands, Fleet, Service
from store.ports import Store
from store.records import Hauler, Interceptor, Sensor, Site

router = APIRouter(prefix="/api/v1", tags=["Registry"])
T = TypeVar("T", Site, Interceptor, Sensor, Hauler)


def _one(rows: list[T], what: str, identity: str) -> T:
    for row in rows:
        if row.id == identity:
            return row
    raise not_found(what, identity)


def known(service: Service, store: Store) -> Known:
    """What objects sent by HTTP may refer to."""
    registry = store.registry
    day = datetime.fromtimestamp(service.now(), tz=UTC).date()
    return Known(
        ordinances=sorted(service.ordinances),
        profiles=sorted({"native", *service.profiles}),
        check_frequency=frequency_check(service.ordinances, day),
        registered=Fleet(
            tuple(registry.sites()),
            tuple(registry.interceptors()),
            tuple(registry.sensors()),
            tuple(registry.haulers()),
        ),
    )


def _put(
    request: Request,
    service: Service,
    principal: Principal,
    key: str | None,
    kind: str,
    body: dict[str, Any],
) -> Response:
    def make(commands: Commands) -> BaseModel:
        try:
            fleet = parse_object(kind, body, known(service, commands.store))
        except FleetError as error:
            errors = [(one.key, one.expected) for one in error.problems]
            raise ProblemError(422, "; ".join(error.messages), errors=errors) from None
        commands.put_fleet(fleet)
        if fleet.sites:
            return SiteOut.of(fleet.sites[0])
        if fleet.interceptors:
            return InterceptorOut.of(fleet.interceptors[0])
        if fleet.sensors:
            return SensorOut.of(fleet.sensors[0], None, None)
        return HaulerOut.of(fleet.haulers[0])

    return create(request, service, principal, key, body, make)


@router.get("/sites")
def list_sites(service: ServiceDep, cursor: CursorQuery = None, limit: LimitQuery = 100) -> Page[SiteOut]:
    """Sites, by id."""
    return paged(service.store.registry.sites(), lambda s: (s.id,), SiteOut.of, cursor=cursor, limit=limit)


@router.get("/sites/{id}")
def get_site(service: ServiceDep, id: str) -> SiteOut:
    """One site."""
    return SiteOut.of(_one(service.store.registry.sites(), "site", id))


@router.post("/sites", status_code=201, response_model=SiteOut)
def put_site(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: Annotated[
        dict[str, Any], Body(examples=[{"id": "luigi", "name": "Luigi's", "ordinance": "inglewood"}])
    ],
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Register a site, or change the one of this id; keys as in the fleet file."""
    return _put(request, service, principal, idempotency_key, "sites", body)


@router.get("/interceptors")
def list_interceptors(
    service: ServiceDep, site: str | None = None, cursor: CursorQuery = None, limit: LimitQuery = 100
) -> Page[InterceptorOut]:
    """Interceptors, by id."""
    rows = [one for one in service.store.registry.interceptors() if site in (None, one.site)]
    return paged(rows, lambda i: (i.id,), InterceptorOut.of, cursor=cursor, limit=limit)


@router.get("/interceptors/{id}")
def get_interceptor(service: ServiceDep, id: str) -> InterceptorOut:
    """One interceptor."""
    return InterceptorOut.of(_one(service.store.registry.interceptors(), "interceptor", id))


@router.post("/interceptors", status_code=201, response_model=InterceptorOut)
def put_interceptor(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: Annotated[dict[str, Any], Body(examples=[{"id": "luigi-gi1", "site": "luigi", "kind": "gravity"}])],
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Register an interceptor, or change the one of this id; keys as in the fleet file."""
    return _put(request, service, principal, idempotency_key, "interceptors", body)


@router.get("/sensors")
def list_sensors(
    service: ServiceDep, interceptor: str | None = None, cursor: CursorQuery = None, limit: LimitQuery = 100
) -> Page[SensorOut]:
    """Sensors, by id, with when each was last heard."""
    history = service.store.history
    heard, online = history.contacts(), history.connectivity()
    rows = [one for one in service.store.registry.sensors() if interceptor in (None, one.interceptor)]
    return paged(
        rows,
        lambda s: (s.id,),
        lambda s: SensorOut.of(s, heard.get(s.id), online[s.id][0] if s.id in online else None),
        cursor=cursor,
        limit=limit,
    )


@router.get("/sensors/{id}")
def get_sensor(service: ServiceDep, id: str) -> SensorOut:
    """One sensor; its id is compared without case."""
    sensor = _one(service.store.registry.sensors(), "sensor", id.lower())
    history = service.store.history
    online = history.connectivity().get(sensor.id)
    return SensorOut.of(sensor, history.contacts().get(sensor.id), online[0] if online else None)


@router.post("/sensors", status_code=201, response_model=SensorOut)
def put_sensor(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: Annotated[
        dict[str, Any], Body(examples=[{"id": "d-0001", "interceptor": "luigi-gi1", "profile": "native"}])
    ],
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Register a sensor, or change the one of this id; keys as in the fleet file."""
    return _put(request, service, principal, idempotency_key, "sensors", body)


@router.get("/haulers")
def list_haulers(service: ServiceDep, cursor: CursorQuery = None, limit: LimitQuery = 100) -> Page[HaulerOut]:
    """Waste haulers, by id; the secrets that sign their webhooks are not shown."""
    rows = service.store.registry.haulers()
    return paged(rows, lambda h: (h.id,), HaulerOut.of, cursor=cursor, limit=limit)


@router.get("/haulers/{id}")
def get_hauler(service: ServiceDep, principal: PrincipalDep, id: str) -> HaulerOut:
    """One hauler; a hauler sees itself only."""
    if principal.role == HAULER and principal.subject != id:
        raise not_found("hauler", id)
    return HaulerOut.of(_one(service.store.registry.haulers(), "hauler", id))


@router.post("/haulers", status_code=201, response_model=HaulerOut)
def put_hauler(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    body: Annotated[dict[str, Any], Body(examples=[{"id": "valley", "name": "Valley Pumping"}])],
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Register a hauler, or change the one of this id; keys as in the fleet file."""
    return _put(request, service, principal, idempotency_key, "haulers", body)
