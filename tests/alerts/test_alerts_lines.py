"""Journal lines: mm, ISO times, every key present, null for what is unknown."""

from __future__ import annotations

import json

from alerts.ids import short_id
from alerts.lines import (
    alert_line,
    assessment_line,
    hot_discharge_line,
    order_line,
    proposal_line,
    pump_out_line,
    quarantine_line,
)
from analysis.model import Assessment, CompartmentAssessment, HealthFlag
from store.records import (
    Alert,
    FrequencyProposal,
    HotDischargeRecord,
    Order,
    PumpOutRecord,
    Quarantined,
)

AT_US = 1_780_326_000_000_000  # 2026-06-01T15:00:00Z


def test_an_assessment_in_the_contracts_units() -> None:
    at_s = AT_US / 1e6
    one = Assessment(
        interceptor="gi1",
        time_s=at_s,
        compartment=2,
        fog_m=0.1234567,
        fog_sd_m=0.0051,
        solids_m=0.05,
        solids_sd_m=0.004,
        fraction=0.14217,
        fraction_sd=0.0053,
        p_over_limit=0.000123456789,
        rate_m_per_day=0.00123,
        rate_sd_m_per_day=0.0002,
        crossing_s=(at_s + 86_400, at_s + 172_800.5, at_s + 259_200, None, None),
        health=(HealthFlag("gap", "d-1", "surface", at_s),),
        compartments=(CompartmentAssessment(2, 0.1234567, 0.0051, 0.05, 0.004, 0.14217, 0.0053, 0.0),),
        own_evidence=True,
        last_reading_s=at_s,
        since_s=None,
        rate_own_share=0.87654321,
    )
    assert assessment_line(one) == {
        "compartment": 2,
        "fog_mm": 123.457,
        "fog_sd_mm": 5.1,
        "solids_mm": 50.0,
        "solids_sd_mm": 4.0,
        "fraction": 0.14217,
        "fraction_sd": 0.0053,
        "p_over_limit": 0.000123,
        "rate_mm_per_day": 1.23,
        "rate_sd_mm_per_day": 0.2,
        "rate_own_share": 0.876543,
        "crossing": {
            "p05": "2026-06-02T15:00:00Z",
            "p10": "2026-06-03T15:00:00.5Z",
            "p50": "2026-06-04T15:00:00Z",
            "p90": None,
            "p95": None,
        },
        "health": [{"flag": "gap", "sensor": "d-1", "quantity": "surface", "since": "2026-06-01T15:00:00Z"}],
        "compartments": [
            {
                "compartment": 2,
                "fog_mm": 123.457,
                "fog_sd_mm": 5.1,
                "solids_mm": 50.0,
                "solids_sd_mm": 4.0,
                "fraction": 0.14217,
                "fraction_sd": 0.0053,
                "p_over_limit": 0.0,
            }
        ],
    }


def test_an_unseen_layer_is_null_with_its_keys_present_and_never_nan() -> None:
    nan = float("nan")
    one = Assessment(
        interceptor="gi1",
        time_s=AT_US / 1e6,
        compartment=1,
        fog_m=None,
        fog_sd_m=nan,
        solids_m=0.05,
        solids_sd_m=0.004,
        fraction=None,
        fraction_sd=None,
        p_over_limit=None,
        rate_m_per_day=None,
        rate_sd_m_per_day=float("inf"),
        crossing_s=None,
        health=(),
        compartments=(),
        own_evidence=False,
        last_reading_s=None,
        since_s=None,
    )
    line = assessment_line(one)
    assert {key for key, value in line.items() if value is None} == {
        "fog_mm",
        "fog_sd_mm",
        "fraction",
        "fraction_sd",
        "p_over_limit",
        "rate_mm_per_day",
        "rate_sd_mm_per_day",
        "rate_own_share",
        "crossing",
    }
    json.dumps(line, allow_nan=False)


def test_acts_carry_their_own_times() -> None:
    layers = ({"compartment": 1, "fog_m": 0.21, "solids_m": None},)
    pump_out = PumpOutRecord("po-1", "gi1", AT_US, AT_US + 3_600_000_000, True, 0.987654321, layers, ())
    assert pump_out_line(pump_out) == {
        "id": "po-1",
        "pumped_at": "2026-06-01T15:00:00Z",
        "pumped_until": "2026-06-01T16:00:00Z",
        "complete": True,
        "confidence": 0.987654,
        "before": [{"compartment": 1, "fog_mm": 210.0, "solids_mm": None}],
        "after": [],
    }
    hot = HotDischargeRecord("hd-1", "gi1", "d-1", AT_US, None, 71.2345, 900.0, "possible")
    assert hot_discharge_line(hot) == {
        "id": "hd-1",
        "sensor": "d-1",
        "start": "2026-06-01T15:00:00Z",
        "end": None,
        "peak_c": 71.23,
        "duration_s": 900.0,
        "status": "possible",
    }


def test_transitions_of_alerts_and_orders() -> None:
    alert = Alert(
        "al-1", "gi1", "overdue", "firing", "critical", "why", None, "calendar", None, None, AT_US, AT_US
    )
    assert alert_line(alert) == {
        "id": "al-1",
        "kind": "overdue",
        "state": "firing",
        "severity": "critical",
        "reason": "why",
        "citation": None,
        "basis": "calendar",
        "sensor": None,
        "flag": None,
        "since": "2026-06-01T15:00:00Z",
    }
    order = Order("or-1", "gi1", "calendar", "scheduled", "2026-06-10", AT_US, AT_US, scheduled_us=AT_US)
    line = order_line(order)
    assert {key: line[key] for key in ("id", "reason", "state", "due", "hauler", "papers")} == {
        "id": "or-1",
        "reason": "calendar",
        "state": "scheduled",
        "due": "2026-06-10",
        "hauler": None,
        "papers": "none",
    }
    assert line["scheduled_at"] == "2026-06-01T15:00:00Z"


def test_proposals_are_intervals_and_quarantine_names_its_reason() -> None:
    proposal = FrequencyProposal(
        "fp-1", "gi1", "P3M", "P4M", "why", "IMC 10-223(4)(c)", {"a": 1}, None, AT_US
    )
    assert proposal_line(proposal) == {
        "id": "fp-1",
        "from": "P3M",
        "to": "P4M",
        "reason": "why",
        "citation": "IMC 10-223(4)(c)",
        "evidence": {"a": 1},
        "effective": None,
    }
    item = Quarantined(None, "a/b", AT_US, "not_json", "payload: …", b"x", 1, "00")
    assert quarantine_line(item) == {
        "sensor": None,
        "topic": "a/b",
        "received_at": "2026-06-01T15:00:00Z",
        "reason": "not_json",
        "detail": "payload: …",
    }


def test_ids_are_fixed_for_all_time_and_parts_do_not_run_together() -> None:
    # printf 'gi1\x1foverdue' | sha256sum, its first 60 bits in base32
    assert short_id("al", "gi1", "overdue") == "al-62wckttbijpw"
    assert short_id("al", "ab", "c") != short_id("al", "a", "bc")
