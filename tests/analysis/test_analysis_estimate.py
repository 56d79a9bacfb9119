"""The filter against its textbook form, and the prior against its lognormal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate import Diffusion, Kalman, RatePrior, effective_variance, predict, update, within


def one(x: float, r: float, p00: float, p01: float, p11: float) -> Kalman:
    return Kalman(*[np.full((1, 2), v) for v in (x, r, p00, p01, p11)])


def test_the_rate_prior_has_the_lognormals_moments() -> None:
    # median 0.25 %/day, log-sd 0.7: mean 0.25 e^0.245 = 0.3194 %, sd = mean (e^0.49 - 1)^½ = 0.2540 %
    means, sds = RatePrior().moments()
    assert sum(means) == pytest.approx(0.003194, abs=1e-6)
    assert float(np.hypot(*sds)) == pytest.approx(0.002540, abs=1e-6)
    draws = np.random.default_rng(7).lognormal(np.log(0.0025), 0.7, 400_000)
    assert sum(means) == pytest.approx(draws.mean(), rel=0.005)
    assert float(np.hypot(*sds)) == pytest.approx(draws.std(), rel=0.02)


@given(
    st.floats(0.0, 1.0), st.floats(-0.01, 0.02), st.floats(1e-6, 1e-2), st.floats(-0.9, 0.9),
    st.floats(1e-8, 1e-4), st.floats(0.0, 30.0), st.floats(0.0, 1.0), st.floats(1e-6, 1e-2),
)  # fmt: skip
def test_predict_and_update_are_the_matrix_filter(
    x: float, r: float, p00: float, rho: float, p11: float, dt: float, z: float, noise: float
) -> None:
    p01 = rho * (p00 * p11) ** 0.5
    q = Diffusion(np.array([[4e-7]]), np.array([[1e-9]]))
    k = predict(one(x, r, p00, p01, p11), np.array([[dt]]), q)
    f = np.array([[1.0, dt], [0.0, 1.0]])
    cov = f @ np.array([[p00, p01], [p01, p11]]) @ f.T
    cov += np.array([[4e-7 * dt + 1e-9 * dt**3 / 3, 1e-9 * dt**2 / 2], [1e-9 * dt**2 / 2, 1e-9 * dt]])
    mean = f @ np.array([x, r])
    assert [k.x[0, 0], k.r[0, 0]] == pytest.approx(mean.tolist(), rel=1e-9, abs=1e-15)
    assert [k.p00[0, 0], k.p01[0, 0], k.p11[0, 0]] == pytest.approx(
        [cov[0, 0], cov[0, 1], cov[1, 1]], rel=1e-9, abs=1e-18
    )
    s = cov[0, 0] + noise
    if (z - mean[0]) ** 2 > 16 * s:
        return
    gain = cov[:, 0] / s
    k = update(k, np.array([[z, np.nan]]), np.full((1, 2), noise))
    after = cov - np.outer(gain, cov[0])
    assert [k.x[0, 0], k.r[0, 0]] == pytest.approx(
        (mean + gain * (z - mean[0])).tolist(), rel=1e-9, abs=1e-12
    )
    assert [k.p00[0, 0], k.p01[0, 0], k.p11[0, 0]] == pytest.approx(
        [after[0, 0], after[0, 1], after[1, 1]], rel=1e-6, abs=1e-15
    )


def test_a_missing_value_leaves_the_state_alone() -> None:
    k = one(0.1, 0.002, 1e-4, 0.0, 1e-6)
    after = update(k, np.array([[np.nan, 0.12]]), np.full((1, 2), 1e-5))
    assert [a[0, 0] for a in after] == [a[0, 0] for a in k]
    assert after.x[0, 1] == pytest.approx(0.1 + 0.02 * 1e-4 / 1.1e-4)


def test_one_wild_value_moves_the_state_as_a_four_sigma_one() -> None:
    k = one(0.1, 0.0, 1e-6, 0.0, 1e-8)
    at_bound = update(k, np.full((1, 2), 0.1 + 4 * 2e-6**0.5), np.full((1, 2), 1e-6))
    wild = update(k, np.full((1, 2), 0.9), np.full((1, 2), 1e-6))
    assert wild.x[0, 0] == pytest.approx(at_bound.x[0, 0])


def test_many_readings_of_one_lasting_error_count_as_one() -> None:
    # 96 readings a day between two electrodes 50 mm apart: pitch/sqrt(12) = 14.4 mm, not a tenth of it
    k = one(0.1, 0.0, 0.15**2, 0.0, 1e-12)
    pitch = np.full((1, 2), 0.05**2 / 12)
    for _ in range(96):
        variance = effective_variance(
            np.full((1, 2), 1e-6), pitch, np.full((1, 2), 1 / 96), np.full((1, 2), 1.0)
        )
        k = update(k, np.full((1, 2), 0.1), variance)
    assert float(np.sqrt(k.p00[0, 0])) == pytest.approx(0.0144, abs=0.0005)


def test_an_interval_leaves_a_sure_state_inside_it_alone_and_centres_an_unsure_one() -> None:
    half = np.full((1, 2), 0.025)
    middle = np.full((1, 2), 0.1)
    assert within(one(0.115, 0, 1e-8, 0, 0), middle, half)[0, 0] == pytest.approx(0.115)
    assert within(one(0.2, 0, 1e-8, 0, 0), middle, half)[0, 0] == pytest.approx(0.125, abs=1e-5)
    assert within(one(0.3, 0, 0.15**2, 0, 0), middle, half)[0, 0] == pytest.approx(0.1, abs=0.001)
    assert within(one(0.3, 0, 1e-8, 0, 0), middle, np.zeros((1, 2)))[0, 0] == 0.1
