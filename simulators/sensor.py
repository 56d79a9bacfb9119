"""Level sensors as physical devices, one class for each sensing principle.

Each is given the layers in front of it and answers with what its electronics would say: electrode values,
interface heights, its own depths, echo times. Sound in water: Bilaniuk and Wong (112 points, 0 - 100 degC);
sound in oil: 1440 m/s at 22 degC, -2.8 m/s/K.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import numpy as np

from analysis.units import INCH_M
from simulators.kitchen import Bools, Floats

MEDIA: Final = {"air": 0.05, "fog": 0.25, "water": 1.0, "solids": 0.7}
WATER_SOUND: Final = (
    1402.38742, 5.03821344, -5.80539349e-2, 3.32000870e-4, -1.44537900e-6, 2.99402365e-9,
)  # fmt: skip
OIL_SOUND_M_S: Final = 1440.0
OIL_SOUND_SLOPE: Final = -2.8  # m/s/K
OIL_SOUND_AT_C: Final = 22.0
FILM_M: Final = 0.06  # what a ripe film of grease on a window or transducer adds to a length


class Principle(StrEnum):
    """How a device sees the layers."""

    ROD = "rod"
    INTERFACES = "interfaces"
    DEPTHS = "depths"
    ECHO = "echo"  # a sonar that looks up and down, and an air-gap ranger
    CAPACITANCE = "capacitance"
    THERMISTOR = "thermistor"
    SONAR_UP = "sonar_up"
    SONAR_DOWN = "sonar_down"
    AIR_GAP = "air_gap"
    OPTICAL = "optical"
    PRESSURE = "pressure"
    PRESSURE_SURFACE = "pressure_surface"
    RADAR = "radar"


PROFILES: Final = frozenset({Principle.ROD, Principle.CAPACITANCE, Principle.THERMISTOR})


@dataclass(frozen=True, slots=True)
class Harm:
    """What disturbs each of r readings, arrays of shape (r,) [m]; 0 where nothing does."""

    foam: Floats  # froth on the surface
    film: Floats  # ripeness of a coating of grease, 0 … 1
    false: Floats  # the wrong distance of a false echo, NaN where the echo is true
    drift: Floats  # by which grease or level seem higher
    spike: Floats  # the same, in one reading
    dead: Floats  # electrodes that do not work
    luck: Floats  # uniform in 0 … 1: whatever is left to chance
    hurt: Bools | None = None  # the readings that any of this disturbs; None: perhaps all

    @classmethod
    def none(cls, count: int) -> Harm:
        """Nothing disturbs ``count`` readings."""
        still = np.zeros(count)
        return cls(still, still, np.full(count, np.nan), still, still, still, still)

    def take(self, at: np.ndarray) -> Harm | None:
        """The readings ``at``, shape (q,); None where none of them is disturbed."""
        if self.hurt is not None and not self.hurt[at].any():
            return None
        return Harm(
            self.foam[at], self.film[at], self.false[at], self.drift[at],
            self.spike[at], self.dead[at], self.luck[at],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """The layers in front of r devices at the instant each looks, arrays of shape (r,) [m, degC].

    ``surface`` includes the head over the weir; ``agitation`` is 1 at rest and grows with the inflow;
    ``wet`` is the share of water in the grease, ``air_c`` the air between cover and surface.
    """

    surface: Floats
    fog: Floats
    solids: Floats
    tank_c: Floats
    agitation: Floats
    wet: Floats | None = None
    air_c: Floats | None = None
    harm: Harm | None = None

    @property
    def fog_bottom(self) -> Floats:
        """Height of the lower face of the grease [m]."""
        return self.surface - self.fog

    @property
    def froth(self) -> Floats | float:
        """Height of the foam on the surface [m]."""
        return 0.0 if self.harm is None else self.harm.foam

    @property
    def excess(self) -> Floats | float:
        """By how much grease seems thicker, or a level higher, through film, drift and spikes [m]."""
        harm = self.harm
        return 0.0 if harm is None else FILM_M * harm.film + harm.drift + harm.spike

    def or_false(self, length: Floats, least: float = 0.0) -> Floats:
        """A length found by an echo [m], or what a false echo gives instead, ``least`` beyond its size."""
        if self.harm is None:
            return length
        return np.where(np.isnan(self.harm.false), length, least + self.harm.false)

    def take(self, at: np.ndarray) -> View:
        """The readings ``at``, shape (q,)."""
        harm = None if self.harm is None else self.harm.take(at)
        return View(
            self.surface[at], self.fog[at], self.solids[at], self.tank_c[at], self.agitation[at],
            None if self.wet is None else self.wet[at],
            None if self.air_c is None else self.air_c[at],
            harm,
        )  # fmt: skip


class Device(Protocol):
    """Devices of one principle; ``rows`` picks among them, several times the same where one speaks often."""

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """What the devices ``rows`` say: message field -> values (r,), or (r, electrodes) for a profile."""


def water_sound(water_c: Floats) -> Floats:
    """Speed of sound in water [m/s] at ``water_c`` [degC]; Bilaniuk and Wong, 112-point set."""
    return np.asarray(np.polyval(WATER_SOUND[::-1], water_c), dtype=np.float64)


def oil_sound(oil_c: Floats) -> Floats:
    """Speed of sound in kitchen oil [m/s] at ``oil_c`` [degC]."""
    return np.asarray(OIL_SOUND_M_S + OIL_SOUND_SLOPE * (oil_c - OIL_SOUND_AT_C), dtype=np.float64)


def only(where: Bools, value: Floats, decimals: int) -> Floats:
    """``value`` rounded, shape (r,), and NaN elsewhere."""
    return np.asarray(np.round(np.where(where, value, np.nan), decimals), dtype=np.float64)


def quantise(value: Floats, step: Floats) -> Floats:
    """Round to whole steps [same unit], shape (r,); a step of 0 leaves the value as it is."""
    fine = np.maximum(step, 1e-9)
    return np.asarray(np.round(value / fine) * fine, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Devices that find both faces; a layer thinner than ``min_layer_m`` is not seen."""

    offset_m: Floats  # shape (d, 3): mounting and calibration of surface, grease, solids
    min_layer_m: Floats
    step_m: Floats | None = None

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``surface``, ``fog_bottom`` and ``solids_top`` in whole tenths of a millimetre, never crossing."""
        noise = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        offset = self.offset_m[rows]
        least = self.min_layer_m[rows]
        surface = view.surface + 0.0012 * noise[0] + offset[:, 0]
        bottom = view.fog_bottom + 0.0022 * noise[1] + offset[:, 0] + offset[:, 1]
        top = np.maximum(view.solids + 0.0030 * noise[2] + offset[:, 2], 0.0)
        surface = surface + view.froth
        bottom = surface - view.or_false(surface - bottom) - view.excess
        if self.step_m is not None:
            step = self.step_m[rows]
            surface, bottom, top = quantise(np.stack([surface, bottom, top]), step)
        bottom = np.where(view.fog >= least, np.minimum(bottom, surface), np.nan)
        top = np.where(view.solids >= least, np.where(top > bottom, bottom, top), np.nan)
        return {
            "surface_mm": np.round(surface * 1e3, 1),
            "fog_bottom_mm": np.round(bottom * 1e3, 1),
            "solids_top_mm": np.round(top * 1e3, 1),
        }


@dataclass(frozen=True, slots=True)
class Depths:
    """Devices that compute both depths themselves, in inches; 0 below their minimum."""

    scale: Floats  # shape (d, 2): calibration of grease and solids
    min_layer_m: Floats
    step_m: Floats | None = None

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``fog_depth_in``, ``solids_depth_in`` and ``surface_in``, in hundredths of an inch."""
        noise = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        least = self.min_layer_m[rows]
        fog = view.fog * self.scale[rows, 0] + 0.0045 * noise[0]
        solids = view.solids * self.scale[rows, 1] + 0.0045 * noise[1]
        surface = view.surface + 0.002 * noise[2] + view.froth
        fog = view.or_false(fog + view.froth) + view.excess
        if self.step_m is not None:
            step = self.step_m[rows]
            fog, solids, surface = quantise(np.stack([fog, solids, surface]), step)
        return {
            "fog_depth_in": np.round(np.where(fog >= least, fog, 0.0) / INCH_M, 2),
            "solids_depth_in": np.round(np.where(solids >= least, solids, 0.0) / INCH_M, 2),
            "surface_in": np.round(surface / INCH_M, 2),
        }


