"""From the plans of sensors of one principle to their device: what each one's electronics do to its readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from simulators.kitchen import Bools, Floats
from simulators.mixture import wet_conductivity
from simulators.mounting import SensorPlan
from simulators.profiles import ROD_SCALE, SCALES, Rods, wet_ring
from simulators.rangers import AirGap, Optical, Pressure
from simulators.sensor import PROFILES, Depths, Device, Echoes, Interfaces, Principle
from simulators.sonars import Radar, SonarDown, SonarUp

FIXED_C: Final = 20.0  # what an ultrasonic ranger that does not compensate takes the air for
WITHOUT_COMPENSATION: Final = 0.3
LARD_KG_M3: Final = 900.0  # where a plan does not say


def electronics(
    principle: Principle,
    plans: Sequence[SensorPlan],
    grease_kg_m3: Sequence[float | None],
    rng: np.random.Generator,
) -> Device:
    """Devices of ``plans``, all of one principle, over grease of these densities [kg/m³]."""
    least = _column(plans, "min_layer_mm")
    if principle in PROFILES:
        return _profile(principle, plans, rng)
    if principle is Principle.INTERFACES:
        offset = rng.normal(0.0, (0.002, 0.0015, 0.002), (len(plans), 3))
        return Interfaces(offset, least, _step(plans))
    if principle is Principle.DEPTHS:
        return Depths(rng.normal(1.0, 0.025, (len(plans), 2)), least, _step(plans))
    if principle is Principle.ECHO:
        return Echoes(_column(plans, "mount_height_mm"), _column(plans, "sonar_height_mm"), least)
    return _newer(principle, plans, grease_kg_m3, rng)


def _newer(
    principle: Principle,
    plans: Sequence[SensorPlan],
    grease_kg_m3: Sequence[float | None],
    rng: np.random.Generator,
) -> Device:
    count = len(plans)
    mount, step = _column(plans, "mount_height_mm"), _column(plans, "resolution_mm")
    least, sonar = _column(plans, "min_layer_mm"), _column(plans, "sonar_height_mm")
    if principle is Principle.AIR_GAP:
        fixed = np.where(rng.random(count) < WITHOUT_COMPENSATION, FIXED_C, np.nan)
        return AirGap(mount, fixed, rng.normal(0.0, 1.0, count), step)
    if principle is Principle.OPTICAL:
        return Optical(mount, rng.normal(0.0, 0.002, count), step)
    if principle is Principle.SONAR_UP:
        return SonarUp(sonar, least)
    if principle is Principle.SONAR_DOWN:
        return SonarDown(sonar, rng.uniform(0.03, 0.25, count))
    if principle is Principle.RADAR:
        return Radar(rng.normal(0.0, 0.002, count), rng.uniform(0.20, 0.32, count), least, step)
    density = np.array([LARD_KG_M3 if one is None else one for one in grease_kg_m3])
    return Pressure(
        _column(plans, "pressure_height_mm"),
        density,
        rng.normal(0.0, 20.0, count),
        step,
        with_surface=principle is Principle.PRESSURE_SURFACE,
    )


def _profile(principle: Principle, plans: Sequence[SensorPlan], rng: np.random.Generator) -> Rods:
    count = len(plans)
    scale = SCALES[principle]
    longest = max(plan.electrodes for plan in plans)
    there = np.arange(longest) < np.array([plan.electrodes for plan in plans])[:, None]
    pitch = _column(plans, "pitch_mm")
    gain = np.where(there, rng.normal(1.0, 0.015, (count, longest)), np.nan)
    first = _column(plans, "first_mm")
    ring = pitch * rng.uniform(0.7, 1.0, count)
    bias = rng.normal(0.0, 0.006, (count, longest))
    if principle is Principle.ROD:
        return Rods(first, pitch, ring, gain, bias, scale, rank=death_order(there))
    span = abs(scale.water - scale.fog) / abs(ROD_SCALE.water - ROD_SCALE.fog)
    wet = wet_ring if principle is Principle.CAPACITANCE else wet_conductivity
    return Rods(first, pitch, ring, gain, span * bias, scale, wet, death_order(there))


def death_order(there: Bools) -> Floats:
    """In which order the electrodes of each rod die, shape (d, electrodes): lower ones first, 7 apart."""
    count = np.maximum(there.sum(axis=1), 1)[:, None]
    place = np.arange(there.shape[1])[None, :]
    stride = np.where(count % 7 == 0, 11, 7)
    order = np.empty(there.shape)
    hit = (3 + place * stride) % count
    np.put_along_axis(order, np.where(place < count, hit, place), place.astype(np.float64), axis=1)
    return order


def _step(plans: Sequence[SensorPlan]) -> Floats | None:
    step = _column(plans, "resolution_mm")
    return step if step.any() else None


def _column(plans: Sequence[SensorPlan], name: str) -> Floats:
    return np.array([getattr(plan, name) for plan in plans]) / 1e3
