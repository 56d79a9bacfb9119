"""What each principle sees, with literal values, and what it cannot see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.acoustics import fog_sound, water_sound
from analysis.fleet import Fleet
from analysis.model import Floats, InterceptorModel, Levels, ReadingBatch, SensorModel
from analysis.sensing import Measured, measure

WATER, FOG, AIR, SOLIDS = 1.0, 0.25, 0.05, 0.7
LEVELS = Levels(air=AIR, fog=FOG, water=WATER, solids=SOLIDS)


def look(
    values: dict[str, float] | None = None, profile: list[float] | None = None, **sensor: Any
) -> Measured:
    """Measure one reading of one sensor in a tank with the outlet at 1.2 m."""
    fleet = Fleet.of([InterceptorModel("gi", 1.2, 1.2)], [SensorModel("s", "gi", 1, **sensor)])
    columns = {name: np.array([value]) for name, value in (values or {}).items()}
    electrodes = np.empty((1, 0)) if profile is None else np.array([profile], dtype=np.float64)
    batch = ReadingBatch(np.array([0]), np.array([0.0]), columns, electrodes)
    return measure(batch, fleet.geometry.rows(batch.sensor))


def rod(solids: float, fog: float, surface: float, *, pitch: float = 0.05, ring: float = 0.05) -> list[float]:
    """Values of a rod's rings, each the mean of the media it touches."""
    centres = pitch / 2 + pitch * np.arange(28)
    low, high = centres - ring / 2, centres + ring / 2
    edges = [-1.0, solids, surface - fog, surface, 9.0]
    value: Floats = np.zeros(28)
    for medium, below, above in zip((SOLIDS, WATER, FOG, AIR), edges[:-1], edges[1:], strict=True):
        value += medium * np.clip(np.minimum(high, above) - np.maximum(low, below), 0.0, None) / ring
    return [float(v) for v in value]


@pytest.mark.parametrize(("celsius", "speed"), [(20.0, 1482.380), (40.0, 1528.894), (60.0, 1550.986)])
def test_sound_in_water_is_marczaks(celsius: float, speed: float) -> None:
    assert water_sound(np.array([celsius]))[0] == pytest.approx(speed, abs=5e-4)


def test_sound_in_grease_falls_with_temperature() -> None:
    assert fog_sound(np.array([22.0, 32.0])).tolist() == pytest.approx([1440.0, 1412.0])


def test_two_interfaces_give_both_layers() -> None:
    seen = look({"surface_m": 1.21, "fog_bottom_m": 1.06, "solids_top_m": 0.13})
    assert seen.depth[0].tolist() == pytest.approx([0.15, 0.13])
    assert (seen.variance[0] > 0).all()
    assert seen.half[0].tolist() == [0.0, 0.0]


def test_an_air_gap_makes_the_surface_for_the_interfaces() -> None:
    seen = look({"distance_m": 0.3, "fog_bottom_m": 1.1, "solids_top_m": 0.1}, mount_height_m=1.5)
    assert seen.surface[0] == pytest.approx(1.2)
    assert seen.depth[0].tolist() == pytest.approx([0.1, 0.1])


def test_an_air_gap_alone_sees_no_grease() -> None:
    seen = look({"distance_m": 0.3}, mount_height_m=1.5)
    assert seen.surface[0] == pytest.approx(1.2)
    assert np.isnan(seen.depth).all()


def test_a_gap_without_a_mount_height_tells_nothing() -> None:
    assert np.isnan(look({"distance_m": 0.3}).surface[0])


def test_pressure_alone_sees_the_liquid_and_no_layer() -> None:
    seen = look({"pressure_pa": 9777.72}, mount_height_m=0.2)
    assert seen.surface[0] == pytest.approx(1.2, abs=1e-5)  # 1 m of water at 25 degC above 0.2 m
    assert np.isnan(seen.depth).all()


