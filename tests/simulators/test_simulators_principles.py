"""What a known state of the tank makes each newer device say, by numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.mixture import permittivity, wet_conductivity, wet_sound
from simulators.probe import Baths
from simulators.profiles import RING_SCALE, THERMISTOR_SCALE, Rods, wet_ring
from simulators.rangers import AirGap, Optical, Pressure, air_sound, water_kg_m3
from simulators.sensor import Device, Interfaces, View, quantise
from simulators.sonars import Radar, SonarDown, SonarUp

MANY = np.zeros(6000, dtype=np.int64)
NONE = np.zeros(1)


def one(value: float) -> np.ndarray:
    return np.array([value])


def view(
    surface: float = 1.22,
    fog: float = 0.10,
    solids: float = 0.12,
    tank_c: float = 22.0,
    wet: float = 0.0,
    air_c: float = 20.0,
) -> View:
    """Layers that do not move at all, in front of one device asked often."""
    still = np.ones(MANY.size)
    return View(
        surface * still, fog * still, solids * still, tank_c * still, 0 * still, wet * still, air_c * still
    )


def ask(device: Device, seen: View) -> dict[str, float]:
    """What the device says on average, NaN where it says nothing."""
    told = device.read(MANY, seen, np.random.default_rng(7))
    return {name: float(values.mean()) for name, values in told.items()}


def test_wet_grease_refracts_more() -> None:
    """Hanai's law with oil 3.1 and water 75: 4.1, 5.5, 7.5 and 14.7 at 10, 20, 30 and 50 % water."""
    epsilon = permittivity(np.array([0.0, 0.1, 0.2, 0.3, 0.5, 1.0]))
    assert epsilon == pytest.approx([3.1, 4.1, 5.5, 7.5, 14.7, 75.0], abs=0.06)


def test_wet_grease_conducts_and_sounds_between_oil_and_water() -> None:
    """Maxwell at 30 %: 0.17 · (0.94 + 2 · 0.129) / (0.94 - 0.129) = 0.2511 W/mK; half of each time."""
    assert wet_conductivity(np.array([0.0, 0.3, 1.0])) == pytest.approx([0.17, 0.2511, 0.60], abs=1e-4)
    assert wet_sound(one(1440.0), one(1488.34), one(0.5))[0] == pytest.approx(1463.77, abs=0.01)


def test_water_weighs_what_tables_say() -> None:
    """998.20 kg/m³ at 20 °C, 997.05 at 25 °C, 992.2 at 40 °C."""
    assert water_kg_m3(np.array([20.0, 25.0, 40.0])) == pytest.approx([998.20, 997.05, 992.2], abs=0.05)


def test_a_ranger_that_does_not_compensate_reads_short_in_warm_air() -> None:
    """A metre of air at 25 °C taken for 20 °C: √(293.15 / 298.15) = 0.99158 m; 0.165 %/K."""
    assert air_sound(one(20.0))[0] == pytest.approx(343.2, abs=0.05)
    seen = view(surface=1.0, air_c=25.0)
    fixed = AirGap(one(2.0), one(20.0), NONE, NONE)
    told = ask(fixed, seen)
    assert told["distance_cm"] == pytest.approx(99.158, abs=0.01)
    assert np.isnan(told["air_c"])
    own = ask(AirGap(one(2.0), one(np.nan), NONE, NONE), seen)
    assert own["distance_cm"] == pytest.approx(100.0, abs=0.01)
    assert own["air_c"] == pytest.approx(25.0, abs=0.02)


def test_a_ranger_hears_nothing_nearer_than_its_blanking_distance() -> None:
    assert ask(AirGap(one(1.40), one(20.0), NONE, NONE), view())["distance_cm"] == 25.0


def test_an_optical_ranger_does_not_mind_the_air() -> None:
    device = Optical(one(1.62), NONE, NONE)
    assert ask(device, view(air_c=45.0))["distance_mm"] == pytest.approx(400.0, abs=0.1)


def test_a_pressure_cell_weighs_water_and_grease_above_it() -> None:
    """9.80665 · (998.234 · (1.12 - 0.10) + 900 · 0.10) = 10,867.7 Pa at 20 °C."""
    cell = Pressure(one(0.10), one(900.0), NONE, NONE)
    assert ask(cell, view(tank_c=20.0)) == {"pressure_mbar": pytest.approx(108.677, abs=0.006)}
    both = ask(Pressure(one(0.10), one(900.0), NONE, NONE, with_surface=True), view(tank_c=20.0))
    assert both["surface_cm"] == pytest.approx(122.0, abs=0.01)


