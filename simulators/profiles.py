"""Profiles: electrodes, capacitance rings or heated thermistors on a rod, each the mean of what it touches.

Capacitance rings answer on the scale 0 (water) to 10,000 (air) of US 11774391, linear in the permittivity of
what surrounds them; heated thermistors with the conductivity they find [W/mK]: oil 0.17, water 0.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from simulators.kitchen import Floats
from simulators.mixture import WATER_PERMITTIVITY, permittivity, wet_conductivity
from simulators.sensor import MEDIA, Principle, View

FROTH: Final = 0.5  # a foam touches an electrode like half grease, half air
FILM_REACH_M: Final = 0.10  # a film thins to 1/e over this distance from the grease
USUAL_WET: Final = 0.25  # water in the grease for which the fleet file names the levels


@dataclass(frozen=True, slots=True)
class Scale:
    """Value of each medium in a rod's own scale, as the fleet file names it; noise of a reading; decimals."""

    solids: float
    water: float
    fog: float
    air: float
    noise: float
    decimals: int

    def levels(self) -> dict[str, float]:
        """The four values by the names of the fleet file."""
        return {"air": self.air, "fog": self.fog, "water": self.water, "solids": self.solids}


def ring_value(epsilon: Floats) -> Floats:
    """What a capacitance ring says in a medium of permittivity ``epsilon``: 0 in water, 10,000 in air."""
    return np.asarray(1e4 * (WATER_PERMITTIVITY - epsilon) / (WATER_PERMITTIVITY - 1.0))


def wet_ring(wet: Floats) -> Floats:
    """What a capacitance ring says in grease with the share ``wet`` of water."""
    return ring_value(permittivity(wet))


ROD_SCALE: Final = Scale(MEDIA["solids"], MEDIA["water"], MEDIA["fog"], MEDIA["air"], 0.010, 3)
RING_SCALE: Final = Scale(1500.0, 0.0, round(float(wet_ring(np.array(USUAL_WET))), -1), 10000.0, 40.0, 0)
THERMISTOR_SCALE: Final = Scale(
    0.45, 0.60, round(float(wet_conductivity(np.array(USUAL_WET))), 2), 0.03, 0.012, 3
)
SCALES: Final = {
    Principle.ROD: ROD_SCALE,
    Principle.CAPACITANCE: RING_SCALE,
    Principle.THERMISTOR: THERMISTOR_SCALE,
}


@dataclass(frozen=True, slots=True)
class Rods:
    """Electrode rods: rings of height ``ring_m`` every ``pitch_m``, each the mean of the media it touches.

    ``gain`` has shape (d, electrodes), NaN where a shorter rod has no electrode; ``bias`` likewise, in the
    rod's own scale. ``wet_level`` gives the value of grease by its share of water, where that matters;
    ``rank`` (d, electrodes) is the order in which electrodes die.
    """

    first_m: Floats
    pitch_m: Floats
    ring_m: Floats
    gain: Floats
    bias: Floats
    scale: Scale = ROD_SCALE
    wet_level: Callable[[Floats], Floats] | None = None
    rank: Floats | None = None

    def read(self, rows: np.ndarray, view: View, rng: np.random.Generator) -> dict[str, Floats]:
        """Electrode values from the floor up; NaN past the rod's end and for a dead electrode.

        A dead electrode of odd rank gives no value, one of even rank says 0.
        """
        scale = self.scale
        place = np.arange(self.gain.shape[1])[None, :]
        low = (self.first_m - self.ring_m / 2)[rows, None] + self.pitch_m[rows, None] * place
        high = low + self.ring_m[rows, None]
        ripple = rng.normal(0.0, 1.0, (3, rows.size)) * view.agitation
        solids = np.maximum(view.solids + 0.003 * ripple[0], 0.0)
        bottom = np.maximum(view.fog_bottom + 0.002 * ripple[1], solids)
        surface = np.maximum(view.surface + 0.0015 * ripple[2], bottom)
        shares = coverage(low, high, solids, bottom, surface)
        value = scale.solids * shares[0]
        for level, share in zip((scale.water, scale.fog, scale.air), shares[1:], strict=True):
            value += level * share
        if self.wet_level is not None and view.wet is not None:
            value += (self.wet_level(view.wet) - scale.fog)[:, None] * shares[2]
        if view.harm is not None:
            self._harm(value, rows, view, low, high, bottom, surface)
        value = value * self.gain[rows] + self.bias[rows]
        value += rng.normal(0.0, scale.noise, value.shape)
        value = np.round(np.maximum(value, 0.0), scale.decimals)
        if view.harm is not None and self.rank is not None:
            rank = self.rank[rows]
            dead = rank < view.harm.dead[:, None]
            value = np.where(dead & np.isfinite(value), np.where(rank % 2 == 0, np.nan, 0.0), value)
        return {"profile": value}

    def _harm(
        self,
        value: Floats,
        rows: np.ndarray,
        view: View,
        low: Floats,
        high: Floats,
        bottom: Floats,
        surface: Floats,
    ) -> None:
        """Foam, film, drift and one wrong electrode, in place; ``value`` as of shape (r, electrodes)."""
        harm, scale = view.harm, self.scale
        assert harm is not None
        top = (surface + harm.foam)[:, None]
        froth = np.maximum(np.minimum(high, top) - np.maximum(low, surface[:, None]), 0.0) / (high - low)
        value += froth * (FROTH * (scale.fog - scale.air))
        away = np.maximum(np.maximum(bottom[:, None] - high, low - surface[:, None]), 0.0)
        value += harm.film[:, None] * np.exp(-away / FILM_REACH_M) * (scale.fog - value)
        value += (harm.drift * (scale.fog - scale.water))[:, None]
        struck = np.flatnonzero(harm.spike)
        count = np.isfinite(self.gain[rows[struck]]).sum(axis=1)
        electrode = (harm.luck[struck] * count).astype(np.int64)
        middle = (scale.water + scale.air) / 2
        wet = (value[struck, electrode] > middle) == (scale.water > middle)
        value[struck, electrode] = np.where(wet, scale.air, scale.water)


def coverage(low: Floats, high: Floats, solids: Floats, bottom: Floats, surface: Floats) -> Floats:
    """Share of each ring in solids, water, grease and air, shape (4, r, electrodes), sum 1 over the media.

    ``low`` and ``high`` (r, electrodes) are the rings' edges; the three heights (r,) the interfaces [m].
    """
    span = high - low
    below = np.empty((5, *span.shape))  # part of each ring below the floor, each interface, the sky
    below[0], below[4] = 0.0, 1.0
    inside = below[1:4]
    np.subtract(np.stack([solids, bottom, surface])[:, :, None], low, out=inside)
    np.minimum(np.maximum(inside, 0.0, out=inside) / span, 1.0, out=inside)
    return np.asarray(below[1:] - below[:-1], dtype=np.float64)
