"""The measurement functions against published and tabulated values, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import acoustics, hydrostatics, radar
from analysis.fleet import Fleet
from analysis.model import InterceptorModel, ReadingBatch, SensorModel
from analysis.sensing import Measured, measure


def one(value: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([value])


def look(sensors: list[SensorModel], values: dict[str, list[float]]) -> Measured:
    """Measure a reading of each sensor, in a tank with the outlet at 1.2 m."""
    fleet = Fleet.of([InterceptorModel("gi", 1.2, 1.2)], sensors)
    columns = {name: np.array(column) for name, column in values.items()}
    batch = ReadingBatch(np.arange(len(sensors)), np.zeros(len(sensors)), columns)
    return measure(batch, fleet.geometry.rows(batch.sensor))


@pytest.mark.parametrize(("celsius", "density"), [(4.0, 999.972), (20.0, 998.204), (25.0, 997.045)])
def test_water_weighs_what_kell_says(celsius: float, density: float) -> None:
    assert hydrostatics.water_density(one(celsius))[0] == pytest.approx(density, abs=2e-3)


@pytest.mark.parametrize(("wet", "epsilon"), [(0.0, 3.1), (0.1, 4.1), (0.2, 5.5), (0.3, 7.5), (0.5, 14.7)])
def test_hydrated_grease_follows_hanai(wet: float, epsilon: float) -> None:
    assert radar.permittivity(one(wet))[0] == pytest.approx(epsilon, abs=0.07)
    assert radar.wetness(radar.permittivity(one(wet)))[0] == pytest.approx(wet, abs=1e-12)


@pytest.mark.parametrize(("wet", "percent"), [(0.1, 15), (0.2, 33), (0.3, 55), (0.5, 117)])
def test_a_radar_set_to_dry_oil_over_reads_wet_grease(wet: float, percent: float) -> None:
    assert 100 * (radar.over_read(radar.permittivity(one(wet)))[0] - 1) == pytest.approx(percent, abs=1.0)


@pytest.mark.parametrize(("gravity", "gain"), [(0.88, 8.3), (0.92, 12.5), (0.95, 20.0)])
def test_grease_by_level_is_told_with_the_gain_of_buoyancy(gravity: float, gain: float) -> None:
    assert hydrostatics.gain(one(1000 * gravity))[0] == pytest.approx(gain, abs=0.05)


def test_grease_as_heavy_as_water_is_told_by_no_weight() -> None:
    assert np.isnan(hydrostatics.gain(one(995.0))[0])


def test_five_kelvin_over_a_metre_are_8_mm_of_level_and_100_mm_of_grease() -> None:
    _, known = acoustics.air_gap(one(1.0), one(2.2), one(25.0), one(np.nan))
    _, unknown = acoustics.air_gap(one(1.0), one(2.2), one(np.nan), one(np.nan))
    assert unknown[0] == pytest.approx(0.0084, abs=1e-4)
    assert unknown[0] * hydrostatics.gain(one(920.0))[0] == pytest.approx(0.105, abs=2e-3)
    assert known[0] == pytest.approx(unknown[0] / 5)


def test_a_ranger_that_takes_the_air_for_20_degrees_is_corrected() -> None:
    truth = 0.4  # at 35 °C sound is faster, so that the device tells a shorter gap
    told = truth * acoustics.air_sound(one(20.0)) / acoustics.air_sound(one(35.0))
    surface, _ = acoustics.air_gap(told, one(1.6), one(35.0), one(20.0))
    assert surface[0] == pytest.approx(1.2, abs=1e-9)
    assert one(1.6)[0] - told[0] == pytest.approx(1.2099, abs=2e-4)


@pytest.mark.parametrize(("celsius", "speed"), [(0.0, 331.3), (20.0, 343.2), (30.0, 349.0)])
def test_sound_in_air(celsius: float, speed: float) -> None:
    assert acoustics.air_sound(one(celsius))[0] == pytest.approx(speed, abs=0.05)


def test_water_speed_in_oil_at_40_degrees_reads_ten_per_cent_thick() -> None:
    ratio = acoustics.water_sound(one(40.0)) / acoustics.fog_sound(one(40.0))
    assert ratio[0] == pytest.approx(1.10, abs=0.01)


def test_the_speeds_of_oil_and_water_meet_near_14_degrees() -> None:
    speeds = [acoustics.water_sound(one(t))[0] - acoustics.fog_sound(one(t))[0] for t in (13.0, 15.0)]
    assert speeds[0] < 0 < speeds[1]


def weigh(fog: float, *, surface: float = 1.22, density: float = 920.0, celsius: float = 30.0) -> float:
    """Pressure [Pa] on a cell 0.1 m above the floor."""
    water = float(hydrostatics.water_density(one(celsius))[0])
    return 9.80665 * (water * (surface - fog - 0.1) + density * fog)


def cell(**keys: Any) -> SensorModel:
    return SensorModel("s", "gi", 1, pressure_height_m=0.1, **keys)


def test_pressure_and_surface_tell_grease_with_a_density() -> None:
    given_density = cell(fog_density_kg_m3=920.0, fog_density_sd_kg_m3=20.0)
    seen = look([given_density], {"surface_m": [1.22], "pressure_pa": [weigh(0.15)], "tank_c": [30.0]})
    assert seen.depth[0, 0] == pytest.approx(0.15, abs=1e-6)
    assert np.isnan(seen.depth[0, 1])  # solids bear on the floor
    relative = 20.0 / (float(hydrostatics.water_density(one(30.0))[0]) - 920.0)  # u(ρ_f)/Δρ, 26 %
    head = 0.002 * hydrostatics.gain(one(920.0), 995.65)[0]
    assert np.sqrt(seen.lasting[0, 0]) == pytest.approx(np.hypot(0.15 * relative, head), rel=1e-3)


def test_without_a_density_the_prior_tells_grease_with_27_per_cent() -> None:
    seen = look([cell()], {"surface_m": [1.22], "pressure_pa": [weigh(0.4, density=905.0)], "tank_c": [30.0]})
    assert seen.depth[0, 0] == pytest.approx(0.4, abs=1e-6)
    assert np.sqrt(seen.lasting[0, 0]) / 0.4 == pytest.approx(0.28, abs=0.01)


def test_an_unknown_temperature_widens_grease_by_weight() -> None:
    told = {"surface_m": [1.22, 1.22], "pressure_pa": [weigh(0.15)] * 2, "tank_c": [30.0, np.nan]}
    seen = look([cell(), SensorModel("t", "gi", 1, pressure_height_m=0.1)], told)
    assert seen.lasting[1, 0] > 1.15 * seen.lasting[0, 0]


def test_pressure_and_surface_over_nothing_see_nothing_and_never_less() -> None:
    seen = look([cell()], {"surface_m": [1.22], "pressure_pa": [weigh(0.0) + 10.0], "tank_c": [30.0]})
    assert seen.depth[0, 0] == 0.0


def test_a_dry_cell_tells_no_grease() -> None:
    seen = look([cell()], {"surface_m": [0.05], "pressure_pa": [0.0]})
    assert np.isnan(seen.depth).all()


def test_an_air_gap_tells_grease_only_with_a_density() -> None:
    density = SensorModel("b", "gi", 1, mount_height_m=1.6, fog_density_kg_m3=920.0)
    told = {"distance_m": [0.388, 0.388], "air_c": [20.0, 20.0]}
    seen = look([SensorModel("a", "gi", 1, mount_height_m=1.6), density], told)
    assert np.isnan(seen.depth[0]).all()
    assert seen.depth[1, 0] == pytest.approx(12.5 * 0.012)
    assert np.sqrt(seen.variance[1, 0] + seen.lasting[1, 0]) > 0.06  # honest: 12.5 mm a millimetre


def test_a_radar_is_corrected_for_wet_grease() -> None:
    dry = SensorModel("s", "gi", 1, min_layer_m=0.06, radar_permittivity=3.1, fog_permittivity=7.46)
    seen = look([dry], {"surface_m": [1.2], "fog_bottom_m": [0.967]})  # 233 mm told, 55 % too thick
    assert seen.depth[0, 0] == pytest.approx(0.150, abs=1e-3)
    assert np.sqrt(seen.lasting[0, 0]) > 0.1 * 0.15
    assert np.isnan(seen.depth[0, 1])


def test_below_a_radars_least_layer_two_echoes_are_one() -> None:
    dry = SensorModel("s", "gi", 1, min_layer_m=0.06, radar_permittivity=3.1)
    seen = look([dry], {"surface_m": [1.2], "fog_bottom_m": [1.19]})
    assert np.isnan(seen.depth[0, 0])
    assert seen.absent[0, 0] == 0.06


def test_a_sites_own_sound_speed_scales_the_echo() -> None:
    own = SensorModel("b", "gi", 1, sonar_height_m=0.7, fog_sound_m_s=1488.0, fog_sound_sd_m_s=5.0)
    told = {"echo_fog_s": [200e-6] * 2, "tank_c": [22.0] * 2}
    seen = look([SensorModel("a", "gi", 1, sonar_height_m=0.7), own], told)
    assert seen.depth[:, 0].tolist() == pytest.approx([0.144, 0.1488])
    assert np.sqrt(seen.lasting[:, 0]).tolist() == pytest.approx([0.0022, 0.0005])


lengths = st.floats(0.0, 0.6)


@given(lengths, lengths)
def test_thicker_grease_is_told_thicker_by_every_principle(a: float, b: float) -> None:
    thin, thick = sorted((a, b))
    echoes = [acoustics.up(one(d / 720.0), one(25.0), one(1440.0), one(22.0))[0][0] for d in (thin, thick)]
    depths = [
        hydrostatics.pressure_surface(
            one(1.22), one(1e-6), one(weigh(d)), one(0.1), one(30.0), one(920.0), one(20.0)
        )[0][0]
        for d in (thin, thick)
    ]
    radars = [radar.interface(one(d), one(3.1), one(6.4), one(1.9), one(0.0))[0][0] for d in (thin, thick)]
    for told in (echoes, depths, radars):
        assert told[0] <= told[1] + 1e-12


@given(st.floats(0.05, 0.5), st.floats(0.1, 10.0))
def test_an_echo_scales_with_its_time(depth: float, factor: float) -> None:
    whole, sd = acoustics.up(one(depth / 720.0), one(25.0), one(1440.0), one(22.0))
    more, more_sd = acoustics.up(one(factor * depth / 720.0), one(25.0), one(1440.0), one(22.0))
    assert more[0] == pytest.approx(factor * whole[0])
    assert more_sd[0] == pytest.approx(factor * sd[0])


@given(st.permutations(range(6)))
def test_no_reading_depends_on_its_neighbours(order: list[int]) -> None:
    sensors = [
        cell(fog_density_kg_m3=920.0),
        SensorModel("b", "gi", 1, mount_height_m=1.6, assumed_air_c=20.0),
        SensorModel("c", "gi", 1, min_layer_m=0.06, radar_permittivity=3.1),
        SensorModel("d", "gi", 1, sonar_height_m=0.7),
        SensorModel("e", "gi", 1, min_layer_m=0.02),
        SensorModel("f", "gi", 1, pressure_height_m=0.1),
    ]
    nan = np.nan
    told = {
        "surface_m": [1.21, nan, 1.2, nan, 1.2, nan],
        "distance_m": [nan, 0.4, nan, nan, nan, nan],
        "fog_bottom_m": [nan, nan, 1.0, nan, 1.1, nan],
        "solids_top_m": [nan, nan, nan, nan, 0.1, nan],
        "pressure_pa": [weigh(0.1), nan, nan, nan, nan, weigh(0.1)],
        "echo_fog_s": [nan, nan, nan, 200e-6, nan, nan],
        "air_c": [nan, 30.0, nan, nan, nan, nan],
    }
    seen = look(sensors, told)
    mixed = look([sensors[i] for i in order], {k: [v[i] for i in order] for k, v in told.items()})
    for field in ("surface", "surface_var", "depth", "variance", "lasting", "half"):
        np.testing.assert_array_equal(getattr(mixed, field), getattr(seen, field)[order])
