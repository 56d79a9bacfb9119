"""Grease with water in it: how the mixture refracts, conducts heat and carries sound.

Hanai's mixing law for water droplets in oil (oil 3.1, water 75), Maxwell's for conductivity (oil 0.17, water
0.6 W/mK), and the time average for sound.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from simulators.kitchen import Floats

OIL_PERMITTIVITY: Final = 3.1
WATER_PERMITTIVITY: Final = 75.0
OIL_W_MK: Final = 0.17
WATER_W_MK: Final = 0.60
_EPSILON: Final = np.geomspace(OIL_PERMITTIVITY, WATER_PERMITTIVITY, 400)
_SHARE: Final = 1.0 - (WATER_PERMITTIVITY - _EPSILON) / (WATER_PERMITTIVITY - OIL_PERMITTIVITY) * (
    OIL_PERMITTIVITY / _EPSILON
) ** (1.0 / 3.0)


def permittivity(wet: Floats) -> Floats:
    """Relative permittivity of grease with the share ``wet`` of water by volume; Hanai, from a table."""
    return np.interp(wet, _SHARE, _EPSILON)


def wet_conductivity(wet: Floats) -> Floats:
    """Heat conductivity [W/mK] of grease with the share ``wet`` of water by volume; Maxwell."""
    gain = wet * (WATER_W_MK - OIL_W_MK)
    both = WATER_W_MK + 2.0 * OIL_W_MK
    return np.asarray(OIL_W_MK * (both + 2.0 * gain) / (both - gain))


def wet_sound(oil_m_s: Floats, water_m_s: Floats, wet: Floats) -> Floats:
    """Speed of sound [m/s] in grease with the share ``wet`` of water: the times through both add up."""
    return np.asarray(1.0 / ((1.0 - wet) / oil_m_s + wet / water_m_s))
