"""Kitchens: when they draw water, how much grease and solids it carries and how warm it is.

Draws come as a compound Poisson process at meal times; sites of one kind differ by lognormal factors. Design
values: Lesikar et al. 2006, Water Environment Research 78:805 (restaurant wastewater: 96 L a seat and day).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SLOT_S: Final = 900  # one step of the city [s]
SLOTS: Final = 96  # steps a local day
DRAW_M3: Final = 0.022  # mean volume of one draw: a sink or a machine cycle
DRAW_SHAPE: Final = 1.6  # gamma shape of one draw's volume
WARMEST_DRAW_C: Final = 58.4  # ordinary draws stay below the 60 degC of the ordinances
GREASE_KG_M3: Final = 905.0  # dry grease, between lard and vegetable oil


@dataclass(frozen=True, slots=True)
class KitchenKind:
    """One kind of kitchen: the shape of its day and week, and its typical load."""

    name: str
    meals: tuple[tuple[float, float, float], ...]  # local hour, width [h], weight
    weekday: tuple[float, ...]  # Monday first, mean near 1
    litres_a_seat: float
    fog_g_m3: float
    solids_g_m3: float
    spread: float  # log-sd between sites of this kind
    mix_c: float
    seats: tuple[int, int]


KINDS: Final[dict[str, KitchenKind]] = {
    kind.name: kind
    for kind in (
        KitchenKind(
            "full-service",
            ((12.4, 0.9, 0.9), (18.9, 1.3, 1.5), (22.2, 0.5, 0.5)),
            (0.8, 0.85, 0.9, 1.0, 1.25, 1.3, 0.9),
            92.0, 500.0, 170.0, 0.40, 39.0, (60, 130),
        ),
        KitchenKind(
            "quick-service",
            ((12.2, 1.1, 1.2), (17.8, 1.8, 1.2), (21.6, 0.6, 0.4)),
            (0.95, 0.95, 0.95, 1.0, 1.1, 1.1, 0.95),
            84.0, 640.0, 140.0, 0.45, 41.0, (40, 80),
        ),
        KitchenKind(
            "cafe",
            ((8.3, 1.2, 1.2), (12.6, 1.2, 1.0), (16.2, 0.6, 0.3)),
            (0.9, 0.9, 0.9, 0.95, 1.0, 1.25, 1.1),
            62.0, 350.0, 140.0, 0.45, 36.0, (24, 60),
        ),
        KitchenKind(
            "bakery",
            ((5.2, 1.3, 1.2), (9.5, 1.8, 0.8), (14.0, 0.8, 0.5)),
            (0.7, 0.95, 0.95, 1.0, 1.1, 1.25, 1.05),
            70.0, 390.0, 240.0, 0.40, 38.0, (30, 50),
        ),
        KitchenKind(
            "cafeteria",
            ((7.6, 0.8, 0.7), (12.1, 0.8, 1.6), (14.3, 0.5, 0.6)),
            (1.25, 1.3, 1.3, 1.25, 1.2, 0.4, 0.3),
            66.0, 440.0, 195.0, 0.35, 42.0, (90, 170),
        ),
    )
}  # fmt: skip


def day_shape(kind: KitchenKind, shift_h: float) -> Floats:
    """Share of the day's draws in each local quarter-hour, shape (96,), sum 1."""
    hours = (np.arange(SLOTS) + 0.5) * SLOT_S / 3600.0
    share = np.zeros(SLOTS)
    for hour, width, weight in kind.meals:
        share += weight / width * np.exp(-0.5 * ((hours - hour - shift_h) / width) ** 2)
    share[share < 0.01 * share.max()] = 0.0  # closed: the tails of the meals are no business
    return np.asarray(share / share.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Kitchens:
    """What feeds each of n interceptors; all arrays of length n unless stated."""

    daily_m3: Floats
    slot_share: Floats  # shape (n, 96)
    weekday: Floats  # shape (n, 7)
    grease_kg_m3: Floats
    solids_kg_m3: Floats
    mix_c: Floats
    purges_a_day: Floats
    season_phase: Floats


@dataclass(frozen=True, slots=True)
class Inflow:
    """What came in one step, arrays of length n; each step's warmest draw is one pulse at the inlet."""

    volume_m3: Floats
    grease_m3: Floats  # dry
    solids_kg: Floats  # dry, settleable
    mix_c: Floats
    pulse_c: Floats  # NaN where nothing was drawn
    pulse_start_s: Floats  # from the start of the step
    pulse_s: Floats
    hot: Bools  # the pulse is a purge above 60 degC


def upset(inflow: Inflow, closed: Bools, menu: Floats) -> Inflow:
    """The same step with some kitchens ``closed`` and others on another menu, arrays of shape (n,).

    ``menu`` is the ratio of grease in the water to the usual, NaN where nothing changed; solids follow by its
    root. The day that would have been is drawn first, so that no other kitchen's day changes.
    """
    ratio = np.where(np.isnan(menu), 1.0, menu)
    return Inflow(
        np.where(closed, 0.0, inflow.volume_m3),
        np.where(closed, 0.0, inflow.grease_m3 * ratio),
        np.where(closed, 0.0, inflow.solids_kg * np.sqrt(ratio)),
        inflow.mix_c,
        np.where(closed, np.nan, inflow.pulse_c),
        inflow.pulse_start_s,
        inflow.pulse_s,
        inflow.hot & ~closed,
    )


class KitchenDay:
    """The kitchens with their slow moods: a day that is busier or greasier than another."""

    def __init__(self, kitchens: Kitchens, rng: np.random.Generator) -> None:
        self._kitchens = kitchens
        self._rng = rng
        self._day = -1
        count = kitchens.daily_m3.size
        self._busy = rng.normal(0.0, 0.2, count)
        self._greasy = rng.normal(0.0, 0.25, count)

    def draw(self, local_s: float, dt_s: float) -> Inflow:
        """Draw the inflow of the step that starts at ``local_s`` [s, local wall clock as if UTC].

        ``dt_s`` is a multiple of 900 s. Purges above 60 degC come from dish machines, in service hours.
        """
        self._new_day(int(local_s // 86400))
        kitchens, rng = self._kitchens, self._rng
        count = kitchens.daily_m3.size
        slots = (int(local_s % 86400) // SLOT_S + np.arange(int(dt_s) // SLOT_S)) % SLOTS
        share = kitchens.slot_share[:, slots].sum(axis=1)
        year = 1.0 + 0.08 * np.sin(2 * np.pi * self._day / 365.25 + kitchens.season_phase)
        weekday = kitchens.weekday[:, (self._day + 3) % 7]  # day 0 of the epoch was a Thursday
        mean = kitchens.daily_m3 * share * weekday * year * np.exp(self._busy - 0.02)
        draws = rng.poisson(mean / DRAW_M3)
        volume = rng.standard_gamma(DRAW_SHAPE * draws) * (DRAW_M3 / DRAW_SHAPE)
        load = np.exp(self._greasy - 0.031 + rng.normal(0.0, 0.35, count) - 0.061)
        mix = kitchens.mix_c + rng.normal(0.0, 2.0, count)
        grease = volume * kitchens.grease_kg_m3 * load / GREASE_KG_M3
        solids = volume * kitchens.solids_kg_m3 * np.sqrt(load)
        return Inflow(volume, grease, solids, mix, *self._pulses(draws > 0, share, mix))

    def _pulses(self, drawn: Bools, share: Floats, mix: Floats) -> tuple[Floats, Floats, Floats, Bools]:
        rng, count = self._rng, drawn.size
        warm = np.minimum(mix + np.abs(rng.normal(0.0, 6.5, count)), WARMEST_DRAW_C)
        warm_s = rng.uniform(25.0, 160.0, count)
        hot = (rng.random(count) < self._kitchens.purges_a_day * share) & drawn
        hot_c = rng.uniform(61.5, 84.0, count)
        hot_s = np.clip(np.exp(rng.normal(np.log(130.0), 0.7, count)), 20.0, 420.0)
        pulse_c = np.where(drawn, np.where(hot, hot_c, warm), np.nan)
        pulse_s = np.where(hot, hot_s, warm_s)
        start_s = rng.random(count) * (SLOT_S - pulse_s)
        return pulse_c, start_s, pulse_s, hot

    def _new_day(self, day: int) -> None:
        if day == self._day:
            return
        self._day = day
        count = self._busy.size
        self._busy = 0.7 * self._busy + self._rng.normal(0.0, 0.14, count)
        self._greasy = 0.75 * self._greasy + self._rng.normal(0.0, 0.165, count)
