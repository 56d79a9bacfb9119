"""The JSON of the resources: names carry units, unknown is null with its key present."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from alerts.lines import hot_discharge_line, pump_out_line
from api.http.wire import iso, milli, public_values
from api.service import ItemTaken
from store.records import (
    CLOCK_REPLACED,
    NO_TIME,
    Hauler,
    HotDischargeRecord,
    Interceptor,
    Json,
    PumpOutRecord,
    Quarantined,
    Sensor,
    Site,
    StoredReading,
)

# ---- registry ----------------------------------------------------------------------------------------


class SiteOut(BaseModel):
    id: str
    name: str
    ordinance: str
    timezone: str
    kitchen: str
    latitude: float | None
    longitude: float | None
    units: str
    seats: int | None
    equipment: list[str]
    contacts: list[dict[str, Any]]

    @classmethod
    def of(cls, one: Site) -> SiteOut:
        return cls(
            id=one.id,
            name=one.name,
            ordinance=one.ordinance,
            timezone=one.timezone,
            kitchen=one.kitchen,
            latitude=one.latitude,
            longitude=one.longitude,
            units=one.units,
            seats=one.seats,
            equipment=list(one.equipment),
            contacts=list(one.contacts),
        )


class InterceptorOut(BaseModel):
    id: str
    site: str
    kind: str
    place: str | None
    volume_l: float | None
    base_depth_mm: float
    static_level_mm: float
    compartments: int
    frequency: str | None
    last_pump_out: str | None
    hauler: str | None
    dispatch: str

    @classmethod
    def of(cls, one: Interceptor) -> InterceptorOut:
        return cls(
            id=one.id,
            site=one.site,
            kind=one.kind,
            place=one.place,
            volume_l=milli(one.volume_m3),
            base_depth_mm=round(one.base_depth_m * 1000, 3),
            static_level_mm=round(one.static_level_m * 1000, 3),
            compartments=one.compartments,
            frequency=one.frequency,
            last_pump_out=one.last_pump_out,
            hauler=one.hauler,
            dispatch=one.dispatch,
        )


class SensorOut(BaseModel):
    id: str
    interceptor: str
    compartment: int
    profile: str
    interval_s: float
    device: dict[str, Any]
    last_heard_at: str | None
    online: bool | None

    @classmethod
    def of(cls, one: Sensor, heard_us: int | None, online: bool | None) -> SensorOut:
        device = {
            f"{key.removesuffix('_m')}_mm" if key.endswith("_m") else key: (
                milli(value) if key.endswith("_m") else value
            )
            for key, value in one.device.items()
        }
        return cls(
            id=one.id,
            interceptor=one.interceptor,
            compartment=one.compartment,
            profile=one.profile,
            interval_s=one.interval_s,
            device=device,
            last_heard_at=iso(heard_us),
            online=online,
        )


class HaulerOut(BaseModel):
    id: str
    name: str
    licenses: list[dict[str, Any]]
    webhook: str | None
    email: str | None

    @classmethod
    def of(cls, one: Hauler) -> HaulerOut:
        return cls(
            id=one.id, name=one.name, licenses=list(one.licenses), webhook=one.webhook, email=one.email
        )


# ---- readings and estimates --------------------------------------------------------------------------


class ReadingOut(BaseModel):
    sensor: str
    time: str
    received_at: str
    values: dict[str, float]
    profile: list[float | None] | None
    seq: int | None
    flags: list[str]

    @classmethod
    def of(cls, one: StoredReading) -> ReadingOut:
        named = ((CLOCK_REPLACED, "clock"), (NO_TIME, "no_time"))
        return cls(
            sensor=one.sensor,
            time=iso(one.time_us) or "",
            received_at=iso(one.received_us) or "",
            values=public_values(one.values),
            profile=None if one.profile is None else list(one.profile),
            seq=one.seq,
            flags=[name for bit, name in named if one.flags & bit],
        )


class ItemOut(BaseModel):
    """What became of one item."""

    place: int | None = Field(description="In the array; null where the message is no array.")
    outcome: str = Field(description="stored, duplicate, quarantined or heartbeat.")
    time: str | None
    reason: str | None
    detail: str | None

    @classmethod
    def of(cls, one: ItemTaken) -> ItemOut:
        return cls(
            place=one.place,
            outcome=one.outcome,
            time=iso(one.time_us),
            reason=one.reason or None,
            detail=one.detail or None,
        )


class ReadingsTaken(BaseModel):
    """What became of readings that were sent by HTTP."""

    stored: int
    duplicates: int
    quarantined: list[dict[str, str]]
    items: list[ItemOut] = Field(description="One by one, in the order they stood in the message.")


class AssessmentOut(BaseModel):
    at: str
    interceptor: str
    compartment: int | None
    fog_mm: float | None
    fog_sd_mm: float | None
    solids_mm: float | None
    solids_sd_mm: float | None
    fraction: float | None
    fraction_sd: float | None
    p_over_limit: float | None
    rate_mm_per_day: float | None
    rate_sd_mm_per_day: float | None
    rate_own_share: float | None = Field(
        default=None, description="Share (0 to 1) of what is known of the rate that is the interceptor's own."
    )
    crossing: dict[str, str | None] | None
    health: list[dict[str, Any]]
    compartments: list[dict[str, Any]]
    basis: str = "instrument estimate, not a determination of violation"

    @classmethod
    def of(cls, at_us: int, interceptor: str, line: Json) -> AssessmentOut:
        known = {key: line.get(key) for key in cls.model_fields if key not in ("at", "interceptor", "basis")}
        lists = {key: known[key] or [] for key in ("health", "compartments")}
        return cls.model_validate(known | lists | {"at": iso(at_us), "interceptor": interceptor})


class PumpOutOut(BaseModel):
    interceptor: str
    id: str
    pumped_at: str
    pumped_until: str
    complete: bool
    confidence: float | None
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]

    @classmethod
    def of(cls, one: PumpOutRecord) -> PumpOutOut:
        return cls(interceptor=one.interceptor, **pump_out_line(one))


class HotDischargeOut(BaseModel):
    interceptor: str
    id: str
    sensor: str
    start: str
    end: str | None
    peak_c: float | None
    duration_s: float | None
    status: str

    @classmethod
    def of(cls, one: HotDischargeRecord) -> HotDischargeOut:
        return cls(interceptor=one.interceptor, **hot_discharge_line(one))


class QuarantinedOut(BaseModel):
    id: int
    sensor: str | None
    topic: str
    received_at: str
    reason: str
    detail: str
    size: int
    sha256: str
    payload_hex: str = Field(description="The first 4 KiB as they came.")
    device_profile: str | None
    outcome: str | None = Field(description="What became of it when it was tried again; null while it waits.")
    tried_at: str | None

    @classmethod
    def of(cls, one: Quarantined) -> QuarantinedOut:
        return cls(
            id=one.id,
            sensor=one.sensor,
            topic=one.topic,
            received_at=iso(one.received_us) or "",
            reason=one.reason,
            detail=one.detail,
            size=one.size,
            sha256=one.sha256,
            payload_hex=one.payload.hex(),
            device_profile=one.device_profile,
            outcome=one.outcome,
            tried_at=iso(one.tried_us),
        )
