"""Assessments: honest widths, unseen layers, silence and the other health flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from analysis.assess import assess
from analysis.fold import Fleet, initial_state
from analysis.model import InterceptorModel, Levels, ReadingBatch, SensorModel

DAY = 86400.0
T0 = 1_788_246_000.0


def flags(assessment: Any) -> set[str]:
    return {flag.flag for flag in assessment.health}


def test_both_layers_and_their_fraction(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 40.0, 0.01, 0.06, fog_rate=0.004))
    now = b.assess(T0 + 40 * DAY)
    assert now.fog_m == pytest.approx(0.17, abs=0.003)
    assert now.solids_m == pytest.approx(0.06, abs=0.003)
    assert now.fraction == pytest.approx(0.23 / 1.2, abs=0.005)
    assert now.fraction == pytest.approx((now.fog_m + now.solids_m) / 1.2)
    assert now.rate_m_per_day == pytest.approx(0.004, rel=0.15)
    assert now.p_over_limit < 0.01
    assert now.own_evidence
    assert flags(now) == set()
    # 70 mm to go at 4 mm/day
    assert now.crossing_s is not None
    assert (now.crossing_s[2] - now.time_s) / DAY == pytest.approx(17.5, abs=3.0)
    assert now.crossing_s[0] > now.time_s
    assert now.compartments[0].fog_m == now.fog_m


def test_over_the_limit_is_probable_and_dated_in_the_past(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 60.0, 0.02, 0.1, fog_rate=0.004))
    now = b.assess(T0 + 60 * DAY)
    assert now.p_over_limit > 0.99
    # 0.02 + 0.1 + 0.004 t = 0.3 at day 45
    assert now.crossing_s is not None
    assert (now.crossing_s[2] - T0) / DAY == pytest.approx(45.0, abs=2.0)
    assert (np.diff(now.crossing_s) >= 0).all()


def test_silence_widens_and_says_so(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 20.0, 0.01, 0.05, fog_rate=0.004))
    last = T0 + 20 * DAY - 900
    near, far = b.assess(last + 600), b.assess(last + 10 * DAY)
    assert flags(near) == set()
    assert flags(far) == {"silent"}
    assert far.health[0].since_s == last
    assert far.fog_m == pytest.approx(0.01 + 30 * 0.004, abs=0.01)
    assert far.fog_sd_m > 2 * near.fog_sd_m
    assert flags(b.assess(last + 3599)) == set()
    assert flags(b.assess(last + 3601)) == {"silent"}


def test_a_slow_sensor_is_silent_after_three_intervals(bench: Callable[..., Any], tank: Any) -> None:
    b = bench([SensorModel("s", "gi", 1, interval_s=7200.0)])
    b.feed([tank.reading(T0, 0.1, 0.1)])
    assert flags(b.assess(T0 + 6 * 3600)) == set()
    assert flags(b.assess(T0 + 6 * 3600 + 1)) == {"silent"}


def test_a_gap_is_told_for_a_day(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, 2.0, 0.1, 0.1))
    b.feed(tank.days(T0 + 2.5 * DAY, 1.6, 0.1, 0.1)[:20])
    assert flags(b.assess(T0 + 2.5 * DAY + 5 * 3600)) == {"gap"}


@pytest.mark.parametrize("column", ["distance_m", "pressure_pa"])
def test_what_a_principle_cannot_see_is_unknown(bench: Callable[..., Any], column: str) -> None:
    value = {"distance_m": 0.3, "pressure_pa": 11_700.0}[column]
    b = bench([SensorModel("s", "gi", 1, mount_height_m=1.5 if column == "distance_m" else 0.0)])
    b.feed([(T0 + 900.0 * i, {column: value}) for i in range(20)])
    now = b.assess(T0 + 20 * 900.0)
    assert (now.fog_m, now.fog_sd_m, now.solids_m, now.solids_sd_m) == (None,) * 4
    assert (now.fraction, now.fraction_sd, now.p_over_limit, now.crossing_s) == (None,) * 4
    assert now.rate_m_per_day is None
    assert flags(now) == {"unobservable"}
    assert {flag.quantity for flag in now.health} == {"fog_depth", "solids_depth"}


def test_one_visible_layer_is_never_called_the_fraction(bench: Callable[..., Any]) -> None:
    b = bench([SensorModel("s", "gi", 1, mount_height_m=1.5)])
    b.feed([(T0 + 900.0 * i, {"distance_m": 0.3, "fog_bottom_m": 1.05}) for i in range(20)])
    now = b.assess(T0 + 20 * 900.0)
    assert now.fog_m == pytest.approx(0.15, abs=0.01)
    assert now.solids_m is None
    assert now.fraction is None


def test_an_inlet_probe_alone_is_no_level_sensor(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed([(T0 + 900.0 * i, {"inlet_c": 40.0}) for i in range(20)])
    assert flags(b.assess(T0 + 20 * 900.0)) == set()


def test_before_the_first_reading_a_known_pump_out_gives_the_prior_with_its_width(
    bench: Callable[..., Any],
) -> None:
    now = bench(last_pump_out_s=T0).assess(T0 + 60 * DAY)
    # mean rate 0.319 % of 1.2 m a day, 60 days, and a residual of 0.5 % a layer
    assert now.fraction == pytest.approx(0.01 + 60 * 0.003194, abs=0.002)
    assert now.fraction_sd == pytest.approx(60 * 0.00254, rel=0.1)
    assert not now.own_evidence


def test_nothing_known_is_null(bench: Callable[..., Any]) -> None:
    now = bench().assess(T0)
    assert now.fraction is None
    assert now.crossing_s is None
    assert now.last_reading_s is None


def test_an_interceptor_without_sensors_is_unknown_not_empty() -> None:
    fleet = Fleet.of([InterceptorModel("bare", 1.2, 1.2, last_pump_out_s=T0)], [])
    [now] = assess(fleet, initial_state(fleet), T0 + DAY)
    assert now.fraction is None
    assert now.compartments == ()
    assert now.since_s == T0


def test_the_fullest_monitored_compartment_speaks(bench: Callable[..., Any], tank: Any) -> None:
    b = bench([SensorModel("a", "gi", 1), SensorModel("b", "gi", 2)], compartments=2)
    for i in range(100):
        b.feed([tank.reading(T0 + 900.0 * i, 0.05, 0.03)], sensor=0)
        b.feed([tank.reading(T0 + 900.0 * i + 60, 0.14, 0.09)], sensor=1)
    now = b.assess(T0 + DAY)
    assert now.compartment == 2
    assert [c.fog_m for c in now.compartments] == pytest.approx([0.05, 0.14], abs=0.005)


def test_two_sensors_of_one_compartment_are_fused(bench: Callable[..., Any], tank: Any) -> None:
    b = bench([SensorModel("a", "gi", 1), SensorModel("b", "gi", 1, min_layer_m=0.02)])
    for i in range(200):
        b.feed([tank.reading(T0 + 900.0 * i, 0.10, 0.06)], sensor=0)
        b.feed([(T0 + 900.0 * i + 60, {"fog_depth_m": 0.11, "solids_depth_m": 0.066})], sensor=1)
    now = b.assess(T0 + 2 * DAY)
    assert len(now.compartments) == 1
    assert 0.10 < now.fog_m < 0.11


def test_a_sagging_battery_is_low(bench: Callable[..., Any], tank: Any) -> None:
    for battery in ({"battery_v": 2.9}, {"battery_pct": 15.0}):
        b = bench()
        rows = tank.days(T0, 1.0, 0.1, 0.1)
        full = {"battery_v": 3.62} if "battery_v" in battery else {"battery_pct": 90.0}
        b.feed([(t, {**v, **full}) for t, v in rows[:50]])
        assert flags(b.assess(rows[49][0])) == set()
        b.feed([(t, {**v, **battery}) for t, v in rows[50:]])
        now = b.assess(rows[-1][0])
        assert flags(now) == {"low_battery"}
        assert now.health[0].since_s == rows[50][0]


def test_values_that_physics_forbids_are_out_of_range(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, 3.0, 0.1, 0.1))
    t = T0 + 3 * DAY
    b.feed([(t, {"surface_m": 1.2, "fog_bottom_m": 0.4, "solids_top_m": 0.9})])  # 1.7 m of layers in 1.2 m
    now = b.assess(t)
    assert flags(now) == {"out_of_range"}
    assert now.fog_m == pytest.approx(0.1, abs=0.005)
    b.feed([tank.reading(t + 900, 0.1, 0.1)])
    assert flags(b.assess(t + 900)) == set()


def test_frozen_levels_under_a_moving_temperature_are_stuck(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed([(t, {**v, "tank_c": 24.0}) for t, v in tank.days(T0, 1.0, 0.1, 0.1)])
    _, frozen = tank.reading(T0 + DAY, 0.1, 0.1)
    times = T0 + DAY + 900.0 * np.arange(4 * 96)
    b.feed([(float(t), {**frozen, "tank_c": 24.0 + 3 * np.sin(i / 15)}) for i, t in enumerate(times)])
    now = b.assess(float(times[-1]))
    assert flags(now) == {"stuck"}
    assert now.health[0].since_s == times[0]


def test_a_surface_above_the_outlet_for_an_hour_is_a_high_level(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, 2.0, 0.1, 0.1))
    start = T0 + 2 * DAY
    high = [tank.reading(start + 900.0 * i, 0.1, 0.1, surface=1.38) for i in range(8)]
    b.feed(high[:3])
    assert "high_liquid_level" not in flags(b.assess(start + 1800))
    b.feed(high[3:])
    assert "high_liquid_level" in flags(b.assess(start + 7 * 900))
    b.feed([tank.reading(start + 8 * 900, 0.1, 0.1)])
    assert "high_liquid_level" not in flags(b.assess(start + 8 * 900))


def test_a_surge_does_not_move_the_layers(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, 3.0, 0.1, 0.1))
    foam = []
    for i in range(8):
        t, values = tank.reading(T0 + 3 * DAY + 900.0 * i, 0.1, 0.1)
        foam.append((t, {**values, "surface_m": values["surface_m"] + 0.06}))
    b.feed(foam)
    assert b.assess(T0 + 3 * DAY + 7200).fog_m == pytest.approx(0.1, abs=0.006)


def test_a_rods_width_is_not_shrunk_by_many_readings(bench: Callable[..., Any]) -> None:
    levels = Levels(air=0.05, fog=0.25, water=1.0, solids=0.7)
    b = bench([SensorModel("s", "gi", 1, pitch_m=0.05, levels=levels)])
    profile = np.array([0.7] * 3 + [1.0] * 17 + [0.25] * 4 + [0.05] * 4)
    n = 30 * 96
    b.feed_batch(ReadingBatch(np.zeros(n, np.int64), T0 + 900.0 * np.arange(n), {}, np.tile(profile, (n, 1))))
    now = b.assess(T0 + 30 * DAY)
    assert now.fog_m == pytest.approx(0.2, abs=0.025)
    assert now.solids_m == pytest.approx(0.15, abs=0.025)
    assert now.fog_sd_m > 0.004
    assert now.solids_sd_m > 0.004


def test_only_the_asked_for_are_assessed_in_their_order() -> None:
    fleet = Fleet.of(
        [InterceptorModel(f"i{n}", 1.2, 1.2) for n in range(4)],
        [SensorModel(f"s{n}", f"i{n}", 1) for n in range(4)],
    )
    rows = assess(fleet, initial_state(fleet), T0, indices=[3, 1])
    assert [row.interceptor for row in rows] == ["i3", "i1"]
    assert assess(fleet, initial_state(fleet), T0, indices=[]) == []
