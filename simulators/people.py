"""People at the tank: what a driver writes down after pumping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.trucks import Job

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
