"""Pump-outs: complete, partial, hidden in a gap, refilling for days, and what must not be taken for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis.model import PumpOut, SensorModel

DAY = 86400.0
T0 = 1_788_246_000.0  # 2026-09-01
BEFORE_DAYS = 6.0
SERVICE = T0 + BEFORE_DAYS * DAY


def pump_outs(bench: Any) -> list[PumpOut]:
    return [p for found in bench.found for p in found.pump_outs]


def drawdown(tank: Any, lowest: float, *, minutes: int = 60, solids: float = 0.01) -> list[Any]:
    """The liquid falls to ``lowest`` and comes back; the layers are in the truck."""
    times = SERVICE + 300.0 * np.arange(1, minutes // 5)
    share = np.abs(np.linspace(-1.0, 1.0, len(times)))
    rows = []
    for t, s in zip(times, share, strict=True):
        surface = lowest + (1.2 - lowest) * s
        rows.append(tank.reading(float(t), min(0.01, surface / 3), solids, surface=float(surface)))
    return rows


def test_a_drawdown_to_the_floor_with_both_layers_gone_is_complete(
    bench: Callable[..., Any], tank: Any
) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed(drawdown(tank, 0.05))
    b.feed(tank.days(SERVICE + 3600, 1.0, 0.008, 0.006))
    [event] = pump_outs(b)
    assert event.complete
    assert event.confidence > 0.9
    assert event.start_s == pytest.approx(SERVICE, abs=900)
    assert event.end_s == pytest.approx(SERVICE + 3600, abs=3600)
    assert event.before[0].fog_m == pytest.approx(0.18, abs=0.01)
    assert event.before[0].solids_m == pytest.approx(0.12, abs=0.01)
    assert event.after[0].fog_m == pytest.approx(0.008, abs=0.006)
    now = b.assess(SERVICE + DAY)
    assert now.fog_m == pytest.approx(0.008, abs=0.006)
    assert now.since_s == event.end_s


def test_skimmed_grease_with_the_solids_left_is_partial(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed(drawdown(tank, 0.7, solids=0.115))
    b.feed(tank.days(SERVICE + 3600, 1.0, 0.015, 0.11))
    [event] = pump_outs(b)
    assert not event.complete
    assert event.after[0].solids_m == pytest.approx(0.11, abs=0.01)
    assert b.assess(SERVICE + DAY).fog_m == pytest.approx(0.015, abs=0.008)


def test_a_tank_drained_with_solids_left_is_partial(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.2))
    b.feed(drawdown(tank, 0.2, solids=0.15))
    b.feed(tank.days(SERVICE + 3600, 1.0, 0.008, 0.15))
    [event] = pump_outs(b)
    assert not event.complete


@pytest.mark.parametrize(
    "wild",
    [
        {"fog_bottom_m": 1.2, "solids_top_m": 0.0},
        {"surface_m": 0.05, "fog_bottom_m": 0.04, "solids_top_m": 0.0},
        {"surface_m": 0.05},
        {"surface_m": 0.5, "fog_bottom_m": 0.49},
    ],
)
def test_a_single_spike_is_never_a_pump_out(
    bench: Callable[..., Any], tank: Any, wild: dict[str, float]
) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    t, values = tank.reading(SERVICE, 0.18, 0.12)
    b.feed([(t, {**values, **wild})])
    b.feed(tank.days(SERVICE + 900, 1.0, 0.18, 0.12))
    assert pump_outs(b) == []
    assert b.assess(SERVICE + DAY).fog_m == pytest.approx(0.18, abs=0.005)


def test_a_service_hidden_in_a_gap_is_dated_in_the_gap(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed(tank.days(SERVICE + 4 * 3600, 1.0, 0.008, 0.006))
    [event] = pump_outs(b)
    assert event.complete
    assert event.confidence < 0.9
    assert SERVICE - 900 <= event.start_s <= event.end_s <= SERVICE + 4 * 3600


def test_layers_too_thin_to_be_found_after_a_gap_are_a_hidden_service(
    bench: Callable[..., Any], tank: Any
) -> None:
    b = bench([SensorModel("s", "gi", 1, min_layer_m=0.02)])
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed([(SERVICE + 4 * 3600 + 900.0 * i, {"surface_m": 1.2}) for i in range(96)])
    [event] = pump_outs(b)
    assert event.complete
    assert event.confidence < 0.9
    assert SERVICE - 900 <= event.start_s <= event.end_s <= SERVICE + 4 * 3600
    now = b.assess(SERVICE + 1.2 * DAY)
    assert 0.0 < now.fog_m < 0.02
    assert now.fog_sd_m > 0.003


def test_a_transducer_that_falls_silent_is_no_service(bench: Callable[..., Any], tank: Any) -> None:
    b = bench([SensorModel("s", "gi", 1, min_layer_m=0.02)])
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed([(SERVICE + 900.0 * i, {"surface_m": 1.2}) for i in range(96)])
    assert pump_outs(b) == []
    assert b.assess(SERVICE + DAY).fog_m == pytest.approx(0.18, abs=0.02)


def test_grease_gone_in_a_gap_with_solids_left_is_not_complete(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed(tank.days(SERVICE + 4 * 3600, 1.0, 0.008, 0.12))
    assert [p.complete for p in pump_outs(b)] == [False]


def test_grease_gone_under_its_eyes_without_a_drawdown_is_tampering(
    bench: Callable[..., Any], tank: Any
) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.2, 0.05))
    b.feed(tank.days(SERVICE, 1.0, 0.01, 0.05))
    assert pump_outs(b) == []
    now = b.assess(SERVICE + DAY)
    assert [flag.flag for flag in now.health] == ["tamper"]
    assert now.fog_m == pytest.approx(0.01, abs=0.008)


def test_a_tank_that_refills_from_the_kitchen_is_judged_before_it_is_full(
    bench: Callable[..., Any], tank: Any
) -> None:
    b = bench()
    b.feed(tank.days(T0, BEFORE_DAYS, 0.18, 0.12))
    b.feed(
        [tank.reading(SERVICE + 300.0 * i, 0.01, 0.01, surface=max(1.2 - 0.2 * i, 0.04)) for i in range(1, 8)]
    )
    filling = [
        tank.reading(SERVICE + 3600 + 900.0 * i, 0.008, 0.006, surface=0.04 + 1.16 * i / 192)
        for i in range(192)
    ]
    b.feed(filling)
    [event] = pump_outs(b)
    assert event.complete
    assert event.end_s < SERVICE + 4 * 3600
    assert b.assess(SERVICE + 2 * DAY).fog_m == pytest.approx(0.008, abs=0.008)


def test_a_device_that_cannot_see_the_liquid_says_so_by_a_lower_confidence(bench: Callable[..., Any]) -> None:
    b = bench([SensorModel("s", "gi", 1, min_layer_m=0.02)])
    rng = np.random.default_rng(5)

    def depths(start: float, fog: float, solids: float, n: int) -> list[Any]:
        rows = []
        for i in range(n):
            seen = np.array([fog, solids]) + rng.normal(0, 0.003, 2)
            fog_m, solids_m = np.where(seen < 0.02, 0.0, seen).tolist()
            rows.append((start + 900.0 * i, {"fog_depth_m": fog_m, "solids_depth_m": solids_m}))
        return rows

    b.feed(depths(T0, 0.18, 0.12, 500))
    b.feed(depths(T0 + 500 * 900.0, 0.008, 0.008, 96))
    [event] = pump_outs(b)
    assert event.complete
    assert event.confidence <= 0.75
    now = b.assess(T0 + 600 * 900.0)
    assert now.fog_m is not None
    assert 0.0 < now.fog_m < 0.02  # below the device's minimum, not nothing


def test_complete_asks_every_monitored_compartment(bench: Callable[..., Any], tank: Any) -> None:
    sensors = [SensorModel("a", "gi", 1), SensorModel("b", "gi", 2)]
    for second, complete in ((0.005, True), (0.15, False)):
        b = bench(sensors, compartments=2)
        for sensor, solids in ((0, 0.12), (1, 0.16)):
            b.feed([(t + sensor, v) for t, v in tank.days(T0, 3.0, 0.15, solids)][: 2 * 96], sensor=sensor)
            b = _alone(b)
        rows = []
        for sensor, left in ((0, 0.006), (1, second)):
            rows += [(sensor, t + sensor, v) for t, v in _service(tank, left)]
        _feed_mixed(b, rows)
        [event] = pump_outs(b)
        assert event.complete is complete
        assert [layer.compartment for layer in event.before] == [1, 2]


def _service(tank: Any, solids: float) -> list[Any]:
    start = T0 + 2 * DAY
    surface = [0.8, 0.3, 0.06, 0.05, 0.4, 0.9]
    rows = [tank.reading(start + 300.0 * (i + 1), 0.01, solids, surface=s) for i, s in enumerate(surface)]
    return rows + [tank.reading(start + 3600 + 900.0 * i, 0.006, solids) for i in range(40)]


def _feed_mixed(b: Any, rows: list[Any]) -> None:
    for sensor, t, values in sorted(rows, key=lambda r: r[1]):
        b.feed([(t, values)], sensor=sensor)


def _alone(b: Any) -> Any:
    """Let the other compartment's sensor speak from the beginning too."""
    newest = np.full_like(b.state.interceptor.newest_s, -np.inf)
    b.state = replace(b.state, interceptor=replace(b.state.interceptor, newest_s=newest))
    return b


