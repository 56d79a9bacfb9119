"""Devices that look through the liquid: sonars of one direction, and guided-wave radar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.kitchen import Floats
from simulators.mixture import permittivity, wet_sound
from simulators.sensor import View, oil_sound, only, quantise, water_sound

ASSUMED_SOUND_M_S: Final = 1480.0  # water at 20 degC, as an uplooking sonar takes it for its own heights
FLUFF_M: Final = 0.006  # how far, on average, sound goes into fluffy sludge before it comes back
MOST_PERMITTIVITY: Final = 10.0  # of the upper medium; beyond it a radar misses the interface now and then …
BLIND_PERMITTIVITY: Final = 20.0  # … and from here on always


@dataclass(frozen=True, slots=True)
class SonarUp:
    """Sonars in the water, ``sonar_m`` above the floor, that hear the grease's lower face and the surface."""

    sonar_m: Floats
    min_layer_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """Two-way time in the grease [µs], and the height of its lower face by a fixed speed of sound [mm].

        Silent while it hangs dry or sits in a layer; grease too thin to part the two echoes is not heard.
        """
        noise = rng.normal(0.0, 1.0, (2, rows.size)) * view.agitation
        sonar = self.sonar_m[rows]
        heard = (sonar < view.fog_bottom) & (sonar > view.solids) & (view.fog >= self.min_layer_m[rows])
        fog = view.or_false(view.fog + 0.0012 * noise[0]) + view.excess
        wet = np.zeros(rows.size) if view.wet is None else view.wet
        water = water_sound(view.tank_c)
        path = (view.fog_bottom - sonar + 0.0012 * noise[1]) * ASSUMED_SOUND_M_S / water
        fog_us = np.maximum(2e6 * fog / wet_sound(oil_sound(view.tank_c), water, wet), 0.0)
        return {
            "echo_fog_us": only(heard, fog_us, 1),
            "fog_bottom_mm": only(heard, 1e3 * (sonar + path), 1),
        }


@dataclass(frozen=True, slots=True)
class SonarDown:
    """Sonars that look down on the sludge; ``missed`` is the share of echoes too weak to hear."""

    sonar_m: Floats
    missed: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """Two-way time down to the solids [µs]; sound goes a little into them before it comes back."""
        noise = rng.normal(0.0, 1.0, rows.size) * view.agitation
        into = np.minimum(FLUFF_M * rng.standard_exponential(rows.size), view.solids)
        lost = rng.random(rows.size) < self.missed[rows]
        sonar = self.sonar_m[rows]
        wet = (sonar < view.fog_bottom) & (sonar > view.solids)
        path = view.or_false(sonar - view.solids + into + 0.0030 * noise) - view.excess
        time_us = 2e6 * np.maximum(path, 0.0) / water_sound(view.tank_c)
        return {"echo_solids_us": only(wet & ~lost, time_us, 1)}


@dataclass(frozen=True, slots=True)
class Radar:
    """Guided-wave radars, set to ``assumed_wet`` of water in the grease when they were installed.

    The pulse is slowed by √ε in the grease, so that wetter grease than assumed seems thicker. Two echoes
    closer than ``min_layer_m`` merge, and grease of more than ε 10 begins to hide the water below it.
    """

    offset_m: Floats
    assumed_wet: Floats
    min_layer_m: Floats
    step_m: Floats

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """``surface`` and, where there is a second echo, ``fog_bottom`` in metres."""
        noise = rng.normal(0.0, 1.0, (2, rows.size)) * view.agitation
        assumed = self.assumed_wet[rows]
        epsilon = permittivity(assumed if view.wet is None else view.wet)
        hidden = (epsilon - MOST_PERMITTIVITY) / (BLIND_PERMITTIVITY - MOST_PERMITTIVITY)
        clear = (view.fog >= self.min_layer_m[rows]) & (rng.random(rows.size) >= hidden)
        surface = view.surface + self.offset_m[rows] + 0.0015 * noise[0]
        thick = (view.fog + 0.0020 * noise[1]) * np.sqrt(epsilon / permittivity(assumed))
        thick = view.or_false(thick) + view.excess
        bottom = np.where(clear, surface - np.maximum(thick, 0.0), np.nan)
        step = self.step_m[rows]
        surface = surface + 0.3 * view.froth  # most of a foam lets the pulse through
        return {
            "surface_m": np.round(quantise(surface, step), 4),
            "fog_bottom_m": np.round(quantise(bottom, step), 4),
        }
