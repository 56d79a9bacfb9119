"""Sound in water, grease and air: levels and layers from travel times, value and standard uncertainty.

Arrays broadcast; NaN in is NaN out. Uncertainties are standard ones of the error that lasts (speed of sound,
temperature); the noise of a single echo stands beside.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Floats

#: Marczak 1997, water at 0 to 95 degC: powers 0 to 5 of temperature [m/s].
MARCZAK: Final = (1402.385, 5.038813, -5.799136e-2, 3.287156e-4, -1.398845e-6, 2.787860e-9)
OIL_SOUND: Final = 1440.0  # m/s at 22 degC, olive oil (Emerson 7951 manual, table)
OIL_SOUND_SLOPE: Final = -2.8  # m/s/K, same
OIL_SOUND_AT_C: Final = 22.0
OIL_SOUND_SD: Final = 22.0  # m/s: oils differ, and grease holds water (10 to 60 %, Keener 2008)
TANK_C: Final = 25.0  # where no temperature is sent: tanks stand at 25 to 29 degC (Water Research 256)
ECHO_SD_S: Final = 4e-6  # s, resolution of a two-way travel time
WATER_SPEED: Final = 0.002  # relative, temperature gradient along the path
UNKNOWN_TANK: Final = 0.008  # relative: 5 K of 1 m/s/K in 1500 m/s, with some to spare
AIR_SOUND: Final = 331.3  # m/s at 0 degC, dry air
AIR_ZERO_K: Final = 273.15
AIR_SD_K: Final = 1.0  # K: a thermometer in the sensor's head …
AIR_UNKNOWN_SD_K: Final = 5.0  # … and without one: a gap under a cover, from night to noon


def water_sound(water_c: Floats) -> Floats:
    """Speed of sound in water [m/s] at ``water_c`` [degC], 0 to 95: Marczak 1997."""
    c = np.zeros_like(np.asarray(water_c, dtype=np.float64))
    for coefficient in reversed(MARCZAK):
        c = c * water_c + coefficient
    return c


def fog_sound(fog_c: Floats, at_22_c: Floats | float = OIL_SOUND) -> Floats:
    """Speed of sound in grease [m/s] at ``fog_c`` [degC], from its value at 22 degC; olive oil's by default."""
    return np.asarray(at_22_c + OIL_SOUND_SLOPE * (fog_c - OIL_SOUND_AT_C), dtype=np.float64)


def air_sound(air_c: Floats) -> Floats:
    """Speed of sound in air [m/s] at ``air_c`` [degC]: 331.3 √(1 + T/273.15)."""
    return np.asarray(AIR_SOUND * np.sqrt(1.0 + air_c / AIR_ZERO_K), dtype=np.float64)


def air_gap(distance: Floats, mount: Floats, air_c: Floats, assumed_c: Floats) -> tuple[Floats, Floats]:
    """Surface above the floor [m] and its standard uncertainty from the air's temperature [m], shape (n,).

    A device that took the air for ``assumed_c`` [degC] is corrected to ``air_c``: H = z - d √(T/T_assumed).
    Where it compensates itself (no ``assumed_c``) its distance stands. 0.165 %/K at 30 degC, of 1 K where the
    air's temperature is known and 5 K where not.
    """
    known = np.isfinite(air_c)
    ratio = np.sqrt((AIR_ZERO_K + air_c) / (AIR_ZERO_K + assumed_c))
    gap = distance * np.where(np.isfinite(ratio), ratio, 1.0)
    kelvin = np.where(known, AIR_SD_K, AIR_UNKNOWN_SD_K)
    per_kelvin = 0.5 / (AIR_ZERO_K + np.where(known, air_c, TANK_C))
    return mount - gap, np.abs(gap) * per_kelvin * kelvin


def up(fog_s: Floats, tank_c: Floats, sound: Floats, sound_sd: Floats) -> tuple[Floats, Floats]:
    """FOG depth [m] and its lasting standard uncertainty [m] from the two-way time in the grease [s], (n,).

    h_f = c_f t/2, u = h u_c/c; ``sound`` and ``sound_sd`` are the grease's [m/s] at 22 degC. Where
    ``tank_c`` is NaN the grease is taken at 25 degC and counts as less certain.
    """
    known = np.isfinite(tank_c)
    speed = fog_sound(np.where(known, tank_c, TANK_C), sound)
    depth = speed * fog_s / 2
    return depth, depth * (sound_sd / speed + np.where(known, 0.0, UNKNOWN_TANK))


def down(solids_s: Floats, sonar: Floats, tank_c: Floats) -> tuple[Floats, Floats]:
    """Solids depth [m] and its lasting standard uncertainty [m] from the two-way time down to them [s], (n,).

    h_s = z - c_w t/2 with the transducer at ``sonar`` [m], u = (z - h) u_c/c.
    """
    known = np.isfinite(tank_c)
    path = water_sound(np.where(known, tank_c, TANK_C)) * solids_s / 2
    return sonar - path, path * (WATER_SPEED + np.where(known, 0.0, UNKNOWN_TANK))


def echo(
    fog_s: Floats, solids_s: Floats, sonar: Floats, tank_c: Floats, sound: Floats, sound_sd: Floats
) -> tuple[Floats, Floats, Floats]:
    """FOG and solids depth (n, 2) [m] from two-way travel times [s]: value, variance, lasting variance.

    u² = (c/2)² u_t² + h² (u_c/c)²; see :func:`up` and :func:`down`.
    """
    fog, fog_sd = up(fog_s, tank_c, sound, sound_sd)
    solids, solids_sd = down(solids_s, sonar, tank_c)
    depth = np.stack([fog, solids], axis=1)
    noise = np.array([fog_sound(np.array(TANK_C)), water_sound(np.array(TANK_C))]) / 2 * ECHO_SD_S
    variance = np.where(np.isfinite(depth), noise * noise, np.nan)
    return depth, variance, np.stack([fog_sd**2, solids_sd**2], axis=1)
