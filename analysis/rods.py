"""Electrode rods: from one column of electrode values to the three interfaces.

From the floor up a tank holds solids, water, grease and air, in this order. The likeliest three interfaces
are found by dynamic programming over the electrodes with a bounded misfit, so that dead and lying electrodes
cost a constant; electrodes that stand in two media at once then place each interface between the pitches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from analysis.model import Bools, Floats, Ints

MISFIT_BOUND: Final = 0.02  # squared distance to a medium, in steps from water to grease, that still counts
LEAST_WET: Final = 2  # electrodes in liquid without which no layer can be told
CLEAR: Final = 0.12  # an electrode within this share of a pure medium counts as pure
STRANGE: Final = 0.25  # a value further outside two media is no mixture of them
READ_SD: Final = 0.10  # of a pitch: an interface read from a partly covered electrode
THIN_SD: Final = 0.25  # of a pitch: thin grease told by the height of the outlet
THIN_HALF: Final = 0.1
NOISE_SD: Final = 0.04  # of a pitch: ripple and electronics


class RodLayers(NamedTuple):
    """Surface (n,) and layers (n, 2), see :class:`analysis.sensing.Measured`; NaN where not to be seen."""

    surface: Floats
    surface_var: Floats
    depth: Floats
    variance: Floats
    lasting: Floats
    half: Floats


class _Interface(NamedTuple):
    height: Floats
    half: Floats


def rod_layers(profile: Floats, levels: Floats, pitch: Floats, first: Floats, static: Floats) -> RodLayers:
    """Surface, FOG and solids from electrode values.

    Parameters
    ----------
    profile : shape (n, electrodes), from the floor up, NaN for a dead or missing electrode
    levels : shape (n, 4), nominal value in solids, water, fog, air; NaN solids: the rod cannot tell them
    pitch, first : spacing and height of the lowest electrode's centre [m], shape (n,)
    static : height of the outlet [m], stands in for the surface where the whole rod is submerged

    Grease thinner than a pitch is unsure by a quarter of it, unless two neighbours each hold one of its
    faces: within one electrode, grease between water and air cannot be told from their mixture but by the
    height of the outlet.
    """
    usable = np.isfinite(profile)
    count = _length(usable)
    bounds = _segment(profile, levels, usable)
    rows = np.arange(len(profile))
    bounds, paired = _hidden_grease(profile, levels, bounds, rows)
    solids = _interface(profile, levels, bounds[0], rows, 0, first, pitch)
    bottom = _interface(profile, levels, bounds[1], rows, 1, first, pitch)
    top = _interface(profile, levels, bounds[2], rows, 2, first, pitch)
    direct = bounds[1] == bounds[2]  # no electrode in grease: water meets air
    meet = _interface(profile, levels, bounds[1], rows, 3, first, pitch)
    surface = _Interface(np.where(direct, meet.height, top.height), np.where(direct, meet.half, top.half))
    whole = bounds[2] >= count  # no electrode in air
    reach = first + (count - 0.5) * pitch
    height = np.where(whole, np.maximum(static, reach), surface.height)
    surface_half = np.where(whole, pitch, surface.half)
    fog = np.where(direct, 0.0, height - bottom.height)
    thin = (fog <= pitch) & ~paired
    fog_half = np.where(thin, THIN_HALF * pitch, np.sqrt(surface_half**2 + bottom.half**2))
    fog = np.where(thin, _thin(surface.height, fog, levels, static, pitch), fog)
    low = (bounds[0] == 0) & (solids.half > 0)  # no electrode in solids, nor partly
    roof = np.maximum(solids.height + solids.half, 1e-3)
    sol = np.where(low, roof / 2, np.maximum(solids.height, 0.0))
    sol_half = np.where(low, roof / 2, solids.half)
    seen = (usable.sum(axis=1) >= np.maximum(0.5 * count, 2)) & np.isfinite(pitch)
    wet = seen & (bounds[2] >= LEAST_WET)
    told = np.stack([wet, wet & np.isfinite(levels[:, 0])], axis=1)
    depth = np.where(told, np.stack([fog, sol], axis=1), np.nan)
    half = np.stack([fog_half, sol_half], axis=1)
    noise = (NOISE_SD * pitch)[:, None] ** 2 * np.array([2.0, 1.0])
    return RodLayers(
        np.where(seen, height, np.nan),
        np.where(seen, (NOISE_SD * pitch) ** 2 + surface_half**2 / 3, np.nan),
        depth,
        np.where(np.isfinite(depth), noise, np.nan),
        (np.stack([np.where(thin, THIN_SD, READ_SD), np.full(len(pitch), READ_SD)], 1) * pitch[:, None]) ** 2,
        half,
    )


def _thin(surface: Floats, fog: Floats, levels: Floats, static: Floats, pitch: Floats) -> Floats:
    """Grease within about one electrode [m], from the liquid it keeps off the electrodes below the outlet.

    As seen by the electrodes a layer f counts as a part c of water and 1 - c of air; with the surface at the
    static level, f = (static - (surface - (1 - c) fog)) / (1 - c).
    """
    water, grease, air = levels[:, 1], levels[:, 2], levels[:, 3]
    lost = 1.0 - (grease - air) / (water - air)
    depth = (static - (surface - lost * fog)) / lost
    return np.asarray(np.minimum(np.maximum(depth, THIN_HALF * pitch), pitch))


def _length(usable: np.ndarray) -> Ints:
    """Number of electrodes up to the last usable one; NaN padding beyond it is no electrode."""
    reverse = usable[:, ::-1]
    return np.asarray(
        np.where(reverse.any(axis=1), usable.shape[1] - reverse.argmax(axis=1), 0), dtype=np.int64
    )


def _segment(profile: Floats, levels: Floats, usable: np.ndarray) -> tuple[Ints, Ints, Ints]:
    """Indices (n,) of the first electrode above the solids, above the water and above the grease."""
    n, width = profile.shape
    scale = np.abs(levels[:, 1] - levels[:, 2])
    scale = np.where(scale > 0, scale, 1.0)
    misfit = (profile[:, None, :] - levels[:, :, None]) / scale[:, None, None]
    cost = np.minimum(misfit * misfit, MISFIT_BOUND)
    cost = np.where(usable[:, None, :], cost, 0.0)
    cost[:, 0][np.isnan(levels[:, 0])] = 1e3  # a rod that cannot tell solids never finds them
    total = np.zeros((n, 4, width + 1))
    np.cumsum(cost, axis=2, out=total[:, :, 1:])
    best = total[:, 0]
    starts: list[Ints] = []
    position = np.arange(width + 1)
    for medium in (1, 2, 3):
        entry = best - total[:, medium]
        low = np.minimum.accumulate(entry, axis=1)
        fresh = np.ones(entry.shape, dtype=bool)
        fresh[:, 1:] = entry[:, 1:] < low[:, :-1]
        starts.append(np.maximum.accumulate(np.where(fresh, position, 0), axis=1))
        best = total[:, medium] + low
    rows = np.arange(n)
    top = starts[2][:, -1]
    bottom = starts[1][rows, top]
    return starts[0][rows, bottom], bottom, top


def _hidden_grease(
    profile: Floats, levels: Floats, bounds: tuple[Ints, Ints, Ints], rows: Ints
) -> tuple[tuple[Ints, Ints, Ints], Bools]:
    """Find grease that covers no electrode wholly: water and grease on one, grease and air on the next.

    Returns the bounds and where both of its faces are read from such a pair.
    """
    solids, bottom, top = bounds
    width = profile.shape[1]
    water, fog, air = levels[:, 1], levels[:, 2], levels[:, 3]

    def at(index: Ints) -> Floats:
        return np.where((index >= 0) & (index < width), profile[rows, np.clip(index, 0, width - 1)], np.nan)

    def pair(lower: Ints) -> Bools:
        part = (at(lower) - water) / (fog - water)
        greasy = (at(lower + 1) - air) / (fog - air)
        return np.asarray((part > 2 * CLEAR) & (part < 1.0) & (greasy > 0.2) & (greasy < 1.0 + STRANGE))

    below, here = pair(bottom - 1), pair(bottom)
    direct = bottom == top
    top = np.where(direct & below, bottom + 1, np.where(direct & here, bottom + 2, top))
    return (solids, bottom, top), np.asarray((below & (top == bottom + 1)) | (here & (top <= bottom + 2)))


def _interface(
    profile: Floats, levels: Floats, index: Ints, rows: Ints, lower: int, first: Floats, pitch: Floats
) -> _Interface:
    """Height of the interface below electrode ``index`` and its half width; ``lower`` 3 is water to air."""
    below, above = (levels[:, 1], levels[:, 3]) if lower == 3 else (levels[:, lower], levels[:, lower + 1])
    step = above - below
    step = np.where(np.abs(step) > 0, step, np.nan)
    width = profile.shape[1]
    inside = np.clip(index, 0, width - 1)
    under = np.clip(index - 1, 0, width - 1)
    upper = (profile[rows, inside] - below) / step
    under_share = (profile[rows, under] - below) / step
    mixed = (index < width) & (upper > -STRANGE) & (upper < 1.0)
    upper = np.where(mixed, np.maximum(upper, 0.0), 1.0)
    mixed = (index > 0) & (under_share > 0.0) & (under_share < 1.0 + STRANGE)
    under_share = np.where(mixed, np.minimum(under_share, 1.0), 0.0)
    upper = np.where(upper > 1.0 - CLEAR, 1.0, upper)
    under_share = np.where(under_share < CLEAR, 0.0, under_share)
    partial = (upper < 1.0) | (under_share > 0.0)
    height = first + (index - 0.5 + (1.0 - upper) - under_share) * pitch
    return _Interface(height, np.where(partial, 0.0, pitch / 2 * 0.5))
