"""First passage: the closed form against Monte Carlo; two published sets stand in test_degradation_*.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.forecast import interval, passage, quantiles
from analysis.model import Floats


def at(t: float, gap: float, drift: float, drift_var: float, diffusion: float) -> float:
    return float(passage(*(np.array([v]) for v in (t, gap, drift, drift_var, diffusion)))[0])


def simulate(gap: float, drift: float, drift_sd: float, sigma: float, times: Floats) -> Floats:
    """Share of 400,000 seeded draws that have passed ``gap``, by times that lie on steps of their own.

    A draw goes from one time to the next in one normal step and passes between by the Brownian bridge's maximum,
    exp(-2(w - x)(w - x')/(σ²dt)), which needs neither drift nor steps. Its chances, not their outcomes, are averaged.
    """
    rng = np.random.default_rng(11)
    n = 400_000
    slope = rng.normal(drift, drift_sd, n)
    x = np.zeros(n)
    alive = np.ones(n)
    out = []
    for dt in np.diff(times, prepend=0.0):
        new = x + slope * dt + sigma * dt**0.5 * rng.normal(size=n)
        between = np.exp(np.minimum(-2.0 * (gap - x) * (gap - new) / (sigma**2 * dt), 0.0))
        alive *= np.where((x >= gap) | (new >= gap), 0.0, 1.0 - between)
        x = new
        out.append(1.0 - alive.mean())
    return np.array(out)


@pytest.mark.parametrize(
    ("gap", "drift", "drift_sd", "sigma"),
    [
        (0.2, 0.004, 0.001, 0.004),
        (0.1, 0.0005, 0.002, 0.006),  # the drift may be negative
        (0.05, 0.001, 0.0, 0.004),  # a drift that is known
        (10.0, 2.0379, 0.4177, 0.11664**0.5),  # the lasers, time in kilohours
    ],
)
def test_the_closed_form_is_the_monte_carlos(gap: float, drift: float, drift_sd: float, sigma: float) -> None:
    # standard error at most √(0.25/400,000) = 0.0008; 0.002 is 2.5 of them, at the worst of 16 points
    times = (
        np.array([0.3, 0.9, 1.1, 1.6]) * gap / drift if drift_sd < drift else np.array([10.0, 30, 60, 120])
    )
    paths = simulate(gap, drift, drift_sd, sigma, times)
    form = passage(times, np.array(gap), np.array(drift), np.array(drift_sd**2), np.array(sigma**2))
    assert form.tolist() == pytest.approx(paths.tolist(), abs=0.002)


def test_a_surely_falling_level_seldom_passes() -> None:
    # without drift variance P(ever) = exp(2 m w / σ²): m = -0.001, w = 0.1, σ² = 1e-4
    assert at(1e6, 0.1, -0.001, 0.0, 1e-4) == pytest.approx(np.exp(-2.0), rel=1e-6)


def test_the_second_term_does_not_overflow() -> None:
    # plain exp(2mw/σ² + 2Pw²/σ⁴) would be exp(8e6) here
    assert at(100.0, 0.2, 0.004, 1e-6, 1e-7) == pytest.approx(0.9772, abs=1e-4)  # Φ(2), by the drift alone
    assert at(20.0, 0.2, 0.004, 1e-6, 1e-7) == pytest.approx(0.0, abs=1e-6)


@given(st.floats(0.01, 0.5), st.floats(-0.01, 0.02), st.floats(0.0, 1e-5), st.floats(1e-8, 1e-4))
def test_passage_is_a_distribution(gap: float, drift: float, drift_var: float, diffusion: float) -> None:
    t = np.linspace(0.0, 300.0, 40)
    f = passage(t, np.array(gap), np.array(drift), np.array(drift_var), np.array(diffusion))
    assert f[0] == 0.0
    assert (np.diff(f) >= -1e-9).all()
    assert ((f >= 0.0) & (f <= 1.0)).all()


def ahead(
    depth: float, rate: float, *, sd: float = 0.003, rate_sd: float = 3e-4, age: float = np.nan
) -> Floats:
    """p05, p10, p50, p90, p95 [day] for a limit of 0.3 m."""
    given_ = (depth, sd**2, rate, rate_sd**2, 0.0, 0.3, 1e-6, age)
    return quantiles(*(np.array([v]) for v in given_))[0]


def test_quantiles_bracket_the_straight_line() -> None:
    days = ahead(0.2, 0.003)
    assert days[2] == pytest.approx(100 / 3, rel=0.03)
    assert (np.diff(days) > 0).all()
    # width: the rate's 10 % and the depth's 3 mm and σ 1 mm/√day make about ±6.2 days at 1.645 sd
    assert days[4] - days[0] == pytest.approx(12.0, abs=2.0)


def test_quantiles_agree_with_the_distribution_they_invert() -> None:
    days = ahead(0.2, 0.003, sd=1e-5)
    for level, day in zip((0.05, 0.10, 0.50, 0.90, 0.95), days, strict=True):
        assert at(float(day), 0.1, 0.003, 9e-8, 1e-6) == pytest.approx(level, abs=0.002)


def test_beyond_six_months_is_unknown_quantile_by_quantile() -> None:
    days = ahead(0.1, 0.0011, rate_sd=3e-4)
    assert np.isfinite(days[:2]).all()
    assert np.isnan(days[3:]).all()
    assert np.isnan(ahead(0.05, 0.0)).all()


def test_already_over_gives_past_instants_within_the_cycle() -> None:
    days = ahead(0.33, 0.003, age=150.0)
    assert (days < 0).all()
    assert (np.diff(days) >= 0).all()
    assert days[2] == pytest.approx(-10.0, abs=1.0)
    assert ahead(0.33, 0.003, age=6.0).min() >= -6.0


def test_about_at_the_limit_spans_now() -> None:
    days = ahead(0.3, 0.003, age=150.0)
    assert days[0] < 0 < days[4]


def test_an_interval_keeps_the_chance_at_or_below_alpha() -> None:
    columns = (1.2, 0.25, 0.003, 9e-8, 1e-6, 0.006, 1e-4)
    days = interval(*(np.array([v]) for v in columns), alpha=0.10)
    assert 70.0 < days[0] < 98.0  # the mean rate takes 98 days
    strict = interval(*(np.array([v]) for v in columns), alpha=0.02)
    assert strict[0] < days[0]
    slow = interval(
        *(np.array([v]) for v in (1.2, 0.25, 0.0005, 1e-9, 1e-7, 0.006, 1e-6)), longest_days=181.0
    )
    assert slow[0] == 181.0


def test_an_impossible_alpha_is_named() -> None:
    with pytest.raises(ValueError, match="alpha"):
        interval(*(np.ones(1) for _ in range(7)), alpha=1.0)


def test_every_quantile_is_right_to_a_thousandth_wherever_the_limit_cuts_through_the_depth() -> None:
    rng = np.random.default_rng(5)
    n = 60
    depth, sd = rng.uniform(0.02, 0.30, n), rng.uniform(0.002, 0.02, n)
    rate = 0.003 * np.exp(0.7 * rng.normal(size=n))
    rate_var = (rate * rng.uniform(0.2, 0.5, n)) ** 2
    cov = rng.uniform(-0.2, 0.2, n) * sd * np.sqrt(rate_var)
    diffusion = (0.5 * rate) ** 2
    days = quantiles(depth, sd**2, rate, rate_var, cov, np.full(n, 0.3), diffusion, np.full(n, np.nan))
    z = np.linspace(-6.0, 6.0, 4001)  # the integral over the depth by a fine sum
    weight = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    asked = 0
    for row, column in zip(*np.nonzero(days > 0.0), strict=True):
        slope = cov[row] / sd[row]
        left = np.array(max(rate_var[row] - slope**2, 1e-12))
        f = passage(
            np.array(days[row, column]), 0.3 - depth[row] - sd[row] * z, rate[row] + slope * z, left,
            np.array(diffusion[row]),
        )  # fmt: skip
        assert (f * weight).sum() == pytest.approx((0.05, 0.10, 0.50, 0.90, 0.95)[column], abs=0.001)
        asked += 1
    assert asked > 150
