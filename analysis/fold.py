"""The fold: readings in, the fleet's state forward. One call for many readings or many calls: the same state.

``step`` sorts a batch by time and goes in rounds: the first reading of every interceptor, then the second,
and so on; each round is vectorised over interceptors. Only touched rows are worked on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.estimate import Kalman, after_pump_out, unknown
from analysis.fleet import Fleet
from analysis.model import Bools, Floats, Found, Ints, ReadingBatch
from analysis.rounds import Work
from analysis.state import (
    FleetState,
    InterceptorState,
    as_arrays,
    blank_sensors,
    blank_tracks,
    from_arrays,
    part_rows,
    with_rows,
)
from analysis.units import COLUMNS

__all__ = [
    "Fleet", "FleetState", "as_arrays", "from_arrays", "initial_state", "newest", "put", "step", "take",
]  # fmt: skip


def initial_state(fleet: Fleet) -> FleetState:
    """The state before any reading: residual layers at a known last pump-out, else a wide prior."""
    last = fleet.last_pump_out_s[fleet.track_interceptor]
    known = np.isfinite(last)
    fresh = after_pump_out(fleet.track_base, fleet.prior)
    wide = unknown(fleet.track_base, fleet.prior)
    kalman = Kalman(*[np.where(known[:, None], f, w) for f, w in zip(fresh, wide, strict=True)])
    count = len(fleet.interceptors)
    return FleetState(
        blank_sensors(len(fleet.sensors)),
        blank_tracks(kalman, np.where(known, last, -np.inf)),
        InterceptorState(np.full(count, -np.inf), fleet.last_pump_out_s.copy(), np.full(count, np.nan)),
    )


def newest(fleet: Fleet, state: FleetState) -> Floats:
    """Event time of the newest folded reading of each interceptor [s], -inf where there is none.

    Raises
    ------
    ValueError
        The state belongs to another fleet.
    """
    if len(state.interceptor.newest_s) != len(fleet.interceptors):
        have, want = len(state.interceptor.newest_s), len(fleet.interceptors)
        raise ValueError(f"state: has {have} interceptors, the fleet {want}")
    return state.interceptor.newest_s.copy()


def take(state: FleetState, fleet: Fleet, interceptor_indices: Sequence[int]) -> FleetState:
    """A checkpoint: the memory of these interceptors alone, in this order."""
    who = np.asarray(interceptor_indices, dtype=np.int64)
    return FleetState(
        part_rows(state.sensor, fleet.sensors_of.rows(who)[0]),
        part_rows(state.track, fleet.tracks_of.rows(who)[0]),
        part_rows(state.interceptor, who),
    )


def put(
    state: FleetState, fleet: Fleet, interceptor_indices: Sequence[int], checkpoint: FleetState
) -> FleetState:
    """The state with these interceptors' memory replaced by what :func:`take` gave for the same indices."""
    who = np.asarray(interceptor_indices, dtype=np.int64)
    return FleetState(
        with_rows(state.sensor, fleet.sensors_of.rows(who)[0], checkpoint.sensor),
        with_rows(state.track, fleet.tracks_of.rows(who)[0], checkpoint.track),
        with_rows(state.interceptor, who, checkpoint.interceptor),
    )


def step(fleet: Fleet, state: FleetState, batch: ReadingBatch) -> tuple[FleetState, Found]:
    """Fold a batch of readings, in any order, into the state; the given state stays as it is.

    Readings of one instant go in order of their sensor. A reading older than its interceptor's newest folded
    one, or of that very sensor and instant, is left out: late data is folded again from a checkpoint
    (:func:`put`, :func:`newest`).

    Raises
    ------
    ValueError
        Arrays of unequal length, an unknown sensor or column, a time that is not finite.
    """
    _check(fleet, batch)
    owner = fleet.sensor_interceptor[batch.sensor]
    newest_s = state.interceptor.newest_s[owner]
    keep = (batch.time_s > newest_s) | (batch.time_s == newest_s) & ~(
        state.sensor.last_s[batch.sensor] >= batch.time_s
    )
    if not keep.any():
        return state, Found()
    order, rounds = _rounds(owner, batch, keep)
    work = Work(fleet, state, batch if order is None else _pick(batch, order))
    edges = np.r_[0, np.cumsum(rounds)]
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        work.round(a, b)
    return work.state(), work.found()


def _rounds(owner: Ints, batch: ReadingBatch, keep: Bools) -> tuple[Ints | None, Ints]:
    """The order in which to fold the readings to keep, None for as they are, and how many go in each round."""
    if keep.all() and not (np.bincount(owner) > 1).any():  # the way of a fleet in step: one of each
        return None, np.array([len(owner)])
    order = np.lexsort((batch.sensor, batch.time_s, owner))
    order = order[keep[order]]
    owner = owner[order]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return order[np.argsort(rank, kind="stable")], np.bincount(rank)


def _check(fleet: Fleet, batch: ReadingBatch) -> None:
    n = len(batch.time_s)
    if len(batch.sensor) != n or (batch.profile.size and len(batch.profile) != n):
        raise ValueError(f"batch: {len(batch.sensor)} sensors, {n} times, {len(batch.profile)} profiles")
    if batch.restamped.size not in (0, n):
        raise ValueError(f"batch: restamped has {batch.restamped.size} values for {n} readings")
    for name, column in batch.values.items():
        if name not in COLUMNS:
            raise ValueError(f"batch: {name!r} is not a column of analysis.units.COLUMNS")
        if len(column) != n:
            raise ValueError(f"batch: column {name} has {len(column)} values for {n} readings")
    if n and not (batch.sensor.min() >= 0 and batch.sensor.max() < len(fleet.sensors)):
        raise ValueError(f"batch: a sensor index is outside the fleet's {len(fleet.sensors)} sensors")
    if not np.isfinite(batch.time_s).all():
        raise ValueError("batch: time_s is not finite")


def _pick(batch: ReadingBatch, rows: Ints) -> ReadingBatch:
    return ReadingBatch(
        batch.sensor[rows],
        batch.time_s[rows],
        {name: column[rows] for name, column in batch.values.items()},
        batch.profile[rows] if batch.profile.size else batch.profile,
        batch.restamped[rows] if batch.restamped.size else batch.restamped,
    )
