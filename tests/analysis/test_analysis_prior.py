"""The fleet's prior: shrinkage computed by hand, and the exchange of a prior against the filter begun with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from analysis.assess import assess
from analysis.estimate import Diffusion, Kalman, RatePrior, predict, update
from analysis.fold import Fleet, initial_state
from analysis.model import InterceptorModel, SensorModel
from analysis.prior import FleetPrior, Rates, exchange, learn, own_share, rates, shrink

DAY = 86400.0
T0 = 1_788_246_000.0
NONE = np.array([], dtype=np.float64)


def test_without_any_site_the_prior_is_the_start() -> None:
    # log-variance 0.25 + 0.12 + 0.12 = 0.49 = 0.7²
    begun = math.log(0.0025)
    found = shrink(NONE, NONE, np.array([], dtype=np.int64), 2, begun)
    assert found.fleet_mean == pytest.approx(begun)
    assert found.sites + found.kitchens + found.fleet_var == pytest.approx(0.49)
    assert (found.mean + 0.0).tolist() == pytest.approx([begun, begun])
    assert (found.sites + found.var).tolist() == pytest.approx([0.49, 0.49])


def test_one_site_draws_its_kitchen_more_than_another() -> None:
    # one site at +1 of variance 0.25: about its kitchen 0.25 + 0.25 = 0.5. The fleet: precision 1/0.12 + 1/0.62
    # = 9.946237, mean (1/0.62) / 9.946237 = 0.162162; its kitchen: above 1/(0.12 + 0.100541) = 4.534314, own 2,
    # mean (4.534314 * 0.162162 + 2) / 6.534314 = 0.418605
    found = shrink(np.array([1.0]), np.array([0.25]), np.array([0]), 2, 0.0)
    assert found.fleet_mean == pytest.approx(0.162162, abs=1e-6)
    assert found.mean.tolist() == pytest.approx([0.418605, 0.162162], abs=1e-6)
    assert found.var.tolist() == pytest.approx([1 / 6.534314, 0.12 + 1 / 9.946237], abs=1e-6)


def test_the_spread_between_sites_is_dersimonian_and_lairds_averaged_with_the_start() -> None:
    # -1, 0, 1 of variance 0.1 each: Q = 20, df 2, C = 30 - 300/30 = 20, so 0.9; (10 * 0.25 + 2 * 0.9) / 12
    found = shrink(np.array([-1.0, 0.0, 1.0]), np.full(3, 0.1), np.zeros(3, dtype=np.int64), 1, 0.0)
    assert found.sites == pytest.approx(4.3 / 12)


def test_a_kitchen_of_many_sites_keeps_its_own_mean() -> None:
    logs = np.r_[np.full(200, -5.0), [-7.0]]
    group = np.r_[np.zeros(200, dtype=np.int64), 1]
    found = shrink(logs, np.full(201, 0.01), group, 2, -6.0)
    assert found.mean[0] == pytest.approx(-5.0, abs=0.01)
    assert -7.0 < found.mean[1] < -5.8  # one site alone is drawn to the fleet


def folded(mean: float, var: float) -> Kalman:
    """A filter of a steady rate begun with N(mean, var), after three depths."""
    k = Kalman(*(np.full((1, 2), v) for v in (0.01, mean, 1e-4, 0.0, var)))
    for depth in (0.012, 0.021, 0.024):
        k = predict(k, np.ones((1, 1)), Diffusion(np.array([[1e-6]]), np.array([[0.0]])))
        k = update(k, np.full((1, 2), depth), np.full((1, 2), 4e-6))
    return k


def one(mean: float, var: float) -> Rates:
    return Rates(np.full((1, 2), mean), np.full((1, 2), var))


def test_an_exchanged_prior_is_as_if_the_filter_had_begun_with_it() -> None:
    changed = exchange(folded(0.002, 4e-6), one(0.002, 4e-6), one(0.006, 1e-6))
    for got, wanted in zip(changed, folded(0.006, 1e-6), strict=True):
        assert got[0, 0] == pytest.approx(wanted[0, 0], rel=1e-9)


def test_the_same_prior_again_changes_nothing() -> None:
    k = folded(0.002, 4e-6)
    for got, wanted in zip(exchange(k, one(0.002, 4e-6), one(0.002, 4e-6)), k, strict=True):
        assert got[0, 0] == pytest.approx(wanted[0, 0], rel=1e-12)


def test_own_share_is_one_minus_the_ratio_of_variances() -> None:
    assert own_share(np.array([[1e-6, 1e-6]]), np.array([[4e-6, 4e-6]])).tolist() == pytest.approx([0.75])
    assert own_share(np.array([[9e-6, 9e-6]]), np.array([[4e-6, 4e-6]])).tolist() == [0.0]


def test_a_new_site_is_expected_to_grow_as_its_kitchen_does() -> None:
    fleet = Fleet.of(
        [InterceptorModel(f"i{n}", 1.2, 1.2, kitchen=("cafe", "wok")[n], last_pump_out_s=T0) for n in (0, 1)],
        [SensorModel(f"s{n}", f"i{n}", 1) for n in (0, 1)],
    )
    prior = FleetPrior(kitchens={"wok": RatePrior(median=0.005, log_sd=0.4)})
    state = initial_state(fleet)
    cafe, wok = assess(fleet, state, T0 + 20 * DAY, expected=rates(fleet, prior))
    # means: 0.0025 e^0.245 and 0.005 e^0.08 of 1.2 m a day
    assert cafe.rate_m_per_day == pytest.approx(1.2 * 0.0025 * math.exp(0.245))
    assert wok.rate_m_per_day == pytest.approx(1.2 * 0.005 * math.exp(0.08))
    assert wok.rate_own_share == 0.0


def test_a_watched_site_teaches_its_kitchen(bench: Callable[..., Any], tank: Any) -> None:
    b = bench(last_pump_out_s=T0, kitchen="wok")
    assert learn(b.fleet, b.state).kitchens["wok"].median == pytest.approx(0.0025)
    b.feed(tank.days(T0, 40.0, 0.01, 0.02, fog_rate=0.009))
    now = b.assess(T0 + 40 * DAY)
    assert now.rate_own_share > 0.8
    prior = learn(b.fleet, b.state)
    # 9 mm of 1.2 m a day is 0.75 %: three times the start, and one site is not believed alone
    assert 0.003 < prior.fleet.median < prior.kitchens["wok"].median < 0.0075
    assert prior.kitchens["wok"].fog_share > 0.6
