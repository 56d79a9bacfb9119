"""Devices that see one layer: what they may claim of a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analysis.model import SensorModel

DAY = 86400.0
STEP = 900.0
T0 = 1_788_246_000.0
SONAR = SensorModel("s", "gi", 1, sonar_height_m=0.9, min_layer_m=0.02)


def pump_outs(b: Any) -> list[Any]:
    return [p for found in b.found for p in found.pump_outs]


def upward(tank: Any, time: float, fog: float, surface: float = 1.2) -> tuple[float, dict[str, float]]:
    at, values = tank.reading(time, fog, 0.0, surface=surface)
    return at, {"surface_m": values["surface_m"], "fog_bottom_m": values["fog_bottom_m"]}


@pytest.mark.parametrize(("lowest", "complete"), [(0.06, True), (0.35, False)])
def test_liquid_seen_at_the_floor_leaves_no_room_for_the_layer_it_cannot_see(
    bench: Callable[..., Any], tank: Any, lowest: float, complete: bool
) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed([upward(tank, T0 + k * STEP, 0.10) for k in range(10 * 96)])
    at = T0 + 10 * DAY
    b.feed([upward(tank, at + k * STEP, 0.05 / (k + 1), s) for k, s in enumerate((0.8, 0.4, lowest))])
    b.feed([upward(tank, at + (3 + k) * STEP, 0.003) for k in range(30)])
    (found,) = pump_outs(b)
    assert found.complete is complete
    assert found.confidence <= 0.8  # less than where both layers were seen to go
    assert found.after[0].solids_m is None


def downward(time: float, solids: float) -> tuple[float, dict[str, float]]:
    return time, {"echo_solids_s": 2 * (0.9 - solids) / 1496.7}  # water at 25 °C


def test_a_lone_sonar_that_hears_less_for_an_hour_has_seen_no_service(bench: Callable[..., Any]) -> None:
    b = bench([SONAR], last_pump_out_s=T0)
    b.feed([downward(T0 + k * STEP, 0.06) for k in range(10 * 96)])
    b.feed([downward(T0 + 10 * DAY + k * STEP, 0.01) for k in range(5)])
    b.feed([downward(T0 + 10 * DAY + (5 + k) * STEP, 0.06) for k in range(96)])
    assert pump_outs(b) == []
    assert b.assess(T0 + 12 * DAY).compartments[0].solids_m == pytest.approx(0.06, abs=0.01)


def test_a_lone_sonar_tells_what_lasts(bench: Callable[..., Any]) -> None:
    b = bench([SONAR], last_pump_out_s=T0)
    b.feed([downward(T0 + k * STEP, 0.12) for k in range(10 * 96)])
    b.feed([downward(T0 + 10 * DAY + k * STEP, 0.005) for k in range(40)])
    (found,) = pump_outs(b)
    assert found.complete is False  # the grease it cannot see may still be there
    assert abs(found.start_s - (T0 + 10 * DAY)) < 3600
