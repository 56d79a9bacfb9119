"""Pump-outs are physical: the liquid falls, the layers go, the tank fills again, and the sensors see it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from simulators.city import City, Step, UnknownInterceptorError
from simulators.faults import FaultKind, FaultPlan
from simulators.interceptor import Tanks, TankState, advance, depths
from simulators.kitchen import Inflow
from simulators.trucks import Yard

Build = Callable[..., Inflow]


def served(
    tanks: Tanks, inflow: Inflow, *, complete: bool, days: int = 60
) -> tuple[list[float], TankState, Yard]:
    """Fill for ``days``, serve, and follow the level for two days more."""
    state, yard, levels = TankState.empty(tanks), Yard(np.random.default_rng(2), 1), []
    yard.ask(0, days * 86400.0, complete=complete)
    for step in range((days + 2) * 96):
        yard.advance(tanks, state, step * 900.0)
        advance(tanks, state, inflow, 900.0)
        levels.append(float(state.level_m[0]))
    return levels[days * 96 :], state, yard


def test_a_complete_pump_out_empties_the_tank_and_it_fills_within_hours(
    one_tank: Tanks, steady_inflow: Build
) -> None:
    levels, state, _ = served(one_tank, steady_inflow(), complete=True)
    lowest = int(np.argmin(levels))
    assert min(levels) < 0.10
    assert 1 <= lowest <= 3  # 25 to 40 minutes of pumping, in steps of 15
    assert levels[-1] == 1.22
    assert 2 <= sum(level < 0.61 for level in levels) <= 96
    assert depths(one_tank, state).fog[0, 0] < 0.02


def test_a_partial_pump_out_takes_the_grease_and_leaves_the_sludge(
    one_tank: Tanks, steady_inflow: Build
) -> None:
    state, yard = TankState.empty(one_tank), Yard(np.random.default_rng(3), 1)
    job = yard.ask(0, 60 * 86400.0, complete=False)
    for step in range(61 * 96):
        yard.advance(one_tank, state, step * 900.0)
        advance(one_tank, state, steady_inflow(), 900.0)
    assert job.done
    (fog, _), (solids, _) = job.before
    assert job.after[0, 0] < 0.11 * fog
    assert 0.7 * solids < job.after[1, 0] < 0.97 * solids
    assert 0.30 * 1.22 <= job.level_to_m <= 0.60 * 1.22


def test_the_truth_tells_the_residual_and_what_was_there(lived_fortnight: tuple[City, list[Step]]) -> None:
    city, steps = lived_fortnight
    first, second = (line for step in steps for line in step.truth if line["type"] == "pump_out")
    assert first["interceptor"] == city.plan.interceptors[0].id
    assert (first["complete"], second["complete"]) == (True, False)
    before, after = first["before"][0], first["after"][0]
    total = before["fog_mm"] + before["solids_mm"]
    assert after["fog_mm"] + after["solids_mm"] <= 0.10 * total  # complete by contracts.md §3
    assert first["fall_mm"] > 0.9 * city.plan.interceptors[0].base_depth_mm
    assert first["start"] < first["end"]


def test_at_least_two_readings_see_the_drawdown(lived_fortnight: tuple[City, list[Step]]) -> None:
    city, steps = lived_fortnight
    sensor = city.plan.sensors[0]
    low = 0
    for message in (message for step in steps for message in step.messages):
        if f"/{sensor.id}/" not in message.topic:
            continue
        body = json.loads(message.payload)
        if "profile" in body:
            low += sum(value < 0.15 for value in body["profile"]) > 0.6 * sensor.electrodes
        else:
            pytest.fail("the first sensor of this seed is a rod")
    assert low >= 2


def test_two_trucks_at_one_tank_work_one_after_the_other(one_tank: Tanks, steady_inflow: Build) -> None:
    state, yard = TankState.empty(one_tank), Yard(np.random.default_rng(4), 1)
    jobs = [yard.ask(0, 0.0, complete=True), yard.ask(0, 0.0, complete=True)]
    for step in range(20):
        yard.advance(one_tank, state, step * 900.0)
        advance(one_tank, state, steady_inflow(), 900.0)
    assert all(job.done for job in jobs)
    assert jobs[1].start_s is not None
    assert jobs[0].end_s is not None
    assert jobs[1].start_s >= jobs[0].end_s


def test_an_unknown_interceptor_is_named(small_city: Callable[..., City]) -> None:
    with pytest.raises(UnknownInterceptorError, match="'nowhere'"):
        small_city().pump_out("nowhere", 0.0)


def test_a_skim_takes_grease_and_leaves_solids_and_level(one_tank: Tanks, steady_inflow: Build) -> None:
    """Against the same tank unskimmed: 70 % of the grease is gone, sludge and surface are the same."""
    plain, skimmed = TankState.empty(one_tank), TankState.empty(one_tank)
    yard = Yard(np.random.default_rng(5), 1)
    job = yard.skim(0, 40 * 86400.0, 0.7, 2700.0)
    levels = []
    for step in range(40 * 96 + 4):
        yard.advance(one_tank, skimmed, step * 900.0)
        for state in (plain, skimmed):
            advance(one_tank, state, steady_inflow(), 900.0)
        levels.append(float(skimmed.level_m[0]))
    assert job.done
    assert not yard.at_work
    assert skimmed.grease_m3[0] == pytest.approx(0.3 * plain.grease_m3[0], rel=0.01)
    assert skimmed.sludge_m3[0] == pytest.approx(plain.sludge_m3[0], rel=1e-3)
    assert min(levels[1:]) == 1.22
    gone = 0.7 * (plain.grease_m3 + plain.bound_m3).sum()
    assert job.volume_m3 == pytest.approx(gone, rel=0.01)


def test_clarified_water_brings_a_little_back_and_a_hose_brings_nothing(one_tank: Tanks) -> None:
    """One tank of it: 0.1 g of grease and 0.15 g of solids a litre."""
    still = np.zeros(1)
    nothing = Inflow(still, still, still, still, still, still, still, np.zeros(1, dtype=bool))
    for refill, grease_kg, solids_kg in (("hose", 0.0, 0.0), ("clarified", 0.1, 0.15)):
        state, yard = TankState.empty(one_tank), Yard(np.random.default_rng(6), 1)
        job = yard.ask(0, 0.0, complete=True)
        job.refill = refill
        for step in range(12):
            yard.advance(one_tank, state, step * 900.0)
            advance(one_tank, state, nothing, 900.0)
        filled_m3 = (1.22 - job.level_to_m) * float(one_tank.total_m2[0])
        assert state.level_m[0] == 1.22
        assert state.grease_m3.sum() * 905.0 == pytest.approx(grease_kg * filled_m3, rel=1e-6)
        assert state.dry_kg.sum() == pytest.approx(solids_kg * filled_m3, rel=1e-6)
        assert state.fed[0, 1] == state.dry_kg.sum()


def test_a_skim_is_no_service_in_the_truth(small_city: Callable[..., City]) -> None:
    plan = FaultPlan(share=1.0, times_a_year=365.0, days=(0.03, 0.03), size=(0.8, 0.8))
    city = small_city(seed=2, count=2, faults={FaultKind.SKIM: plan}, fault_days=3)
    steps = [city.step() for _ in range(3 * 96)]
    lines = [line for step in steps for line in step.truth]
    assert not any(step.done for step in steps)
    assert not [line for line in lines if line["type"] == "pump_out"]
    skims = [line for line in lines if line["type"] == "fault"]
    assert len(skims) == len(city.faults.faults) > 2
    who = skims[0]["interceptor"]
    fog = [line["fog_mm"] for line in lines if line["type"] == "depths" and line["interceptor"] == who]
    assert min(fog) < 0.3 * max(fog)
