"""One interceptor, its sensors and their readings, in a few words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from analysis.assess import assess
from analysis.fold import Fleet, FleetState, initial_state, step
from analysis.model import Assessment, Found, InterceptorModel, ReadingBatch, SensorModel

DAY = 86400.0
Row = tuple[float, dict[str, float]]  # time [s], SI columns


def batch_of(rows: Sequence[Row], sensor: int = 0) -> ReadingBatch:
    names = sorted({name for _, values in rows for name in values})
    return ReadingBatch(
        np.full(len(rows), sensor, dtype=np.int64),
        np.array([t for t, _ in rows], dtype=np.float64),
        {name: np.array([values.get(name, np.nan) for _, values in rows]) for name in names},
    )


@dataclass
class Bench:
    """A fleet with its running state; ``feed`` folds readings and keeps what was found."""

    fleet: Fleet
    state: FleetState
    found: list[Found] = field(default_factory=list)

    def feed(self, rows: Sequence[Row], sensor: int = 0) -> Found:
        self.state, found = step(self.fleet, self.state, batch_of(rows, sensor))
        self.found.append(found)
        return found

    def feed_batch(self, batch: ReadingBatch) -> Found:
        self.state, found = step(self.fleet, self.state, batch)
        self.found.append(found)
        return found

    def assess(self, now_s: float) -> Assessment:
        return assess(self.fleet, self.state, now_s)[0]


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """``bench(sensors=[…], last_pump_out_s=…, …)``: one interceptor 1.2 m deep with these sensors."""

    def build(sensors: Sequence[SensorModel] | None = None, **interceptor: Any) -> Bench:
        model = replace(InterceptorModel("gi", base_depth_m=1.2, static_level_m=1.2), **interceptor)
        given = [SensorModel("s", "gi", 1)] if sensors is None else list(sensors)
        fleet = Fleet.of([model], given)
        return Bench(fleet, initial_state(fleet))

    return build


@dataclass(frozen=True)
class Tank:
    """Layers seen by a two-interface device: noise of 2 mm from a seeded generator."""

    rng: np.random.Generator

    @staticmethod
    def batch(rows: Sequence[Row]) -> ReadingBatch:
        return batch_of(rows)

    def reading(self, t: float, fog: float, solids: float, surface: float = 1.2) -> Row:
        noise = self.rng.normal(0.0, 0.002, 3)
        return t, {
            "surface_m": surface + noise[0],
            "fog_bottom_m": surface - fog + noise[1],
            "solids_top_m": solids + noise[2],
        }

    def days(
        self, start_s: float, days: float, fog: float, solids: float, *, fog_rate: float = 0.0
    ) -> list[Row]:
        """Readings every quarter of an hour; FOG grows by ``fog_rate`` [m/day]."""
        times = start_s + 900.0 * np.arange(round(days * 96))
        return [self.reading(float(t), fog + fog_rate * (t - start_s) / DAY, solids) for t in times]


@pytest.fixture
def tank() -> Tank:
    return Tank(np.random.default_rng(20260901))
