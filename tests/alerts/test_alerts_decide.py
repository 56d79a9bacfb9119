"""What raises, holds and clears the alerts of level and calendar; every decision is taken twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from alerts.ordinance import Ordinance
from alerts.policy import Policy
from store.records import FrequencyDecision

Make = Callable[..., Any]
NOT_A_FINDING = "not a determination of violation"


# ---- over the limit ----------------------------------------------------------------------------------


def test_over_limit_waits_its_time_then_fires_with_citation_and_caution(world: Make) -> None:
    w = world().at("2026-06-01T08:00:00-07:00").level(0.27, 0.95)
    assert [a.state for a in w.decide().alerts] == ["pending"]
    w.later(0.5).level(0.27, 0.95)
    assert w.decide().alerts == ()
    w.later(0.5).level(0.272, 0.96)
    fired = w.decide().alerts[0]
    assert (fired.state, fired.severity, fired.basis) == ("firing", "critical", "estimate")
    assert fired.citation == "IMC 10-223(4)(d)"
    assert fired.since_us == 1_780_326_000_000_000  # 2026-06-01T15:00Z, the first reading's own time
    assert "27.2 % of the total liquid depth" in fired.reason
    assert NOT_A_FINDING in fired.reason


@pytest.mark.parametrize("p", [0.5001, 0.7, 0.8999])
def test_between_the_thresholds_a_firing_alert_holds(world: Make, p: float) -> None:
    w = _over(world())
    w.later(24).level(0.25, p)
    assert w.decide().alerts == ()
    assert "over_limit" in w.firing()


def test_it_clears_at_half_by_fresh_readings_only_and_after_a_while(world: Make) -> None:
    w = _over(world())
    w.later(24).level(0.2, 0.1, age_h=20)  # an old reading says nothing about now
    assert [a.kind for a in w.decide().alerts] == ["sensor_silent"]
    w.later(1).level(0.2, 0.5)
    assert [a.state for a in w.decide().alerts if a.kind == "over_limit"] == ["recovering"]
    w.later(0.5).level(0.26, 0.9)
    assert [a.state for a in w.decide().alerts] == ["firing"]
    w.later(0.5).level(0.2, 0.1)
    w.decide()
    w.later(1).level(0.2, 0.1)
    assert [a.state for a in w.decide().alerts] == ["resolved"]
    assert w.alerts("over_limit") == ["pending", "firing", "recovering", "firing", "recovering", "resolved"]


def test_a_pending_alert_holds_between_the_thresholds_and_lapses_below(world: Make) -> None:
    w = world().level(0.27, 0.95)
    w.decide()
    w.later(2).level(0.26, 0.8)
    assert w.decide().alerts == ()
    w.later(1).level(0.2, 0.3)
    assert [(a.state, a.reason) for a in w.decide().alerts] == [
        ("resolved", "did not last: the estimate is 20.0 %, no longer likely above the limit")
    ]
    assert w.situation.order is None


def test_silence_never_resolves_a_level_alarm_and_ripens_a_pending_one(world: Make) -> None:
    w = world().level(0.27, 0.95)
    w.decide()
    w.later(5).level(0.27, 0.95, age_h=5)
    kinds = {a.kind: a.state for a in w.decide().alerts}
    assert kinds == {"sensor_silent": "firing", "over_limit": "firing"}
    for _ in range(10):
        w.later(24).level(0.1, 0.0, age_h=48)
        w.decide()
    assert "over_limit" in w.firing()


def test_stale_readings_raise_nothing(world: Make) -> None:
    w = world().level(0.4, 0.999, age_h=400)
    assert [a.kind for a in w.decide().alerts] == ["sensor_silent"]


def test_what_is_unknown_changes_nothing(world: Make) -> None:
    w = _over(world())
    one = w.situation.assessment
    w.later(1).change(assessment=replace(one, fraction=None, p_over_limit=None, crossing_s=None))
    assert [a.kind for a in w.decide().alerts if a.kind == "over_limit"] == []
    assert "over_limit" in w.firing()


@pytest.mark.parametrize(
    ("fog_m", "solids_m", "over"),
    [
        (0.2, 0.105, False),  # 305 mm of 1220 mm is 25 % exactly: no breach
        (0.2, 0.1051, True),
        (0.305, 0.0, False),
        (0.0, 0.31, True),
    ],
)
def test_a_core_sample_breaches_strictly_above_the_limit(
    world: Make, fog_m: float, solids_m: float, over: bool
) -> None:
    w = world().sample(fog_m, solids_m)
    w.decide()
    assert ("over_limit" in w.firing()) is over
    if over:
        alert = w.firing()["over_limit"]
        assert (alert.basis, alert.citation) == ("core_sample", "IMC 10-223(4)(d)")
        assert NOT_A_FINDING in alert.reason
        assert w.order.reason == "exceedance"


def test_estimate_and_core_sample_stay_apart(world: Make) -> None:
    w = _over(world()).later(1).level(0.3, 0.99).sample(0.3, 0.1)
    w.decide()
    assert sorted(a.basis for a in w.situation.alerts if a.kind == "over_limit") == [
        "core_sample",
        "estimate",
    ]
    assert len({order.id for one in w.decided for order in one.orders}) == 1


def test_neither_law_speaks_of_traps(world: Make) -> None:
    w = world(kind="trap", last_pump_out=None).level(0.6, 0.999).sample(0.5, 0.3)
    w.decide()
    w.later(2).level(0.6, 0.999)
    w.decide()
    assert w.situation.alerts == ()
    assert w.situation.order is None


# ---- the limit ahead ---------------------------------------------------------------------------------


def test_approaching_limit_orders_by_the_crossing_date_and_cites_policy_only(world: Make) -> None:
    w = world().at("2026-06-01T08:00:00-07:00").level(0.2, 0.02, p10_days=10)
    w.decide()
    w.later(6).level(0.2, 0.02, p10_days=10)
    w.decide()
    alert = w.firing()["approaching_limit"]
    assert alert.severity == "warning"
    assert alert.citation == "program policy (no duty of the ordinance below its limit)"
    assert NOT_A_FINDING in alert.reason
    assert (w.order.reason, w.order.due, w.order.citation) == ("forecast", "2026-06-11", alert.citation)


@pytest.mark.parametrize(
    ("p10_days", "own", "why"),
    [
        (15.0, True, "beyond the lead time of 14 days"),
        (10.0, False, "not by its own evidence"),
        (None, True, "not within six months"),
    ],
)
def test_no_forecast_order(world: Make, p10_days: float | None, own: bool, why: str) -> None:
    w = world()
    for _ in range(3):
        w.level(0.2, 0.02, p10_days=p10_days, own=own).decide()
        w.later(6)
    assert w.alerts("approaching_limit") == [], why


def test_past_the_recommended_point_the_ordinance_itself_is_cited(
    world: Make, ordinances: dict[str, Ordinance]
) -> None:
    """Mount Vernon IL: 30 % is recommended, 50 % the maximum (jurisdictions.md, row 4)."""
    w = world()
    w.situation = replace(w.situation, ordinance=ordinances["mount-vernon"])
    w.level(0.36, 0.02, own=False).decide()
    w.later(7).level(0.36, 0.02, own=False).decide()
    alert = w.firing()["approaching_limit"]
    assert alert.citation == "MVC 16A"
    assert (
        "36.0 % of the total interior depth, past the 30.0 % at which cleaning is recommended" in alert.reason
    )
    assert "the limit is 50.0 %" in alert.reason
    assert "over_limit" not in w.firing()
    w.later(7).level(0.20, 0.0, own=False).decide()
    w.later(7).level(0.20, 0.0, own=False).decide()
    assert w.alerts("approaching_limit")[-1] == "resolved"


def test_no_forecast_order_where_the_calendar_comes_first(world: Make) -> None:
    w = world(last_pump_out="2026-03-05").at("2026-06-01T08:00:00-07:00")  # due 5 June
    for _ in range(3):
        w.level(0.2, 0.02, p10_days=10).decide()
        w.later(6)
    assert w.alerts("approaching_limit") == []
    assert w.order.reason == "calendar"


def test_the_forecast_clears_when_the_crossing_moves_away(world: Make) -> None:
    w = world().level(0.2, 0.02, p10_days=10)
    w.decide()
    w.later(6).level(0.2, 0.02, p10_days=10).decide()
    w.later(6).level(0.2, 0.02, p10_days=16).decide()  # beyond the lead time, not beyond its clearing
    assert "approaching_limit" in w.firing()
    w.later(6).level(0.2, 0.02, p10_days=40).decide()
    w.later(6).level(0.2, 0.02, p10_days=40).decide()
    assert w.alerts("approaching_limit") == ["pending", "firing", "recovering", "resolved"]


# ---- the calendar ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        ("2026-07-17", {}),
        ("2026-07-18", {"calendar_due": "info"}),
        ("2026-08-01", {"calendar_due": "info"}),
        ("2026-08-02", {"overdue": "critical"}),
    ],
)
def test_due_within_the_lead_time_then_overdue(world: Make, today: str, expected: dict[str, str]) -> None:
    w = world(sensored=False, last_pump_out="2026-05-01").at(f"{today}T09:00:00-07:00")  # due 1 August
    w.decide()
    assert {kind: a.severity for kind, a in w.firing().items()} == expected
    if expected:
        assert (w.order.reason, w.order.due) == ("calendar", "2026-08-01")
        assert w.order.citation == "IMC 10-223(4)(c)"


def test_due_turns_overdue_at_local_midnight_with_one_order(world: Make) -> None:
    w = world(sensored=False).at("2026-08-01T23:55:00-07:00")
    w.decide()
    w.at("2026-08-02T00:00:00-07:00").decide()
    assert w.alerts("calendar_due") == ["firing", "resolved"]
    assert w.firing()["overdue"].since_us == 1_785_654_000_000_000  # 2026-08-02T07:00Z
    assert w.states().count("proposed") == 1


def test_without_any_record_the_manifest_is_asked_for_and_no_truck_sent(world: Make) -> None:
    w = world(last_pump_out=None).level(0.1, 0.0)
    w.decide()
    alert = w.firing()["overdue"]
    assert alert.reason.startswith("No record of a complete pump-out: ask for the manifest.")
    assert (alert.severity, alert.basis) == ("warning", "calendar")
    assert w.situation.order is None
    w.later(2).paper("2026-05-20T10:00:00-07:00").decide()
    assert w.alerts("overdue") == ["firing", "resolved"]


def test_overdue_never_rests_on_missing_sensor_evidence(world: Make) -> None:
    w = world(last_pump_out="2026-01-01").at("2026-06-01T08:00:00-07:00").level(0.2, 0.1)
    w.decide()
    assert "overdue" in w.firing()
    w.later(1).level(0.2, 0.1).paper("2026-05-30T10:00:00-07:00")  # the sensor saw nothing of it
    w.decide()
    assert w.alerts("overdue") == ["firing", "resolved"]


def test_an_observed_pump_out_sets_the_clock_back_too_and_a_partial_one_does_not(world: Make) -> None:
    w = world(last_pump_out="2026-01-01").at("2026-06-01T08:00:00-07:00").level(0.2, 0.1)
    w.seen("2026-05-31T09:00:00-07:00", complete=False).decide()
    assert "overdue" in w.firing()
    w.seen("2026-06-01T06:00:00-07:00").decide()
    assert "overdue" not in w.firing()


@pytest.mark.parametrize(
    ("frequency", "due", "citation"),
    [
        ("P1M", "2026-06-01", "IMC 10-223(4); IMC 10-222(2)(c)"),
        ("P9M", "2026-11-01", "IMC 10-223(4)(b)"),  # the maximum binds whatever a fleet file says
        (None, "2026-08-01", "IMC 10-223(4)(c)"),
    ],
)
def test_the_due_date_is_the_earlier_of_frequency_and_maximum(
    world: Make, frequency: str | None, due: str, citation: str
) -> None:
    w = world(sensored=False, frequency=frequency).at(f"{due}T09:00:00-07:00")
    w.decide()
    assert (w.firing()["calendar_due"].evidence["due"], w.firing()["calendar_due"].citation) == (
        due,
        citation,
    )


def test_a_decision_counts_from_its_effective_date(world: Make) -> None:
    w = world(sensored=False).at("2026-06-25T09:00:00-07:00")
    made = FrequencyDecision("fd-1", "gi1", "approved", "P2M", "2026-06-26", w.now_us, "manager", "data")
    denied = FrequencyDecision("fd-2", "gi1", "denied", "P6M", None, w.now_us + 1, "manager", "no")
    w.change(decisions=(made, denied)).decide()
    assert w.firing() == {}
    w.at("2026-06-26T09:00:00-07:00").decide()
    assert w.firing()["calendar_due"].evidence["due"] == "2026-07-01"


@pytest.mark.parametrize(("ordinance", "due"), [("inglewood", "2026-08-01"), ("sierra-madre", "2026-07-01")])
def test_a_decision_without_a_date_waits_for_notice_where_the_law_asks_for_it(
    world: Make, ordinance: str, due: str
) -> None:
    w = world(ordinance=ordinance, sensored=False).at("2026-06-25T09:00:00-07:00")
    made = FrequencyDecision("fd-1", "gi1", "approved", "P2M", None, w.now_us, "manager", "data")
    w.change(decisions=(made,)).at(f"{due}T09:00:00-07:00").decide()
    assert w.firing()["calendar_due"].evidence["due"] == due


def test_a_short_frequency_is_not_due_from_its_first_day(world: Make) -> None:
    w = world(sensored=False, frequency="P2W").at("2026-05-07T09:00:00-07:00")
    w.decide()
    assert w.firing() == {}
    w.at("2026-05-08T09:00:00-07:00").decide()
    assert w.firing()["calendar_due"].evidence["due"] == "2026-05-15"


# ---- policy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"p_raise": 0.4}, "p_raise, p_clear"),
        ({"crossing_chance": 0.7}, "crossing_chance"),
        ({"cycles_needed": 1}, "cycles_needed"),
        ({"offer_timeout_s": 0.0}, "offer_timeout_s"),
        ({"lead_days": -1}, "lead_days"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy(**keys)


def _over(w: Any) -> Any:
    w.level(0.27, 0.95).decide()
    w.later(1).level(0.27, 0.95).decide()
    assert "over_limit" in w.firing()
    return w
