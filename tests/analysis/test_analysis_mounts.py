"""A sensor that slipped on its mount or hangs loose is told as such: no pump-out, no other layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

DAY = 86400.0
STEP = 900.0
T0 = 1_788_246_000.0


def flags(assessment: Any) -> set[str]:
    return {flag.flag for flag in assessment.health}


def lifted(row: tuple[float, dict[str, float]], by: float) -> tuple[float, dict[str, float]]:
    """What a mount that slipped down by this much [m] says: all heights are larger."""
    time, values = row
    return time, {name: value + by for name, value in values.items()}


@pytest.mark.parametrize("by", [0.095, 0.040, -0.040, 0.020, -0.020])
def test_all_heights_shifted_alike_is_a_moved_mount(bench: Callable[..., Any], tank: Any, by: float) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 30.0, 0.05, 0.08, fog_rate=0.002))
    before = b.assess(T0 + 30 * DAY)
    later = tank.days(T0 + 30 * DAY, 3.0, 0.11, 0.08, fog_rate=0.002)
    b.feed([lifted(row, by) for row in later])
    now = b.assess(T0 + 33 * DAY)
    assert flags(now) == {"moved"}
    assert [p for found in b.found for p in found.pump_outs] == []
    assert now.solids_m == pytest.approx(0.08, abs=0.004)
    assert now.fog_m == pytest.approx(before.fog_m + 3 * 0.002, abs=0.004)
    (moved,) = now.health
    assert T0 + 30 * DAY < moved.since_s < T0 + 30.5 * DAY
    # put back into its place
    b.feed(tank.days(T0 + 33 * DAY, 2.0, 0.116, 0.08, fog_rate=0.002))
    again = b.assess(T0 + 35 * DAY)
    assert again.solids_m == pytest.approx(0.08, abs=0.004)
    assert [p for found in b.found for p in found.pump_outs] == []


def test_a_surge_moves_nothing(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 20.0, 0.05, 0.08))
    b.feed([tank.reading(T0 + 20 * DAY + k * STEP, 0.05, 0.08, surface=1.23) for k in range(20)])
    b.feed(tank.days(T0 + 21 * DAY, 1.0, 0.05, 0.08))
    now = b.assess(T0 + 22 * DAY)
    assert "moved" not in flags(now)
    assert now.solids_m == pytest.approx(0.08, abs=0.003)


@pytest.mark.parametrize("hours", [3, 12, 48])
def test_heights_that_swing_are_no_liquid(bench: Callable[..., Any], tank: Any, hours: int) -> None:
    rng = np.random.default_rng(hours)
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 30.0, 0.05, 0.08, fog_rate=0.002))
    start = T0 + 30 * DAY
    told = set()
    for k in range(hours * 4):
        surface, fog, solids = 1.5 * rng.random(), 0.5 * rng.random(), 0.3 * rng.random()
        b.feed([(start + k * STEP, {
            "surface_m": surface, "fog_bottom_m": surface * (1 - fog), "solids_top_m": surface * solids,
        })])  # fmt: skip
        told |= flags(b.assess(start + k * STEP + 60))
    assert "cover_open" in told
    end = start + hours * 3600
    b.feed(tank.days(end, 2.0, 0.11, 0.08, fog_rate=0.002))
    now = b.assess(end + 2 * DAY)
    assert "cover_open" not in flags(now)
    assert [p for found in b.found for p in found.pump_outs if p.complete] == []
    assert now.solids_m == pytest.approx(0.08, abs=0.006)
    assert now.fog_m == pytest.approx(0.114, abs=0.006)


def test_a_pump_out_falls_once_and_comes_back_once(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 30.0, 0.10, 0.10))
    at = T0 + 30 * DAY
    falling = [tank.reading(at + k * STEP, 0.03, 0.03, surface=s) for k, s in enumerate((0.7, 0.15, 0.06))]
    filling = [
        tank.reading(at + (3 + k) * STEP, 0.004, 0.004, surface=min(1.2, 0.2 * (k + 1))) for k in range(20)
    ]
    b.feed(falling + filling)
    now = b.assess(at + 6 * 3600)
    assert flags(now) == set()
    (pump_out,) = [p for found in b.found for p in found.pump_outs]
    assert pump_out.complete