def test_pressure_alone_does_not_see_grease_that_floats_at_the_outlet() -> None:
    """Grease of 900 kg/m³ stands above the outlet by as much as it is lighter: 10,964 Pa at any thickness."""
    cell = Pressure(one(0.10), one(900.0), NONE, NONE)

    def told(fog: float) -> float:
        return ask(cell, view(surface=1.22 + fog * (1 - 900.0 / 998.234), fog=fog, tank_c=20.0))[
            "pressure_mbar"
        ]

    assert [told(fog) for fog in (0.0, 0.1, 0.3)] == pytest.approx([109.640] * 3, abs=0.005)


def test_sludge_weighs_on_a_cell_only_while_it_is_stirred_up() -> None:
    """0.3 of 0.2 m lifted, 60 kg/m³ heavier than water: 35.3 Pa."""
    cell = Pressure(one(0.10), one(900.0), NONE, NONE)
    calm = view(solids=0.2)
    stirred = replace(calm, agitation=7.0 * np.ones(MANY.size))
    gain = ask(cell, stirred)["pressure_mbar"] - ask(cell, calm)["pressure_mbar"]
    assert gain == pytest.approx(0.353, abs=0.05)


def test_a_radar_set_for_dry_grease_reads_wet_grease_thick() -> None:
    """√(5.5 / 3.1) = 1.33 at 20 % water; set for that water it reads right."""
    dry = Radar(NONE, one(0.0), one(0.06), NONE)
    told = ask(dry, view(wet=0.2))
    assert told["surface_m"] == pytest.approx(1.22, abs=1e-4)
    assert told["surface_m"] - told["fog_bottom_m"] == pytest.approx(0.133, abs=0.001)
    right = ask(Radar(NONE, one(0.2), one(0.06), NONE), view(wet=0.2))
    assert right["fog_bottom_m"] == pytest.approx(1.12, abs=1e-4)


@pytest.mark.parametrize(("fog", "wet"), [(0.059, 0.2), (0.10, 0.62)], ids=["thin", "very wet"])
def test_a_radar_does_not_find_thin_or_very_wet_grease(fog: float, wet: float) -> None:
    """Two echoes closer than 60 mm merge; from ε 20 on (61 % water) there is no second one."""
    told = ask(Radar(NONE, one(0.2), one(0.06), NONE), view(fog=fog, wet=wet))
    assert told["surface_m"] == pytest.approx(1.22, abs=1e-4)
    assert np.isnan(told["fog_bottom_m"])


def test_a_radar_misses_half_of_the_echoes_from_under_grease_of_fifty_percent_water() -> None:
    """ε 14.7 is 0.47 of the way from 10 to 20."""
    radar = Radar(NONE, one(0.2), one(0.06), NONE)
    told = radar.read(MANY, view(wet=0.5), np.random.default_rng(7))["fog_bottom_m"]
    assert np.isnan(told).mean() == pytest.approx(0.47, abs=0.02)


def test_a_sonar_that_looks_up_times_the_grease_and_guesses_the_water() -> None:
    """2 · 0.1 m / 1440 m/s = 138.9 µs; 0.45 m of water at 1488.34 m/s taken for 1480: 447.5 mm."""
    device = SonarUp(one(0.67), one(0.01))
    told = ask(device, view())
    assert told["echo_fog_us"] == pytest.approx(138.9, abs=0.1)
    assert told["fog_bottom_mm"] == pytest.approx(670.0 + 447.5, abs=0.2)
    assert ask(device, view(wet=0.5))["echo_fog_us"] == pytest.approx(136.6, abs=0.1)
    assert all(np.isnan(list(ask(device, view(fog=0.009)).values())))  # too thin to part the echoes
    assert all(np.isnan(list(ask(device, view(surface=0.5)).values())))  # it hangs dry


def test_a_sonar_that_looks_down_hears_from_within_the_fluff_and_not_always() -> None:
    """(0.55 + 0.006) m of water at 22 °C there and back: 747.1 µs."""
    device = SonarDown(one(0.67), one(0.2))
    heard = device.read(MANY, view(), np.random.default_rng(7))["echo_solids_us"]
    assert np.isnan(heard).mean() == pytest.approx(0.2, abs=0.02)
    assert np.nanmean(heard) == pytest.approx(747.1, abs=0.4)
    assert np.isnan(device.read(MANY, view(solids=0.7), np.random.default_rng(7))["echo_solids_us"]).all()


