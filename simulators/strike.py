"""Which faults strike a city: the scenario's kinds, drawn, and left out where a device cannot have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from simulators.faults import Fault, FaultKind, FaultPlan, Schedule, draw_faults
from simulators.plan import CityPlan
from simulators.sensor import PROFILES, Principle
from simulators.truth import Line, iso

STREAM: Final = 10


def strike(
    plan: CityPlan, plans: Mapping[FaultKind, FaultPlan], start_s: float, days: float, seed: int
) -> Schedule:
    """Draw the faults of ``days`` [day] from ``start_s`` [s since the epoch]."""
    drawn = draw_faults(plans, len(plan.interceptors), start_s, days, np.random.SeedSequence((seed, STREAM)))
    principles = {sensor.interceptor: sensor.principle for sensor in plan.sensors}
    return Schedule(
        tuple(one for one in drawn if can_have(one.kind, principles.get(one.interceptor))),
        len(plan.interceptors),
    )


def can_have(kind: FaultKind, principle: Principle | None) -> bool:
    """Whether a fault of this kind can strike an interceptor with such a sensor, or none."""
    if principle is None:
        return kind in PEOPLE
    return principle in ONLY.get(kind, (principle,))


def fault_lines(plan: CityPlan, faults: tuple[Fault, ...]) -> list[Line]:
    """One line of truth for each fault, in order of their start."""
    sensors = {sensor.interceptor: sensor.id for sensor in plan.sensors}
    return [
        {
            "at": iso(one.start_s),
            "type": "fault",
            "kind": str(one.kind),
            "interceptor": plan.interceptors[one.interceptor].id,
            "sensor": sensors.get(one.interceptor),
            "start": iso(one.start_s),
            "end": iso(one.end_s),
            "size": round(one.size, 6),
        }
        for one in faults
    ]


PEOPLE: Final = frozenset(
    {
        FaultKind.CLOSURE,
        FaultKind.MENU_SHIFT,
        FaultKind.SKIM,
        FaultKind.FALSE_MANIFEST,
        FaultKind.MISSING_MANIFEST,
    }
)
ONLY: Final[Mapping[FaultKind, frozenset[Principle]]] = {
    FaultKind.DEAD_ELECTRODE: PROFILES,
    FaultKind.FALSE_ECHO: frozenset(Principle) - PROFILES - {Principle.PRESSURE, Principle.PRESSURE_SURFACE},
    FaultKind.FOAM: frozenset(Principle) - {Principle.PRESSURE, Principle.SONAR_UP, Principle.SONAR_DOWN},
}
