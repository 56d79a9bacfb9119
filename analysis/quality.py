"""Judging single readings: physics, spikes, rest.

Readings are weighed or set aside, never changed. Shapes as in :class:`analysis.sensing.Measured`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Bools, Floats
from analysis.sensing import Measured
from analysis.state import WINDOW

HAMPEL_SIGMAS: Final = 4.0
MAD_TO_SD: Final = 1.4826  # of a normal distribution
SPIKE_FLOOR: Final = 0.012  # m: smaller jumps are no spikes
ROOM: Final = 1.15  # layers may fill this much of the static depth before physics objects
EXCESS_WEIGHT: Final = 0.35  # m of layer error per m that the surface stands above its rest
RISE_S: Final = 2.5 * 86400.0
REFILL_S: Final = 1800.0
STOOD: Final = 0.9  # of the static level: where liquid that flows out by the weir stands
SURGE: Final = 0.10  # m, or of the static level if more: what an inflow lifts it by, never half the level
CALM_S: Final = 86400.0
WATCHED_S: Final = 3600.0  # s: of a longer silence no more than this counts as seen
EXCESS_LIMIT: Final = 0.08  # m above rest: foam or a surge too strong to read through


def possible(measured: Measured, static: Floats) -> tuple[Measured, Bools]:
    """Take out what physics forbids; the second value, shape (n,), marks readings that had such a value.

    Depths cannot be below zero by more than noise, nor fill more than the liquid holds; a surface cannot
    stand higher than the manhole (twice the static level plus a metre) nor below the floor.
    """
    margin = 0.05
    depth = measured.depth
    roof = static[:, None] * ROOM + margin
    bad = (depth < -margin) | (depth > roof)
    bad |= (depth[:, 0] + depth[:, 1] > roof[:, 0])[:, None]  # NaN where one is unknown: no objection
    surface = measured.surface
    bad_surface = (surface < -margin) | (surface > 2 * static + 1.0)
    clean = Measured(
        np.where(bad_surface, np.nan, surface),
        measured.surface_var,
        np.where(bad, np.nan, np.maximum(depth, 0.0)),
        measured.variance,
        measured.lasting,
        measured.half,
        measured.memory_s,
        measured.bias,
        measured.absent,
    )
    return clean, bad[:, 0] | bad[:, 1] | bad_surface


def spikes(recent: Floats, depth: Floats, sd: Floats) -> Bools:
    """Which new depths (n, 2) stand out from the last raw ones, ``recent`` (n, 2, WINDOW).

    Hampel's test on the past window: beyond 4 scaled MAD, 4 sd of the reading's own noise and 12 mm from the
    median. It needs four values; a level that has really changed passes after half a window.
    """
    ordered = np.sort(recent, axis=2)
    count = np.isfinite(recent).sum(axis=2)
    median = _median(ordered, count)
    deviation = np.sort(np.abs(recent - median[:, :, None]), axis=2)
    mad = _median(deviation, count)
    limit = np.maximum(HAMPEL_SIGMAS * np.maximum(MAD_TO_SD * mad, sd), SPIKE_FLOOR)
    return np.asarray((count >= 4) & (np.abs(depth - median) > limit))


def _median(ordered: Floats, count: np.ndarray) -> Floats:
    """Median of the first ``count`` of values sorted along the last axis; NaN where there are none."""
    n = len(ordered)
    rows = np.arange(n)[:, None]
    layers = np.arange(2)[None, :]
    low = ordered[rows, layers, np.maximum((count - 1) // 2, 0)]
    high = ordered[rows, layers, np.minimum(count // 2, WINDOW - 1)]
    return np.asarray((low + high) / 2)


def too_thin(absent: Floats, x: Floats, p00: Floats) -> Bools:
    """Where a layer that a device did not find may well be below its least layer ``absent`` (n, 2) [m].

    Only where the expected depth ``x`` lies within 3 sd of that: a thick layer that is not found is a fault.
    """
    return np.asarray(x < absent + 3.0 * np.sqrt(p00))


def rest_variance(surface: Floats, rest: Floats) -> Floats:
    """Extra variance [m²] of layers read while the surface stands above its rest; infinite beyond 80 mm.

    Foam and surge only ever raise the surface, so the lowest surfaces tell the quiescent layers.
    """
    excess = surface - rest
    excess = np.where(excess > 0.0, excess, 0.0)  # NaN: unknown counts as rest
    return np.where(excess > EXCESS_LIMIT, np.inf, (EXCESS_WEIGHT * excess) ** 2)


def settle(rest: Floats, surface: Floats, static: Floats, dt_s: Floats) -> Floats:
    """Follow the quiescent height of the surface: down within a few readings, up within days.

    The first surface counts at most as the static level plus 10 mm: it may be a surge. Below the static level
    it follows up within half an hour: a tank fills again.
    """
    start = np.minimum(surface, static + 0.01)
    step = surface - rest
    refilling = rest < static - 0.03
    up = dt_s / (dt_s + np.where(refilling, REFILL_S, RISE_S))
    share = np.where(step < 0.0, 0.3, up)
    moved = rest + share * step
    out = np.where(np.isnan(rest), start, moved)
    return np.where(np.isnan(surface), rest, out)


def at_static(surface: Floats, static: Floats) -> Bools:
    """Where the surface stands about the outlet's invert: from 90 % of the static level to a surge above it."""
    surge = np.minimum(SURGE * np.maximum(1.0, static), 0.5 * static)
    return np.asarray((surface >= STOOD * static) & (surface <= static + surge))


def calm(share: Floats, surface: Floats, static: Floats, dt_s: Floats) -> Floats:
    """Follow the share of the last day or two that the surface stood about its static level, shape (n,).

    A tank does so nearly always, a tide or a river only in passing. What a silence hides is not counted.
    """
    weight = np.minimum(dt_s, WATCHED_S)
    weight = np.where(np.isnan(surface), 0.0, weight / (weight + CALM_S))
    return np.asarray(share + weight * (at_static(surface, static) - share))


def less_calm(share: float, away_s: float) -> float:
    """The share after ``away_s`` [s] away from the static level that were no service."""
    return share * CALM_S / (CALM_S + max(away_s, 0.0))
