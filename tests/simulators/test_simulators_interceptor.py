"""Each physical claim about the tanks, by number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simulators.city import City, Step
from simulators.faults import FaultKind, FaultPlan
from simulators.interceptor import (
    AGED_BOUND,
    FRESH_BOUND,
    FULLEST,
    Depths,
    Tanks,
    TankState,
    advance,
    capture,
    depths,
    fraction,
)
from simulators.kitchen import Inflow
from simulators.trucks import Yard

Build = Callable[..., Inflow]


def live(tanks: Tanks, inflow: Inflow, steps: int) -> tuple[TankState, list[Depths]]:
    state, seen = TankState.empty(tanks), []
    for _ in range(steps):
        advance(tanks, state, inflow, 900.0)
        seen.append(depths(tanks, state))
    return state, seen


def test_mass_is_kept_over_services_and_overflow(one_tank: Tanks, steady_inflow: Build) -> None:
    """Complete and partial pump-outs, skims and every way of filling up again are among them."""
    state, yard = TankState.empty(one_tank), Yard(np.random.default_rng(1), 1)
    jobs = [yard.ask(0, day * 86400.0, complete=day % 2 == 0) for day in range(21, 99, 7)]
    jobs.append(yard.skim(0, 16 * 86400.0, 0.8, 2400.0))
    assert {job.refill for job in jobs} == {"", "hose", "clarified"}
    for step in range(100 * 96):
        yard.advance(one_tank, state, step * 900.0)
        advance(one_tank, state, steady_inflow(grease_m3=2e-4, solids_kg=0.2), 900.0)
    held = np.array([state.grease_m3.sum(), state.dry_kg.sum()])
    assert state.pumped[0].min() > 0.0
    assert held + state.left[0] + state.pumped[0] == pytest.approx(state.fed[0], rel=1e-9)


def test_mass_is_kept_by_a_whole_city(lived_fortnight: tuple[City, list[Step]]) -> None:
    state = lived_fortnight[0].state
    held = np.stack([state.grease_m3.sum(axis=1), state.dry_kg.sum(axis=1)], axis=1)
    assert held + state.left + state.pumped == pytest.approx(state.fed, rel=1e-9)


def test_layers_never_overlap_even_when_far_too_full(one_tank: Tanks, steady_inflow: Build) -> None:
    _, seen = live(one_tank, steady_inflow(grease_m3=3e-3, solids_kg=3.0), 60 * 96)
    for layers in seen[:: 96 // 4]:
        assert (layers.fog >= 0.0).all()
        assert (layers.solids >= 0.0).all()
        assert (layers.fog + layers.solids <= FULLEST * layers.level[:, None] + 1e-9).all()
    assert fraction(one_tank, seen[-1]).max() > 0.6  # it was a hard test


def test_capture_falls_with_fill_flow_and_heat() -> None:
    one = np.ones(1)
    at = lambda fill, flow, warm: float(capture(0.86, fill * one, flow * one, warm * one)[0])  # noqa: E731
    assert at(0.0, 0.0, 30.0) == pytest.approx(0.86)
    assert at(0.25, 0.0, 30.0) == pytest.approx(0.86 * 0.7788, rel=1e-4)  # exp(-(0.25 / 0.5)²)
    assert at(0.50, 0.0, 30.0) == pytest.approx(0.86 * 0.3679, rel=1e-4)  # exp(-1)
    assert at(0.0, 1.6e-4, 30.0) == pytest.approx(0.43)  # half at the stated loading
    assert at(0.0, 0.0, 45.0) == pytest.approx(0.86 * 0.88)


def test_a_fuller_tank_keeps_less_of_what_comes(one_tank: Tanks, steady_inflow: Build) -> None:
    state = TankState.empty(one_tank)
    shares = []
    for _ in range(240):
        before = state.fed[0, 0] - state.left[0, 0]
        fed = state.fed[0, 0]
        for _ in range(8):  # three hours at once: nothing here is quicker
            inflow = steady_inflow(volume_m3=0.96, grease_m3=4.8e-4, solids_kg=0.144)
            advance(one_tank, state, inflow, 10800.0)
        shares.append((state.fed[0, 0] - state.left[0, 0] - before) / (state.fed[0, 0] - fed))
    assert (np.diff(shares) < 0.0).all()
    assert shares[0] > 0.6
    assert shares[-1] < 0.75 * shares[0]


def test_solids_compact_concavely(one_tank: Tanks, steady_inflow: Build) -> None:
    _, seen = live(one_tank, steady_inflow(grease_m3=0.0), 90 * 96)
    daily = np.array([layers.solids[0, 0] for layers in seen[95::96]])
    assert (np.diff(daily) > 0.0).all()
    assert (np.diff(daily, 2) < 0.0).all()
    # Gray 1995 saw the rate of septic sludge fall by 30 % from 6 to 60 months; kitchens' sludge is quicker
    assert np.diff(daily)[-1] < 0.6 * np.diff(daily)[0]


def test_the_surface_surges_with_the_inflow(one_tank: Tanks, steady_inflow: Build) -> None:
    """A litre a second over a 100 mm weir of coefficient 1.8 stands 31.4 mm high: (Q / 0.18)^(2/3)."""
    _, seen = live(one_tank, steady_inflow(volume_m3=0.9), 2)
    assert seen[-1].head[0] == pytest.approx(0.0314, abs=2e-4)
    assert seen[-1].level[0] == 1.22
    state, _ = live(one_tank, steady_inflow(volume_m3=0.9), 1)
    advance(one_tank, state, steady_inflow(volume_m3=0.0), 900.0)
    assert state.head_m[0] == 0.0


def test_the_tank_is_warmed_by_the_inflow_and_cools_to_the_ground(
    one_tank: Tanks, steady_inflow: Build
) -> None:
    state, _ = live(one_tank, steady_inflow(volume_m3=0.2, mix_c=45.0), 96)
    warm = float(state.tank_c[0])
    assert 30.0 < warm < 45.0
    for _ in range(96):
        advance(one_tank, state, steady_inflow(volume_m3=0.0), 900.0)
    assert 19.5 < state.tank_c[0] < 0.3 * warm + 0.7 * 19.5


def test_a_second_compartment_gets_what_the_first_lets_pass(one_tank: Tanks, steady_inflow: Build) -> None:
    _, seen = live(one_tank, steady_inflow(), 20 * 96)
    first, second = seen[-1].fog[0]
    assert 0.0 < second < first
    single = Tanks(np.array([[3.1, 0.0]]), np.array([1.22]), np.array([1.22]))
    _, alone = live(single, steady_inflow(), 20 * 96)
    assert alone[-1].fog[0, 1] == 0.0
    assert alone[-1].solids[0, 1] == 0.0


def test_grease_takes_up_water_as_it_ages(one_tank: Tanks, steady_inflow: Build) -> None:
    """From 18 % of its own volume towards 80 %, by 1 - 1/e within twenty days; no grease is added or lost."""
    state = TankState.empty(one_tank)
    advance(one_tank, state, steady_inflow(grease_m3=0.05, volume_m3=0.05), 900.0)
    dry, fresh = state.grease_m3[0, 0], depths(one_tank, state).fog[0, 0]
    for _ in range(20 * 96):
        advance(one_tank, state, steady_inflow(volume_m3=0.0, grease_m3=0.0, solids_kg=0.0), 900.0)
    assert state.grease_m3[0, 0] == dry
    expected = AGED_BOUND - (AGED_BOUND - FRESH_BOUND) * np.exp(-1)
    assert state.bound_m3[0, 0] / dry == pytest.approx(expected, rel=2e-3)
    assert depths(one_tank, state).fog[0, 0] / fresh == pytest.approx(
        (1 + expected) / (1 + FRESH_BOUND), rel=2e-3
    )


def test_a_strong_flow_carries_sludge_on(one_tank: Tanks, steady_inflow: Build) -> None:
    """At the loading that halves capture 4e-8 of the sludge a second; in ten days of it 3.4 %."""
    state = TankState.empty(one_tank)
    state.dry_kg[0] = 40.0, 0.0
    state.sludge_m3[0] = 0.4, 0.0
    volume = 1.6e-4 * one_tank.area_m2[0, 0] * 900.0
    for _ in range(10 * 96):
        advance(one_tank, state, steady_inflow(volume_m3=volume, grease_m3=0.0, solids_kg=0.0), 900.0)
    gone = 1.0 - state.dry_kg[0, 0] / 40.0
    assert gone == pytest.approx(1.0 - np.exp(-4e-8 * 10 * 86400.0), rel=1e-3)
    assert 0.0 < state.dry_kg[0, 1] < 40.0 * gone
    assert state.dry_kg.sum() + state.left[0, 1] == pytest.approx(40.0, rel=1e-9)


def test_capture_in_the_tank_falls_with_warmth_and_flow(one_tank: Tanks, steady_inflow: Build) -> None:
    """The same grease in water of 30 and 50 degC, and in four times the water."""

    def kept(**inflow: float) -> float:
        state = TankState.empty(one_tank)
        for _ in range(96):
            advance(one_tank, state, steady_inflow(grease_m3=2e-5, **inflow), 900.0)
        return float(state.grease_m3.sum() / state.fed[0, 0])

    cool, warm = kept(mix_c=30.0), kept(mix_c=50.0)
    assert warm < cool - 0.04
    assert kept(mix_c=30.0, volume_m3=0.32) < cool - 0.05


def test_a_closed_kitchen_feeds_nothing_and_its_tank_cools(small_city: Callable[..., City]) -> None:
    plan = FaultPlan(share=1.0, times_a_year=120.0, days=(4.0, 4.0))
    city = small_city(seed=2, count=3, faults={FaultKind.CLOSURE: plan}, fault_days=8)
    one = next(fault for fault in city.faults.faults if fault.start_s < city.start_s + 3 * 86400.0)
    while city.now_s < one.start_s:
        city.step()
    fed, warmth = city.state.fed[one.interceptor].copy(), city.state.tank_c[one.interceptor]
    while city.now_s < one.end_s - 900.0:
        city.step()
    assert city.state.fed[one.interceptor].tolist() == fed.tolist()
    assert city.state.tank_c[one.interceptor] == pytest.approx(19.5 + (warmth - 19.5) * 0.001, abs=0.05)