def test_the_learned_rate_outlives_a_pump_out(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 30.0, 0.01, 0.02, fog_rate=0.005))
    learned = b.assess(T0 + 30 * DAY)
    start = T0 + 30 * DAY
    levels = [0.7, 0.2, 0.05, 0.5]
    b.feed([tank.reading(start + 600.0 * (i + 1), 0.005, 0.005, surface=s) for i, s in enumerate(levels)])
    b.feed(tank.days(start + 3600, 0.5, 0.006, 0.006, fog_rate=0.005))
    after = b.assess(start + 0.6 * DAY)
    assert learned.rate_m_per_day == pytest.approx(0.005, rel=0.15)
    assert after.rate_m_per_day == pytest.approx(0.005, rel=0.3)
    assert after.rate_sd_m_per_day > learned.rate_sd_m_per_day
    assert not after.own_evidence


def test_pressure_sees_the_drawdown_and_claims_nothing_of_the_layers(bench: Callable[..., Any]) -> None:
    b = bench([SensorModel("s", "gi", 1, mount_height_m=0.0)])
    rest = [(T0 + 900.0 * i, {"pressure_pa": 9777.0 * 1.2}) for i in range(300)]
    start = T0 + 300 * 900.0
    falling = [(start + 600.0 * i, {"pressure_pa": 9777.0 * h}) for i, h in enumerate([0.8, 0.3, 0.05, 0.05])]
    back = [(start + 3600 + 900.0 * i, {"pressure_pa": 9777.0 * 1.2}) for i in range(20)]
    b.feed(rest + falling + back)
    [event] = pump_outs(b)
    assert not event.complete
    assert event.after[0].fog_m is None
    assert event.after[0].solids_m is None
