"""Pump-outs as physical acts: the liquid falls, the layers go, and the tank fills again.

A skim takes grease off the top: neither the sludge nor the level moves. After a pump-out the tank fills from the
kitchen, from a hose, or with the clarified water of the truck's own tank, which brings a little of both back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simulators.interceptor import FRESH_BOUND, FRESH_SLUDGE_KG_M3, Tanks, TankState, depths
from simulators.kitchen import GREASE_KG_M3, SLOT_S, Floats

BACKFILL_S: Final = 2400.0  # a hose fills the tank in about this time
PARTIAL_LEVEL: Final = (0.30, 0.60)  # part of the liquid that a partial pump-out leaves
HOSE_C: Final = 16.0
CLARIFIED_C: Final = 23.0
CLARIFIED_GREASE_KG_M3: Final = 0.10  # decanted from the truck: what an hour's rest does not take out
CLARIFIED_SOLIDS_KG_M3: Final = 0.15
HOSE: Final = "hose"
CLARIFIED: Final = "clarified"


@dataclass(slots=True)
class Job:
    """One pump-out or skim, asked for at ``at_s`` [s since the epoch], begun at the next step of the city.

    ``before`` and ``after`` hold latent FOG and solids [m], shape (2, 2): FOG, then solids, by compartment.
    """

    id: str
    interceptor: int
    at_s: float
    complete: bool
    duration_s: float
    level_left_m: float  # complete: lowest level
    level_left: float  # partial: part of the level
    fog_left: float  # part of the layer that stays
    solids_left: float
    refill: str  # HOSE, CLARIFIED, or empty: the kitchen's water alone
    skim: bool = False
    start_s: float | None = None
    end_s: float | None = None
    done: bool = False
    before: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    after: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    level_from_m: float = 0.0
    level_to_m: float = 0.0
    volume_m3: float = 0.0


class Yard:
    """The trucks on their way and at work, and the hoses that fill a tank afterwards.

    Every interceptor has random numbers of its own, so that a service here changes none elsewhere.
    """

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self._rng = rng.spawn(count)
        self._jobs: list[Job] = []
        self._asked = [0] * count
        self.at_work: set[int] = set()  # interceptors whose pump was on in the step just made
        self._fill_m3_s = np.zeros(count)
        self._clarified = np.zeros(count, dtype=bool)

    def ask(self, interceptor: int, at_s: float, *, complete: bool) -> Job:
        """Plan a pump-out of interceptor ``interceptor`` at ``at_s`` [s since the epoch]."""
        rng = self._rng[interceptor]
        return self._take(
            Job(
                id=self._name(interceptor, "truck"),
                interceptor=interceptor,
                at_s=at_s,
                complete=complete,
                duration_s=float(rng.uniform(1500.0, 2400.0)),
                level_left_m=float(rng.uniform(0.02, 0.05)),
                level_left=float(rng.uniform(*PARTIAL_LEVEL)),
                fog_left=float(rng.uniform(0.01, 0.05) if complete else rng.uniform(0.03, 0.10)),
                solids_left=float(rng.uniform(0.015, 0.06) if complete else rng.uniform(0.75, 0.95)),
                refill=("", "", "", HOSE, CLARIFIED)[int(rng.integers(0, 5))],
            )
        )

    def skim(self, interceptor: int, at_s: float, part: float, duration_s: float) -> Job:
        """Take ``part`` (0 - 1) of the grease off within ``duration_s`` [s], and nothing else."""
        return self._take(
            Job(
                id=self._name(interceptor, "skim"),
                interceptor=interceptor,
                at_s=at_s,
                complete=False,
                duration_s=duration_s,
                level_left_m=0.0,
                level_left=1.0,
                fog_left=1.0 - part,
                solids_left=1.0,
                refill="",
                skim=True,
            )
        )

    def advance(self, tanks: Tanks, state: TankState, now_s: float) -> list[Job]:
        """Pump and fill for the step that starts at ``now_s``; returns the jobs that are done in it."""
        self._fill(tanks, state)
        busy: set[int] = set()
        self.at_work = set()
        done: list[Job] = []
        for job in self._jobs:
            if job.start_s is None and (job.at_s > now_s or job.interceptor in busy):
                continue
            busy.add(job.interceptor)
            if not job.skim:
                self.at_work.add(job.interceptor)
            if job.start_s is None:
                _begin(job, tanks, state, now_s)
            if _pump(job, tanks, state, now_s):
                done.append(job)
                if job.refill:
                    volume = tanks.total_m2[job.interceptor] * tanks.static_m[job.interceptor]
                    self._fill_m3_s[job.interceptor] = volume / BACKFILL_S
                    self._clarified[job.interceptor] = job.refill == CLARIFIED
        self._jobs = [job for job in self._jobs if not job.done]
        return done

    def _take(self, job: Job) -> Job:
        self._jobs.append(job)
        return job

    def _name(self, interceptor: int, kind: str) -> str:
        self._asked[interceptor] += 1
        return f"{kind}-{interceptor + 1}-{self._asked[interceptor]}"

    def _fill(self, tanks: Tanks, state: TankState) -> None:
        """Fill for one step; what clarified water brings counts as fed."""
        if not self._fill_m3_s.any():
            return
        level = np.minimum(state.level_m + self._fill_m3_s * SLOT_S / tanks.total_m2, tanks.static_m)
        volume = (level - state.level_m) * tanks.total_m2
        share = tanks.area_m2 / tanks.total_m2[:, None]
        grease = (np.where(self._clarified, volume, 0.0) * CLARIFIED_GREASE_KG_M3 / GREASE_KG_M3)[:, None]
        solids = (np.where(self._clarified, volume, 0.0) * CLARIFIED_SOLIDS_KG_M3)[:, None]
        state.grease_m3 += grease * share
        state.bound_m3 += FRESH_BOUND * grease * share
        state.dry_kg += solids * share
        state.sludge_m3 += solids / FRESH_SLUDGE_KG_M3 * share
        state.fed += np.concatenate([grease, solids], axis=1)
        mixed = volume / np.maximum(level * tanks.total_m2, 1e-6)
        state.tank_c += mixed * (np.where(self._clarified, CLARIFIED_C, HOSE_C) - state.tank_c)
        state.level_m = level
        self._fill_m3_s[level >= tanks.static_m] = 0.0


def _layers(job: Job, tanks: Tanks, state: TankState) -> Floats:
    latent = depths(tanks, state)
    return np.stack([latent.fog[job.interceptor], latent.solids[job.interceptor]])


def _begin(job: Job, tanks: Tanks, state: TankState, now_s: float) -> None:
    row = job.interceptor
    job.start_s = now_s
    job.end_s = now_s + job.duration_s
    job.before = _layers(job, tanks, state)
    job.level_from_m = float(state.level_m[row])
    left = job.level_left_m if job.complete else job.level_left * job.level_from_m
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
    if not job.skim:
        state.level_m[row] = level
        state.head_m[row] = 0.0
    job.volume_m3 += (held - level) * float(tanks.total_m2[row])
    fog, solids = ratio(job.fog_left), ratio(job.solids_left)
    if job.skim:
        job.volume_m3 += float((state.grease_m3[row] + state.bound_m3[row]).sum()) * (1.0 - fog)
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
