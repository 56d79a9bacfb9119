"""What goes wrong, where and when: a schedule of faults with intervals, drawn once and part of the truth.

Each kind is drawn from a stream of its own, so that switching one on or off changes no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

DAY_S: Final = 86400.0
YEAR_DAYS: Final = 365.25


class FaultKind(StrEnum):
    """What can be switched on, each alone."""

    # the device
    COATING = "coating"  # grease on rod, window or membrane
    FALSE_ECHO = "false_echo"  # a wall, a pipe, a second bounce
    FOAM = "foam"
    DEAD_ELECTRODE = "dead_electrode"
    DRIFT = "drift"
    STUCK = "stuck"
    SPIKES = "spikes"
    MOVED = "moved"  # the mount slipped: all heights shift alike
    COVER_OPEN = "cover_open"
    LOW_BATTERY = "low_battery"
    CLOCK_RESET = "clock_reset"  # the device's clock starts again in 1970
    # the way to the broker
    SILENCE = "silence"
    DROP_OUT = "drop_out"  # a large part of the messages is lost
    LATE_BATCH = "late_batch"  # kept, then sent at once and out of order
    DUPLICATES = "duplicates"
    RETAINED = "retained"
    # the kitchen
    CLOSURE = "closure"
    MENU_SHIFT = "menu_shift"
    # people
    SKIM = "skim"  # grease taken off without a pump-out
    FALSE_MANIFEST = "false_manifest"  # paper without a pump-out
    MISSING_MANIFEST = "missing_manifest"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often one kind strikes.

    ``share`` of the interceptors can be struck; each of these is, ``times_a_year`` on average, for
    ``days`` (shortest, longest); ``size`` (least, largest) means what the kind says: a length [m], a ratio.
    """

    share: float = 1.0
    times_a_year: float = 4.0
    days: tuple[float, float] = (2.0, 14.0)
    size: tuple[float, float] = (1.0, 1.0)


USUAL: Final[Mapping[FaultKind, FaultPlan]] = {
    FaultKind.COATING: FaultPlan(0.25, 2.0, (15.0, 60.0), (0.3, 1.0)),
    FaultKind.FALSE_ECHO: FaultPlan(0.25, 3.0, (2.0, 20.0), (0.05, 0.40)),
    FaultKind.FOAM: FaultPlan(0.25, 8.0, (0.2, 2.0), (0.02, 0.10)),
    FaultKind.DEAD_ELECTRODE: FaultPlan(0.2, 1.5, (20.0, 120.0), (1.0, 3.0)),
    FaultKind.DRIFT: FaultPlan(0.25, 1.5, (30.0, 90.0), (0.008, 0.030)),
    FaultKind.STUCK: FaultPlan(0.25, 3.0, (1.0, 8.0), (1.0, 1.0)),
    FaultKind.SPIKES: FaultPlan(0.25, 4.0, (1.0, 10.0), (0.05, 0.40)),
    FaultKind.MOVED: FaultPlan(0.15, 1.0, (10.0, 60.0), (0.03, 0.10)),
    FaultKind.COVER_OPEN: FaultPlan(0.25, 6.0, (0.05, 0.4), (1.0, 1.0)),
    FaultKind.LOW_BATTERY: FaultPlan(0.2, 1.5, (10.0, 40.0), (0.3, 0.9)),
    FaultKind.CLOCK_RESET: FaultPlan(0.2, 3.0, (0.2, 5.0), (0.0, 3.0)),
    FaultKind.SILENCE: FaultPlan(0.25, 4.0, (0.2, 10.0), (1.0, 1.0)),
    FaultKind.DROP_OUT: FaultPlan(0.25, 4.0, (2.0, 20.0), (0.3, 0.9)),
    FaultKind.LATE_BATCH: FaultPlan(0.25, 6.0, (0.1, 3.0), (1.0, 1.0)),
    FaultKind.DUPLICATES: FaultPlan(0.25, 4.0, (1.0, 10.0), (0.2, 1.0)),
    FaultKind.RETAINED: FaultPlan(0.25, 4.0, (1.0, 10.0), (1.0, 24.0)),
    FaultKind.CLOSURE: FaultPlan(0.35, 2.0, (3.0, 16.0), (1.0, 1.0)),
    FaultKind.MENU_SHIFT: FaultPlan(0.35, 1.5, (14.0, 60.0), (0.45, 2.2)),
    FaultKind.SKIM: FaultPlan(0.2, 3.0, (0.02, 0.04), (0.6, 0.95)),
    FaultKind.FALSE_MANIFEST: FaultPlan(0.25, 2.0, (1.0, 1.0), (1.0, 1.0)),
    FaultKind.MISSING_MANIFEST: FaultPlan(0.3, 2.0, (20.0, 90.0), (1.0, 1.0)),
}
"""How often each kind strikes where a scenario does not say otherwise. ``size``, where it means something: the
share of messages lost (drop-out) or copied (duplicates), retained copies a day, the ratio of grease and solids in
the water (menu shift), the part of the grease taken (skim); kinds of the device: see `simulators.trouble`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one interceptor (and its sensor), in force from ``start_s`` until before ``end_s``."""

    kind: FaultKind
    interceptor: int
    start_s: float
    end_s: float
    size: float


