"""Levels of tides, dams, wells and sewers as a device that sees no layer would send them: no pump-out anywhere.

Excerpts and licences: tests/analysis/data/NOTICE.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.fold import Fleet, initial_state, step
from analysis.model import Floats, InterceptorModel, PumpOut, ReadingBatch, SensorModel

DATA = Path(__file__).parent / "data"
SERIES = sorted(path.stem for path in DATA.glob("level_*.csv"))
FLOORS = (None, 0.0, 0.02, 0.1)  # quantile of the levels that is the floor; None: as the source has it
STATICS = (1.0, 0.99, 0.95, 0.75, 0.5, 0.25)  # quantile of the levels that is the static level


def levels(name: str) -> tuple[Floats, Floats]:
    table = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, 0], table[:, 1]


def pump_outs(time_s: Floats, level: Floats, geometries: list[tuple[float, float]]) -> tuple[PumpOut, ...]:
    """Pump-outs of one series seen by one air-gap sensor for each (floor, static level) [m]."""
    interceptors, sensors, distance = [], [], []
    for number, (floor, static) in enumerate(geometries):
        mount = max(1.5 * static, float(level.max()) - floor + 0.3)
        interceptors.append(InterceptorModel(f"gi-{number}", base_depth_m=static, static_level_m=static))
        sensors.append(SensorModel(f"s-{number}", f"gi-{number}", 1, mount_height_m=mount))
        distance.append(mount - (level - floor))
    fleet = Fleet.of(interceptors, sensors)
    batch = ReadingBatch(
        np.repeat(np.arange(len(geometries)), len(time_s)),
        np.tile(time_s, len(geometries)),
        {"distance_m": np.concatenate(distance)},
    )
    return step(fleet, initial_state(fleet), batch)[1].pump_outs


@pytest.mark.parametrize("name", SERIES)
def test_a_level_that_is_no_tank_makes_no_pump_out(name: str) -> None:
    time_s, level = levels(name)
    floors = [0.0 if q is None else float(np.quantile(level, q)) for q in FLOORS]
    geometries = [(floor, float(np.quantile(level, q)) - floor) for floor in floors for q in STATICS]
    geometries = [(floor, static) for floor, static in geometries if static > 0.002]
    assert len(geometries) >= 15
    assert pump_outs(time_s, level, geometries) == ()


def test_all_ten_series_are_there() -> None:
    assert len(SERIES) == 10


LOW_WATER = [0.7, 0.2, 0.05, 0.05, 0.6]


@pytest.mark.parametrize(
    ("fall", "back", "found"),
    [
        (LOW_WATER, 1.2, 1),
        (LOW_WATER, 0.9, 0),  # does not come back to the static level
        ([1.1, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.05], 1.2, 0),  # falls for six hours
    ],
)
def test_a_level_alone_tells_a_quick_drawdown_from_rest_that_comes_back(
    fall: list[float], back: float, found: int
) -> None:
    level = np.array([1.2] * 150 + fall + [back] * 300)
    time_s = 1800.0 * np.arange(len(level), dtype=np.float64)
    assert len(pump_outs(time_s, level, [(0.0, 1.2)])) == found


def test_a_level_that_only_passes_the_static_level_is_no_tank() -> None:
    # the same quick drawdown, six hours after the level first came to its static height
    level = np.array([0.6] * 150 + [1.2] * 12 + LOW_WATER + [1.2] * 300)
    time_s = 1800.0 * np.arange(len(level), dtype=np.float64)
    assert pump_outs(time_s, level, [(0.0, 1.2)]) == ()
