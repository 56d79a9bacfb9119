"""The JSON of the resources: names carry units, unknown is null with its key present."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from alerts.lines import alert_line, hot_discharge_line, order_line, proposal_line, pump_out_line
from api.http.wire import Strict, iso, milli, public_values
from store.records import (
    CLOCK_REPLACED,
    NO_TIME,
    Alert,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    Hauler,
    HotDischargeRecord,
    Interceptor,
    Json,
    Manifest,
    Order,
    PumpOutRecord,
    Quarantined,
    Sensor,
    Site,
    StoredReading,
)

Depth = Annotated[float, Field(ge=0, le=20_000, description="mm")]


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


class ReadingsTaken(BaseModel):
    """What became of readings that were sent by HTTP."""

    stored: int
    duplicates: int
    quarantined: list[dict[str, str]]


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
    crossing: dict[str, str | None] | None
    health: list[dict[str, Any]]
    compartments: list[dict[str, Any]]
    basis: str = "instrument estimate, not a determination of violation"

    @classmethod
    def of(cls, at_us: int, interceptor: str, line: Json) -> AssessmentOut:
        known = {key: line.get(key) for key in cls.model_fields if key not in ("at", "interceptor", "basis")}
        known["health"] = known["health"] or []
        known["compartments"] = known["compartments"] or []
        return cls(at=iso(at_us) or "", interceptor=interceptor, **known)


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


# ---- alerts, orders, papers --------------------------------------------------------------------------


class AlertOut(BaseModel):
    interceptor: str | None
    id: str
    kind: str
    state: str
    severity: str
    reason: str
    citation: str | None
    basis: str
    sensor: str | None
    flag: str | None
    since: str
    changed_at: str

    @classmethod
    def of(cls, one: Alert) -> AlertOut:
        return cls(interceptor=one.interceptor, changed_at=iso(one.changed_us) or "", **alert_line(one))


class OrderOut(BaseModel):
    interceptor: str
    id: str
    reason: str
    state: str
    due: str
    hauler: str | None
    papers: str
    scheduled_at: str | None
    pump_out: str | None
    manifest: str | None
    citation: str | None
    note: str
    opened_at: str
    changed_at: str
    offered_at: str | None
    offer_expires_at: str | None
    declined: list[str]

    @classmethod
    def of(cls, one: Order) -> OrderOut:
        return cls(
            interceptor=one.interceptor,
            opened_at=iso(one.opened_us) or "",
            changed_at=iso(one.changed_us) or "",
            offered_at=iso(one.offered_us),
            offer_expires_at=iso(one.offer_expires_us),
            declined=list(one.declined),
            **order_line(one),
        )


class AnswerIn(Strict):
    """A hauler's answer to an offer."""

    answer: Literal["accepted", "declined"]
    scheduled_at: AwareDatetime | None = None
    hauler: str | None = Field(
        default=None, description="For the city's staff; a hauler's key speaks for itself."
    )


class ManifestIn(Strict):
    interceptor: str
    pumped_at: AwareDatetime
    complete: bool
    number: str | None = Field(default=None, min_length=1, max_length=100)
    hauler: str | None = None
    volume_l: Annotated[float, Field(ge=0, le=10_000_000)] | None = None
    fog_mm: Depth | None = None
    solids_mm: Depth | None = None
    fields: dict[str, str] = Field(
        default_factory=dict, description="What else the paper says: operator, repairs, disposal facility …"
    )


class ManifestOut(BaseModel):
    interceptor: str
    id: str
    number: str | None
    pumped_at: str
    received_at: str
    hauler: str | None
    complete: bool
    volume_l: float | None
    fog_mm: float | None
    solids_mm: float | None
    fields: dict[str, Any]

    @classmethod
    def of(cls, one: Manifest) -> ManifestOut:
        return cls(
            interceptor=one.interceptor,
            id=one.id,
            number=one.number,
            pumped_at=iso(one.pumped_us) or "",
            received_at=iso(one.received_us) or "",
            hauler=one.hauler,
            complete=one.complete,
            volume_l=milli(one.volume_m3),
            fog_mm=milli(one.fog_m),
            solids_mm=milli(one.solids_m),
            fields=one.fields,
        )


class CoreSampleIn(Strict):
    interceptor: str
    compartment: int = Field(default=1, ge=1, le=16)
    sampled_at: AwareDatetime
    fog_mm: Depth
    solids_mm: Depth
    by: str | None = Field(default=None, min_length=1, max_length=200)


class CoreSampleOut(BaseModel):
    interceptor: str
    id: str
    compartment: int
    sampled_at: str
    received_at: str
    fog_mm: float | None
    solids_mm: float | None
    by: str

    @classmethod
    def of(cls, one: CoreSample) -> CoreSampleOut:
        return cls(
            interceptor=one.interceptor,
            id=one.id,
            compartment=one.compartment,
            sampled_at=iso(one.sampled_us) or "",
            received_at=iso(one.received_us) or "",
            fog_mm=milli(one.fog_m),
            solids_mm=milli(one.solids_m),
            by=one.by,
        )


class FrequencyRequestOut(BaseModel):
    interceptor: str
    id: str
    from_: str = Field(serialization_alias="from")
    to: str
    reason: str
    citation: str
    evidence: dict[str, Any]
    effective: str | None
    at: str
    state: str

    @classmethod
    def of(cls, one: FrequencyProposal) -> FrequencyRequestOut:
        line = proposal_line(one)
        return cls(
            interceptor=one.interceptor,
            at=iso(one.at_us) or "",
            state=one.state,
            from_=line.pop("from"),
            **line,
        )


class FrequencyDecisionIn(Strict):
    interceptor: str
    decision: Literal["approved", "modified", "denied"]
    frequency: str | None = Field(default=None, description="ISO 8601 duration; needed unless denied.")
    effective: date | None = None
    reason: str = Field(min_length=1, max_length=4000)
    by: str | None = Field(default=None, min_length=1, max_length=200)
    proposal: str | None = None


class FrequencyDecisionOut(BaseModel):
    interceptor: str
    id: str
    decision: str
    frequency: str | None
    effective: str | None
    decided_at: str
    by: str
    reason: str
    proposal: str | None

    @classmethod
    def of(cls, one: FrequencyDecision) -> FrequencyDecisionOut:
        return cls(
            interceptor=one.interceptor,
            id=one.id,
            decision=one.decision,
            frequency=one.frequency,
            effective=one.effective,
            decided_at=iso(one.decided_us) or "",
            by=one.by,
            reason=one.reason,
            proposal=one.proposal,
        )


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
        )
