"""Devices of every principle answer with what their electronics would say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.profiles import Rods, coverage
from simulators.sensor import Depths, Device, Echoes, Interfaces, View, oil_sound, water_sound

MANY = np.zeros(4000, dtype=np.int64)  # one device, asked often: the mean is free of its electronics' noise


def view(surface: float = 1.22, fog: float = 0.10, solids: float = 0.12, tank_c: float = 25.0) -> View:
    """Layers that do not move at all, in front of one device asked often."""
    one = np.ones(MANY.size)
    return View(surface * one, fog * one, solids * one, tank_c * one, 0 * one)


def ask(device: Device, seen: View) -> dict[str, np.ndarray]:
    """What the device says on average, NaN where it says nothing."""
    told = device.read(MANY, seen, np.random.default_rng(7))
    return {name: values.mean(axis=0) for name, values in told.items()}


def test_sound_in_water_agrees_with_another_formula() -> None:
    """Marczak's polynomial gives 1482.380, 1528.894 and 1550.986 m/s at 20, 40 and 60 °C."""
    speeds = water_sound(np.array([20.0, 40.0, 60.0]))
    assert speeds == pytest.approx([1482.380, 1528.894, 1550.986], abs=0.02)
    assert oil_sound(np.array([22.0, 32.0])) == pytest.approx([1440.0, 1412.0])


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.6), st.floats(0.0, 0.5), st.floats(0.01, 0.05))
def test_every_ring_touches_media_that_add_up_to_one(
    solids: float, water: float, fog: float, ring: float
) -> None:
    centre = 0.025 + 0.05 * np.arange(30)[None, :]
    heights = np.cumsum([solids, water, fog])[:, None]
    shares = coverage(centre - ring / 2, centre + ring / 2, *heights)
    assert shares.min() >= 0.0
    assert shares.sum(axis=0) == pytest.approx(np.ones((1, 30)))
    top = np.array([solids, solids + water, solids + water + fog])
    middle = [(top <= height).sum() for height in centre[0]]  # 0 solids, 1 water, 2 grease, 3 air
    whole = shares[:, 0].max(axis=0) == 1.0
    assert (shares[:, 0].argmax(axis=0)[whole] == np.array(middle)[whole]).all()


def test_a_rod_shows_partly_covered_electrodes() -> None:
    """Solids up to 125 mm cover half of the ring from 100 to 150 mm: (0.7 + 1.0) / 2."""
    rods = Rods(np.array([0.025]), np.array([0.05]), np.array([0.05]), np.ones((1, 28)), np.zeros((1, 28)))
    profile = ask(rods, view(surface=1.225, fog=0.10, solids=0.125))["profile"]
    assert profile[:2] == pytest.approx([0.7, 0.7], abs=0.002)
    assert profile[2] == pytest.approx(0.85, abs=0.002)
    assert profile[3:22] == pytest.approx(np.ones(19), abs=0.002)
    assert profile[22] == pytest.approx(0.625, abs=0.002)  # 1100 … 1150: water up to 1125, grease above
    assert profile[23] == pytest.approx(0.25, abs=0.002)
    assert profile[24] == pytest.approx(0.15, abs=0.002)  # 1200 … 1250: grease up to 1225, air above
    assert profile[25:] == pytest.approx(0.05 * np.ones(3), abs=0.002)


def test_a_shorter_rod_has_no_electrode_beyond_its_end() -> None:
    gain = np.array([[1.0, 1.0, np.nan]])
    rods = Rods(np.array([0.025]), np.array([0.05]), np.array([0.05]), gain, np.zeros((1, 3)))
    profile = ask(rods, view())["profile"]
    assert np.isnan(profile).tolist() == [False, False, True]


def test_a_two_interface_device_does_not_see_thin_layers() -> None:
    device = Interfaces(np.zeros((1, 3)), np.array([0.02]))
    told = ask(device, view(fog=0.10, solids=0.019))
    assert told["surface_mm"] == pytest.approx(1220.0)
    assert told["fog_bottom_mm"] == pytest.approx(1120.0)
    assert np.isnan(told["solids_top_mm"])


def test_a_computing_device_says_zero_below_its_minimum() -> None:
    device = Depths(np.ones((1, 2)), np.array([0.02]))
    told = ask(device, view(fog=0.0508, solids=0.015))
    assert told["fog_depth_in"] == pytest.approx(2.0)
    assert told["solids_depth_in"] == 0.0


def test_echo_times_follow_from_the_speed_of_sound() -> None:
    device = Echoes(np.array([1.62]), np.array([0.67]), np.array([0.01]))
    told = ask(device, view(fog=0.10, solids=0.12, tank_c=22.0))
    assert told["echo_fog_us"] == pytest.approx(2e6 * 0.10 / 1440.0, abs=0.1)
    assert told["echo_solids_us"] == pytest.approx(2e6 * 0.55 / 1488.34, abs=0.3)
    assert told["distance_mm"] == pytest.approx(400.0)


def test_a_sonar_that_hangs_dry_is_silent() -> None:
    device = Echoes(np.array([1.62]), np.array([0.67]), np.array([0.01]))
    told = ask(device, view(surface=0.05, fog=0.01, solids=0.01))
    assert np.isnan(told["echo_fog_us"])
    assert np.isnan(told["echo_solids_us"])
    assert told["distance_mm"] == pytest.approx(1570.0)


def test_readings_are_unquiet_while_water_runs() -> None:
    device = Interfaces(np.zeros((1, 3)), np.array([0.0]))
    one = np.ones(MANY.size)

    def spread(agitation: float) -> float:
        still = View(1.22 * one, 0.1 * one, 0.1 * one, 25.0 * one, agitation * one)
        return float(device.read(MANY, still, np.random.default_rng(1))["solids_top_mm"].std())

    assert spread(1.0) == pytest.approx(3.0, rel=0.05)
    assert spread(3.0) == pytest.approx(9.0, rel=0.05)
