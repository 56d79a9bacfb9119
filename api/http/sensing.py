"""For devices and those who make them: readings by HTTP, passwords, and what became of a sensor's messages."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.check import MOST, check
from api.credentials import issue, new_password, username_of
from api.http.models import ItemOut, ReadingsTaken
from api.http.wire import IdempotencyHeader, PrincipalDep, ServiceDep, create
from api.problems import ProblemError, invalid, not_found
from api.security import SENSOR, Principal
from api.service import Commands
from ingest.message import RawMessage

router = APIRouter(prefix="/api/v1", tags=["Sensors"])


@router.post("/readings", status_code=201, response_model=ReadingsTaken)
async def take_readings(
    request: Request,
    service: ServiceDep,
    principal: PrincipalDep,
    sensor: Annotated[str | None, Query(description="Whose; a sensor's key speaks for itself.")] = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """A native message, one object or an array of them, as the body; answered when it is committed.

    For devices that do not speak MQTT. They sign in by HTTP Basic with their name and password, or by a key.
    Whatever became of each item, the answer means: it is kept, do not send it again.
    """
    owner = _own(principal, sensor)
    payload = await request.body()
    most = service.settings.limits.message_bytes
    if len(payload) > most:
        raise ProblemError(413, f"the message is larger than {most} bytes; send smaller arrays")

    def make(commands: Commands) -> BaseModel:
        message = RawMessage(f"quarterline/v1/{owner}/readings", payload, commands.now_us)
        result = commands.readings([message])
        return ReadingsTaken(
            stored=result.stored,
            duplicates=result.duplicates,
            quarantined=[{"reason": reason, "detail": detail} for reason, detail in result.quarantined],
            items=[ItemOut.of(one) for one in result.items],
        )

    return await run_in_threadpool(
        create, request, service, principal, idempotency_key, [owner, payload.hex()], make
    )


def _own(principal: Principal, sensor: str | None) -> str:
    """For whom a request speaks: a sensor for itself, others for the one they name."""
    owner = principal.subject if principal.role == SENSOR else sensor
    if principal.role == SENSOR and sensor is not None and sensor.lower() != principal.subject:
        raise ProblemError(403, f"this key speaks for {principal.subject!r} only")
    if owner is None:
        raise invalid("sensor", "missing: expected the id of the sensor that speaks")
    if not owner or "/" in owner:
        raise invalid("sensor", "expected the id of a sensor")
    return owner.lower()


class FieldOut(BaseModel):
    """One field of a message as it came, and what it was read as."""

    source: str | None = Field(description="Its name in the message; null where only the history knows it.")
    raw: Any
    quantity: str | None
    unit: str | None
    si: str | None = Field(description="The SI column: quantity and unit.")
    value: Any = Field(description="In SI.")
    note: str | None = Field(description="Why nothing was read, or what else it is.")


class PartOut(BaseModel):
    outcome: str = Field(description="stored, duplicate, refused, heartbeat, status, retained or taken.")
    place: int | None = Field(description="In the array; null where the message is no array.")
    time: str | None
    reason: str | None
    detail: str | None = Field(description="What is wrong, and how to mend it.")
    fields: list[FieldOut]


class MessageOut(BaseModel):
    received_at: str
    topic: str | None
    payload: str | None = Field(description="Its text, or after `hex:` its bytes; null where they are gone.")
    size: int | None
    parts: list[PartOut]


class CheckOut(BaseModel):
    sensor: str
    known: bool
    interceptor: str | None
    profile: str | None
    heard_at: str | None
    online: bool | None
    advice: str | None
    messages: list[MessageOut]


@router.get("/sensors/{id}/check")
def check_sensor(
    service: ServiceDep,
    principal: PrincipalDep,
    id: str,
    limit: Annotated[int, Query(ge=1, le=MOST, description="Messages.")] = 10,
) -> CheckOut:
    """The last messages under a sensor's id, what each became field by field, or why not; it need not be known."""
    if principal.role == SENSOR and id.lower() != principal.subject:
        raise not_found("sensor", id)
    found = check(service.store, service.recent, service.profiles, id, limit=limit)
    return CheckOut.model_validate(found)


class PasswordOut(BaseModel):
    """A sensor's name and password; only hashes are kept."""

    sensor: str
    username: str
    password: str
    topic: str


@router.post("/sensors/{id}/password", status_code=201)
def new_sensor_password(service: ServiceDep, id: str) -> PasswordOut:
    """A new password of a sensor, shown this once; the earlier one is out of force (at a broker: with its reload)."""
    identity, password = id.lower(), new_password()

    def make(commands: Commands) -> None:
        if not any(one.id == identity for one in commands.store.registry.sensors()):
            raise not_found("sensor", id)
        issue(commands.store.ledger, identity, password=password, now_us=time.time_ns() // 1000)

    service.submit(make)
    topic = f"quarterline/v1/{identity}/readings"
    return PasswordOut(sensor=identity, username=username_of(identity), password=password, topic=topic)
