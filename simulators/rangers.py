"""Devices that range the surface through the air, and pressure cells.

Sound in air: 331.3 m/s · √(1 + T/273.15). Density of water: McCutcheon, Martin and Barnwell 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.kitchen import Floats
from simulators.sensor import View, only, quantise

AIR_SOUND_M_S: Final = 331.3
GRAVITY_M_S2: Final = 9.80665
BLANK_M: Final = 0.25  # nearer than this an ultrasonic ranger hears only itself
WHERE_FALSE_M: Final = 0.25  # a false echo comes from this far, and its size
SUSPENDED: Final = 0.05  # of the sludge that each unit of unrest lifts …
MOST_SUSPENDED: Final = 0.3
SUSPENSION_KG_M3: Final = 60.0  # … and what it then weighs above water


def air_sound(air_c: Floats) -> Floats:
    """Speed of sound in air [m/s] at ``air_c`` [degC]."""
    return np.asarray(AIR_SOUND_M_S * np.sqrt(1.0 + air_c / 273.15))


def water_kg_m3(water_c: Floats) -> Floats:
    """Density of water [kg/m³] at ``water_c`` [degC]."""
    spread = (water_c + 288.9414) * (water_c - 3.9863) ** 2 / (508929.2 * (water_c + 68.12963))
    return np.asarray(1000.0 * (1.0 - spread))


@dataclass(frozen=True, slots=True)
class AirGap:
    """Ultrasonic rangers under the cover: they time an echo and divide by a speed of sound they believe in.

    ``assumed_c`` is the fixed temperature of those that do not compensate, NaN for those that take it from a
    thermometer in their head, wrong by ``offset_c``.
    """

    mount_m: Floats
    assumed_c: Floats
    offset_c: Floats
    step_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``distance`` in centimetres, never below the blanking distance, and the head's temperature."""
        noise = rng.normal(0.0, 1.0, (2, rows.size))
        air_c: Floats = view.tank_c if view.air_c is None else view.air_c
        head_c = air_c + self.offset_c[rows] + 0.1 * noise[1]
        assumed_c = np.where(np.isnan(self.assumed_c[rows]), head_c, self.assumed_c[rows])
        gap = self.mount_m[rows] - view.surface - view.froth + 0.0015 * noise[0] * view.agitation
        gap = view.or_false(gap, WHERE_FALSE_M) - view.excess
        told = quantise(gap * air_sound(assumed_c) / air_sound(air_c), self.step_m[rows])
        own = np.isnan(self.assumed_c[rows])
        return {
            "distance_cm": np.round(np.maximum(told, BLANK_M) * 1e2, 2),
            "air_c": only(own, head_c, 1),
        }


@dataclass(frozen=True, slots=True)
class Optical:
    """Laser rangers behind a window: the air's temperature does not matter, a film on the window does."""

    mount_m: Floats
    offset_m: Floats
    step_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``distance`` in millimetres; none where the film swallows the beam."""
        noise = rng.normal(0.0, 1.0, rows.size) * view.agitation
        gap = self.mount_m[rows] - view.surface - view.froth + self.offset_m[rows] + 0.0020 * noise
        gap = quantise(np.maximum(view.or_false(gap, WHERE_FALSE_M) - view.excess, 0.0), self.step_m[rows])
        if view.harm is not None:
            gap = np.where(view.harm.luck < view.harm.film, np.nan, gap)
        return {"distance_mm": np.round(gap * 1e3, 1)}


@dataclass(frozen=True, slots=True)
class Pressure:
    """Pressure cells ``cell_m`` above the floor, some with a level switch chain that tells the surface.

    A cell weighs what stands above it: water, and the lighter grease on it. Sludge that lies on the floor
    weighs nothing on a cell; what a surge lifts of it does.
    """

    cell_m: Floats
    grease_kg_m3: Floats
    zero_pa: Floats
    step_m: Floats
    with_surface: bool = False

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``pressure`` in millibar, and of some devices ``surface`` in centimetres."""
        noise = rng.normal(0.0, 1.0, (2, rows.size)) * view.agitation
        cell = self.cell_m[rows]
        bottom = view.fog_bottom
        water = np.maximum(bottom - cell, 0.0)
        grease = np.maximum(view.surface - np.maximum(bottom, cell), 0.0)
        lifted = np.clip(SUSPENDED * (view.agitation - 1.0), 0.0, MOST_SUSPENDED) * view.solids
        weight = (
            water_kg_m3(view.tank_c) * water
            + self.grease_kg_m3[rows] * grease
            + SUSPENSION_KG_M3 * np.where(water > 0.0, lifted, 0.0)
        )
        water_pa = GRAVITY_M_S2 * 1000.0
        pressure = GRAVITY_M_S2 * weight + self.zero_pa[rows] + water_pa * (0.0010 * noise[0] + view.excess)
        pressure = quantise(pressure, water_pa * self.step_m[rows])
        told = {"pressure_mbar": np.round(pressure / 100.0, 2)}
        if self.with_surface:
            surface = view.surface + view.froth + 0.0015 * noise[1]
            told["surface_cm"] = np.round(quantise(surface, self.step_m[rows]) * 1e2, 2)
        return told