def test_echoes_use_the_tanks_temperature() -> None:
    seen = look({"echo_fog_s": 200e-6, "echo_solids_s": 800e-6, "tank_c": 20.0}, sonar_height_m=0.7)
    assert seen.depth[0, 0] == pytest.approx((1440.0 + 2.8 * 2.0) * 100e-6)
    assert seen.depth[0, 1] == pytest.approx(0.7 - 1482.380 * 400e-6, abs=1e-6)


def test_echoes_without_a_temperature_are_less_certain() -> None:
    echoes = {"echo_fog_s": 200e-6, "echo_solids_s": 800e-6}
    warm = look({**echoes, "tank_c": 25.0}, sonar_height_m=0.7)
    unknown = look(echoes, sonar_height_m=0.7)
    assert (unknown.lasting[0] > warm.lasting[0]).all()


def test_a_devices_zero_is_less_than_its_least_layer() -> None:
    seen = look({"fog_depth_m": 0.0, "solids_depth_m": 0.08}, min_layer_m=0.02)
    assert seen.depth[0].tolist() == pytest.approx([0.01, 0.08])
    assert seen.half[0].tolist() == pytest.approx([0.01, 0.0])


@pytest.mark.parametrize("fog", [0.08, 0.113, 0.15, 0.21, 0.34])
@pytest.mark.parametrize("solids", [0.06, 0.112, 0.2])
@pytest.mark.parametrize("surface", [1.2, 1.213])
def test_a_rod_reads_between_its_pitches(fog: float, solids: float, surface: float) -> None:
    seen = look(profile=rod(solids, fog, surface), pitch_m=0.05, levels=LEVELS)
    assert seen.depth[0].tolist() == pytest.approx([fog, solids], abs=0.013)
    assert seen.surface[0] == pytest.approx(surface, abs=0.013)


def test_point_electrodes_are_within_half_a_pitch() -> None:
    seen = look(profile=rod(0.112, 0.163, 1.207, ring=1e-6), pitch_m=0.05, levels=LEVELS)
    assert abs(seen.depth[0, 0] - 0.163) <= 0.05
    assert abs(seen.depth[0, 1] - 0.112) <= 0.025
    assert (seen.half[0] > 0).all()


@pytest.mark.parametrize("dead", [(0,), (2, 3), (10, 11, 12), (24,), (27,)])
def test_dead_electrodes_do_not_mislead_a_rod(dead: tuple[int, ...]) -> None:
    profile = rod(0.12, 0.16, 1.2)
    for index in dead:
        profile[index] = np.nan
    seen = look(profile=profile, pitch_m=0.05, levels=LEVELS)
    assert seen.depth[0].tolist() == pytest.approx([0.16, 0.12], abs=0.05)


def test_a_lying_electrode_in_the_water_does_not_mislead_a_rod() -> None:
    profile = rod(0.12, 0.16, 1.2)
    profile[12] = FOG
    seen = look(profile=profile, pitch_m=0.05, levels=LEVELS)
    assert seen.depth[0].tolist() == pytest.approx([0.16, 0.12], abs=0.013)


def test_a_rod_without_a_level_for_solids_does_not_see_them() -> None:
    levels = Levels(air=AIR, fog=FOG, water=WATER)
    seen = look(profile=rod(0.1, 0.15, 1.2), pitch_m=0.05, levels=levels)
    assert seen.depth[0, 0] == pytest.approx(0.15, abs=0.013)
    assert np.isnan(seen.depth[0, 1])


def test_a_rod_in_air_sees_the_tank_drained_and_no_layers() -> None:
    seen = look(profile=rod(0.0, 0.0, 0.02), pitch_m=0.05, levels=LEVELS)
    assert seen.surface[0] < 0.06
    assert np.isnan(seen.depth).all()


def test_a_silent_rod_is_unknown() -> None:
    seen = look(profile=[np.nan] * 28, pitch_m=0.05, levels=LEVELS)
    assert np.isnan(seen.depth).all()
    assert np.isnan(seen.surface).all()


def test_a_rod_without_a_pitch_is_unknown() -> None:
    assert np.isnan(look(profile=rod(0.1, 0.1, 1.2), levels=LEVELS).depth).all()
