"""Seeing through a film of grease on a rod: what the electrodes say of the layer behind it.

Between clean media one electrode at most is part water, part grease. A film creeps from the grease along the rod
and thins with the distance from it, so that several electrodes in a row seem to be part grease, and the layer
seems thicker at both faces. The surface, which stands at the outlet, and the film's decline tell how thick it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Bools, Floats
from analysis.rods import RodLayers

PART_GREASE: Final = (0.12, 0.88)  # share of grease that neither clean water nor clean grease shows
FILMED: Final = 2  # electrodes in a row that are part grease …
FILMED_SPAN: Final = 0.06  # m … and span at least this much
THINS_M: Final = (0.06, 0.09, 0.13, 0.18)  # distances in which a film may thin to 1/e
STEPS: Final = 48  # heights of the lower face that are tried …
STEP_PITCH: Final = 0.2  # … by this part of a pitch
LEAST_STEP_M: Final = 0.008
SHARE_SD: Final = 0.035  # of an electrode's share of grease: noise, gain, wet grease
ABOUT_M: Final = 0.05  # the surface is told within this of the outlet, or lower: a service is going on


def filmed(share: Floats, height: Floats, pitch: Floats, static: Floats) -> Bools:
    """Which rods (n,) show a film; ``share`` (n, electrodes) of grease, 0 water and 1 grease, NaN unknown."""
    low, high = PART_GREASE
    under = height + pitch[:, None] / 2 <= static[:, None] - FILMED_SPAN / 3
    near = under & (height > static[:, None] - STEPS * _step(pitch)[:, None])
    part = (share > low) & (share < high) & near
    up = part[:, :-1] & part[:, 1:] & (share[:, 1:] >= share[:, :-1] - 0.05)
    count = np.cumsum(up, axis=1)[:, -1] + 1
    rises = np.cumsum(np.where(up, share[:, 1:] - share[:, :-1], 0.0), axis=1)[:, -1]
    enough = np.maximum(FILMED, np.ceil(FILMED_SPAN / pitch))
    return np.asarray(up.any(axis=1) & (count >= enough) & (rises > 0.05))


def lower_face(share: Floats, height: Floats, pitch: Floats, surface: Floats) -> tuple[Floats, Floats]:
    """Depth of the grease under a film and its sd [m], shape (n,), from rods that :func:`filmed` found.

    Every lower face within reach below the ``surface`` (n,) is weighed by how well a film that thins
    exponentially explains the shares: s = g + φ exp(-d/λ) (1 - g), with g the clean share, d the distance from
    the grease, φ by least squares within 0 and 1, λ unknown.
    """
    top = height + pitch[:, None] / 2
    bottom = height - pitch[:, None] / 2
    step = _step(pitch)
    reach = surface - STEPS * step
    use = np.isfinite(share) & (top <= surface[:, None] + 1e-6) & (height > reach[:, None])
    seen = np.where(use, share, 0.0)
    thick = (np.arange(STEPS) + 0.5) * step[:, None]
    cost = np.empty((len(THINS_M), *thick.shape))
    for i, thins in enumerate(THINS_M):
        for j in range(STEPS):
            face = (surface - thick[:, j])[:, None]
            clean = np.minimum(np.maximum((top - face) / (top - bottom), 0.0), 1.0)
            film = np.exp(-np.maximum(face - top, 0.0) / thins) * (1.0 - clean)
            film = np.where(use, film, 0.0)
            rest = np.where(use, seen - clean, 0.0)
            fit = _total(film * rest) / np.maximum(_total(film * film), 1e-9)
            miss = rest - np.minimum(np.maximum(fit, 0.0), 1.0)[:, None] * film
            cost[i, :, j] = _total(miss * miss)
    least = cost.min(axis=(0, 2))
    weight = np.exp(-(cost - least[None, :, None]) / (2 * SHARE_SD**2))
    by_depth = np.cumsum(weight, axis=0)[-1]
    whole = _total(by_depth)
    mean = _total(by_depth * thick) / whole
    spread = _total(by_depth * (thick - mean[:, None]) ** 2) / whole
    return mean, np.sqrt(spread + (step / 2) ** 2)


def _step(pitch: Floats) -> Floats:
    return np.asarray(np.maximum(STEP_PITCH * pitch, LEAST_STEP_M))


def _total(values: Floats) -> Floats:
    """Row sums whose last bits do not depend on how far the rows are padded."""
    return np.asarray(np.cumsum(values, axis=1)[:, -1])


def see_through(
    found: RodLayers, profile: Floats, levels: Floats, pitch: Floats, first: Floats, static: Floats
) -> RodLayers:
    """What :func:`analysis.rods.rod_layers` found, put right where a film lies on the rod; arguments as there.

    There the surface is held to stand at the outlet, and the grease is an interval of ± √3 of its sd.
    """
    there = found.surface > static - ABOUT_M
    height = first[:, None] + np.arange(profile.shape[1]) * pitch[:, None]
    water, grease = levels[:, 1, None], levels[:, 2, None]
    share = (profile - water) / (grease - water)
    rows = np.flatnonzero(there & np.isfinite(found.depth[:, 0]) & filmed(share, height, pitch, static))
    if not len(rows):
        return found
    thick, sd = lower_face(share[rows], height[rows], pitch[rows], static[rows])
    surface, depth, half = found.surface.copy(), found.depth.copy(), found.half.copy()
    surface[rows] = np.minimum(surface[rows], static[rows])
    depth[rows, 0] = np.minimum(thick, depth[rows, 0])
    half[rows, 0] = np.maximum(half[rows, 0], np.sqrt(3.0) * sd)
    return found._replace(surface=surface, depth=depth, half=half)
