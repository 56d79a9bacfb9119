"""People at the tank: what they read off a stick, whom they serve unasked, and what they write about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.city import City
from simulators.faults import FaultKind
from simulators.interceptor import DAY_S
from simulators.kitchen import Floats
from simulators.scenario import Habits
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


class Crew:
    """Drivers and inspectors of a recorded scenario; what they write becomes events for replay.

    Every interceptor has random numbers of its own. A manifest is true, missing (by habit, or while
    ``missing_manifest`` is in force) or false: paper of a complete pump-out that never was.
    """

    def __init__(self, city: City, habits: Habits, rng: np.random.Generator) -> None:
        self._city = city
        self._habits = habits
        count = len(city.plan.interceptors)
        self._rng = rng.spawn(count)
        self._day_rng = rng
        self._level = np.array([one.uniform(*habits.levels) for one in self._rng])
        self._since_s = np.full(count, city.now_s)
        self._pending: set[int] = set()
        self._events: list[Line] = []
        self._papers = [0] * count
        self._lies = [one for one in city.faults.faults if one.kind is FaultKind.FALSE_MANIFEST]

    def plan_day(self, now_s: float, filled: Floats) -> None:
        """Decide at the start of a day whom to serve and where to take a core; ``filled`` is the fraction."""
        habits = self._habits
        self._draw_cores(now_s)
        self._write_lies(now_s)
        due = (filled >= self._level) | (now_s - self._since_s > habits.longest_days * DAY_S)
        for row in np.flatnonzero(due).tolist():
            if row in self._pending:
                continue
            self._pending.add(row)
            rng = self._rng[row]
            name = self._city.plan.interceptors[row].id
            at_s = now_s + float(rng.uniform(5.0, 20.0)) * HOUR_S
            self._city.pump_out(name, at_s, complete=bool(rng.random() >= habits.partial))

    def services_done(self, done: Sequence[Job]) -> None:
        """Write the papers of services that ended, hours later or never."""
        for job in done:
            row, rng = job.interceptor, self._rng[job.interceptor]
            end_s = job.end_s or job.at_s
            self._pending.discard(row)
            self._since_s[row] = end_s
            self._level[row] = rng.uniform(*self._habits.levels)
            forgotten = np.isfinite(self._city.faults.sizes(FaultKind.MISSING_MANIFEST, end_s)[row])
            dipped, written = dip(job, rng), rng.random() < self._habits.paper
            later_s = HOUR_S * float(rng.uniform(0.5, 30.0))
            if written and not forgotten:
                self._manifest(row, job.start_s or job.at_s, end_s + later_s, job.complete, dipped)

    def events_until(self, end_s: float) -> list[Line]:
        """What the service learns until ``end_s`` [s since the epoch], in order."""
        known = [line for line in self._events if seconds(line["at"]) < end_s]
        return sorted(known, key=lambda line: (seconds(line["at"]), line["interceptor"]))

    def _manifest(self, row: int, start_s: float, known_s: float, complete: bool, dipped: Dipped) -> None:
        plan = self._city.plan.interceptors[row]
        self._papers[row] += 1
        self._events.append(
            {
                "at": iso(known_s),
                "type": "manifest",
                "interceptor": plan.id,
                "number": f"{plan.hauler.upper()}-{row + 1:04d}{self._papers[row]:02d}",
                "pumped_at": iso(start_s),
                "hauler": plan.hauler,
                "complete": complete,
                "volume_l": dipped.volume_l,
                "fog_mm": dipped.fog_mm,
                "solids_mm": dipped.solids_mm,
            }
        )

    def _write_lies(self, now_s: float) -> None:
        """Papers of pump-outs that are said to have been today; their figures are guessed from the truth."""
        city, layers = self._city, self._city.layers()
        for lie in self._lies:
            if not now_s <= lie.start_s < now_s + DAY_S:
                continue
            row = lie.interceptor
            rng = np.random.default_rng((row, int(lie.start_s)))  # its own: true services stay as they were
            guessed = Dipped(
                fog_mm=round(1e3 * float(layers.fog[row, 0]) * float(rng.uniform(0.7, 1.3))),
                solids_mm=round(1e3 * float(layers.solids[row, 0]) * float(rng.uniform(0.7, 1.3))),
                volume_l=round(city.plan.interceptors[row].volume_l * float(rng.uniform(0.9, 1.0))),
            )
            later_s = HOUR_S * float(rng.uniform(1.5, 31.0))
            self._manifest(row, lie.start_s, lie.start_s + later_s, True, guessed)

    def _draw_cores(self, now_s: float) -> None:
        count = len(self._city.plan.interceptors)
        chosen = self._day_rng.random(count) < self._habits.cores_a_month / 30.0
        layers = self._city.layers()
        for row in np.flatnonzero(chosen).tolist():
            rng = self._rng[row]
            fog = float(layers.fog[row, 0]) + float(rng.normal(0.0, STICK_FOG_M))
            solids = float(layers.solids[row, 0]) + float(rng.normal(0.0, STICK_SOLIDS_M))
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
