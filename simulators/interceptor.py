"""Interceptors as tanks: what they hold back, how the layers lie, how warm they are.

Two compartments share one liquid level; what the first lets pass or a strong flow stirs up, the second may hold
(solids migrate downstream: Water Environment Research 2012, 84:237). Grease takes up water
as it ages; sludge compacts, so that its depth grows concavely (Gray 1995, Environmental Technology 16:795).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simulators.kitchen import Floats, Inflow

DAY_S: Final = 86400.0
FRESH_BOUND: Final = 0.18  # water bound in fresh grease, by volume of dry grease
AGED_BOUND: Final = 0.80  # … in grease of several weeks
AGEING_S: Final = 20 * DAY_S
FRESH_SLUDGE_KG_M3: Final = 58.0  # dry solids in a cubic metre of fresh sludge
OLD_SLUDGE_KG_M3: Final = 135.0
COMPACTION_S: Final = 24 * DAY_S
FOG_CAPTURE: Final = (0.86, 0.45)  # of what reaches the compartment, at rest, clean and cool
SOLIDS_CAPTURE: Final = (0.72, 0.40)
FILL_SCALE: Final = 0.50  # capture falls with exp(-(fill / scale)²)
OVERFLOW_M_S: Final = 1.6e-4  # surface loading at which capture is halved
SCOUR_S: Final = 4e-8  # part of the sludge carried on each second at that loading; goes with its square
WEIR_M: Final = 0.10  # width of the outlet
WEIR_COEFFICIENT: Final = 1.80  # m^0.5/s, sharp-crested
GROUND_C: Final = 19.5
COOLING_S: Final = 14 * 3600.0
FULLEST: Final = 0.92  # layers never take more than this part of the liquid; the rest is carried out


@dataclass(frozen=True, slots=True)
class Tanks:
    """Geometry of n interceptors. ``area_m2`` has shape (n, 2); column 1 is 0 for one compartment."""

    area_m2: Floats
    static_m: Floats
    base_m: Floats

    @property
    def total_m2(self) -> Floats:
        """Surface of both compartments [m²], shape (n,)."""
        return np.asarray(self.area_m2.sum(axis=1), dtype=np.float64)


@dataclass(slots=True)
class TankState:
    """What stands in n interceptors; (n, 2) arrays by compartment, (n,) otherwise.

    The ``fed``, ``left`` and ``pumped`` columns keep the mass balance: dry grease [m³] and dry solids [kg].
    """

    level_m: Floats
    grease_m3: Floats
    bound_m3: Floats
    dry_kg: Floats
    sludge_m3: Floats
    tank_c: Floats
    head_m: Floats
    fed: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    left: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    pumped: Floats = field(default_factory=lambda: np.zeros((0, 2)))

    @classmethod
    def empty(cls, tanks: Tanks) -> TankState:
        """Clean tanks full of clear water."""
        count = tanks.static_m.size
        two = [np.zeros((count, 2)) for _ in range(7)]
        return cls(
            tanks.static_m.copy(), two[0], two[1], two[2], two[3],
            np.full(count, 24.0), np.zeros(count), two[4], two[5], two[6],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Depths:
    """Latent layers at one instant [m]: ``fog`` and ``solids`` of shape (n, 2), the others (n,).

    ``wet`` (n, 2) is the share of bound water in the grease, by volume.
    """

    fog: Floats
    solids: Floats
    level: Floats
    head: Floats
    tank_c: Floats
    wet: Floats


def depths(tanks: Tanks, state: TankState) -> Depths:
    """Layer thicknesses of every compartment [m]; 0 in a compartment that is not there."""
    area = np.where(tanks.area_m2 > 0.0, tanks.area_m2, 1.0)
    thick = state.grease_m3 + state.bound_m3
    return Depths(
        thick / area,
        state.sludge_m3 / area,
        state.level_m.copy(),
        state.head_m.copy(),
        state.tank_c.copy(),
        state.bound_m3 / np.where(thick > 0.0, thick, 1.0),
    )


def fraction(tanks: Tanks, layers: Depths) -> Floats:
    """(FOG + solids) / base depth of each compartment, shape (n, 2)."""
    return np.asarray((layers.fog + layers.solids) / tanks.base_m[:, None], dtype=np.float64)


def capture(best: float, fill: Floats, loading_m_s: Floats, inflow_c: Floats) -> Floats:
    """Share of the incoming material that stays, shape (n,).

    Falls with fill (ratio of liquid depth), with surface loading [m/s] and with inflow above 30 degC: less
    time, less room and less hardening. Gallimore et al. 2011 report below 50 % for flow-through units, about
    80 % for tanks.
    """
    warm = np.clip(1.0 - 0.008 * (inflow_c - 30.0), 0.6, 1.0)
    room = np.exp(-((fill / FILL_SCALE) ** 2))
    return np.asarray(best * warm * room / (1.0 + loading_m_s / OVERFLOW_M_S), dtype=np.float64)


def advance(tanks: Tanks, state: TankState, inflow: Inflow, dt_s: float) -> None:
    """Let one step of inflow pass through every tank; changes ``state`` in place."""
    grease, solids = inflow.grease_m3, inflow.solids_kg
    state.fed[:, 0] += grease
    state.fed[:, 1] += solids
    flow = inflow.volume_m3 / dt_s
    for compartment in (0, 1):
        area = tanks.area_m2[:, compartment]
        there = area > 0.0
        safe = np.where(there, area, 1.0)
        thick = state.grease_m3[:, compartment] + state.bound_m3[:, compartment]
        fill = (thick + state.sludge_m3[:, compartment]) / safe / tanks.static_m
        loading = flow / safe
        kept = np.where(there, capture(FOG_CAPTURE[compartment], fill, loading, inflow.mix_c), 0.0) * grease
        sunk = (
            np.where(there, capture(SOLIDS_CAPTURE[compartment], fill, loading, inflow.mix_c), 0.0) * solids
        )
        _deposit(state, compartment, kept, sunk, dt_s)
        grease = grease - kept
        solids = solids - sunk + _scour(state, compartment, loading, dt_s)
    state.left[:, 0] += grease
    state.left[:, 1] += solids
    _carry_out(tanks, state)
    _fill_up(tanks, state, inflow, dt_s)


def _deposit(state: TankState, compartment: int, kept: Floats, sunk: Floats, dt_s: float) -> None:
    column = (slice(None), compartment)
    state.grease_m3[column] += kept
    state.bound_m3[column] += FRESH_BOUND * kept
    state.bound_m3[column] += (
        (AGED_BOUND * state.grease_m3[column] - state.bound_m3[column]) * dt_s / AGEING_S
    )
    state.dry_kg[column] += sunk
    state.sludge_m3[column] += sunk / FRESH_SLUDGE_KG_M3
    settled = state.dry_kg[column] / OLD_SLUDGE_KG_M3
    state.sludge_m3[column] += (settled - state.sludge_m3[column]) * dt_s / COMPACTION_S


def _scour(state: TankState, compartment: int, loading_m_s: Floats, dt_s: float) -> Floats:
    """Stir sludge up and on: dry solids [kg] that leave the compartment, shape (n,)."""
    part = np.minimum(SCOUR_S * dt_s * (loading_m_s / OVERFLOW_M_S) ** 2, 0.2)
    gone = state.dry_kg[:, compartment] * part
    state.dry_kg[:, compartment] -= gone
    state.sludge_m3[:, compartment] *= 1.0 - part
    return np.asarray(gone, dtype=np.float64)


def _carry_out(tanks: Tanks, state: TankState) -> None:
    """Carry out what has no room between floor and surface, so that the layers never overlap."""
    room = FULLEST * state.level_m[:, None] * tanks.area_m2
    held = state.grease_m3 + state.bound_m3 + state.sludge_m3
    keep = np.where(held > room, room / np.where(held > 0.0, held, 1.0), 1.0)
    state.left[:, 0] += ((1.0 - keep) * state.grease_m3).sum(axis=1)
    state.left[:, 1] += ((1.0 - keep) * state.dry_kg).sum(axis=1)
    for column in (state.grease_m3, state.bound_m3, state.dry_kg, state.sludge_m3):
        column *= keep


def _fill_up(tanks: Tanks, state: TankState, inflow: Inflow, dt_s: float) -> None:
    """Raise the liquid to the outlet; what passes over stands above it as a head of the weir."""
    level = state.level_m + inflow.volume_m3 / tanks.total_m2
    over = np.maximum(level - tanks.static_m, 0.0) * tanks.total_m2 / dt_s
    state.level_m = np.minimum(level, tanks.static_m)
    state.head_m = (over / (WEIR_COEFFICIENT * WEIR_M)) ** (2.0 / 3.0)
    held = np.maximum(state.level_m * tanks.total_m2, 1e-6)
    mixed = np.minimum(inflow.volume_m3 / held, 1.0)
    state.tank_c += mixed * (inflow.mix_c - state.tank_c)
    state.tank_c += (GROUND_C - state.tank_c) * dt_s / COOLING_S
