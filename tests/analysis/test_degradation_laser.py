"""GaAs lasers (Meeker and Escobar 1998): fits and forecasts as published and tabulated; tests/analysis/data/NOTICE.md.

The inverse Gaussian figures are those of Morita et al. 2021 (doi 10.1002/qre.2762); the Wiener figures and the
coverage were computed independently from the same table. Percent of increase over kilohours; 10 % is failure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from wiener import (
    Wiener,
    fit_fixed,
    fit_gamma_frailty,
    fit_inverse_gaussian,
    fit_random,
    frailties,
    undercovers,
)

from analysis.forecast import passage
from analysis.model import Floats

DATA: Final = Path(__file__).parent / "data"
STEP_KH: Final = 0.25
LEVEL: Final = 6.0  # percent: all units cross it
INSPECTIONS: Final = (2, 4, 6, 8, 10)


@pytest.fixture(scope="module")
def percent() -> Floats:
    table = np.loadtxt(DATA / "gaas_laser.csv", delimiter=",", skiprows=1)
    return table[:, 2].reshape(15, 17)


def increments(percent: Floats) -> tuple[Floats, Floats]:
    dx = np.diff(percent, axis=1)
    return np.full_like(dx, STEP_KH), dx


def chance(t: float, gap: float, drift: float, drift_var: float, diffusion: float) -> float:
    return float(passage(*(np.array([v]) for v in (t, gap, drift, drift_var, diffusion)))[0])


def median(reached: object, low: float, high: float) -> float:
    assert callable(reached)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < 0.5 else (low, middle)
    return low


def test_the_table_is_whole(percent: Floats) -> None:
    assert percent[:, -1].sum() == pytest.approx(122.2744, abs=5e-5)
    assert percent.sum() == pytest.approx(1044.4529, abs=5e-5)


def test_the_inverse_gaussian_process_is_the_published_one(percent: Floats) -> None:
    fit = fit_inverse_gaussian(*increments(percent))
    assert (round(fit.theta, 4), round(fit.eta, 3), round(fit.aic, 2)) == (2.0379, 13.147, -146.23)


def test_gamma_frailty_is_the_published_one(percent: Floats) -> None:
    dt, dx = increments(percent)
    fit = fit_gamma_frailty(dt, dx)
    assert (round(fit.theta, 4), round(fit.eta, 3), round(fit.frailty_var, 4)) == (2.0515, 15.173, 0.2103)
    assert round(fit.aic, 2) == -174.73
    life = median(lambda t: fit.reached(np.array([t]), 10.0)[0], 3.0, 7.0)
    assert round(life, 3) == 4.935
    assert round(float(frailties(fit, dt, dx)[9]), 4) == 1.9481  # unit 10


def test_a_falling_path_is_no_inverse_gaussian() -> None:
    with pytest.raises(ValueError, match="dx: an increment is not positive"):
        fit_inverse_gaussian(np.ones((1, 3)), np.array([[1.0, -0.1, 1.0]]))


def test_wiener_with_a_fixed_drift(percent: Floats) -> None:
    fit = fit_fixed(*increments(percent))
    assert (round(fit.drift, 4), round(fit.diffusion, 5), round(fit.log_likelihood, 2)) == (
        2.0379,
        0.16027,
        45.52,
    )


def test_wiener_with_a_random_drift_and_its_first_passage(percent: Floats) -> None:
    fit = fit_random(*increments(percent))
    assert (round(fit.drift, 4), round(fit.drift_var**0.5, 4), round(fit.diffusion, 5)) == (
        2.0379,
        0.4177,
        0.11664,
    )
    assert round(fit.log_likelihood, 2) == 69.07
    of = (10.0, fit.drift, fit.drift_var, fit.diffusion)
    assert (round(chance(4.5, *of), 3), round(chance(5.0, *of), 3)) == (0.345, 0.539)
    assert round(median(lambda t: chance(t, *of), 1.0, 9.0), 3) == 4.893


def test_a_shorter_path_counts_for_what_it_has(percent: Floats) -> None:
    dt, dx = increments(percent)
    cut = dx.copy()
    cut[:, 10:] = np.nan
    for fit in (fit_fixed, fit_random):
        assert fit(dt, cut) == pytest.approx(fit(dt[:, :10], dx[:, :10]), rel=1e-6)


def forecasts(percent: Floats, *, uncertain: bool) -> tuple[list[bool], list[int]]:
    """Whether the 90% interval of the 6 % crossing held, and of which unit, at inspections 2, 4 … 10.

    Each unit is forecast by the other units' fit, known as it is; ``uncertain`` by the drift's posterior, else by
    the slope so far, taken for the truth.
    """
    held, unit = [], []
    for one in range(15):
        fleet = fit_random(*increments(np.delete(percent, one, axis=0)))
        crossing = np.interp(LEVEL, percent[one], STEP_KH * np.arange(17))
        for at in INSPECTIONS:
            now, level = STEP_KH * at, percent[one, at]
            if level >= LEVEL:
                continue
            drift, var = (float(v[0]) for v in fleet.posterior(np.array([now]), np.array([level])))
            if not uncertain:
                drift, var = level / now, 0.0
            p = chance(crossing - now, LEVEL - level, drift, var, fleet.diffusion)
            held.append(0.05 <= p <= 0.95)
            unit.append(one)
    return held, unit


@pytest.mark.parametrize(("uncertain", "covered", "flagged"), [(True, 59, False), (False, 49, True)])
def test_an_uncertain_drift_covers_and_a_plugged_in_slope_does_not(
    percent: Floats, uncertain: bool, covered: int, flagged: bool
) -> None:
    held, unit = forecasts(percent, uncertain=uncertain)
    assert (sum(held), len(held)) == (covered, 70)
    assert undercovers(np.array(held), np.array(unit)) is flagged


@pytest.mark.parametrize(("spread", "covered", "flagged"), [(True, 14, False), (False, 5, True)])
def test_before_any_data_the_fleets_spread_is_what_covers(
    percent: Floats, spread: bool, covered: int, flagged: bool
) -> None:
    held = []
    for one in range(15):
        fleet: Wiener = fit_random(*increments(np.delete(percent, one, axis=0)))
        crossing = float(np.interp(LEVEL, percent[one], STEP_KH * np.arange(17)))
        p = chance(crossing, LEVEL, fleet.drift, fleet.drift_var if spread else 0.0, fleet.diffusion)
        held.append(0.05 <= p <= 0.95)
    assert (sum(held), len(held)) == (covered, 15)
    assert undercovers(np.array(held), np.arange(15)) is flagged
