"""Level sensors as physical devices, one class for each sensing principle.

Each is given the layers in front of it and answers with what its electronics would say: electrode values,
interface heights, its own depths, echo times. Sound in water: Bilaniuk and Wong (112 points, 0 - 100 degC);
sound in oil: 1440 m/s at 22 degC, -2.8 m/s/K.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from analysis.units import INCH_M
from simulators.kitchen import Floats

MEDIA: Final = {"air": 0.05, "fog": 0.25, "water": 1.0, "solids": 0.7}
WATER_SOUND: Final = (
    1402.38742, 5.03821344, -5.80539349e-2, 3.32000870e-4, -1.44537900e-6, 2.99402365e-9,
)  # fmt: skip
OIL_SOUND_M_S: Final = 1440.0
OIL_SOUND_SLOPE: Final = -2.8  # m/s/K
OIL_SOUND_AT_C: Final = 22.0


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
class View:
    """The layers in front of r devices at the instant each looks, arrays of shape (r,) [m, degC].

    ``surface`` includes the head over the weir; ``agitation`` is 1 at rest and grows with the inflow.
    """

    surface: Floats
    fog: Floats
    solids: Floats
    tank_c: Floats
    agitation: Floats

    @property
    def fog_bottom(self) -> Floats:
        """Height of the lower face of the grease [m]."""
        return self.surface - self.fog


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


@dataclass(frozen=True, slots=True)
class Rods:
    """Electrode rods: rings of height ``ring_m`` every ``pitch_m``, each the mean of the media it touches.

    ``gain`` has shape (d, electrodes), NaN where a shorter rod has no electrode; ``bias`` likewise.
    """

    first_m: Floats
    pitch_m: Floats
    ring_m: Floats
    gain: Floats
    bias: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """Electrode values from the floor up, 3 decimals; NaN past the rod's end."""
        centre = self.first_m[rows, None] + self.pitch_m[rows, None] * np.arange(self.gain.shape[1])[None, :]
        half = self.ring_m[rows, None] / 2
        low, high = centre - half, centre + half
        ripple = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        solids = np.clip(view.solids + 0.003 * ripple[0], 0.0, None)
        bottom = np.maximum(view.fog_bottom + 0.002 * ripple[1], solids)
        surface = np.maximum(view.surface + 0.0015 * ripple[2], bottom)
        shares = coverage(low, high, solids, bottom, surface)
        levels = np.array([MEDIA["solids"], MEDIA["water"], MEDIA["fog"], MEDIA["air"]])
        value = np.tensordot(levels, shares, axes=1) * self.gain[rows] + self.bias[rows]
        value += rng.normal(0.0, 0.010, value.shape)
        return {"profile": np.round(np.clip(value, 0.0, None), 3)}


def coverage(low: Floats, high: Floats, solids: Floats, bottom: Floats, surface: Floats) -> Floats:
    """Share of each ring in solids, water, grease and air, shape (4, r, electrodes), sum 1 over the media.

    ``low`` and ``high`` (r, electrodes) are the rings' edges; the three heights (r,) the interfaces [m].
    """
    edges = [np.full_like(solids, -np.inf), solids, bottom, surface, np.full_like(solids, np.inf)]
    span = high - low
    return np.stack(
        [
            np.clip(np.minimum(high, above[:, None]) - np.maximum(low, below[:, None]), 0.0, None) / span
            for below, above in pairwise(edges)
        ]
    )


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Devices that find both faces; a layer thinner than ``min_layer_m`` is not seen."""

    offset_m: Floats  # shape (d, 3): mounting and calibration of surface, grease, solids
    min_layer_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``surface``, ``fog_bottom`` and ``solids_top`` in whole tenths of a millimetre."""
        noise = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        offset = self.offset_m[rows]
        least = self.min_layer_m[rows]
        surface = view.surface + 0.0012 * noise[0] + offset[:, 0]
        bottom = view.fog_bottom + 0.0022 * noise[1] + offset[:, 0] + offset[:, 1]
        top = view.solids + 0.0030 * noise[2] + offset[:, 2]
        return {
            "surface_mm": np.round(surface * 1e3, 1),
            "fog_bottom_mm": np.round(np.where(view.fog >= least, bottom, np.nan) * 1e3, 1),
            "solids_top_mm": np.round(np.where(view.solids >= least, np.maximum(top, 0.0), np.nan) * 1e3, 1),
        }


@dataclass(frozen=True, slots=True)
class Depths:
    """Devices that compute both depths themselves, in inches; 0 below their minimum."""

    scale: Floats  # shape (d, 2): calibration of grease and solids
    min_layer_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``fog_depth_in``, ``solids_depth_in`` and ``surface_in``, in hundredths of an inch."""
        noise = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        least = self.min_layer_m[rows]
        fog = view.fog * self.scale[rows, 0] + 0.0045 * noise[0]
        solids = view.solids * self.scale[rows, 1] + 0.0045 * noise[1]
        return {
            "fog_depth_in": np.round(np.where(fog >= least, fog, 0.0) / INCH_M, 2),
            "solids_depth_in": np.round(np.where(solids >= least, solids, 0.0) / INCH_M, 2),
            "surface_in": np.round((view.surface + 0.002 * noise[2]) / INCH_M, 2),
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
        fog = view.fog + 0.0012 * noise[0]
        path = sonar - view.solids + 0.0030 * noise[1]
        fog_us = 2e6 * fog / oil_sound(view.tank_c)
        solids_us = 2e6 * path / water_sound(view.tank_c)
        gap = self.mount_m[rows] - view.surface + 0.0015 * noise[2]
        return {
            "echo_fog_us": np.round(np.where(wet & (view.fog >= least), fog_us, np.nan), 1),
            "echo_solids_us": np.round(np.where(wet & (view.solids >= 0.0), solids_us, np.nan), 1),
            "distance_mm": np.round(np.maximum(gap, 0.0) * 1e3, 1),
        }
