"""Fatigue cracks in Alloy A (Hudak et al. 1978): a linear model on the wrong scale is found out, physics mends it.

Forecasts of the instant at which a crack passes 1.60 in, each specimen by the fit of the other twenty, at the ages of
20, 40, 60 and 80 kcycles. Figures computed independently from the same table; tests/analysis/data/NOTICE.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from wiener import fit_random, undercovers

from analysis.forecast import passage
from analysis.model import Bools, Floats

DATA: Final = Path(__file__).parent / "data"
FAILED: Final = 1.60  # in
AGES: Final = (2, 4, 6, 8)  # inspections, every 10 kcycles
EXPONENT: Final = 1.5  # of the Paris law's scale; the likelihood's own choice is 1.52 to 1.57 fold by fold

Scale = Callable[[Floats], Floats]


def log_length(crack: Floats) -> Floats:
    return np.log(crack)


def paris(crack: Floats) -> Floats:
    return np.asarray((0.9**-EXPONENT - crack**-EXPONENT) / EXPONENT)


def linear(age: Floats) -> Floats:
    return age


def bent(age: Floats) -> Floats:
    return np.asarray(age**1.2)


@pytest.fixture(scope="module")
def crack() -> Floats:
    """Crack lengths [in], shape (21, 13), NaN after the end of a path."""
    table = np.loadtxt(DATA / "alloy_a.csv", delimiter=",", skiprows=1)
    out = np.full((21, 13), np.nan)
    out[table[:, 0].astype(int) - 1, np.rint(table[:, 1] * 100).astype(int)] = table[:, 2]
    return out


def crossings(crack: Floats, scale: Scale) -> Floats:
    """When each specimen passed 1.60 in [10 kcycles], interpolated on that scale; NaN where it did not."""
    out = np.full(len(crack), np.nan)
    for n, path in enumerate(crack):
        ends = int(np.isfinite(path).sum())
        if path[ends - 1] >= FAILED:
            out[n] = np.interp(scale(np.array(FAILED)), scale(path[:ends]), np.arange(ends, dtype=float))
    return out


def test_the_table_is_whole(crack: Floats) -> None:
    assert np.isfinite(crack).sum() == 262
    assert np.nansum(crack) == pytest.approx(301.74, abs=5e-3)
    assert np.nanmax(crack) == 1.77


def test_the_twelve_crossings(crack: Floats) -> None:
    on_log = np.sort(crossings(crack, log_length) * 10)[:13]
    assert [round(float(v), 1) for v in on_log[:12]] == [
        87.6, 100.0, 101.1, 102.9, 103.2, 105.4, 105.8, 108.5, 113.1, 115.5, 117.0, 117.6,
    ]  # fmt: skip
    assert np.isnan(on_log[12])
    on_length = np.sort(crossings(crack, linear) * 10)[:12]
    assert [round(float(v), 1) for v in on_length] == [
        87.5, 100.0, 101.1, 102.8, 103.1, 105.3, 105.7, 108.5, 112.9, 115.3, 116.9, 117.5,
    ]  # fmt: skip


@dataclass
class Judged:
    """84 forecasts, shape (21, 4)."""

    held: Bools  # the upper bound must pass the last inspection where a specimen did not fail
    late_kcycles: Floats  # median forecast less crossing, NaN where it did not fail

    @property
    def coverage(self) -> float:
        return round(float(self.held.mean()), 2)

    @property
    def mae(self) -> list[float]:
        """Of each age [kcycles]."""
        return [round(float(v), 1) for v in np.nanmean(np.abs(self.late_kcycles), axis=0)]

    @property
    def flagged(self) -> bool:
        return undercovers(self.held.ravel(), np.repeat(np.arange(21), len(AGES)))


def judged(crack: Floats, scale: Scale, clock: Scale) -> Judged:
    age = clock(np.arange(13, dtype=np.float64))
    dt, dx = np.broadcast_to(np.diff(age), (21, 12)), np.diff(scale(crack), axis=1)
    crossing = crossings(crack, log_length)
    last = np.isfinite(crack).sum(axis=1) - 1.0
    failed = np.isfinite(crossing)
    out = Judged(np.zeros((21, len(AGES)), dtype=bool), np.full((21, len(AGES)), np.nan))
    ahead = np.linspace(0.0, 40.0, 40_001)  # 10 kcycles, in real time
    for one in range(21):
        fleet = fit_random(np.delete(dt, one, axis=0), np.delete(dx, one, axis=0))
        for n, at in enumerate(AGES):
            now = scale(crack[one, at])
            elapsed, grown = age[at : at + 1], np.atleast_1d(now - scale(np.array(0.9)))
            drift, var = fleet.posterior(elapsed, grown)
            wait = clock(at + ahead) - age[at]
            f = passage(wait, scale(np.array(FAILED)) - now, drift, var, np.array(fleet.diffusion))
            when = crossing[one] if failed[one] else last[one]
            p = np.interp(when - at, ahead, f)
            out.held[one, n] = p <= 0.95 and (p >= 0.05 or not failed[one])
            out.late_kcycles[one, n] = 10 * (at + np.interp(0.5, f, ahead) - crossing[one])
    return out


def test_a_linear_model_of_a_curved_path_is_found_out(crack: Floats) -> None:
    # the negative control: whoever checks coverage must reject it
    result = judged(crack, log_length, linear)
    failed = np.isfinite(result.late_kcycles[:, 0])
    assert result.coverage == 0.54
    assert result.held[failed, 1:].sum() == 0  # 0 of 36 from 40 kcycles on …
    assert result.held[failed, 1:].size == 36
    assert (result.late_kcycles[failed] > 0).all()  # … and always late
    assert [min(result.mae), max(result.mae)] == [15.3, 26.6]
    assert result.flagged


def test_a_bent_clock_makes_most_of_it_good(crack: Floats) -> None:
    result = judged(crack, log_length, bent)
    assert result.coverage == 0.85
    assert [min(result.mae), max(result.mae)] == [3.6, 9.7]
    assert not result.flagged


def test_on_the_scale_of_the_paris_law_the_forecast_holds(crack: Floats) -> None:
    result = judged(crack, paris, linear)
    assert result.coverage == 0.98
    assert [min(result.mae), max(result.mae)] == [1.5, 3.3]
    assert not result.flagged


def test_the_fit_on_the_paris_scale(crack: Floats) -> None:
    dx = np.diff(paris(crack), axis=1)
    fit = fit_random(np.ones_like(dx), dx)
    assert (round(fit.drift, 5), round(fit.drift_var, 7), round(fit.diffusion, 7)) == (
        0.03765,
        4.32e-5,
        4.10e-5,
    )
    ahead = np.linspace(0.0, 30.0, 30_001)
    f = passage(
        ahead, paris(np.array(FAILED)), np.array(fit.drift), np.array(fit.drift_var), np.array(fit.diffusion)
    )
    assert round(10 * float(np.interp(0.5, f, ahead)), 1) == 119.8  # kcycles; 12 of 21 failed by 120
