"""What to simulate: which city, for how long, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from simulators.faults import FaultKind, FaultPlan
from simulators.network import Quality
from simulators.sensor import Principle

DEFAULT_START_S: Final = 1_788_246_000.0  # 2026-09-01 00:00 in Los Angeles


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


@dataclass(frozen=True, slots=True)
class Scenario:
    """``days`` [day] of ``count`` interceptors from ``start_s`` [s since the epoch], every 15 minutes.

    ``kitchens`` and ``principles`` are weights by kind; empty: the city's usual mix. ``faults`` holds the
    kinds that strike; a kind that is not in it does not.
    """

    seed: int = 1
    days: int = 30
    count: int = 40
    start_s: float = DEFAULT_START_S
    quality: Quality = field(default_factory=Quality)
    habits: Habits = field(default_factory=Habits)
    name: str = ""
    kitchens: Mapping[str, float] = field(default_factory=dict)
    principles: Mapping[Principle, float] = field(default_factory=dict)
    faults: Mapping[FaultKind, FaultPlan] = field(default_factory=dict)