@dataclass(frozen=True, slots=True)
class Echoes:
    """A sonar in the liquid, ``sonar_m`` above the floor, and an air-gap ranger at ``mount_m``."""

    mount_m: Floats
    sonar_m: Floats
    min_layer_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """Two-way times in grease and down to the solids [µs], and the air gap [mm].

        The sonar hears nothing while it hangs dry or sits in one of the layers.
        """
        noise = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        sonar, least = self.sonar_m[rows], self.min_layer_m[rows]
        wet = (sonar < view.fog_bottom) & (sonar > view.solids)
        fog = view.or_false(view.fog + 0.0012 * noise[0]) + view.excess
        path = view.or_false(sonar - view.solids + 0.0030 * noise[1])
        fog_us = 2e6 * np.maximum(fog, 0.0) / oil_sound(view.tank_c)
        solids_us = 2e6 * np.maximum(path, 0.0) / water_sound(view.tank_c)
        gap = self.mount_m[rows] - view.surface + 0.0015 * noise[2] - view.froth
        return {
            "echo_fog_us": np.round(np.where(wet & (view.fog >= least), fog_us, np.nan), 1),
            "echo_solids_us": np.round(np.where(wet & (view.solids >= 0.0), solids_us, np.nan), 1),
            "distance_mm": np.round(np.maximum(gap, 0.0) * 1e3, 1),
        }
