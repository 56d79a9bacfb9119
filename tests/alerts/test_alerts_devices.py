"""Silence, health flags and hot discharges; every decision is taken twice (see World.decide)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from analysis.model import HealthFlag

Make = Callable[..., Any]
NOT_A_FINDING = "not a determination of violation"


# ---- devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval_s", "hours", "silent"),
    [(900.0, 0.99, False), (900.0, 1.0, True), (21_600.0, 17.9, False), (21_600.0, 18.0, True)],
)
def test_silent_after_three_intervals_at_least_an_hour(
    world: Make, interval_s: float, hours: float, silent: bool
) -> None:
    w = world().level(0.1, 0.0)
    w.change(sensors=(replace(w.situation.sensors[0], interval_s=interval_s),))
    w.later(hours).decide()
    assert ("sensor_silent" in w.firing()) is silent


def test_silence_ends_when_the_sensor_is_heard(world: Make) -> None:
    w = world().level(0.1, 0.0)
    w.later(3).decide()
    alert = w.firing()["sensor_silent"]
    assert (alert.sensor, alert.flag, alert.basis) == ("d-1", "silent", "device")
    w.level(0.1, 0.0).decide()
    assert w.alerts("sensor_silent") == ["firing", "resolved"]


def test_a_sensor_never_heard_has_not_begun(world: Make) -> None:
    w = world().later(1000)
    w.decide()
    assert "sensor_silent" not in w.firing()


@pytest.mark.parametrize(
    ("flag", "kind", "severity"),
    [
        ("low_battery", "low_battery", "info"),
        ("stuck", "sensor_fault", "warning"),
        ("tamper", "tamper_suspected", "warning"),
        ("high_liquid_level", "high_liquid_level", "critical"),
    ],
)
def test_health_flags_are_work_for_the_sensors_owner(
    world: Make, flag: str, kind: str, severity: str
) -> None:
    w = world()
    one = HealthFlag(flag, "d-1", None, w.now_us / 1e6)
    w.level(0.1, 0.0, health=(one, replace(one, quantity="surface"))).decide()
    assert (w.firing()[kind].severity, w.firing()[kind].flag) == (severity, flag)
    w.later(1).level(0.1, 0.0).decide()
    assert w.alerts(kind) == ["firing", "resolved"]


def test_a_high_level_holds_while_its_sensor_is_silent(world: Make) -> None:
    w = world()
    w.level(0.1, 0.0, health=(HealthFlag("high_liquid_level", "d-1", None, w.now_us / 1e6),)).decide()
    w.later(12).level(0.1, 0.0, age_h=12).decide()
    assert set(w.firing()) == {"high_liquid_level", "sensor_silent"}


# ---- hot discharges ----------------------------------------------------------------------------------


def test_a_hot_discharge_is_one_alert_and_repeated_ones_are_grouped(world: Make) -> None:
    w = world().at("2026-06-01T12:00:00-07:00").hot("2026-06-01T11:55:00-07:00", None, peak_c=63.0)
    w.decide()
    first = w.firing()["hot_discharge"]
    assert (first.citation, first.severity) == ("IMC 10-221(2)(c)", "warning")
    assert NOT_A_FINDING in first.reason
    w.later(0.5).hot("2026-06-01T11:55:00-07:00", "2026-06-01T12:10:00-07:00").decide()
    w.later(6).hot("2026-06-01T18:00:00-07:00", "2026-06-01T18:05:00-07:00").decide()
    assert w.alerts("hot_discharge") == ["firing", "recovering", "firing", "recovering"]
    w.at("2026-06-02T18:04:59-07:00").decide()
    assert w.alerts("hot_discharge")[-1] == "recovering"
    w.at("2026-06-02T18:05:00-07:00").decide()
    assert w.alerts("hot_discharge")[-1] == "resolved"
    assert {a.id for one in w.decided for a in one.alerts if a.kind == "hot_discharge"} == {first.id}


def test_a_hot_discharge_over_before_it_was_known_is_told_once(world: Make) -> None:
    w = world().at("2026-06-01T12:00:00-07:00")
    w.hot("2026-06-01T11:00:00-07:00", "2026-06-01T11:20:00-07:00", peak_c=70.0).decide()
    told = [a for one in w.decided for a in one.alerts]
    assert [a.state for a in told] == ["firing", "recovering"]
    assert "peak 158 °F, 20 min in all, confirmed" in told[0].reason


def test_old_hot_discharges_out_of_a_backfill_never_page(world: Make) -> None:
    w = world().hot("2026-05-20T11:00:00-07:00", "2026-05-20T11:20:00-07:00")
    assert w.decide().alerts == ()


def test_a_possible_hot_discharge_rises_when_it_is_confirmed(world: Make) -> None:
    w = world().at("2026-06-01T12:00:00-07:00").hot("2026-06-01T11:55:00-07:00", None, status="possible")
    w.decide()
    assert w.firing()["hot_discharge"].severity == "info"
    w.later(0.25).hot("2026-06-01T11:55:00-07:00", None).decide()
    assert w.firing()["hot_discharge"].severity == "warning"


def test_short_ones_are_told_in_seconds(world: Make) -> None:
    w = world().at("2026-06-01T12:00:00-07:00")
    w.hot("2026-06-01T11:00:00-07:00", "2026-06-01T11:00:40-07:00", peak_c=70.0).decide()
    assert "peak 158 °F, 40 s in all, confirmed" in w.decided[0].alerts[0].reason


@pytest.mark.parametrize(("ordinance", "cited"), [("sierra-madre", True), ("inglewood", False)])
def test_pulses_as_regular_as_a_machines_are_a_pattern_and_no_finding(
    world: Make, ordinance: str, cited: bool
) -> None:
    w = world(ordinance=ordinance).at("2026-06-01T16:30:00-07:00")
    for minute in (0, 45, 92, 137, 180, 227, 270):
        at = f"2026-06-01T{11 + minute // 60}:{minute % 60:02d}"
        w.hot(f"{at}:00-07:00", f"{at}:50-07:00", peak_c=68.0)
    alert = w.decide().alerts[0]
    assert "regularly, about every 45 min" in alert.reason
    assert ("SMMC 13.14.070.E" in alert.reason) is cited
    assert NOT_A_FINDING in alert.reason
    assert alert.evidence["regular_gap_s"] == 2700.0


def test_pulses_by_chance_are_no_pattern(world: Make) -> None:
    w = world(ordinance="sierra-madre").at("2026-06-01T16:30:00-07:00")
    for minute in (0, 4, 71, 80, 165, 175, 290):
        at = f"2026-06-01T{11 + minute // 60}:{minute % 60:02d}"
        w.hot(f"{at}:00-07:00", f"{at}:50-07:00", peak_c=68.0)
    alert = w.decide().alerts[0]
    assert "regularly" not in alert.reason
    assert alert.evidence["regular_gap_s"] is None
