"""The JSON of alerts, orders, papers and frequency decisions."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

from alerts.lines import alert_line, order_line, proposal_line
from api.http.wire import Strict, iso, milli
from store.records import Alert, CoreSample, FrequencyDecision, FrequencyProposal, Manifest, Order

Depth = Annotated[float, Field(ge=0, le=20_000, description="mm")]


def _of_our_time(at: datetime) -> datetime:
    if not 1970 <= at.year <= 2100:
        raise ValueError("expected a time of the years 1970 to 2100")
    return at


Instant = Annotated[AwareDatetime, AfterValidator(_of_our_time)]


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
    scheduled_at: Instant | None = None
    hauler: str | None = Field(
        default=None, description="For the city's staff; a hauler's key speaks for itself."
    )


class ManifestIn(Strict):
    interceptor: str
    pumped_at: Instant
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
    sampled_at: Instant
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
