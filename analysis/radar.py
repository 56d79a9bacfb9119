"""Guided-wave radar: an interface seen through grease that holds water.

The pulse is slowed by √ε in the upper medium, h = c₀ Δt/(2√ε). The device divides by what it was set to; wetter
grease seems thicker. Hanai's mixing law gives ε of grease with the share φ of water.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Floats

OIL: Final = 3.1  # relative permittivity of dry grease
WATER: Final = 75.0  # of water at tank temperature
FOG_PERMITTIVITY: Final = 6.4  # a quarter of water: sewer FOG deposits hold 10 to 60 % (Keener 2008)
FOG_PERMITTIVITY_SD: Final = 1.9
MOST: Final = 10.0  # of the upper medium, beyond which the interface may be lost (Endress+Hauser FMP51)
LEAST_LAYER: Final = 0.050  # m: least layers from here on are a radar's; FMP51 asks for 60 mm
DRY_SURE: Final = 0.004  # m, interface noise


def permittivity(wet: Floats) -> Floats:
    """Relative permittivity of grease with the share ``wet`` of water by volume, 0 to 1: Hanai 1960.

    (ε_w - ε)/(ε_w - ε_o) · (ε_o/ε)^⅓ = 1 - φ is a cubic in y = ε^⅓: y³ + k y - ε_w = 0 with
    k = (1 - φ)(ε_w - ε_o)/ε_o^⅓, whose one real root is Cardano's.
    """
    k = (1.0 - np.asarray(wet, dtype=np.float64)) * (WATER - OIL) / OIL ** (1.0 / 3.0)
    root = np.sqrt((WATER / 2.0) ** 2 + (k / 3.0) ** 3)
    y = np.cbrt(WATER / 2.0 + root) + np.cbrt(WATER / 2.0 - root)
    y = y - (y**3 + k * y - WATER) / (3.0 * y**2 + k)  # Newton: what the difference of two roots lost
    return np.asarray(y**3, dtype=np.float64)


def wetness(epsilon: Floats) -> Floats:
    """Share of water by volume in grease of permittivity ``epsilon``: the inverse of :func:`permittivity`."""
    return np.asarray(1.0 - (WATER - epsilon) / (WATER - OIL) * np.cbrt(OIL / epsilon), dtype=np.float64)


def over_read(epsilon: Floats, assumed: Floats | float = OIL) -> Floats:
    """How many times too thick a radar set to ``assumed`` reads grease of ``epsilon``: √(ε/ε_assumed)."""
    return np.asarray(np.sqrt(epsilon / assumed), dtype=np.float64)


def interface(
    told: Floats, assumed: Floats, epsilon: Floats, epsilon_sd: Floats, least: Floats
) -> tuple[Floats, Floats]:
    """FOG depth [m] and its lasting standard uncertainty [m] from the thickness a radar told, shape (n,).

    ``assumed`` is the permittivity it is set to, NaN where it counts as set rightly to the site's grease of
    ``epsilon`` ± ``epsilon_sd``; u = h u(ε)/2ε. Below its ``least`` layer its two echoes merge: unknown.
    """
    wrong = over_read(epsilon, np.where(np.isfinite(assumed), assumed, epsilon))
    depth = np.where(told >= 0.5 * least, told / wrong, np.nan)
    return depth, np.abs(depth) * epsilon_sd / (2.0 * epsilon)
