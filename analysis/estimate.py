"""Vectorised Kalman filter on [depth, rate], one row an interceptor's compartment, one column a layer.

Layers are columns: 0 FOG, 1 solids. Depths [m], rates [m/day], time steps [day]. Only +, -, *, / and sqrt are
used on the way of a reading, so that a row's result does not depend on how many rows go with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analysis.model import Floats

DAY_S: Final = 86400.0
FOG: Final = 0
SOLIDS: Final = 1
RESIDUAL_FRACTION: Final = (
    0.005  # of base depth, left by a complete pump-out (reference simulation; learn it)
)
RESIDUAL_SD: Final = 0.010  # of base depth
UNKNOWN_MEAN: Final = 0.10  # of base depth and layer, where nothing is known of the cycle
UNKNOWN_SD: Final = 0.15
DAILY_SPREAD: Final = 0.5
RATE_WANDER: Final = 0.025


@dataclass(frozen=True, slots=True)
class RatePrior:
    """Prior of the accumulation rate of FOG + solids, lognormal over interceptors.

    ``median`` [base depths/day] and ``log_sd`` follow the suggested field prior (0.25 % of depth a day,
    0.7): derived from Loucks' example kitchen and crossings at 30 to 182 days. ``fog_share`` of it is grease.
    """

    median: float = 0.0025
    log_sd: float = 0.7
    fog_share: float = 0.6

    def moments(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Mean and sd of the normal with the lognormal's moments, by layer [base depths/day].

        The layers' variances add up to the whole's: mean = m exp(s²/2), sd = mean sqrt(exp(s²) - 1).
        """
        mean = self.median * math.exp(self.log_sd**2 / 2)
        sd = mean * math.sqrt(math.expm1(self.log_sd**2))
        shares = (self.fog_share, 1.0 - self.fog_share)
        length = math.hypot(*shares)
        return (mean * shares[0], mean * shares[1]), (sd * shares[0] / length, sd * shares[1] / length)


DEFAULT_PRIOR: Final = RatePrior()


class Kalman(NamedTuple):
    """Mean and covariance of [depth, rate], arrays of shape (n, 2)."""

    x: Floats
    r: Floats
    p00: Floats
    p01: Floats
    p11: Floats


class Diffusion(NamedTuple):
    """Process noise: ``depth`` [m²/day] and ``rate`` [(m/day)²/day], broadcastable to (n, 2)."""

    depth: Floats
    rate: Floats


def diffusion(rate: Floats, base: Floats, prior: RatePrior) -> Diffusion:
    """Process noise of layers growing at ``rate`` (n, 2) [m/day] in compartments of ``base`` (n,) [m].

    Busy and idle days: 0.5 of a day's growth as sd a day, at least a third of a typical day's. Menus and
    seasons: the rate wanders by 2.5 % of the typical rate in a day, a quarter of it in a quarter year.
    """
    typical = prior.median * base[:, None] * np.array([prior.fog_share, 1.0 - prior.fog_share])
    day = DAILY_SPREAD * np.maximum(rate, typical / 3.0)
    return Diffusion(day * day, (RATE_WANDER * typical) ** 2)


def after_pump_out(base: Floats, prior: RatePrior) -> Kalman:
    """Prior right after a complete pump-out, shape (n, 2): a thin residual and the fleet's rate."""
    mean, sd = prior.moments()
    column = base[:, None]
    ones = np.ones_like(mean)
    return Kalman(
        column * RESIDUAL_FRACTION * ones,
        column * np.array(mean),
        (column * RESIDUAL_SD * ones) ** 2,
        np.zeros((len(base), 2)),
        (column * np.array(sd)) ** 2,
    )


def unknown(base: Floats, prior: RatePrior) -> Kalman:
    """Prior where nothing is known of the cycle, shape (n, 2)."""
    fresh = after_pump_out(base, prior)
    column = base[:, None] * np.ones((1, 2))
    return fresh._replace(x=UNKNOWN_MEAN * column, p00=(UNKNOWN_SD * column) ** 2)


def predict(k: Kalman, dt: Floats, q: Diffusion) -> Kalman:
    """Carry the state ``dt`` [day] forward; ``dt`` of shape (n, 1), not negative."""
    ramp = dt * k.p11
    p00 = k.p00 + dt * (2.0 * k.p01 + ramp) + dt * (q.depth + q.rate * dt * dt / 3.0)
    return Kalman(k.x + dt * k.r, k.r, p00, k.p01 + ramp + q.rate * dt * dt / 2.0, k.p11 + q.rate * dt)


def update(k: Kalman, z: Floats, variance: Floats) -> Kalman:
    """Take in depths ``z`` of ``variance`` [m²]; where ``z`` is NaN the state stays as it is.

    An innovation beyond 4 sd moves the state as one of 4 sd does: one wild value moves it little, a lasting
    change goes on moving it.
    """
    innovation = z - k.x
    there = np.isfinite(innovation)
    innovation = np.where(there, innovation, 0.0)
    s = k.p00 + np.where(there, variance, 1.0)
    s = np.maximum(s, np.abs(innovation) * np.sqrt(s) / 4.0)
    gain0 = np.where(there, k.p00 / s, 0.0)
    gain1 = np.where(there, k.p01 / s, 0.0)
    return Kalman(
        k.x + gain0 * innovation,
        k.r + gain1 * innovation,
        k.p00 * (1.0 - gain0),
        k.p01 * (1.0 - gain0),
        k.p11 - gain1 * k.p01,
    )


def within(k: Kalman, depth: Floats, half: Floats) -> Floats:
    """The depth to take in from an interval ``depth`` ± ``half`` (n, 2): the nearest one that it allows.

    A sure state inside the interval is left where it is, an unsure one drawn to its middle; without a half
    width it is ``depth`` itself. Kept to arithmetic; between the two extremes it follows the mean of a normal
    cut to the interval.
    """
    free = half * half / (half * half + 3.0 * k.p00)
    reach = half * free
    return np.asarray(np.minimum(np.maximum(k.x, depth - reach), depth + reach))


def effective_variance(white: Floats, lasting: Floats, dt: Floats, memory: Floats) -> Floats:
    """Variance to use for one of many readings whose error lasts [m²].

    ``white`` is fresh with every reading; ``lasting`` stays the same over ``memory`` [day], as between two
    electrodes or in a surge, so that readings ``dt`` [day] apart together count as one an interval.
    """
    return white + lasting * np.maximum(1.0, memory / np.maximum(dt, 1e-4))
