"""`quarterline bench fold`: readings a second of the filter alone and of the whole fold, beside peers and a copy.

Readings arrive as they do in the service: a batch holds one of every interceptor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from analysis.estimate import DAY_S, diffusion, predict, update
from analysis.fleet import Fleet
from analysis.fold import FleetState, as_arrays, initial_state, own, step
from analysis.model import ReadingBatch
from api.bench_fleet import EVERY_S, bench_fleet, joined, nbytes, rounds
from api.bench_peers import filterpy_loop, pandas_apply
from api.bench_result import Figures, Line, copy_s, seconds

FILTER_GOAL: Final = 5e6
FOLD_GOAL: Final = 1.5e6
_FILTERPY_DEVICES: Final = 20
_PANDAS_DEVICES: Final = 100
SIZES: Final = (1000, 10_000, 100_000, 1_000_000)
HISTORIES: Final = (1, 2, 4, 8, 16)
_CURVE_INTERCEPTORS: Final = 10_000
_CURVE_READINGS: Final = 8

Say = Callable[[str], None]


def bench_fold(*, interceptors: int, readings: int, repeats: int, progress: Say = lambda _: None) -> Figures:
    """Fold ``readings`` of each of ``interceptors``, so many times."""
    fleet = bench_fleet(interceptors)
    batches = rounds(interceptors, readings)
    count = interceptors * readings
    filtered, folded, refolded = [], [], []
    for run in range(repeats):
        filtered.append(count / seconds(lambda: filter_rounds(fleet, batches)))
        folded.append(count / seconds(lambda: fold_rounds(fleet, initial_state(fleet), batches)))
        whole = joined(batches)
        refolded.append(count / seconds(lambda w=whole: step(fleet, initial_state(fleet), w)))  # type: ignore[misc]
        progress(f"run {run + 1}: filter {filtered[-1]:,.0f}/s, fold {folded[-1]:,.0f}/s")
    progress("peers …")
    peers = (
        filterpy_loop(batches, _FILTERPY_DEVICES),
        pandas_apply(batches, _PANDAS_DEVICES),
    )
    kalman = 5 * 2 * 8 * interceptors * readings
    state = state_bytes(initial_state(fleet)) * readings
    read = sum(nbytes(one) for one in batches)
    lines = (
        _line("filter step alone", filtered, FILTER_GOAL, count, kalman, peers[:1]),
        _line("fold, a reading of each at a time", folded, FOLD_GOAL, count, state + read, peers),
        _line("fold, a history at once", refolded, FOLD_GOAL, count, state + read, peers),
    )
    return Figures({"interceptors": interceptors, "readings": readings, "repeats": repeats}, lines)


def _line(name: str, rates: list[float], goal: float, count: int, size: int, peers: Any) -> Line:
    line = Line(name, "readings", tuple(rates), goal, peers=peers)
    return Line(name, "readings", line.per_s, goal, count / line.median / copy_s(size), peers)


def filter_rounds(fleet: Fleet, batches: list[ReadingBatch]) -> None:
    """Predict and update alone: both layers of every interceptor, batch by batch."""
    k = initial_state(fleet).track.kalman(slice(None))
    dt = np.full((len(fleet.interceptors), 1), EVERY_S / DAY_S)
    variance = np.full(k.x.shape, 3e-5)
    for one in batches:
        fog = one.values["surface_m"] - one.values["fog_bottom_m"]
        z = np.stack([fog, one.values["solids_top_m"]], axis=1)
        k = update(predict(k, dt, diffusion(k.r, fleet.track_base, fleet.prior)), z, variance)


def fold_rounds(fleet: Fleet, state: FleetState, batches: list[ReadingBatch]) -> FleetState:
    """The whole fold, batch by batch; it uses the given state up."""
    for one in batches:
        state, _ = step(fleet, state, one, consume=True)
    return state


def timed(fleet: Fleet, state: FleetState, batches: list[ReadingBatch], repeats: int) -> list[float]:
    """Seconds of folding the same batches into the same state, every time; the state stays as it is."""
    took = []
    for _ in range(repeats):
        mine = own(state)
        took.append(seconds(lambda s=mine: fold_rounds(fleet, s, batches)))  # type: ignore[misc]
    return took


def state_bytes(state: FleetState) -> int:
    """What a state holds [bytes]."""
    return sum(array.nbytes for array in as_arrays(state).values())


def fold_curves(*, repeats: int, most: int = SIZES[-1], progress: Say = lambda _: None) -> dict[str, Any]:
    """Microseconds a reading, by the size of the fleet and by the length of the history: both should be level."""
    by_fleet = {}
    for size in (one for one in SIZES if one <= most):
        fleet, batches = bench_fleet(size), rounds(size, 3)
        state = fold_rounds(fleet, initial_state(fleet), batches[:1])
        took = timed(fleet, state, batches[1:], repeats)
        by_fleet[str(size)] = float(np.median(took)) / (2 * size) * 1e6
        progress(f"{size:,} interceptors: {by_fleet[str(size)]:.2f} µs a reading")
    return {
        "us_per_reading_by_fleet": by_fleet,
        "us_per_reading_by_history": _by_history(repeats, most, progress),
    }


def _by_history(repeats: int, most: int, progress: Say) -> dict[str, float]:
    size = min(_CURVE_INTERCEPTORS, most)
    fleet = bench_fleet(size)
    state, done, found = initial_state(fleet), 0, {}
    for times in HISTORIES:
        batches = rounds(size, times * _CURVE_READINGS - done, start=done)
        done = times * _CURVE_READINGS
        last = batches[-_CURVE_READINGS // 2 :]
        before = fold_rounds(fleet, state, batches[: -_CURVE_READINGS // 2])
        took = timed(fleet, before, last, repeats)
        state = fold_rounds(fleet, before, last)
        found[f"x{times}"] = float(np.median(took)) / (len(last) * size) * 1e6
        progress(f"after {done} readings each: {found[f'x{times}']:.2f} µs a reading")
    return found
