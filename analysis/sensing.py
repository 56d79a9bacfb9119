"""What each sensing principle says of the layers: one function a principle, value and variance out.

Arrays of shape (n,) in, SI; NaN is missing in and unknown out. A layer that a principle cannot see is NaN,
never zero. Uncertainty comes in two kinds: ``variance`` of noise that is fresh with every reading, and
``lasting`` variance that stays the same for hours or weeks (between two electrodes, in a sound speed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis import acoustics, hydrostatics, radar
from analysis.films import see_through
from analysis.fleet import SensorGeometry
from analysis.model import Floats, ReadingBatch
from analysis.rods import RodLayers, rod_layers

INTERFACE_SD: Final = 0.004  # m, noise of one interface reading in a tank that is not quite at rest
INTERFACE_BIAS: Final = 0.003  # m, mounting and calibration
DEPTH_SD: Final = 0.006  # m, noise of a depth the device computed itself
DEPTH_BIAS: Final = 0.025  # relative, its calibration
DEPTH_OFFSET: Final = 0.003  # m, its zero
SURFACE_SD: Final = 0.004  # m
MEMORY_S: Final = 6 * 3600.0  # s: a meal's surge, a stratified tank
ROD_MEMORY_S: Final = 86400.0  # s: a bound between two electrodes counts once a day
ROD_BIAS: Final = 0.05  # of a pitch: levels and mounting
ROD_HALF_BIAS: Final = 0.35  # of a half width


@dataclass(frozen=True, slots=True)
class Measured:
    """What a batch says of surface and layers, n readings.

    ``depth``, ``variance``, ``lasting`` and ``half`` have shape (n, 2): FOG, solids. Where ``half`` > 0 the
    layer is only known to lie within ``depth`` ± ``half`` (between electrodes, below a device's minimum).
    ``memory_s`` is how long the lasting part stays the same [s]; ``bias`` is the part of it that never goes [m²].
    """

    surface: Floats
    surface_var: Floats
    depth: Floats
    variance: Floats
    lasting: Floats
    half: Floats
    memory_s: Floats
    bias: Floats
    absent: Floats  # (n, 2): the least layer of a device that spoke but did not find this one [m], else NaN


def two_interface(surface: Floats, fog_bottom: Floats, solids_top: Floats) -> tuple[Floats, Floats]:
    """FOG and solids depth, shape (n, 2) each for value and variance [m], from heights above the floor."""
    depth = np.stack([surface - fog_bottom, solids_top], axis=1)
    sd = np.array([INTERFACE_SD * 2**0.5, INTERFACE_SD])
    return depth, np.where(np.isfinite(depth), sd * sd, np.nan)


def device_depths(fog: Floats, solids: Floats, min_layer: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Depths the device computed (n, 2): value, variance, lasting variance, half width.

    A value at or below the device's minimum (0 means just that) is an interval from nothing to the minimum.
    """
    given = np.stack([fog, solids], axis=1)
    least = np.maximum(min_layer, 0.005)[:, None]
    below = given < least
    depth = np.where(below, least / 2, given)
    half = np.where(below, least / 2, 0.0)
    variance = np.where(np.isfinite(given), DEPTH_SD**2, np.nan)
    return depth, variance, np.where(below, 0.0, (DEPTH_BIAS * depth) ** 2), half


def _column(batch: ReadingBatch, name: str) -> Floats | None:
    column = batch.values.get(name)
    return column if column is not None and np.isfinite(column).any() else None


class _Sheet:
    """Collects what the principles say, the surer first; a later one only fills what is still unknown."""

    def __init__(self, count: int) -> None:
        self.memory_s = np.full((count, 2), MEMORY_S)
        self.bias = np.zeros((count, 2))
        self.surface = np.full(count, np.nan)
        self.surface_var = np.full(count, np.nan)
        self.depth = np.full((count, 2), np.nan)
        self.variance = np.full((count, 2), np.nan)
        self.lasting = np.zeros((count, 2))
        self.half = np.zeros((count, 2))

    def add_surface(self, value: Floats, variance: Floats) -> None:
        new = np.isnan(self.surface) & np.isfinite(value)
        self.surface = np.where(new, value, self.surface)
        self.surface_var = np.where(new, variance, self.surface_var)

    def add(
        self,
        depth: Floats,
        variance: Floats,
        lasting: Floats | float,
        half: Floats | float,
        bias: Floats | float,
        memory_s: float = MEMORY_S,
    ) -> None:
        new = np.isnan(self.depth) & np.isfinite(depth)
        self.bias = np.where(new, bias, self.bias)
        self.memory_s = np.where(new, memory_s, self.memory_s)
        self.depth = np.where(new, depth, self.depth)
        self.variance = np.where(new, variance, self.variance)
        self.lasting = np.where(new, lasting, self.lasting)
        self.half = np.where(new, half, self.half)


def measure(batch: ReadingBatch, geometry: SensorGeometry) -> Measured:
    """Everything a batch says of surface and layers; ``geometry`` has the rows of the batch."""
    count = len(batch.time_s)
    sheet = _Sheet(count)
    blank = np.full(count, np.nan)
    tank = _or(_column(batch, "tank_c"), blank)
    _surfaces(sheet, batch, geometry, blank)
    rods = _rods(batch, geometry)
    if rods is not None:
        sheet.add_surface(rods.surface, rods.surface_var)
    _interfaces(sheet, batch, geometry, blank)
    fog_s, solids_s = _column(batch, "echo_fog_s"), _column(batch, "echo_solids_s")
    if fog_s is not None or solids_s is not None:
        depth, variance, lasting = acoustics.echo(
            _or(fog_s, blank), _or(solids_s, blank), geometry.sonar, tank, geometry.fog_sound,
            geometry.fog_sound_sd,
        )  # fmt: skip
        sheet.add(depth, variance, lasting, 0.0, lasting)
    if rods is not None:
        bias = (ROD_BIAS * geometry.pitch[:, None]) ** 2 + (rods.half * ROD_HALF_BIAS) ** 2
        sheet.add(rods.depth, rods.variance, rods.lasting, rods.half, bias, ROD_MEMORY_S)
    fog, solids = _column(batch, "fog_depth_m"), _column(batch, "solids_depth_m")
    if fog is not None or solids is not None:
        depth, variance, lasting, half = device_depths(
            _or(fog, blank), _or(solids, blank), geometry.min_layer
        )
        sheet.add(depth, variance, lasting, half, lasting + DEPTH_OFFSET**2 + half**2 / 6, ROD_MEMORY_S)
    # A device with a least layer that names the surface but not a layer has perhaps not found it.
    spoke = np.isfinite(sheet.surface) & (geometry.min_layer > 0)
    absent = np.where(spoke[:, None] & np.isnan(sheet.depth), geometry.min_layer[:, None], np.nan)
    _weigh(sheet, batch, geometry, tank)
    return Measured(
        sheet.surface, sheet.surface_var, sheet.depth, sheet.variance, sheet.lasting, sheet.half,
        sheet.memory_s, sheet.bias, absent,
    )  # fmt: skip


def _surfaces(sheet: _Sheet, batch: ReadingBatch, geometry: SensorGeometry, blank: Floats) -> None:
    surface, distance = _column(batch, "surface_m"), _column(batch, "distance_m")
    if surface is not None:
        sheet.add_surface(surface, np.full(len(blank), SURFACE_SD**2))
    if distance is not None:
        air = _or(_column(batch, "air_c"), blank)
        level, warm_sd = acoustics.air_gap(distance, geometry.mount, air, geometry.assumed_air_c)
        sheet.add_surface(level, SURFACE_SD**2 + warm_sd**2)


def _weigh(sheet: _Sheet, batch: ReadingBatch, geometry: SensorGeometry, tank: Floats) -> None:
    """Grease by weight, where nothing surer told it: from pressure and surface, or a known density."""
    pressure = _column(batch, "pressure_pa")
    density, spread = geometry.fog_density, geometry.fog_density_sd
    told = ~np.isnan(density)
    if pressure is not None:
        height = geometry.pressure
        usual = np.where(told, density, hydrostatics.FOG_DENSITY)
        spread = np.where(told, spread, hydrostatics.FOG_DENSITY_SD)
        _add_fog(
            sheet,
            *hydrostatics.pressure_surface(
                sheet.surface, sheet.surface_var, pressure, height, tank, usual, spread
            ),
        )
    if told.any():
        weighed = hydrostatics.floating(
            sheet.surface, sheet.surface_var, geometry.static, density, geometry.fog_density_sd
        )
        _add_fog(sheet, *weighed)
    if pressure is not None:
        sheet.add_surface(*hydrostatics.head(pressure, geometry.pressure, tank))


def _add_fog(sheet: _Sheet, depth: Floats, variance: Floats, lasting: Floats) -> None:
    """Take in grease alone; noise about nothing counts as nothing, and solids stay unknown."""
    none = np.full(len(depth), np.nan)
    both = np.stack([np.maximum(depth, 0.0), none], axis=1)
    kept = np.stack([lasting, none], axis=1)
    sheet.add(both, np.stack([variance, none], axis=1), kept, 0.0, kept)


def _or(column: Floats | None, blank: Floats) -> Floats:
    return blank if column is None else column


def _interfaces(sheet: _Sheet, batch: ReadingBatch, geometry: SensorGeometry, blank: Floats) -> None:
    bottom, top = _column(batch, "fog_bottom_m"), _column(batch, "solids_top_m")
    if bottom is None and top is None:
        return
    depth, variance = two_interface(sheet.surface, _or(bottom, blank), _or(top, blank))
    assumed, epsilon, least = geometry.radar_permittivity, geometry.fog_permittivity, geometry.min_layer
    guided = np.isfinite(assumed) | (np.isnan(depth[:, 1]) & (least >= radar.LEAST_LAYER))
    lasting = np.full(depth.shape, INTERFACE_BIAS**2)
    if guided.any():
        fog, sd = radar.interface(depth[:, 0], assumed, epsilon, geometry.fog_permittivity_sd, least)
        depth[:, 0] = np.where(guided, fog, depth[:, 0])
        lasting[:, 0] += np.where(guided & np.isfinite(sd), sd, 0.0) ** 2
    sheet.add(depth, variance, lasting, 0.0, lasting)


def _rods(batch: ReadingBatch, geometry: SensorGeometry) -> RodLayers | None:
    if batch.profile.size == 0:
        return None
    sent = np.flatnonzero(np.isfinite(batch.profile).any(axis=1) & np.isfinite(geometry.pitch))
    if not len(sent):
        return None
    found = rod_layers(
        batch.profile[sent], geometry.levels[sent], geometry.pitch[sent], geometry.first[sent],
        geometry.static[sent],
    )  # fmt: skip
    found = see_through(
        found, batch.profile[sent], geometry.levels[sent], geometry.pitch[sent], geometry.first[sent],
        geometry.static[sent],
    )  # fmt: skip
    count = len(batch.time_s)
    if len(sent) == count:
        return found
    out = RodLayers(*[np.full((count, *part.shape[1:]), np.nan) for part in found])
    for whole, part in zip(out, found, strict=True):
        whole[sent] = part
    return out