def test_capacitance_rings_count_from_water_to_air() -> None:
    """(75 - ε) / 74 of 10,000: 0 in water, 9,392 in grease of 20 % water (ε 5.5), 10,000 in air."""
    rings = Rods(one(0.025), one(0.05), one(0.05), np.ones((1, 28)), np.zeros((1, 28)), RING_SCALE, wet_ring)
    seen = view(surface=1.25, fog=0.15, solids=0.10, wet=0.2)
    profile = rings.read(MANY, seen, np.random.default_rng(7))["profile"]
    assert (profile == np.round(profile)).all()
    assert profile[:, 0].mean() == pytest.approx(1500.0, abs=3.0)
    assert profile[:, 10].mean() == pytest.approx(16.0, abs=2.0)  # noise of 40, cut off at 0: 40 / √(2π)
    assert profile[:, 23].mean() == pytest.approx(9392.0, abs=8.0)
    assert profile[:, 26].mean() == pytest.approx(10000.0, abs=3.0)


def test_heated_thermistors_find_the_conductivity() -> None:
    string = Rods(
        one(0.025), one(0.05), one(0.05), np.ones((1, 28)), np.zeros((1, 28)), THERMISTOR_SCALE,
        wet_conductivity,
    )  # fmt: skip
    seen = view(surface=1.25, fog=0.15, solids=0.10, wet=0.3)
    profile = string.read(MANY, seen, np.random.default_rng(7))["profile"].mean(axis=0)
    assert profile[[10, 23, 26]] == pytest.approx([0.60, 0.251, 0.03], abs=0.002)


@given(st.floats(0.2, 1.5), st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.floats(1.0, 8.0), st.integers(0, 99))
def test_what_interfaces_tell_lies_in_order(
    surface: float, fog: float, solids: float, unrest: float, seed: int
) -> None:
    few = np.zeros(50, dtype=np.int64)
    still = np.ones(50)
    seen = View(surface * still, fog * surface * still, solids * surface * still, 25 * still, unrest * still)
    device = Interfaces(np.array([[0.001, -0.004, 0.004]]), one(0.0), one(0.001))
    told = device.read(few, seen, np.random.default_rng(seed))
    assert (told["surface_mm"] >= told["fog_bottom_mm"]).all()
    assert (told["fog_bottom_mm"] >= told["solids_top_mm"]).all()


@pytest.mark.parametrize("step", [0.001, 0.002, 0.005])
def test_resolution_is_kept(step: float) -> None:
    seen = replace(view(), agitation=np.ones(MANY.size))
    rng = np.random.default_rng(1)
    for device in (
        AirGap(one(1.62), one(20.0), NONE, one(step)),
        Optical(one(1.62), NONE, one(step)),
        Interfaces(np.zeros((1, 3)), NONE, one(step)),
        Radar(NONE, one(0.2), one(0.06), one(step)),
    ):
        for name, values in device.read(MANY, seen, rng).items():
            if name == "air_c":
                continue
            metres = values * {"mm": 1e-3, "cm": 1e-2, "m": 1.0}[name.rpartition("_")[2]]
            assert metres / step == pytest.approx(np.round(metres / step), abs=1e-6), name
            assert len(np.unique(values)) < 60


@given(st.floats(-5.0, 5.0), st.sampled_from([0.001, 0.002, 0.005, 0.05]))
def test_quantising_moves_by_half_a_step_at_most(value: float, step: float) -> None:
    assert abs(quantise(one(value), one(step))[0] - value) <= step / 2 + 1e-12
    assert quantise(one(value), NONE)[0] == pytest.approx(value, abs=1e-8)


def test_a_tank_thermometer_lags() -> None:
    """63.2 % of a step after one time constant, 95.0 % after three; without a lag it follows at once."""
    baths = Baths(np.array([900.0, 0.0]))
    assert baths.advance(np.array([20.0, 20.0]), 900.0).tolist() == [20.0, 20.0]
    after = [baths.advance(np.array([30.0, 30.0]), 900.0) for _ in range(3)]
    assert after[0] == pytest.approx([26.321, 30.0], abs=0.001)
    assert after[2] == pytest.approx([29.502, 30.0], abs=0.001)
