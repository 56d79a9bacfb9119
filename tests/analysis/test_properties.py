"""What fold and assessment must not depend on: units of length, the epoch, order, company, repetition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.assess import assess
from analysis.fold import Fleet, FleetState, initial_state, step
from analysis.model import Assessment, Found, InterceptorModel, ReadingBatch, SensorModel

T0 = 1_788_220_800.0  # a midnight, UTC
DAY = 86400.0
DAYS = 30
NOW = T0 + DAYS * DAY
NAMES = ("ada", "bo", "cy", "di")
SCALED = ("surface_m", "fog_bottom_m", "solids_top_m")
some = settings(max_examples=5, deadline=None)
seeds = st.integers(0, 10_000)


def fleet_of(names: tuple[str, ...], scale: float = 1.0, shift_s: float = 0.0) -> Fleet:
    return Fleet.of(
        [
            InterceptorModel(name, 1.2 * scale, 1.2 * scale, last_pump_out_s=T0 + shift_s - 5 * DAY)
            for name in names
        ],
        [SensorModel(f"s-{name}", name, 1, interval_s=3600.0) for name in names],
    )


def batch_of(seed: int, names: tuple[str, ...], scale: float = 1.0, shift_s: float = 0.0) -> ReadingBatch:
    """A month of hourly readings of each name, its own whatever the company; one is pumped out on day 20."""
    parts = []
    for place, name in enumerate(names):
        rng = np.random.default_rng([seed, NAMES.index(name)])
        time = T0 + shift_s + 3600.0 * np.arange(1, 24 * DAYS) + 60.0 * NAMES.index(name)
        grown = np.arange(len(time)) / 24 * 0.004
        surface = np.full(len(time), 1.2)
        if name == "bo":
            emptied = 24 * 20
            grown[emptied:] -= grown[emptied]
            surface[emptied : emptied + 2] = 0.05
        noise = rng.normal(0.0, 0.003, (3, len(time)))
        fog, solids = (
            0.004 + 0.6 * grown,
            0.004 + 0.4 * grown,
        )  # well below the 24 mm that a complete one may leave
        columns = (surface + noise[0], surface - fog + noise[1], solids + noise[2])
        parts.append((np.full(len(time), place), time, columns))
    return ReadingBatch(
        np.concatenate([p[0] for p in parts]),
        np.concatenate([p[1] for p in parts]),
        {n: scale * np.concatenate([p[2][i] for p in parts]) for i, n in enumerate(SCALED)},
    )


def rows_of(batch: ReadingBatch, rows: np.ndarray) -> ReadingBatch:
    return ReadingBatch(batch.sensor[rows], batch.time_s[rows], {k: v[rows] for k, v in batch.values.items()})


def folded(fleet: Fleet, *batches: ReadingBatch) -> tuple[FleetState, list[Found]]:
    state, found = initial_state(fleet), []
    for batch in batches:
        state, new = step(fleet, state, batch)
        found.append(new)
    return state, found


def told(fleet: Fleet, *batches: ReadingBatch, now_s: float = NOW) -> dict[str, Assessment]:
    return {one.interceptor: one for one in assess(fleet, folded(fleet, *batches)[0], now_s)}


def fraction(one: Assessment) -> float:
    assert one.fraction is not None
    return one.fraction


@some
@given(seeds, st.floats(0.7, 2.0))
def test_a_tank_of_another_size_is_as_full(seed: int, scale: float) -> None:
    # noise of sensors is in mm, not in tanks: the same readings weigh a little otherwise
    usual = told(fleet_of(NAMES), batch_of(seed, NAMES))
    scaled = told(fleet_of(NAMES, scale), batch_of(seed, NAMES, scale))
    for name in NAMES:
        assert fraction(scaled[name]) == pytest.approx(fraction(usual[name]), abs=0.005)


@some
@given(seeds, st.integers(-1000, 1000))
def test_another_day_is_no_other_answer(seed: int, days: int) -> None:
    shift = days * DAY
    usual = told(fleet_of(NAMES), batch_of(seed, NAMES))
    later = told(fleet_of(NAMES, 1.0, shift), batch_of(seed, NAMES, 1.0, shift), now_s=NOW + shift)
    for name in NAMES:
        assert fraction(later[name]) == pytest.approx(fraction(usual[name]), rel=1e-6)
        assert later[name].rate_m_per_day == pytest.approx(usual[name].rate_m_per_day, rel=1e-5)
        a, b = later[name].crossing_s, usual[name].crossing_s
        assert a is not None
        assert b is not None
        assert [None if x is None else x - shift for x in a] == pytest.approx(list(b), abs=5.0)


@some
@given(seeds, st.permutations(NAMES))
def test_the_order_of_interceptors_is_of_no_account(seed: int, names: list[str]) -> None:
    order = tuple(names)
    assert told(fleet_of(order), batch_of(seed, order)) == told(fleet_of(NAMES), batch_of(seed, NAMES))


@some
@given(seeds, st.sets(st.sampled_from(NAMES), min_size=1))
def test_others_change_nothing(seed: int, some_names: set[str]) -> None:
    few = tuple(sorted(some_names))
    every = told(fleet_of(NAMES), batch_of(seed, NAMES))
    assert told(fleet_of(few), batch_of(seed, few)) == {name: every[name] for name in few}


@some
@given(seeds)
def test_readings_of_a_batch_may_come_in_any_order(seed: int) -> None:
    batch = batch_of(seed, NAMES)
    rows = np.random.default_rng(seed).permutation(len(batch.time_s))
    assert told(fleet_of(NAMES), rows_of(batch, rows)) == told(fleet_of(NAMES), batch)


@some
@given(seeds, st.lists(st.floats(0.0, 1.0), max_size=5))
def test_a_batch_may_be_split_anywhere_in_time(seed: int, cuts: list[float]) -> None:
    batch = batch_of(seed, NAMES)
    edges = T0 + DAYS * DAY * np.sort(np.array(cuts, dtype=float))
    piece = np.searchsorted(edges, batch.time_s)
    pieces = [rows_of(batch, np.flatnonzero(piece == n)) for n in range(len(edges) + 1)]
    fleet = fleet_of(NAMES)
    whole, at_once = folded(fleet, batch)
    parts, in_pieces = folded(fleet, *pieces)
    assert assess(fleet, parts, NOW) == assess(fleet, whole, NOW)
    pump_outs = [p for found in in_pieces for p in found.pump_outs]
    assert pump_outs == list(at_once[0].pump_outs)
    assert [(p.interceptor, p.complete) for p in pump_outs] == [("bo", True)]


@some
@given(seeds, st.integers(0, 24 * DAYS - 2))
def test_interceptors_may_be_folded_one_after_the_other(seed: int, first: int) -> None:
    batch, fleet = batch_of(seed, NAMES), fleet_of(NAMES)
    whose = [rows_of(batch, np.flatnonzero(batch.sensor == n)) for n in range(len(NAMES))]
    assert told(fleet, *reversed(whose)) == told(fleet, batch)
    # … and what was folded already changes nothing when it comes again
    again = rows_of(batch, np.flatnonzero(batch.time_s <= batch.time_s[first]))
    state, _ = folded(fleet, batch)
    repeated, found = step(fleet, state, again)
    assert assess(fleet, repeated, NOW) == assess(fleet, state, NOW)
    assert found == Found()


@some
@given(seeds)
def test_a_reading_twice_in_one_batch_counts_once(seed: int) -> None:
    batch, fleet = batch_of(seed, NAMES), fleet_of(NAMES)
    twice = rows_of(batch, np.repeat(np.arange(len(batch.time_s)), 2))
    assert told(fleet, twice) == told(fleet, batch)


def test_a_name_is_of_no_account() -> None:
    fleet, batch = fleet_of(NAMES), batch_of(1, NAMES)
    renamed = Fleet.of(
        [replace(one, id=f"x-{one.id}") for one in fleet.interceptors],
        [replace(one, interceptor=f"x-{one.interceptor}") for one in fleet.sensors],
    )
    for name, one in told(fleet, batch).items():
        assert fraction(told(renamed, batch)[f"x-{name}"]) == fraction(one)
