"""Which sensor hangs in which interceptor, and how: principles by quota, parts and heights by principle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np

from simulators.sensor import PROFILES, Principle

USUAL_CYCLE: Final = (
    (Principle.ROD,) * 6 + (Principle.INTERFACES,) * 2 + (Principle.DEPTHS, Principle.ECHO)
)  # fmt: skip
ABOVE_MM: Final = 400.0  # mm from the outlet up to a bracket under the cover
LAYER_FINDERS: Final = frozenset(
    {Principle.INTERFACES, Principle.DEPTHS, Principle.ECHO, Principle.SONAR_UP, Principle.SONAR_DOWN}
)
SONARS: Final = frozenset({Principle.ECHO, Principle.SONAR_UP, Principle.SONAR_DOWN})
PRESSURES: Final = frozenset({Principle.PRESSURE, Principle.PRESSURE_SURFACE})
UNPROBED: Final = 0.2  # of the sensors of a drawn mix have a tank thermometer alone


@dataclass(frozen=True, slots=True)
class SensorPlan:
    """One sensor in compartment 1 of interceptor ``interceptor``; 0 where it has no such part or limit."""

    id: str
    interceptor: int
    principle: Principle
    phase_s: float  # from the start of each step to its message
    in_motion_s: float | None  # cadence while the liquid moves; None: it keeps its own
    tau_s: float | None  # None: no inlet probe
    pitch_mm: float = 0.0
    first_mm: float = 0.0
    electrodes: int = 0
    mount_height_mm: float = 0.0
    sonar_height_mm: float = 0.0
    pressure_height_mm: float = 0.0
    min_layer_mm: float = 0.0
    resolution_mm: float = 0.0  # 0: the finest its messages can say
    tank_tau_s: float = 0.0  # 0: the tank thermometer follows at once


def checked_mix(principles: Mapping[Principle, float]) -> dict[Principle, float]:
    """Weights above zero, in the order of the principles.

    Raises
    ------
    ValueError
        A weight is negative or no number, or none is above zero.
    """
    for principle, weight in principles.items():
        if not isfinite(weight) or weight < 0.0:
            raise ValueError(f"principles: the weight of {principle} must be at least 0, is {weight!r}")
    mix = {item: float(principles[item]) for item in Principle if principles.get(item, 0.0) > 0.0}
    if not mix:
        raise ValueError("principles: at least one weight must be above 0")
    return mix


def quotas(principles: Mapping[Principle, float], count: int, rng: np.random.Generator) -> list[Principle]:
    """Principles of ``count`` sensors in random order, each as often as its weight says, rounded.

    Raises
    ------
    ValueError
        As :func:`checked_mix`.
    """
    mix = checked_mix(principles)
    names = list(mix)
    shares = np.array([mix[name] for name in names])
    exact = count * shares / shares.sum()
    whole = np.floor(exact).astype(np.int64)
    tie = rng.random(len(names)) * 1e-9  # equal remainders fall to either
    for row in np.argsort(-(exact - whole + tie), kind="stable")[: count - int(whole.sum())]:
        whole[row] += 1
    listed = np.repeat(np.arange(len(names)), whole)
    return [names[row] for row in rng.permutation(listed)]


def draw_usual(rng: np.random.Generator, index: int, depth_mm: float) -> SensorPlan:
    """The sensor of interceptor ``index`` in a city of the usual mix, mostly 50 mm rods; ``depth_mm`` deep."""
    principle = USUAL_CYCLE[(index * 7) % len(USUAL_CYCLE)]
    pitch = 25.0 if depth_mm < 800.0 else 50.0
    tau = float(np.round(rng.uniform(4.0, 35.0), 1))
    moving = rng.random() < 0.5
    return SensorPlan(
        id=f"gi-{1001 + index}",
        interceptor=index,
        principle=principle,
        phase_s=float(rng.integers(20, 880)),
        in_motion_s=300.0 if moving else None,
        tau_s=tau if rng.random() < 0.9 else None,
        pitch_mm=pitch if principle is Principle.ROD else 0.0,
        first_mm=pitch / 2 if principle is Principle.ROD else 0.0,
        electrodes=int((depth_mm + 180.0) // pitch) if principle is Principle.ROD else 0,
        mount_height_mm=depth_mm + ABOVE_MM,
        sonar_height_mm=round(0.55 * depth_mm) if principle is Principle.ECHO else 0.0,
        min_layer_mm=0.0 if principle is Principle.ROD else float(rng.choice((10.0, 15.0, 20.0))),
    )


def draw_mixed(
    rng: np.random.Generator, depths_mm: Sequence[float], principles: Mapping[Principle, float]
) -> list[SensorPlan]:
    """Sensors of the interceptors of ``depths_mm`` by weights of principles, at least one above zero.

    Raises
    ------
    ValueError
        As :func:`checked_mix`.
    """
    chosen = quotas(principles, len(depths_mm), rng)
    return [
        _draw(rng, index, depth, principle)
        for index, (depth, principle) in enumerate(zip(depths_mm, chosen, strict=True))
    ]


def _draw(rng: np.random.Generator, index: int, depth_mm: float, principle: Principle) -> SensorPlan:
    """Draw every part, whichever the principle, so that another principle changes no other sensor."""
    small = depth_mm < 800.0
    tau = float(np.round(rng.uniform(4.0, 35.0), 1))
    probed, moving = rng.random(2) >= (UNPROBED, 0.5)
    phase = float(rng.integers(20, 880))
    pitch = 25.0 if small or rng.random() < 0.25 else 50.0
    first = round(pitch * float(rng.uniform(0.4, 0.8)), 1)
    least = float(rng.choice((10.0, 15.0, 20.0)))
    coarse = float(rng.choice((1.0, 2.0, 5.0)))
    radar_least = float(rng.choice((60.0, 75.0)))
    tank_tau = float(np.round(rng.uniform(60.0, 600.0)))
    bracket, sonar, cell = rng.uniform((-60.0, 0.50, 60.0), (60.0, 0.58, 180.0)).tolist()
    profiled = principle in PROFILES
    if principle is Principle.RADAR:
        least = radar_least
    elif principle not in LAYER_FINDERS:
        least = 0.0
    return SensorPlan(
        id=f"gi-{1001 + index}",
        interceptor=index,
        principle=principle,
        phase_s=phase,
        in_motion_s=300.0 if moving else None,
        tau_s=tau if probed else None,
        pitch_mm=pitch if profiled else 0.0,
        first_mm=first if profiled else 0.0,
        electrodes=int((depth_mm + 180.0) // pitch) if profiled else 0,
        mount_height_mm=depth_mm + ABOVE_MM + round(bracket),
        sonar_height_mm=float(round(sonar * depth_mm)) if principle in SONARS else 0.0,
        pressure_height_mm=float(round(cell)) if principle in PRESSURES else 0.0,
        min_layer_mm=least,
        resolution_mm=0.0 if profiled else coarse,
        tank_tau_s=tank_tau,
    )
