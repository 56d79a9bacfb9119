"""People at the tank: what they read off a stick, and whom they serve unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.city import City
from simulators.interceptor import DAY_S
from simulators.kitchen import Floats
from simulators.trucks import Job
from simulators.truth import Line, iso, seconds

HOUR_S: Final = 3600.0
STICK_FOG_M: Final = 0.012  # a dipped stick in grease
STICK_SOLIDS_M: Final = 0.016
GAUGE_RATIO: Final = 0.03  # the truck's sight glass


@dataclass(frozen=True, slots=True)
class Dipped:
    """What was read by hand before pumping, and the volume taken [mm, l]."""

    fog_mm: float
    solids_mm: float
    volume_l: float


def dip(job: Job, rng: np.random.Generator) -> Dipped:
    """Read both layers of compartment 1 as they were before the pump-out, with a person's error."""
    fog, solids = float(job.before[0, 0]), float(job.before[1, 0])
    return Dipped(
        fog_mm=round(1e3 * max(0.0, fog + float(rng.normal(0.0, STICK_FOG_M))), 0),
        solids_mm=round(1e3 * max(0.0, solids + float(rng.normal(0.0, STICK_SOLIDS_M))), 0),
        volume_l=round(1e3 * job.volume_m3 * (1.0 + float(rng.normal(0.0, GAUGE_RATIO))), 0),
    )


@dataclass(frozen=True, slots=True)
class Habits:
    """How interceptors are served where no service orders it.

    A cycle ends once the fraction has passed a level drawn uniformly from ``levels``, or after
    ``longest_days``; ``partial`` is the chance of a partial pump-out, ``paper`` that of a manifest, and
    ``cores_a_month`` the rate of core samples an interceptor.
    """

    levels: tuple[float, float] = (0.17, 0.33)
    longest_days: float = 120.0
    partial: float = 0.08
    paper: float = 0.93
    cores_a_month: float = 0.3


class Crew:
    """Drivers and inspectors of a recorded scenario; what they write becomes events for replay."""

    def __init__(self, city: City, habits: Habits, rng: np.random.Generator) -> None:
        self._city = city
        self._habits = habits
        self._rng = rng
        count = len(city.plan.interceptors)
        self._level = rng.uniform(*habits.levels, count)
        self._since_s = np.full(count, city.now_s)
        self._pending: set[int] = set()
        self._events: list[Line] = []
        self._papers = 0

    def plan_day(self, now_s: float, filled: Floats) -> None:
        """Decide at the start of a day whom to serve and where to take a core; ``filled`` is the fraction."""
        habits, rng = self._habits, self._rng
        self._draw_cores(now_s)
        due = (filled >= self._level) | (now_s - self._since_s > habits.longest_days * DAY_S)
        for row in np.flatnonzero(due).tolist():
            if row in self._pending:
                continue
            self._pending.add(row)
            name = self._city.plan.interceptors[row].id
            at_s = now_s + float(rng.uniform(5.0, 20.0)) * HOUR_S
            self._city.pump_out(name, at_s, complete=bool(rng.random() >= habits.partial))

    def services_done(self, done: Sequence[Job]) -> None:
        """Write the papers of services that ended, hours later or never."""
        for job in done:
            row, rng = job.interceptor, self._rng
            self._pending.discard(row)
            self._since_s[row] = job.end_s or job.at_s
            self._level[row] = rng.uniform(*self._habits.levels)
            if rng.random() < self._habits.paper:
                self._manifest(job, dip(job, rng))

    def events_until(self, end_s: float) -> list[Line]:
        """What the service learns until ``end_s`` [s since the epoch], in order."""
        known = [line for line in self._events if seconds(line["at"]) < end_s]
        return sorted(known, key=lambda line: (seconds(line["at"]), line["interceptor"]))

    def _manifest(self, job: Job, dipped: Dipped) -> None:
        plan = self._city.plan.interceptors[job.interceptor]
        self._papers += 1
        self._events.append(
            {
                "at": iso((job.end_s or job.at_s) + HOUR_S * float(self._rng.uniform(0.5, 30.0))),
                "type": "manifest",
                "interceptor": plan.id,
                "number": f"{plan.hauler.upper()}-{self._papers:05d}",
                "pumped_at": iso(job.start_s or job.at_s),
                "hauler": plan.hauler,
                "complete": job.complete,
                "volume_l": dipped.volume_l,
                "fog_mm": dipped.fog_mm,
                "solids_mm": dipped.solids_mm,
            }
        )

    def _draw_cores(self, now_s: float) -> None:
        count = len(self._city.plan.interceptors)
        chosen = self._rng.random(count) < self._habits.cores_a_month / 30.0
        layers = self._city.layers()
        for row in np.flatnonzero(chosen).tolist():
            fog = float(layers.fog[row, 0]) + float(self._rng.normal(0.0, STICK_FOG_M))
            solids = float(layers.solids[row, 0]) + float(self._rng.normal(0.0, STICK_SOLIDS_M))
            self._events.append(
                {
                    "at": iso(now_s + HOUR_S),
                    "type": "core_sample",
                    "interceptor": self._city.plan.interceptors[row].id,
                    "compartment": 1,
                    "sampled_at": iso(now_s),
                    "fog_mm": round(1e3 * max(fog, 0.0)),
                    "solids_mm": round(1e3 * max(solids, 0.0)),
                    "by": "inspector",
                }
            )
