"""Health flags that need more than one reading to be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis.model import SensorModel

T0 = 1_788_246_000.0
STEP = 900.0
RANGER = SensorModel("s", "gi", 1, mount_height_m=1.5)


def flags(assessment: Any) -> set[str]:
    return {flag.flag for flag in assessment.health}


def level(percent: float) -> dict[str, float]:
    """Air gap below a sensor at 1.5 m, for a level in per cent of that height."""
    return {"distance_m": 1.5 * (1.0 - percent / 100.0)}


def test_high_and_rising_then_silent_may_be_overfull(bench: Callable[..., Any]) -> None:
    """Field report L35: 80, 86, 91 %, then two missed intervals."""
    b = bench([RANGER])
    b.feed([(T0 + k * STEP, level(80.0)) for k in range(8)])
    b.feed([(T0 + 8 * STEP, level(86.0)), (T0 + 9 * STEP, level(91.0))])
    last = T0 + 9 * STEP
    assert "possibly_overfull" not in flags(b.assess(last + 1.9 * STEP))
    overfull = b.assess(last + 2.1 * STEP)
    assert "possibly_overfull" in flags(overfull)
    assert next(f.since_s for f in overfull.health if f.flag == "possibly_overfull") == last
    b.feed([(last + 3 * STEP, level(91.0))])  # it speaks again
    assert "possibly_overfull" not in flags(b.assess(last + 3 * STEP + 60))


@pytest.mark.parametrize("levels", [(20.0, 20.0, 20.0), (91.0, 86.0, 80.5), (86.0, 86.0, 86.0), (80, 80, 81)])
def test_low_falling_or_still_levels_before_a_silence_are_only_silent(
    bench: Callable[..., Any], levels: tuple[float, ...]
) -> None:
    b = bench([RANGER])
    b.feed([(T0 + k * STEP, level(percent)) for k, percent in enumerate(levels)])
    told = flags(b.assess(T0 + 10 * STEP))
    assert "silent" in told
    assert "possibly_overfull" not in told


def test_a_wrong_clock_is_told_until_it_is_right_again(bench: Callable[..., Any], tank: Any) -> None:
    b = bench()
    rows = [tank.reading(T0 + k * STEP, 0.05, 0.05) for k in range(6)]
    b.feed_batch(replace(tank.batch(rows), restamped=np.array([False, False, True, True, True, True])))
    (clock,) = [f for f in b.assess(T0 + 6 * STEP).health if f.flag == "clock"]
    assert (clock.sensor, clock.since_s) == ("s", T0 + 2 * STEP)
    b.feed([tank.reading(T0 + 6 * STEP, 0.05, 0.05)])
    assert "clock" not in flags(b.assess(T0 + 7 * STEP))


def test_marks_of_another_length_are_refused(bench: Callable[..., Any], tank: Any) -> None:
    batch = tank.batch([tank.reading(T0, 0.05, 0.05)])
    with pytest.raises(ValueError, match="restamped has 2 values for 1 readings"):
        bench().feed_batch(replace(batch, restamped=np.array([True, False])))


def test_a_restless_sensor_that_repeats_itself_is_no_evidence(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0)
    b.feed(tank.days(T0, 20.0, 0.05, 0.08, fog_rate=0.004))
    last, values = tank.reading(T0 + 20 * 86400.0, 0.13, 0.08)
    b.feed([(last + k * STEP, values) for k in range(5 * 96)])
    now = b.assess(last + 5 * 86400.0)
    assert now.fog_m == pytest.approx(0.15, abs=0.008)  # it goes on at 4 mm/day …
    assert now.fog_sd_m > 0.003  # … and says how unsure that is
    assert abs(now.fog_m - 0.15) < 2 * now.fog_sd_m


def test_a_quiet_sensor_may_repeat_itself(bench: Callable[..., Any]) -> None:
    """Whole centimetres: equal for days, and still evidence that nothing grows."""
    b = bench([SensorModel("s", "gi", 1, resolution_m=0.01)], last_pump_out_s=T0)
    fog = np.round(0.05 + 0.0005 * np.arange(60) / 1.0, 2)
    rows = [
        (T0 + (day * 96 + k) * STEP, {"surface_m": 1.2, "fog_bottom_m": 1.2 - fog[day], "solids_top_m": 0.08})
        for day in range(60)
        for k in range(96)
    ]
    b.feed(rows)
    assert b.assess(T0 + 60 * 86400.0).fog_m == pytest.approx(0.08, abs=0.006)


def test_a_device_on_another_supply_has_no_flat_battery(bench: Callable[..., Any]) -> None:
    b = bench()
    # as the tide gauge on a bench: 0.05 to 0.3 V and 0 % while it lives on USB; then its battery; then that runs down
    b.feed([(T0 + 900.0 * i, {"battery_v": v, "battery_pct": 0.0}) for i, v in enumerate([0.26, 0.05, 0.3])])
    assert b.assess(T0 + 1800.0).health == ()
    b.feed([(T0 + 3600.0, {"battery_v": 4.1, "battery_pct": 88.0})])
    assert b.assess(T0 + 3600.0).health == ()
    b.feed([(T0 + 4500.0, {"battery_v": 2.96, "battery_pct": 21.0})])
    assert [flag.flag for flag in b.assess(T0 + 4500.0).health] == ["low_battery"]
