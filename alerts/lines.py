"""Records as lines of the journal and of a replay (contracts.md §3): mm, ISO times, null for unknown.

Every function returns the line's own keys, without ``at``, ``type`` and ``interceptor``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from alerts.calendar import iso_instant
from analysis.model import Assessment, CompartmentAssessment
from store.records import (
    Alert,
    FrequencyProposal,
    HotDischargeRecord,
    Json,
    Order,
    PumpOutRecord,
    Quarantined,
)

_CROSSINGS = ("p05", "p10", "p50", "p90", "p95")


def assessment_line(one: Assessment) -> Json:
    """One interceptor's assessment; ``crossing`` is null only when the fraction is unknown."""
    crossing = None
    if one.crossing_s is not None:
        crossing = dict(zip(_CROSSINGS, (_instant_s(at) for at in one.crossing_s), strict=True))
    return {
        "compartment": one.compartment,
        "fog_mm": _mm(one.fog_m),
        "fog_sd_mm": _mm(one.fog_sd_m),
        "solids_mm": _mm(one.solids_m),
        "solids_sd_mm": _mm(one.solids_sd_m),
        "fraction": _ratio(one.fraction),
        "fraction_sd": _ratio(one.fraction_sd),
        "p_over_limit": _ratio(one.p_over_limit),
        "rate_mm_per_day": _mm(one.rate_m_per_day),
        "rate_sd_mm_per_day": _mm(one.rate_sd_m_per_day),
        "rate_own_share": _ratio(one.rate_own_share),
        "crossing": crossing,
        "health": [
            {"flag": f.flag, "sensor": f.sensor, "quantity": f.quantity, "since": _instant_s(f.since_s)}
            for f in one.health
        ],
        "compartments": [_compartment(c) for c in one.compartments],
    }


def pump_out_line(record: PumpOutRecord) -> Json:
    """An observed pump-out, or its correction under the same id."""
    return {
        "id": record.id,
        "pumped_at": iso_instant(record.start_us),
        "pumped_until": iso_instant(record.end_us),
        "complete": record.complete,
        "confidence": _ratio(record.confidence),
        "before": _layers(record.before),
        "after": _layers(record.after),
    }


def hot_discharge_line(record: HotDischargeRecord) -> Json:
    """A hot discharge: strictly above the limit, ``peak_c`` the wastewater's."""
    return {
        "id": record.id,
        "sensor": record.sensor,
        "start": iso_instant(record.start_us),
        "end": None if record.end_us is None else iso_instant(record.end_us),
        "peak_c": _rounded(record.peak_c, 2),
        "duration_s": _rounded(record.duration_s, 3),
        "status": record.status,
    }


def alert_line(alert: Alert) -> Json:
    """One transition of an alert."""
    return {
        "id": alert.id,
        "kind": alert.kind,
        "state": alert.state,
        "severity": alert.severity,
        "reason": alert.reason,
        "citation": alert.citation,
        "basis": alert.basis,
        "sensor": alert.sensor,
        "flag": alert.flag,
        "since": iso_instant(alert.since_us),
    }


def order_line(order: Order) -> Json:
    """One transition of an order."""
    return {
        "id": order.id,
        "reason": order.reason,
        "state": order.state,
        "due": order.due,
        "hauler": order.hauler,
        "papers": order.papers,
        "scheduled_at": None if order.scheduled_us is None else iso_instant(order.scheduled_us),
        "pump_out": order.pump_out,
        "manifest": order.manifest,
        "citation": order.citation,
        "note": order.note,
    }


def proposal_line(proposal: FrequencyProposal) -> Json:
    """A proposed frequency, as intervals."""
    return {
        "id": proposal.id,
        "from": proposal.current,
        "to": proposal.proposed,
        "reason": proposal.reason,
        "citation": proposal.citation,
        "evidence": proposal.evidence,
        "effective": proposal.effective,
    }


def quarantine_line(one: Quarantined) -> Json:
    """An item that could not become a reading."""
    return {
        "sensor": one.sensor,
        "topic": one.topic,
        "received_at": iso_instant(one.received_us),
        "reason": one.reason,
        "detail": one.detail,
    }


def _compartment(one: CompartmentAssessment) -> Json:
    return {
        "compartment": one.compartment,
        "fog_mm": _mm(one.fog_m),
        "fog_sd_mm": _mm(one.fog_sd_m),
        "solids_mm": _mm(one.solids_m),
        "solids_sd_mm": _mm(one.solids_sd_m),
        "fraction": _ratio(one.fraction),
        "fraction_sd": _ratio(one.fraction_sd),
        "p_over_limit": _ratio(one.p_over_limit),
    }


def _layers(layers: Iterable[Json]) -> list[Json]:
    return [
        {"compartment": one["compartment"], "fog_mm": _mm(one["fog_m"]), "solids_mm": _mm(one["solids_m"])}
        for one in layers
    ]


def _mm(metres: float | None) -> float | None:
    return None if metres is None else _rounded(metres * 1e3, 3)


def _ratio(value: float | None) -> float | None:
    return None if value is None else _rounded(value, 6)


def _rounded(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _instant_s(at_s: float | None) -> str | None:
    return iso_instant(round(at_s * 1e6)) if at_s is not None and math.isfinite(at_s) else None
