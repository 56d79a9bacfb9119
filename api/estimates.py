"""The fleet's running estimate: a fold that goes forward, and goes back to a checkpoint for late data.

The state is a pure function of the readings received so far, in order of event time. So a live run, a replay
and a rebuild after a crash all arrive at the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.assess import assess
from analysis.fold import Fleet, FleetState, initial_state, newest, own, put, take
from analysis.glance import Glance, glance
from analysis.hands import step_with
from analysis.model import Assessment, Found, HotDischarge, Ints, PumpOut
from analysis.prior import FleetPrior, Rates, learn, rates
from api.fleetmodel import as_batch
from api.hands import HandBook
from api.keptstate import alone, fitting, with_kept
from store.ports import History, Keeping
from store.records import StoredReading

#: A few days: data later than that refolds its interceptor from the start of its history.
CHECKPOINTS: Final = 8
_REBUILD_SPAN_US: Final = 30 * 86_400 * 1_000_000


@dataclass(slots=True)
class _Checkpoint:
    state: FleetState
    newest_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    valid: np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Advance:
    """What one advance noticed; ``refolded`` maps an interceptor to the instant it was folded again from [s]."""

    found: Found
    refolded: dict[str, float]


class Estimates:
    """The fold over one fleet. Not thread safe: the writer's thread owns it.

    The state is changed in place, so that an advance costs what its readings cost, whatever the fleet's size. What
    it changes is kept aside until the next :meth:`mark`.
    """

    def __init__(self, fleet: Fleet, history: History, keeping: Keeping, hands: HandBook) -> None:
        self.fleet = fleet
        self._history = history
        self._keeping = keeping
        self._hands = hands
        self._state = initial_state(fleet)
        self._expected: Rates | None = None  # the day's prior; the fold never sees it
        self._marked: Rates | None = None  # as it was at the mark
        #: interceptors changed since the mark, as they were
        self._before: list[tuple[list[int], FleetState]] = []
        self._checkpoints: deque[_Checkpoint] = deque(maxlen=CHECKPOINTS)
        self._owner = np.array(
            [fleet.interceptor_index[s.interceptor] for s in fleet.sensors], dtype=np.int64
        )

    def advance(
        self, readings: Sequence[StoredReading], *, received_before_us: int, filed: Mapping[str, float]
    ) -> Advance:
        """Fold new readings in; those older than what is folded make their interceptor fold again.

        So do papers and samples of ``filed``: by interceptor the oldest time that new ones speak of [s].
        """
        known = [r for r in readings if r.sensor in self.fleet.sensor_index]
        if not known and not filed:
            return Advance(Found(), {})
        times = np.array([r.time_us / 1e6 for r in known])
        owner = self._owner[[self.fleet.sensor_index[r.sensor] for r in known]]
        index = self.fleet.interceptor_index
        told = {index[one]: time_s for one, time_s in filed.items() if one in index}
        touched, place = np.unique(np.r_[owner, np.array([*told], dtype=np.int64)], return_inverse=True)
        oldest = np.full(len(touched), np.inf)
        np.minimum.at(oldest, place, np.r_[times, [*told.values()]])
        late = oldest <= self._state.interceptor.newest_s[touched]
        forward = [r for r, at in zip(known, place[: len(known)], strict=True) if not late[at]]
        self._keep_aside(touched.tolist())
        pump_outs: list[PumpOut] = []
        hot: list[HotDischarge] = []
        ahead = [self.fleet.interceptors[who].id for who in touched[~late].tolist() if who in told]
        hands = [hand for one in ahead for hand in self._hands.of(one, received_before_us)]
        if forward or hands:
            batch = as_batch(forward, self.fleet.sensor_index)
            self._state, found = step_with(self.fleet, self._state, batch, hands, consume=True)
            pump_outs += found.pump_outs
            hot += found.hot_discharges
        refolded = {}
        for at in np.flatnonzero(late):
            who = int(touched[at])
            since, found = self._refold(who, float(oldest[at]), received_before_us)
            refolded[self.fleet.interceptors[who].id] = since
            pump_outs += found.pump_outs
            hot += found.hot_discharges
        return Advance(Found(tuple(pump_outs), tuple(hot)), refolded)

    def rebuild(self, *, received_before_us: int) -> None:
        """Fold the whole history received before an instant, from nothing, or from what retention kept of it."""
        self._state, newest_s = with_kept(self.fleet, self._keeping.kept_states())
        self._checkpoints.clear()
        self._before.clear()
        ids = [s.id for s in self.fleet.sensors]
        hands = self._hands.all(received_before_us)
        span = self._history_span(ids)
        if span is None:
            none = as_batch([], self.fleet.sensor_index)
            self._state, _ = step_with(self.fleet, self._state, none, hands, consume=True)
            return
        start, end = span
        if hands:
            end = max(end, round(hands[-1].time_s * 1e6))
        if len(newest_s) == len(set(self._owner.tolist())):  # before that, every reading is in the state
            start = max(
                start, round(min(newest_s.values()) * 1e6) if np.isfinite(min(newest_s.values())) else 0
            )
        while start <= end:
            rows = self._history.readings(
                ids,
                since_us=start,
                until_us=start + _REBUILD_SPAN_US,
                received_before_us=received_before_us,
            )
            start += _REBUILD_SPAN_US
            now = [hand for hand in hands if hand.time_s < start / 1e6]
            hands = hands[len(now) :]
            if rows or now:
                batch = as_batch(rows, self.fleet.sensor_index)
                self._state, _ = step_with(self.fleet, self._state, batch, now, consume=True)

    def mark(self) -> None:
        """From now on what changes is kept aside, to come :meth:`back` to when a commit fails."""
        self._before.clear()
        self._marked = self._expected

    def back(self) -> None:
        """Undo what came since :meth:`mark`; checkpoints that late data made invalid stay so."""
        while self._before:
            who, state = self._before.pop()
            self._state = put(self._state, self.fleet, who, state, consume=True)
        self._expected = self._marked

    def learn(self) -> FleetPrior:
        """Learn the prior of the rates from the present state, and expect them from here on."""
        prior = learn(self.fleet, self._state)
        self.expect(prior)
        return prior

    def expect(self, prior: FleetPrior) -> None:
        """Tell every later assessment by this prior."""
        self._expected = rates(self.fleet, prior)

    def _keep_aside(self, who: list[int]) -> None:
        self._before.append((who, take(self._state, self.fleet, who)))

    def checkpoint(self) -> None:
        """Keep a copy of the present state to fold again from."""
        state = own(self._state)
        self._checkpoints.append(
            _Checkpoint(state, newest(self.fleet, state), np.ones(len(self.fleet.interceptors), dtype=bool))
        )

    def assess(self, now_s: float, *, interceptors: Sequence[str] | None = None) -> list[Assessment]:
        """Today's assessment of these interceptors, or of all."""
        indices = None
        if interceptors is not None:
            indices = [self.fleet.interceptor_index[i] for i in interceptors]
        return assess(self.fleet, self._state, now_s, indices=indices, expected=self._expected)

    def glance(self, rows: Ints, now_s: float) -> Glance:
        """A first look at these interceptors, rows of the fleet that have a sensor."""
        return glance(self.fleet, self._state, rows, now_s, self._expected)

    def _refold(self, who: int, oldest_s: float, received_before_us: int) -> tuple[float, Found]:
        usable = [c for c in self._checkpoints if c.valid[who] and c.newest_s[who] < oldest_s]
        single = alone(self.fleet, who)
        base = take(usable[-1].state, self.fleet, [who]) if usable else initial_state(single)
        since_s = float(usable[-1].newest_s[who]) if usable else -np.inf
        kept = self._keeping.kept_state(self.fleet.interceptors[who].id)
        # readings before what was kept may be gone: later ones alone can be folded again
        with_it = fitting(single, kept)
        if kept is not None and with_it is not None and kept.newest_us is not None:
            newest_s = kept.newest_us / 1e6
            if newest_s > since_s:
                base, since_s = with_it, newest_s
        for checkpoint in self._checkpoints:
            if checkpoint.newest_s[who] >= oldest_s:
                checkpoint.valid[who] = False
        self._state = put(self._state, self.fleet, [who], base, consume=True)
        ids = [s.id for s in single.sensors]
        rows = self._history.readings(
            ids,
            since_us=round(since_s * 1e6) + 1 if np.isfinite(since_s) else 0,
            until_us=2**62,
            received_before_us=received_before_us,
        )
        hands = list(self._hands.of(self.fleet.interceptors[who].id, received_before_us))
        batch = as_batch(rows, self.fleet.sensor_index)
        self._state, found = step_with(self.fleet, self._state, batch, hands, consume=True)
        return since_s, found

    def _history_span(self, ids: Sequence[str]) -> tuple[int, int] | None:
        last = self._history.last(ids) if ids else {}
        if not last:
            return None
        first = self._history.first_us(ids)
        return (first, max(r.time_us for r in last.values())) if first is not None else None
