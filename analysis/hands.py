"""The fold with measurements by hand between the readings, each at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibration import core_variance, paper_variance, take_in
from analysis.fold import Fleet, FleetState, own, step
from analysis.model import Floats, Found, HotDischarge, Ints, PumpOut, ReadingBatch


@dataclass(frozen=True, slots=True, order=True)
class Hand:
    """One measurement by hand in one compartment: depths [m], None where not measured, at ``time_s`` [s].

    ``emptied`` is a paper that tells of a complete pump-out right after; a ``paper`` is the coarser of the two kinds.
    Where it holds for every compartment, as a paper's ``emptied`` does, there is one of each.
    """

    time_s: float
    compartment: int
    id: str
    interceptor: str
    fog_m: float | None
    solids_m: float | None
    paper: bool = False
    emptied: bool = False


def step_with(
    fleet: Fleet, state: FleetState, batch: ReadingBatch, hands: Sequence[Hand], *, consume: bool = False
) -> tuple[FleetState, Found]:
    """Fold readings and measurements by hand in order of time; a hand comes before a reading of its instant.

    Hands of a compartment that nothing is remembered of, and those not newer than what is folded, are left out, as
    readings are (:func:`analysis.fold.step`). Every call is vectorised over interceptors; it goes as often through
    the batch as one interceptor has hands. ``consume`` is that of ``step``.
    """
    places, tracks = _placed(fleet, state, hands)
    if not places:
        return step(fleet, state, batch, consume=consume)
    state = state if consume else own(state)
    owner = fleet.track_interceptor[tracks]
    time_s = np.array([one.time_s for one in places])
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    reader = fleet.sensor_interceptor[batch.sensor]
    passed = np.zeros(len(reader), dtype=np.int64)
    for turn in range(int(rank.max()) + 1):  # how many hands come before each reading
        at = np.full(len(fleet.interceptors), np.inf)
        at[owner[rank == turn]] = time_s[rank == turn]
        passed += batch.time_s >= at[reader]
    pump_outs: list[PumpOut] = []
    hot: list[HotDischarge] = []
    for turn in range(int(rank.max()) + 2):
        state, found = step(fleet, state, _part(batch, np.flatnonzero(passed == turn)), consume=True)
        pump_outs += found.pump_outs
        hot += found.hot_discharges
        now = np.flatnonzero(rank == turn)
        if len(now):
            depth, variance = _told([places[i] for i in now])
            emptied = np.array([places[i].emptied for i in now])
            take_in(fleet, state, tracks[now], time_s[now], depth, variance, emptied)
    return state, Found(tuple(pump_outs), tuple(hot))


def _placed(fleet: Fleet, state: FleetState, hands: Sequence[Hand]) -> tuple[list[Hand], Ints]:
    """The hands to take in, by interceptor and time, and their tracks."""
    found = []
    for hand in sorted(set(hands)):
        who = fleet.interceptor_index.get(hand.interceptor)
        if who is None or hand.time_s <= state.interceptor.newest_s[who]:
            continue
        rows = fleet.tracks_of[who]
        found += [(who, hand, int(row)) for row in rows[fleet.track_compartment[rows] == hand.compartment]]
    found.sort(key=lambda one: one[0])  # stable: within an interceptor they stay in order
    return [hand for _, hand, _ in found], np.array([row for _, _, row in found], dtype=np.int64)


def _told(hands: Sequence[Hand]) -> tuple[Floats, Floats]:
    given = [(one.fog_m, one.solids_m) for one in hands]
    depth = np.array([[np.nan if v is None else v for v in pair] for pair in given], dtype=np.float64)
    paper = np.array([one.paper for one in hands])[:, None]
    return depth, np.where(paper, paper_variance(depth), core_variance(depth))


def _part(batch: ReadingBatch, rows: Ints) -> ReadingBatch:
    return ReadingBatch(
        batch.sensor[rows],
        batch.time_s[rows],
        {name: column[rows] for name, column in batch.values.items()},
        batch.profile[rows] if batch.profile.size else batch.profile,
        batch.restamped[rows] if batch.restamped.size else batch.restamped,
    )
