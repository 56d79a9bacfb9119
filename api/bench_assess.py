"""`quarterline bench assess`: a fleet stepped by one reading each and judged, and its crossing quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from analysis.assess import crossings, outlook
from analysis.fleet import Fleet
from analysis.fold import FleetState, initial_state, step
from analysis.glance import glance
from analysis.model import ReadingBatch
from api.bench_fleet import bench_fleet, nbytes, rounds
from api.bench_fold import SIZES, state_bytes
from api.bench_result import Figures, Line, copy_s, forget_peak, peak_mb, seconds

JUDGED_GOAL: Final = 1e6  # a million in a second
MEMORY_GOAL_MB: Final = 1000.0
QUANTILES_GOAL: Final = 1e5
_WARM: Final = 3  # readings of each before
_CROSSINGS: Final = 20_000  # quantiles are asked of so many at once

Say = Callable[[str], None]


def bench_assess(
    *, interceptors: int, readings: int, repeats: int, progress: Say = lambda _: None
) -> Figures:
    """Step ``interceptors`` by a reading each and judge them (state, health, P(over limit)), ``repeats`` times.

    ``readings`` of each have been folded before.
    """
    fleet = bench_fleet(interceptors)
    state = _warm(fleet, interceptors, readings)
    judged, sizes, peak = [], 0, None
    for run in range(repeats):
        (batch,) = rounds(interceptors, 1, start=readings + run)
        sizes = nbytes(batch)
        forget_peak()
        after: list[FleetState] = []
        took = seconds(lambda s=state, b=batch, a=after: a.append(step_and_judge(fleet, s, b)))  # type: ignore[misc]
        (state,) = after
        peak = max(peak_mb() or 0.0, peak or 0.0) or None
        del batch
        judged.append(interceptors / took)
        progress(f"run {run + 1}: {interceptors:,} stepped and judged in {took:.2f} s")
    quantiles = _quantiles(fleet, state, repeats, progress)
    line = Line("stepped and judged", "interceptors", tuple(judged), JUDGED_GOAL)
    by_copy = interceptors / line.median / copy_s(state_bytes(state) + sizes)
    return Figures(
        {"interceptors": interceptors, "readings": readings, "repeats": repeats},
        (
            Line(line.name, line.unit, line.per_s, line.goal, by_copy),
            Line("crossing quantiles", "interceptors", tuple(quantiles), QUANTILES_GOAL),
        ),
        {
            "million_s": 1e6 / line.median,
            "peak_resident_mb": peak,
            "peak_goal_mb": MEMORY_GOAL_MB,
            "state_bytes_per_interceptor": state_bytes(state) / interceptors,
        },
    )


def _warm(fleet: Fleet, interceptors: int, readings: int) -> FleetState:
    state = initial_state(fleet)
    for number in range(readings):
        state, _ = step(fleet, state, rounds(interceptors, 1, start=number)[0], consume=True)
    return state


def step_and_judge(fleet: Fleet, state: FleetState, batch: ReadingBatch) -> FleetState:
    """What an instant of the service does for everybody: fold, then depths, P(over limit) and health."""
    state, _ = step(fleet, state, batch, consume=True)
    everybody = np.arange(len(fleet.interceptors), dtype=np.int64)
    glance(fleet, state, everybody, float(batch.time_s.max()) + 1.0)
    return state


def _quantiles(fleet: Fleet, state: FleetState, repeats: int, progress: Say) -> list[float]:
    tracks = np.arange(min(_CROSSINGS, len(fleet.interceptors)), dtype=np.int64)
    now_s = float(state.interceptor.newest_s.max()) + 1.0
    now = outlook(fleet, state, tracks, now_s)
    rates = []
    for _ in range(repeats):
        rates.append(len(tracks) / seconds(lambda: crossings(fleet, state, tracks, now, now_s)))
        progress(f"crossing quantiles: {rates[-1]:,.0f}/s")
    return rates


def assess_curve(*, repeats: int, most: int = SIZES[-1], progress: Say = lambda _: None) -> dict[str, Any]:
    """Microseconds an interceptor stepped and judged, by the size of the fleet: it should be level."""
    found = {}
    for size in (one for one in SIZES if one <= most):
        figures = bench_assess(interceptors=size, readings=_WARM, repeats=repeats)
        found[str(size)] = 1e6 / figures.lines[0].median
        progress(f"{size:,} interceptors: {found[str(size)]:.2f} µs each")
    return {"us_per_interceptor_by_fleet": found}