def draw_faults(
    plans: Mapping[FaultKind, FaultPlan],
    count: int,
    start_s: float,
    days: float,
    seed: np.random.SeedSequence,
) -> tuple[Fault, ...]:
    """Draw every fault of ``count`` interceptors over ``days`` from ``start_s``, in order of their start."""
    found: list[Fault] = []
    streams = dict(zip(FaultKind, seed.spawn(len(FaultKind)), strict=True))
    for kind, plan in plans.items():
        rng = np.random.default_rng(streams[kind])
        struck = np.flatnonzero(rng.random(count) < plan.share)
        for row in struck.tolist():
            for _ in range(int(rng.poisson(plan.times_a_year * days / YEAR_DAYS))):
                begin = start_s + float(rng.uniform(0.0, days)) * DAY_S
                end = begin + float(rng.uniform(*plan.days)) * DAY_S
                found.append(Fault(kind, row, begin, end, float(rng.uniform(*plan.size))))
    return tuple(sorted(found, key=lambda one: (one.start_s, one.interceptor, one.kind)))


class Schedule:
    """Faults by kind, asked for at an instant."""

    def __init__(self, faults: tuple[Fault, ...], count: int) -> None:
        self.faults = faults
        self._count = count
        self._by_kind = {
            kind: _Columns.of([one for one in faults if one.kind is kind])
            for kind in {one.kind for one in faults}
        }

    def sizes(self, kind: FaultKind, now_s: float) -> NDArray[np.float64]:
        """Size of the fault in force at ``now_s`` for each interceptor, shape (n,); NaN where there is none."""
        out = np.full(self._count, np.nan)
        columns = self._by_kind.get(kind)
        if columns is not None:
            on = (columns.start_s <= now_s) & (now_s < columns.end_s)
            out[columns.row[on]] = columns.size[on]
        return out

    def ages(self, kind: FaultKind, now_s: float) -> NDArray[np.float64]:
        """How long the fault in force has lasted [s], shape (n,); NaN where there is none."""
        out = np.full(self._count, np.nan)
        columns = self._by_kind.get(kind)
        if columns is not None:
            on = (columns.start_s <= now_s) & (now_s < columns.end_s)
            out[columns.row[on]] = now_s - columns.start_s[on]
        return out


@dataclass(frozen=True, slots=True)
class _Columns:
    row: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    size: NDArray[np.float64]

    @classmethod
    def of(cls, faults: list[Fault]) -> _Columns:
        return cls(
            np.array([one.interceptor for one in faults], dtype=np.int64),
            np.array([one.start_s for one in faults]),
            np.array([one.end_s for one in faults]),
            np.array([one.size for one in faults]),
        )
