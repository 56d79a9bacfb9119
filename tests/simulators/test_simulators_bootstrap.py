"""Statistics of clustered samples: values known by hand, intervals known by theory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.bootstrap import Estimate, quantile, ratio, weights


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_a_ratio_of_sums() -> None:
    found = ratio(np.array([0, 0, 1]), numbers(1, 2, 3), numbers(2, 2, 4))
    assert found is not None
    assert found.value == pytest.approx(6 / 8)
    assert (found.low, found.high) == (pytest.approx(0.75), pytest.approx(0.75))  # 3/4 in both clusters
    assert ratio(np.array([0]), numbers(1), numbers(0)) is None
    assert ratio(np.array([4]), numbers(1), numbers(2)) == Estimate(0.5, None, None)


def test_every_draw_has_as_many_clusters_as_there_are_and_repeats() -> None:
    drawn = weights(7)
    assert drawn.shape == (1000, 7)
    assert (drawn.sum(axis=1) == 7).all()
    weights.cache_clear()
    assert (weights(7) == drawn).all()


def test_whole_clusters_are_drawn() -> None:
    """400 samples in 4 clusters that agree within are 4 samples: sd 0.25 of the mean, not 0.025."""
    cluster = np.repeat([0, 1, 2, 3], 100)
    found = ratio(cluster, np.repeat(numbers(0, 0, 1, 1), 100), np.ones(400))
    assert found is not None
    assert (found.low, found.high) == (0.0, 1.0)  # the 2.5 % and 97.5 % of binomial(4, 1/2) / 4


def test_the_interval_has_the_width_of_theory() -> None:
    """A mean of 400 independent values of sd 1 has the 95 % interval ± 1.96 / 20."""
    value = np.random.default_rng(3).normal(0.0, 1.0, 400)
    found = ratio(np.arange(400), value, np.ones(400))
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low == pytest.approx(2 * 1.96 / 20, rel=0.1)


def test_quantiles_without_lower_bounds() -> None:
    cluster = np.arange(4)
    assert quantile(cluster, numbers(4, 1, 3, 2), np.ones(4), 0.5) == Estimate(2.0, 1.0, 4.0)
    twenty = quantile(np.zeros(20, dtype=np.int64), np.arange(1.0, 21.0), np.ones(20), 0.95)
    assert twenty == Estimate(19.0, None, None)
    assert quantile(np.array([], dtype=np.int64), numbers(), numbers(), 0.5) is None


def test_lower_bounds_push_a_quantile_up() -> None:
    """Kaplan and Meier by hand: 1 seen of 4 leaves 3/4; 2 lost; 3 seen of 2 leaves 3/8."""
    cluster = np.zeros(4, dtype=np.int64)
    found = quantile(cluster, numbers(1, 2, 3, 4), numbers(1, 0, 1, 1), 0.5)
    assert found == Estimate(3.0, None, None)
    never = quantile(cluster, numbers(1, 2, 3, 4), numbers(1, 0, 0, 0), 0.95)
    assert never == Estimate(4.0, None, None)  # never reached: the largest is a lower bound


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_a_quantile_is_one_of_the_values_with_enough_below(values: list[float], part: float) -> None:
    array = np.array(values)
    found = quantile(np.arange(array.size) % 5, array, np.ones(array.size), part)
    assert found is not None
    assert found.value in values
    assert np.mean(array <= found.value) >= part - 1e-9
