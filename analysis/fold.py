"""The fold: readings in, the fleet's state forward. One call for many readings or many calls: the same state.

``step`` sorts a batch by time and goes in rounds: the first reading of every interceptor, then the second,
and so on; each round is vectorised over interceptors. Only touched rows are worked on, a block of interceptors after
the other, so that a block's memory stays near the processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from analysis.estimate import Kalman, after_pump_out, unknown
from analysis.fleet import Fleet
from analysis.model import Bools, Floats, Found, HotDischarge, Ints, PumpOut, ReadingBatch
from analysis.rounds import Work
from analysis.state import (
    FleetState,
    InterceptorState,
    as_arrays,
    blank_sensors,
    blank_tracks,
    from_arrays,
    own,
    part_rows,
    put_rows,
)
from analysis.units import COLUMNS

__all__ = [
    "Fleet", "FleetState", "as_arrays", "from_arrays", "initial_state", "newest", "own", "put", "step", "take",
]  # fmt: skip

BLOCK: Final = 4096  # interceptors worked on at a time


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
    state: FleetState,
    fleet: Fleet,
    interceptor_indices: Sequence[int],
    checkpoint: FleetState,
    *,
    consume: bool = False,
) -> FleetState:
    """The state with these interceptors' memory replaced by what :func:`take` gave for the same indices.

    With ``consume`` the given state itself is changed and returned, at a cost that does not know the fleet's size.
    """
    who = np.asarray(interceptor_indices, dtype=np.int64)
    out = state if consume else own(state)
    put_rows(out.sensor, fleet.sensors_of.rows(who)[0], checkpoint.sensor)
    put_rows(out.track, fleet.tracks_of.rows(who)[0], checkpoint.track)
    put_rows(out.interceptor, who, checkpoint.interceptor)
    return out


def step(
    fleet: Fleet, state: FleetState, batch: ReadingBatch, *, consume: bool = False
) -> tuple[FleetState, Found]:
    """Fold a batch of readings, in any order, into the state; the given state stays as it is.

    With ``consume`` the given state itself is changed and returned: it must be the caller's alone (:func:`own`),
    and what a step costs then depends on its readings, not on the fleet. Both give the same.

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
    out = state if consume else own(state)
    pump_outs: list[PumpOut] = []
    hot: list[tuple[float, HotDischarge]] = []
    for rows in _blocks(owner, len(fleet.interceptors)):
        order, rounds = _rounds(owner, batch, keep, rows)
        if not len(rounds):
            continue
        work = Work(fleet, out, batch if order is None else _pick(batch, order))
        edges = np.r_[0, np.cumsum(rounds)]
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            work.round(a, b)
        work.finish(pump_outs, hot)
    return out, _in_order(pump_outs, hot)


def _in_order(pump_outs: list[PumpOut], hot: list[tuple[float, HotDischarge]]) -> Found:
    pump_outs.sort(key=lambda p: (p.end_s, p.interceptor))
    hot.sort(key=lambda e: (e[0], e[1].sensor))
    return Found(tuple(pump_outs), tuple(episode for _, episode in hot))


def _blocks(owner: Ints, interceptors: int) -> Iterator[Ints | slice | None]:
    """The readings of one block of interceptors after the other; None for all of them."""
    if interceptors <= BLOCK or len(owner) <= BLOCK:
        yield None
        return
    block = owner // BLOCK
    order = None
    if not bool((owner[1:] >= owner[:-1]).all()):
        order = np.argsort(block, kind="stable")
        block = block[order]
    edges = np.searchsorted(block, np.arange(interceptors // BLOCK + 2))
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if a < b:
            yield slice(a, b) if order is None else order[a:b]


def _rounds(
    owner: Ints, batch: ReadingBatch, keep: Bools, rows: Ints | slice | None
) -> tuple[Ints | slice | None, Ints]:
    """The order in which to fold what is to keep of ``rows``, None for all as they are; how many go in each round."""
    sensor, time_s = batch.sensor, batch.time_s
    if rows is not None:
        owner, sensor, time_s, keep = owner[rows], sensor[rows], time_s[rows], keep[rows]
    if keep.all() and _one_each(owner):  # the way of a fleet in step
        return rows, np.array([len(owner)])
    order = np.lexsort((sensor, time_s, owner))
    order = order[keep[order]]
    again = (np.diff(sensor[order]) == 0) & (
        np.diff(time_s[order]) == 0
    )  # lexsort is stable: the first stays
    order = order[np.r_[True, ~again][: len(order)]]
    owner = owner[order]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    order = order[np.argsort(rank, kind="stable")]
    if isinstance(rows, slice):
        order = order + rows.start
    elif rows is not None:
        order = rows[order]
    return order, np.bincount(rank)


def _one_each(owner: Ints) -> bool:
    if bool((owner[1:] > owner[:-1]).all()):
        return True
    ordered = np.sort(owner)
    return bool((ordered[1:] > ordered[:-1]).all())


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


def _pick(batch: ReadingBatch, rows: Ints | slice) -> ReadingBatch:
    return ReadingBatch(
        batch.sensor[rows],
        batch.time_s[rows],
        {name: column[rows] for name, column in batch.values.items()},
        batch.profile[rows] if batch.profile.size else batch.profile,
        batch.restamped[rows] if batch.restamped.size else batch.restamped,
    )
