"""Sensors by weights of principles: quotas, parts, and a fleet file that the service takes."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.fleet_file import Known, parse_fleet
from simulators.electronics import death_order
from simulators.fleetfile import fleet_toml
from simulators.mounting import quotas
from simulators.plan import CityPlan, draw_plan
from simulators.sensor import PROFILES, Principle

START_S = 1_788_246_000.0
MIXES = st.dictionaries(st.sampled_from(list(Principle)), st.floats(0.1, 10.0), min_size=1)


def plan(principles: Mapping[Principle, float] | None, count: int = 40, seed: int = 5) -> CityPlan:
    return draw_plan(np.random.default_rng(seed), count, START_S, principles)


def test_the_usual_city_is_what_it_was() -> None:
    kinds = Counter(sensor.principle for sensor in plan(None).sensors)
    assert kinds == {
        Principle.ROD: 24, Principle.INTERFACES: 8, Principle.DEPTHS: 4, Principle.ECHO: 4,
    }  # fmt: skip
    assert {item.grease_kg_m3 for item in plan(None).interceptors} == {None}
    assert {sensor.resolution_mm for sensor in plan(None).sensors} == {0.0}


def test_a_mix_is_kept_to_the_sensor() -> None:
    kinds = Counter(
        sensor.principle for sensor in plan({Principle.RADAR: 3.0, Principle.ROD: 1.0, Principle.ECHO: 0.0}).sensors
    )  # fmt: skip
    assert kinds == {Principle.RADAR: 30, Principle.ROD: 10}


@given(MIXES, st.integers(1, 90), st.integers(0, 9))
def test_quotas_are_off_by_less_than_one_sensor(mix: dict[Principle, float], count: int, seed: int) -> None:
    drawn = Counter(quotas(mix, count, np.random.default_rng(seed)))
    assert sum(drawn.values()) == count
    for principle, weight in mix.items():
        assert abs(drawn[principle] - count * weight / sum(mix.values())) < 1.0 + 1e-6


def test_the_mix_changes_neither_sites_nor_tanks() -> None:
    one, other = plan({Principle.RADAR: 1.0}), plan({Principle.SONAR_UP: 1.0})
    assert one.sites == other.sites == plan(None).sites
    assert one.interceptors == other.interceptors
    assert [(a.phase_s, a.tau_s) for a in one.sensors] == [(b.phase_s, b.tau_s) for b in other.sensors]
    assert 0.05 < np.mean([sensor.tau_s is None for sensor in one.sensors]) < 0.4


@pytest.mark.parametrize(
    "mix", [{}, {Principle.ROD: 0.0}, {Principle.ROD: -1.0}, {Principle.ROD: float("nan")}], ids=str
)
def test_a_mix_without_sense_is_refused(mix: dict[Principle, float]) -> None:
    with pytest.raises(ValueError, match="principles: "):
        plan(mix)


@pytest.fixture(scope="module")
def fleet() -> tuple[CityPlan, str]:
    city = plan(dict.fromkeys(Principle, 1.0), 39)
    return city, fleet_toml(city, {})


def test_the_service_takes_the_fleet_of_every_principle(fleet: tuple[CityPlan, str]) -> None:
    known = Known(("inglewood", "sierra-madre"), ("native",), lambda *_: None)
    assert len(parse_fleet(fleet[1], "fleet.toml", known).sensors) == 39


def test_the_fleet_file_tells_of_each_device_what_an_installer_knows(fleet: tuple[CityPlan, str]) -> None:
    usual = {"id", "interceptor", "compartment", "profile", "interval_s", "tau_s", "resolution_mm"}
    told: dict[Principle, set[str]] = {}
    written: list[dict[str, Any]] = tomllib.loads(fleet[1])["sensors"]
    for sensor, table in zip(fleet[0].sensors, written, strict=True):
        told.setdefault(sensor.principle, set()).update(table.keys() - usual)
        assert table.get("tau_s") == sensor.tau_s
    profile = {"pitch_mm", "first_mm", "levels"}
    assert told == {
        **dict.fromkeys(PROFILES, profile),
        Principle.INTERFACES: {"min_layer_mm"},
        Principle.DEPTHS: {"min_layer_mm"},
        Principle.ECHO: {"min_layer_mm", "mount_height_mm", "sonar_height_mm"},
        Principle.SONAR_UP: {"min_layer_mm", "sonar_height_mm"},
        Principle.SONAR_DOWN: {"sonar_height_mm"},
        Principle.AIR_GAP: {"mount_height_mm"},
        Principle.OPTICAL: {"mount_height_mm"},
        Principle.PRESSURE: {"pressure_height_mm"},
        Principle.PRESSURE_SURFACE: {"pressure_height_mm"},
        Principle.RADAR: {"min_layer_mm"},
    }


def test_levels_are_named_in_each_rods_own_scale(fleet: tuple[CityPlan, str]) -> None:
    """0 (water) to 10,000 (air), and W/mK: grease of a quarter water has ε 6.4 and 0.24 W/mK."""
    levels = {
        sensor.principle: table["levels"]
        for sensor, table in zip(fleet[0].sensors, tomllib.loads(fleet[1])["sensors"], strict=True)
        if "levels" in table
    }
    assert levels[Principle.ROD] == {"air": 0.05, "fog": 0.25, "water": 1.0, "solids": 0.7}
    assert levels[Principle.CAPACITANCE] == {"air": 10000.0, "fog": 9270.0, "water": 0.0, "solids": 1500.0}
    assert levels[Principle.THERMISTOR] == {"air": 0.03, "fog": 0.24, "water": 0.6, "solids": 0.45}


@given(st.lists(st.integers(2, 76), min_size=1, max_size=5))
def test_electrodes_die_one_after_the_other(counts: list[int]) -> None:
    there = np.arange(max(counts)) < np.array(counts)[:, None]
    order = death_order(there)
    for row, count in enumerate(counts):
        assert sorted(order[row, :count]) == list(range(count))
