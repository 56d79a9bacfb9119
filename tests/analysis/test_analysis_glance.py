"""The first look agrees with the assessment it stands in for."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.assess import _fullest, assess
from analysis.fleet import Groups
from analysis.fold import Fleet, initial_state, step
from analysis.glance import glance
from analysis.model import InterceptorModel, ReadingBatch, SensorModel

T0_S = 1_788_246_000.0


def fleet() -> Fleet:
    interceptors = [InterceptorModel(f"i{n}", 1.2, 1.2, compartments=2) for n in range(4)]
    sensors = [
        SensorModel(f"s{n}-{c}", f"i{n}", c, min_layer_m=0.02)
        for n, c in ((3, 1), (0, 1), (0, 2), (1, 1), (2, 2), (2, 2 - 1))
    ]
    return Fleet.of(interceptors, sensors)


def test_it_bounds_the_chance_of_every_compartment_and_sees_every_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fleet()
    rng = np.random.default_rng(0)
    times = T0_S + 900.0 * np.arange(300)
    sensor = np.tile(np.arange(6), len(times))
    depth = np.array([0.05, 0.28, 0.10, 0.31, 0.02, 0.29])[sensor] + rng.normal(0.0, 0.003, len(sensor))
    batch = ReadingBatch(
        sensor,
        np.repeat(times, 6),
        {
            "surface_m": np.full(len(sensor), 1.2),
            "fog_bottom_m": 1.2 - depth,
            "solids_top_m": np.full(len(sensor), 0.03) + rng.normal(0.0, 0.003, len(sensor)),
            "battery_pct": np.where(sensor == 3, 10.0, 80.0),
        },
    )
    state, _ = step(one, initial_state(one), batch)
    now_s = float(times[-1]) + 600.0
    who = np.array([2, 0, 3, 1])
    seen = glance(one, state, who, now_s)
    for row, told in enumerate(assess(one, state, now_s, indices=who.tolist())):
        chances = [c.p_over_limit for c in told.compartments if c.p_over_limit is not None]
        assert seen.p_least[row] == min(chances)
        assert seen.p_most[row] == max(chances)
        assert bool(seen.remark[row]) == bool(told.health)
    assert seen.remark.tolist() == [False, False, False, True]  # interceptor 1: its battery is low
    assert seen.p_most[1] > 0.9
    monkeypatch.setattr("analysis.glance.BLOCK", 3)
    for whole, blocks in zip(seen, glance(one, state, who, now_s), strict=True):
        assert whole.tolist() == blocks.tolist()


def test_rows_by_interceptor_keep_the_order_asked_for() -> None:
    groups = Groups.of(np.array([1, 0, 2, 1, 1]), 4)
    assert [groups[i].tolist() for i in range(4)] == [[1], [0, 3, 4], [2], []]
    rows, first = groups.rows(np.array([2, 1, 3, 0]))
    assert rows.tolist() == [2, 0, 3, 4, 1]
    assert first.tolist() == [0, 1, 4, 4]


def test_the_fullest_compartment_is_the_first_of_the_greatest() -> None:
    nan = np.nan
    fraction = np.array([0.1, 0.3, nan, nan, 0.2, 0.2, nan, 0.0])
    #                    0, 1      2, 3      4, 5       none  6, 7
    start, end = np.array([0, 2, 4, 6, 6]), np.array([2, 4, 6, 6, 8])
    assert _fullest(fraction, start, end).tolist() == [1, 2, 4, -1, 7]
    assert _fullest(fraction[:0], start[:0], end[:0]).tolist() == []
