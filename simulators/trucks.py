"""Pump-outs as physical acts: the liquid falls, the layers go, and the tank fills again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simulators.interceptor import Tanks, TankState, depths
from simulators.kitchen import SLOT_S, Floats

BACKFILL_S: Final = 2400.0  # a hose of clear water fills the tank in about this time
PARTIAL_LEVEL: Final = 0.45  # part of the liquid that a partial pump-out leaves


@dataclass(slots=True)
class Job:
    """One pump-out, asked for at ``at_s`` [s since the epoch], begun at the next step of the city.

    ``before`` and ``after`` hold latent FOG and solids [m], shape (2, 2): FOG, then solids, by compartment.
    """

    id: str
    interceptor: int
    at_s: float
    complete: bool
    duration_s: float
    level_left_m: float  # complete: lowest level
    fog_left: float  # part of the layer that stays
    solids_left: float
    backfilled: bool
    start_s: float | None = None
    end_s: float | None = None
    done: bool = False
    before: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    after: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    level_from_m: float = 0.0
    level_to_m: float = 0.0
    volume_m3: float = 0.0


class Yard:
    """The trucks on their way and at work, and the hoses that fill a tank afterwards."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self._rng = rng
        self._jobs: list[Job] = []
        self._asked = 0
        self.at_work: set[int] = set()  # interceptors whose pump was on in the step just made
        self._hose_m3_s = np.zeros(count)

    def ask(self, interceptor: int, at_s: float, *, complete: bool) -> Job:
        """Plan a pump-out of interceptor ``interceptor`` at ``at_s`` [s since the epoch]."""
        rng = self._rng
        self._asked += 1
        job = Job(
            id=f"truck-{self._asked}",
            interceptor=interceptor,
            at_s=at_s,
            complete=complete,
            duration_s=float(rng.uniform(1500.0, 2400.0)),
            level_left_m=float(rng.uniform(0.02, 0.05)),
            fog_left=float(rng.uniform(0.01, 0.05) if complete else rng.uniform(0.03, 0.10)),
            solids_left=float(rng.uniform(0.015, 0.06) if complete else rng.uniform(0.75, 0.95)),
            backfilled=bool(rng.random() < 0.4),
        )
        self._jobs.append(job)
        return job

    def busy(self, interceptor: int) -> bool:
        """Whether a truck is at work at this interceptor or on its way."""
        return any(job.interceptor == interceptor for job in self._jobs)

    def advance(self, tanks: Tanks, state: TankState, now_s: float) -> list[Job]:
        """Pump and fill for the step that starts at ``now_s``; returns the jobs that are done in it."""
        self._fill(tanks, state)
        at_work: set[int] = set()
        self.at_work = at_work
        done: list[Job] = []
        for job in self._jobs:
            if job.start_s is None and (job.at_s > now_s or job.interceptor in at_work):
                continue
            at_work.add(job.interceptor)
            if job.start_s is None:
                _begin(job, tanks, state, now_s)
            if _pump(job, tanks, state, now_s):
                done.append(job)
                if job.backfilled:
                    volume = tanks.total_m2[job.interceptor] * tanks.static_m[job.interceptor]
                    self._hose_m3_s[job.interceptor] = volume / BACKFILL_S
        self._jobs = [job for job in self._jobs if not job.done]
        return done

    def _fill(self, tanks: Tanks, state: TankState) -> None:
        if not self._hose_m3_s.any():
            return
        state.level_m = np.minimum(state.level_m + self._hose_m3_s * SLOT_S / tanks.total_m2, tanks.static_m)
        self._hose_m3_s[state.level_m >= tanks.static_m] = 0.0


def _layers(job: Job, tanks: Tanks, state: TankState) -> Floats:
    latent = depths(tanks, state)
    return np.stack([latent.fog[job.interceptor], latent.solids[job.interceptor]])


def _begin(job: Job, tanks: Tanks, state: TankState, now_s: float) -> None:
    row = job.interceptor
    job.start_s = now_s
    job.end_s = now_s + job.duration_s
    job.before = _layers(job, tanks, state)
    job.level_from_m = float(state.level_m[row])
    left = job.level_left_m if job.complete else PARTIAL_LEVEL * job.level_from_m
    job.level_to_m = min(left, job.level_from_m)


def _pump(job: Job, tanks: Tanks, state: TankState, now_s: float) -> bool:
    """Draw for one step; each column goes linearly in time from what it was to what is left."""
    assert job.start_s is not None
    row = job.interceptor
    first = min((now_s - job.start_s) / job.duration_s, 1.0)
    last = min((now_s + SLOT_S - job.start_s) / job.duration_s, 1.0)

    def ratio(left: float) -> float:
        return (1.0 - (1.0 - left) * last) / (1.0 - (1.0 - left) * first)

    held = float(state.level_m[row])
    level = held * ratio(job.level_to_m / job.level_from_m) if job.level_from_m > 0.0 else 0.0
    state.level_m[row] = level
    state.head_m[row] = 0.0
    job.volume_m3 += (held - level) * float(tanks.total_m2[row])
    fog, solids = ratio(job.fog_left), ratio(job.solids_left)
    state.pumped[row, 0] += float(state.grease_m3[row].sum()) * (1.0 - fog)
    state.pumped[row, 1] += float(state.dry_kg[row].sum()) * (1.0 - solids)
    state.grease_m3[row] *= fog
    state.bound_m3[row] *= fog
    state.dry_kg[row] *= solids
    state.sludge_m3[row] *= solids
    if last >= 1.0:
        job.after = _layers(job, tanks, state)
        job.done = True
    return job.done
