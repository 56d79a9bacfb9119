"""Core samples and manifests in the estimate: weighed by their own uncertainty, gated, learnt from."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.assess import assess
from analysis.calibration import core_variance, paper_variance
from analysis.fold import Fleet, FleetState, as_arrays, initial_state
from analysis.hands import Hand, step_with
from analysis.model import Assessment, InterceptorModel, ReadingBatch, SensorModel

DAY = 86400.0
T0 = 1_788_220_800.0
NONE = ReadingBatch(np.empty(0, dtype=np.int64), np.empty(0), {})


def core(time_s: float, fog: float, solids: float, id_: str = "gi", **more: Any) -> Hand:
    return replace(Hand(time_s, 1, "cs", id_, fog, solids), **more)


def depths(
    days: np.ndarray[Any, Any], fog: np.ndarray[Any, Any], solids: float, sensor: int = 0
) -> ReadingBatch:
    return ReadingBatch(
        np.full(len(days), sensor, dtype=np.int64),
        T0 + days * DAY,
        {
            "surface_m": np.full(len(days), 1.2),
            "fog_bottom_m": 1.2 - fog,
            "solids_top_m": np.full(len(days), solids),
        },
    )


def told(fleet: Fleet, state: FleetState, day: float, at: int = 0) -> Assessment:
    return assess(fleet, state, T0 + day * DAY)[at]


def bare(**more: Any) -> Fleet:
    return Fleet.of([InterceptorModel("gi", base_depth_m=1.2, static_level_m=1.2, **more)], [])


def test_the_uncertainty_of_a_hand_is_that_of_its_reading() -> None:
    # a difference of two readings to the inch: 25.4 / sqrt(12) * sqrt(2) = 10.37 mm; with 5 % of 200 mm 14.41 mm
    assert np.sqrt(core_variance(np.array([0.0, 0.2]))) == pytest.approx([0.01037, 0.01441], abs=1e-5)
    # a manifest is coarser: 25.4 / sqrt(3) = 14.66 mm, 5 mm of surge, 12 % of 200 mm
    assert np.sqrt(paper_variance(np.array([0.0, 0.2]))) == pytest.approx([0.01549, 0.02857], abs=1e-5)


def test_without_sensor_and_hand_nothing_is_told() -> None:
    fleet = bare(last_pump_out_s=T0)
    one = told(fleet, initial_state(fleet), 30)
    assert (one.fraction, one.crossing_s, one.compartments) == (None, None, ())


def test_hands_alone_carry_an_estimate_that_widens_with_time() -> None:
    fleet = bare(last_pump_out_s=T0)
    state, _ = step_with(fleet, initial_state(fleet), NONE, [core(T0 + 30 * DAY, 0.09, 0.06)])
    rows = [told(fleet, state, day) for day in (30, 40, 60)]
    assert rows[0].fog_m == pytest.approx(0.09, abs=0.006)
    assert rows[0].solids_m == pytest.approx(0.06, abs=0.006)
    assert rows[0].rate_m_per_day == pytest.approx((0.15 - 0.012) / 30, rel=0.15)
    sds = [row.fraction_sd or 0.0 for row in rows]
    assert sds == sorted(sds)
    assert sds[2] > 2 * sds[0]
    assert (rows[2].fraction or 0.0) > (rows[0].fraction or 0.0)
    assert rows[0].crossing_s is not None
    assert rows[0].last_reading_s is None


def test_a_paper_empties_what_no_sensor_watches_and_keeps_the_rate() -> None:
    fleet = bare(last_pump_out_s=T0)
    hands = [core(T0 + 60 * DAY, 0.18, 0.12, paper=True, emptied=True)]
    state, found = step_with(fleet, initial_state(fleet), NONE, hands)
    one = told(fleet, state, 60)
    assert found.pump_outs == ()  # paper alone never makes one
    assert (one.fraction or 0.0) == pytest.approx(0.01, abs=1e-6)  # two residuals of half a percent
    assert one.since_s == T0 + 60 * DAY
    assert one.rate_m_per_day == pytest.approx(0.30 / 60, rel=0.2)


def test_the_compartment_of_a_hand_is_its_own() -> None:
    fleet = bare(compartments=2)
    state, _ = step_with(fleet, initial_state(fleet), NONE, [core(T0, 0.1, 0.1, compartment=2)])
    assert [c.compartment for c in told(fleet, state, 0).compartments] == [2]


@pytest.fixture
def watched() -> tuple[Fleet, ReadingBatch]:
    fleet = Fleet.of(
        [InterceptorModel("gi", base_depth_m=1.2, static_level_m=1.2, last_pump_out_s=T0)],
        [SensorModel("s", "gi", 1)],
    )
    days = np.arange(0.0, 20.0, 1 / 24)
    return fleet, depths(days, 0.01 + 0.004 * days, 0.03)


def test_a_hand_that_agrees_narrows(watched: tuple[Fleet, ReadingBatch]) -> None:
    fleet, batch = watched
    plain, _ = step_with(fleet, initial_state(fleet), batch, [])
    state, _ = step_with(fleet, initial_state(fleet), batch, [core(T0 + 19.5 * DAY, 0.09, 0.03)])
    assert (told(fleet, state, 20).fog_sd_m or 1) < (told(fleet, plain, 20).fog_sd_m or 0)
    assert told(fleet, state, 20).health == ()


def test_one_far_outside_is_flagged_and_widens_but_is_not_believed(
    watched: tuple[Fleet, ReadingBatch],
) -> None:
    fleet, batch = watched
    state, _ = step_with(fleet, initial_state(fleet), batch, [core(T0 + 10 * DAY, 0.35, 0.03)])
    one = told(fleet, state, 20)
    assert one.fog_m == pytest.approx(0.09, abs=0.01)
    assert one.fog_sd_m == pytest.approx((0.35 - 0.05) / 3, abs=0.005)
    assert [(f.flag, f.quantity, f.since_s) for f in one.health] == [
        ("disagrees", "fog_depth", T0 + 10 * DAY)
    ]


def test_a_second_one_that_says_the_same_is_believed(watched: tuple[Fleet, ReadingBatch]) -> None:
    fleet, batch = watched
    hands = [core(T0 + 10 * DAY, 0.20, 0.03), core(T0 + 12 * DAY, 0.208, 0.03)]
    state, _ = step_with(fleet, initial_state(fleet), batch, hands)
    one = told(fleet, state, 20)
    assert one.fog_m == pytest.approx(0.09 + 0.15, abs=0.02)  # the sensor reads 150 mm too little
    assert one.health == ()


def test_levels_before_pumping_say_nothing_of_the_cycle_after(watched: tuple[Fleet, ReadingBatch]) -> None:
    fleet, batch = watched
    paper = core(T0 + 0.2 * DAY, 0.30, 0.2, paper=True, emptied=True)  # the last cycle's
    plain, _ = step_with(fleet, initial_state(fleet), batch, [])
    state, _ = step_with(fleet, initial_state(fleet), batch, [paper])
    assert told(fleet, state, 20) == told(fleet, plain, 20)


@given(
    cuts=st.lists(st.integers(0, 480), min_size=1, max_size=4),
    samples=st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 0.3)), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_in_pieces_as_at_once(cuts: list[int], samples: list[tuple[float, float]], order: Any) -> None:
    fleet = Fleet.of(
        [InterceptorModel(i, base_depth_m=1.2, static_level_m=1.2, last_pump_out_s=T0) for i in ("a", "b")],
        [SensorModel("s", "a", 1)],
    )
    days = np.arange(0.0, 20.0, 1 / 24)
    batch = depths(days, 0.01 + 0.004 * days, 0.03)
    hands = [
        core(T0 + day * DAY, fog, 0.03, id_, id=f"{n}")
        for n, (day, fog) in enumerate(samples)
        for id_ in ("a", "b")
    ]
    mixed = list(hands)
    order.shuffle(mixed)
    whole, _ = step_with(fleet, initial_state(fleet), batch, [*mixed, *hands])  # again: changes nothing
    state = initial_state(fleet)
    edges = [0, *sorted(cuts), len(days)]
    for a, b in pairwise(edges):
        rows = slice(a, b)
        part = ReadingBatch(
            batch.sensor[rows], batch.time_s[rows], {k: v[rows] for k, v in batch.values.items()}
        )
        until = batch.time_s[b] if b < len(days) else np.inf
        begin = batch.time_s[a] if a < len(days) else np.inf
        begin = -np.inf if a == 0 else begin
        inside = [h for h in hands if begin < h.time_s <= until] if a < b else []
        now = [h for h in inside if h.time_s < until]
        late = [h for h in inside if h.time_s == until]
        state, _ = step_with(fleet, state, part, now)
        state, _ = step_with(fleet, state, NONE, late)
    for name, array in as_arrays(whole).items():
        np.testing.assert_array_equal(as_arrays(state)[name], array, err_msg=name)


def test_permuted_and_moved_in_time_the_answer_is_the_same() -> None:
    ids = [f"i{n}" for n in range(5)]

    def run(order: list[str], shift_s: float) -> dict[str, Assessment]:
        models = [
            InterceptorModel(i, base_depth_m=1.2, static_level_m=1.2, last_pump_out_s=T0 + shift_s)
            for i in order
        ]
        fleet = Fleet.of(models, [])
        hands = [core(T0 + shift_s + (9 + n) * DAY, 0.02 * n, 0.01 * n, i) for n, i in enumerate(ids)]
        state, _ = step_with(fleet, initial_state(fleet), NONE, hands)
        return {one.interceptor: one for one in assess(fleet, state, T0 + shift_s + 20 * DAY)}

    plain, mixed, moved = run(ids, 0.0), run(ids[::-1], 0.0), run(ids, 1000 * DAY)
    assert plain == mixed
    for one in ids:
        for name in ("fog_m", "fog_sd_m", "solids_m", "fraction", "fraction_sd", "rate_m_per_day"):
            assert getattr(moved[one], name) == pytest.approx(getattr(plain[one], name), rel=1e-9)


def test_a_tank_twice_as_deep_with_twice_the_layers_is_as_full() -> None:
    # scale: the share is the same; a stick's inch is not, so the deeper one is the surer
    rows = []
    for base in (1.2, 2.4):
        fleet = Fleet.of([InterceptorModel("gi", base_depth_m=base, static_level_m=base)], [])
        state, _ = step_with(fleet, initial_state(fleet), NONE, [core(T0, 0.1 * base, 0.05 * base)])
        rows.append(told(fleet, state, 0))
    assert rows[0].fraction == pytest.approx(rows[1].fraction, abs=0.004)
    assert (rows[1].fraction_sd or 1) < (rows[0].fraction_sd or 0)


def test_every_field_of_a_hand_counts_in_its_order() -> None:
    assert [f.name for f in fields(Hand)][:3] == ["time_s", "compartment", "id"]


def test_the_gain_of_a_radar_is_learnt() -> None:
    fleet = Fleet.of(
        [InterceptorModel("gi", base_depth_m=1.2, static_level_m=1.2)], [SensorModel("s", "gi", 1)]
    )
    state = initial_state(fleet)
    days = np.arange(0.0, 20.0, 1 / 24)
    state, _ = step_with(fleet, state, depths(days, np.full(len(days), 0.13), 0.03), [])
    state.track.bias[0, 0] = 0.03**2  # wet grease: unknown by 23 %
    state, _ = step_with(fleet, state, NONE, [core(T0 + 20 * DAY, 0.10, 0.03)])
    assert state.track.gain[0] == pytest.approx(0.10 / 0.13, abs=0.03)
    assert state.track.left[0, 0] < 0.2
