"""The fold: pieces as one, purity, checkpoints, late readings, bad batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.fold import Fleet, FleetState, as_arrays, from_arrays, initial_state, newest, put, step, take
from analysis.model import Found, InterceptorModel, Levels, ReadingBatch, SensorModel

T0 = 1_788_246_000.0
LEVELS = Levels(air=0.05, fog=0.25, water=1.0, solids=0.7)
INTERCEPTORS = [
    InterceptorModel("one", 1.2, 1.2, compartments=2, last_pump_out_s=T0 - 30 * 86400),
    InterceptorModel("two", 0.9, 0.9),
    InterceptorModel("bare", 1.2, 1.2),
]
SENSORS = [
    SensorModel("rod", "one", 1, pitch_m=0.05, levels=LEVELS),
    SensorModel("gap", "one", 1, mount_height_m=1.6, tau_s=600.0),
    SensorModel("echo", "one", 2, sonar_height_m=0.6, min_layer_m=0.02),
    SensorModel("faces", "two", 1),
    SensorModel("depths", "two", 1, min_layer_m=0.02),
]
FLEET = Fleet.of(INTERCEPTORS, SENSORS)
COLUMNS = (
    "surface_m", "fog_bottom_m", "solids_top_m", "fog_depth_m", "solids_depth_m", "distance_m", "echo_fog_s",
    "echo_solids_s", "inlet_c", "inlet_max_c", "inlet_over_s", "tank_c", "battery_v", "battery_pct",
)  # fmt: skip


def make_batch(seed: int, n: int) -> ReadingBatch:
    """Rough weather: layers, noise, drawdowns, spikes, gaps, missing values, hot water; distinct times."""
    rng = np.random.default_rng(seed)
    times = T0 + np.sort(rng.choice(np.arange(1, 40 * n), n, replace=False)) * 300.0
    sensor = rng.integers(0, len(SENSORS), n)
    drained = (np.arange(n) % 60) > 54
    surface = np.where(drained, rng.uniform(0.05, 0.6, n), 1.2 * (sensor < 3) + 0.9 * (sensor >= 3))
    grown = (np.arange(n) % 60) * 0.003
    fog, solids = 0.01 + grown, 0.01 + grown / 2
    columns = {
        "surface_m": surface, "fog_bottom_m": surface - fog, "solids_top_m": solids, "fog_depth_m": fog,
        "solids_depth_m": solids, "distance_m": 1.6 - surface, "echo_fog_s": fog / 720.0,
        "echo_solids_s": (0.6 - solids) / 745.0, "inlet_c": rng.uniform(20, 58, n),
        "inlet_max_c": rng.uniform(30, 70, n), "inlet_over_s": rng.uniform(0, 60, n),
        "tank_c": rng.uniform(20, 30, n), "battery_v": rng.uniform(3.0, 3.6, n),
        "battery_pct": rng.uniform(0, 100, n),
    }  # fmt: skip
    mine = {0: (), 1: (5, 8, 11), 2: (5, 6, 7, 11, 12), 3: (0, 1, 2, 8, 9, 10), 4: (0, 3, 4, 13)}
    values = {}
    for index, name in enumerate(COLUMNS):
        has = np.array([index in mine[int(s)] for s in sensor]) & (rng.random(n) > 0.1)
        noisy = columns[name] * (1.0 + 0.004 * rng.normal(size=n))
        values[name] = np.where(has, np.where(rng.random(n) < 0.02, 3 * noisy, noisy), np.nan)
    centres = 0.025 + 0.05 * np.arange(30)
    profile = np.full((n, 30), 1.0) + 0.01 * rng.normal(size=(n, 30))
    profile[centres > (surface - fog)[:, None]] = 0.25
    profile[centres > surface[:, None]] = 0.05
    profile[centres < solids[:, None]] = 0.7
    profile[rng.random((n, 30)) < 0.03] = np.nan
    profile[sensor != 0] = np.nan
    return ReadingBatch(sensor.astype(np.int64), times, values, profile)


def rows_of(batch: ReadingBatch, rows: np.ndarray) -> ReadingBatch:
    return ReadingBatch(
        batch.sensor[rows],
        batch.time_s[rows],
        {k: v[rows] for k, v in batch.values.items()},
        batch.profile[rows],
    )


def fold(batches: list[ReadingBatch]) -> tuple[FleetState, list[Found]]:
    state, found = initial_state(FLEET), []
    for batch in batches:
        state, more = step(FLEET, state, batch)
        found.append(more)
    return state, found


def assert_same(a: FleetState, b: FleetState) -> None:
    left, right = as_arrays(a), as_arrays(b)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 150), max_size=8))
@example(34, [50])
@example(128, [5])
def test_in_pieces_is_at_once(seed: int, cuts: list[int]) -> None:
    batch = make_batch(seed, 150)
    shuffled = np.random.default_rng(seed).permutation(150)
    whole, found = fold([rows_of(batch, shuffled)])
    edges = [0, *sorted(cuts), 150]
    pieces, parts = fold([rows_of(batch, np.arange(a, b)) for a, b in pairwise(edges)])
    assert_same(whole, pieces)
    key = lambda p: (p.interceptor, p.end_s)  # noqa: E731
    assert sorted(found[0].pump_outs, key=key) == sorted((p for f in parts for p in f.pump_outs), key=key)
    assert len(found[0].hot_discharges) == sum(len(f.hot_discharges) for f in parts)


def test_one_by_one_is_at_once() -> None:
    batch = make_batch(3, 400)
    whole, found = fold([batch])
    assert found[0].pump_outs
    assert found[0].hot_discharges
    single, _ = fold([rows_of(batch, np.array([i])) for i in range(400)])
    assert_same(whole, single)


def test_interceptors_do_not_touch_each_other() -> None:
    batch = make_batch(4, 300)
    both, _ = fold([batch])
    mine = FLEET.sensor_interceptor[batch.sensor] == 1
    alone, _ = fold([rows_of(batch, np.flatnonzero(mine))])
    assert_same(take(both, FLEET, [1]), take(alone, FLEET, [1]))


def test_a_step_leaves_the_given_state_as_it_was() -> None:
    batch = make_batch(5, 200)
    first, _ = fold([rows_of(batch, np.arange(100))])
    kept = {name: array.copy() for name, array in as_arrays(first).items()}
    step(FLEET, first, rows_of(batch, np.arange(100, 200)))
    for name, array in as_arrays(first).items():
        np.testing.assert_array_equal(array, kept[name], err_msg=name)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 150), max_size=4))
def test_a_state_used_up_gives_the_same(seed: int, cuts: list[int]) -> None:
    batch = make_batch(seed, 150)
    edges = [0, *sorted(cuts), 150]
    pieces = [rows_of(batch, np.arange(a, b)) for a, b in pairwise(edges)]
    kept, found = fold(pieces)
    state = initial_state(FLEET)
    for piece, noticed in zip(pieces, found, strict=True):
        before = state
        state, same = step(FLEET, state, piece, consume=True)
        assert same == noticed
        assert state is before
    assert_same(state, kept)


@pytest.mark.parametrize("shuffle", [False, True])
def test_blocks_of_interceptors_give_what_all_at_once_give(
    shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [InterceptorModel(f"g{n}", 1.2, 1.2, compartments=2) for n in range(7)]
    sensors = [SensorModel(f"s{n}", f"g{n * 3 % 7}", 1 + n % 2, min_layer_m=0.02) for n in range(11)]
    fleet = Fleet.of(models, sensors)
    rng = np.random.default_rng(31)
    order = rng.permutation(11 * 40) if shuffle else np.argsort(np.tile(fleet.sensor_interceptor, 40))
    sensor = np.tile(np.arange(11), 40)[order]
    time = (1.7e9 + 900.0 * np.repeat(np.arange(40), 11))[order]
    surface = np.where(time - 1.7e9 == 900.0 * 20, 0.3, 1.2) + rng.normal(0, 0.002, len(time))
    values = {"surface_m": surface, "fog_bottom_m": surface - 0.1, "inlet_c": rng.normal(58, 4, len(time))}
    batch = ReadingBatch(sensor, time, values)
    at_once, found = step(fleet, initial_state(fleet), batch)
    monkeypatch.setattr("analysis.fold.BLOCK", 2)
    in_blocks, same = step(fleet, initial_state(fleet), batch)
    assert_same(at_once, in_blocks)
    assert same == found
    assert found.hot_discharges


def test_a_checkpoint_put_into_a_state_used_up() -> None:
    batch = make_batch(6, 200)
    half, _ = fold([rows_of(batch, np.arange(100))])
    checkpoint = take(half, FLEET, [0])
    whole, _ = step(FLEET, half, rows_of(batch, np.arange(100, 200)))
    expected = put(whole, FLEET, [0], checkpoint)
    assert put(whole, FLEET, [0], checkpoint, consume=True) is whole
    assert_same(whole, expected)


def test_a_checkpoint_brings_one_interceptor_back() -> None:
    batch = make_batch(6, 200)
    half, _ = fold([rows_of(batch, np.arange(100))])
    checkpoint = take(half, FLEET, [0])
    rest = rows_of(batch, np.arange(100, 200))
    whole, _ = step(FLEET, half, rest)
    back = put(whole, FLEET, [0], checkpoint)
    assert_same(take(back, FLEET, [0]), checkpoint)
    assert_same(take(back, FLEET, [1, 2]), take(whole, FLEET, [1, 2]))
    again, _ = step(FLEET, back, rest)  # the other interceptor's are older than what it has folded
    assert_same(again, whole)


def test_arrays_carry_the_state() -> None:
    state, _ = fold([make_batch(7, 100)])
    assert_same(from_arrays(as_arrays(state)), state)
    arrays = as_arrays(state)
    del arrays["track.x"]
    with pytest.raises(KeyError, match=r"track\.x"):
        from_arrays(arrays)


def test_readings_older_than_the_newest_are_left_out() -> None:
    batch = make_batch(8, 100)
    state, _ = fold([batch])
    same, found = step(FLEET, state, rows_of(batch, np.arange(0, 50)))
    assert_same(same, state)
    assert found == Found()
    assert newest(FLEET, state)[2] == -np.inf
    assert newest(FLEET, state)[:2].max() == batch.time_s.max()


def test_an_empty_batch_changes_nothing() -> None:
    state = initial_state(FLEET)
    assert step(FLEET, state, ReadingBatch(np.empty(0, np.int64), np.empty(0), {})) == (state, Found())


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (ReadingBatch(np.array([0]), np.array([np.nan]), {}), "not finite"),
        (ReadingBatch(np.array([9]), np.array([T0]), {}), "outside the fleet's 5"),
        (ReadingBatch(np.array([0]), np.array([T0]), {"fog_mm": np.array([1.0])}), "'fog_mm'"),
        (ReadingBatch(np.array([0]), np.array([T0]), {"tank_c": np.empty(0)}), "0 values for 1"),
        (ReadingBatch(np.array([0, 1]), np.array([T0]), {}), "2 sensors, 1 times"),
    ],
)
def test_a_bad_batch_is_named(batch: ReadingBatch, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        step(FLEET, initial_state(FLEET), batch)


def test_a_state_of_another_fleet_is_named() -> None:
    with pytest.raises(ValueError, match="the fleet 3"):
        newest(FLEET, initial_state(Fleet.of(INTERCEPTORS[:1], [])))


@pytest.mark.parametrize(
    ("sensors", "text"),
    [
        ([SensorModel("s", "nowhere", 1)], "'nowhere' is not in the fleet"),
        ([SensorModel("s", "two", 2)], "compartment 2 is not one of 1 to 1"),
        ([SensorModel("s", "two", 1), SensorModel("s", "one", 1)], "'s' stands twice"),
    ],
)
def test_a_bad_fleet_is_named(sensors: list[SensorModel], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Fleet.of(INTERCEPTORS, sensors)
