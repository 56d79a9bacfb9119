"""Levels and grease from weight: pressure alone, pressure with a surface, a surface above the outlet.

Arrays of shape (n,); NaN in is NaN out. A pressure cell sees no grease without a surface: floating grease
displaces its own weight. Consolidated solids bear on the floor and are not seen at all.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Floats

GRAVITY: Final = 9.80665  # m/s²
#: Kell 1975, air-free water at 101325 Pa, 0 to 150 degC: powers of temperature [kg/m³], and of the divisor.
KELL: Final = (
    999.83952, 16.945176, -7.9870401e-3, -46.170461e-6, 105.56302e-9, -280.54253e-12,
)  # fmt: skip
KELL_DIVISOR: Final = 16.879850e-3
TANK_C: Final = 25.0  # where no temperature is sent
TANK_SD_C: Final = 5.0
FOG_DENSITY: Final = 905.0  # kg/m³: vegetable oil 920, lard 875 …
FOG_DENSITY_SD: Final = 25.0  # … and what hydration adds
PRESSURE_SD: Final = 0.030  # m: grease floating on top leaves the head short of the surface
HEAD_NOISE: Final = 0.002  # m, one reading of a cell
HEAD_ZERO: Final = 0.002  # m: its zero, and that of the surface
LEAST_LIGHTER: Final = 20.0  # kg/m³: grease nearer to water than that is told by no weight
STATIC_SD: Final = 0.003  # m: the outlet's surveyed height and the weir's head at rest


def water_density(water_c: Floats) -> Floats:
    """Density of water [kg/m³] at ``water_c`` [degC]: Kell 1975."""
    rho = np.zeros_like(np.asarray(water_c, dtype=np.float64))
    for coefficient in reversed(KELL):
        rho = rho * water_c + coefficient
    return np.asarray(rho / (1.0 + KELL_DIVISOR * water_c), dtype=np.float64)


def gain(density: Floats, water: Floats | float = 1000.0) -> Floats:
    """Metres of grease by metre of level or head, 1/(1 - ρ_f/ρ_w); NaN where the two hardly differ."""
    lighter = water - np.asarray(density, dtype=np.float64)
    return np.asarray(np.where(lighter >= LEAST_LIGHTER, water, np.nan) / lighter, dtype=np.float64)


def head(pressure: Floats, height: Floats, tank_c: Floats) -> tuple[Floats, Floats]:
    """Liquid level [m] and its variance from gauge pressure [Pa] at ``height`` [m].

    It says nothing of grease, which displaces its own weight, nor of consolidated solids.
    """
    level = pressure / (GRAVITY * water_density(_or_usual(tank_c))) + height
    return level, np.where(np.isfinite(level), PRESSURE_SD**2, np.nan)


def pressure_surface(
    surface: Floats,
    surface_var: Floats,
    pressure: Floats,
    height: Floats,
    tank_c: Floats,
    density: Floats,
    density_sd: Floats,
) -> tuple[Floats, Floats, Floats]:
    """FOG depth [m], its variance and its lasting variance [m²] from a surface and the pressure below.

    h_f = (ρ_w (H - z) - P/g)/(ρ_w - ρ_f), with the cell at ``height`` z. A millimetre of head is 12.5 mm of
    FOG at SG 0.92; the density adds h u(ρ_f)/Δρ, an unknown temperature H u(ρ_w)/Δρ. NaN while the cell hangs
    dry. A value below zero is noise about nothing and is given as it is.
    """
    known = np.isfinite(tank_c)
    celsius = _or_usual(tank_c)
    water = water_density(celsius)
    factor = gain(density, water)
    wet = (surface > height) & (pressure > 0.0)
    lighter = np.where(wet, factor / water, np.nan)  # 1/Δρ
    depth = (water * (surface - height) - pressure / GRAVITY) * lighter
    swell = np.where(known, 0.0, water_density(celsius - TANK_SD_C) - water_density(celsius + TANK_SD_C)) / 2
    lasting = (
        (depth * density_sd * lighter) ** 2
        + (factor * HEAD_ZERO) ** 2
        + ((surface - height) * swell * lighter) ** 2
    )
    return depth, factor**2 * (surface_var + HEAD_NOISE**2) + 0.0 * depth, lasting


def floating(
    surface: Floats, surface_var: Floats, static: Floats, density: Floats, density_sd: Floats
) -> tuple[Floats, Floats, Floats]:
    """FOG depth [m], variance and lasting variance [m²] from how far a surface stands above the outlet.

    h_f = (H - H_w)/(1 - ρ_f/ρ_w); the gain is 8.3, 12.5, 20 at SG 0.88, 0.92, 0.95, so that 5 K of air over
    1 m, 8 mm of level, are 100 mm of FOG. Unknown without a density, and while the tank is not full.
    """
    factor = gain(density)
    depth = np.where(surface > static - 5.0 * STATIC_SD, (surface - static) * factor, np.nan)
    lasting = (factor * STATIC_SD) ** 2 + (depth * density_sd * factor / 1000.0) ** 2
    return depth, factor**2 * surface_var + 0.0 * depth, lasting


def _or_usual(tank_c: Floats) -> Floats:
    return np.where(np.isfinite(tank_c), tank_c, TANK_C)
