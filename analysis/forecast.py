"""When the fill crosses a limit: first passage of a Wiener process with uncertain drift.

Lineage: Si et al. 2013 (MSSP); truncation of the present depth as Tang 2014 (Energies 7:520). Depths [m],
time [day], rates [m/day], diffusion [m²/day]; all arrays broadcast.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from analysis.model import Floats

HORIZON_DAYS: Final = 183.0  # "not expected within six months" beyond
LEVELS: Final = (0.05, 0.10, 0.50, 0.90, 0.95)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_HALVINGS: Final = 22
_SECANTS: Final = 5
_SHIFT_DAYS: Final = 0.02  # half an hour: where the logarithm of time begins to be straight
_GRID: Final = np.log(np.r_[0.0, np.geomspace(0.1, HORIZON_DAYS, 16)] + _SHIFT_DAYS)


def passage(t: Floats, gap: Floats, drift: Floats, drift_var: Floats, diffusion: Floats) -> Floats:
    """P(the process has passed ``gap`` above its start by ``t``), drift ~ N(``drift``, ``drift_var``).

    F(t) = Φ((mt-w)/√(Pt²+σ²t)) + exp(2mw/σ² + 2Pw²/σ⁴) Φ(-(2Pwt+σ²(mt+w))/(σ²√(Pt²+σ²t))), the second term
    by its logarithm: the plain exponential overflows at ordinary values. 1 where the gap is not positive, 0
    at t ≤ 0 otherwise.
    """
    live = (t > 0) & (gap > 0)
    s = np.where(live, t, 1.0)
    w = np.where(live, gap, 1.0)
    v = np.maximum(diffusion, 1e-12)
    root = np.sqrt(drift_var * s * s + v * s)
    first = ndtr((drift * s - w) / root)
    power = 2.0 * drift * w / v + 2.0 * drift_var * w * w / (v * v)
    arg = -(2.0 * drift_var * w * s + v * (drift * s + w)) / (v * root)
    second = np.exp(np.minimum(power + log_ndtr(arg), 0.0))
    value = np.minimum(first + second, 1.0)
    return np.where(live, value, np.where(gap <= 0, 1.0, 0.0))


class Present:
    """The joint normal of total depth and rate on n rows, split over Gauss-Hermite nodes of the depth.

    ``depth``, ``rate`` are means; ``cov`` their covariance. Nodes have weights of shape (n, nodes) and are
    conditioned on a depth below ``limit`` (with ``below``), shape (n,).
    """

    def __init__(
        self, depth: Floats, var: Floats, rate: Floats, rate_var: Floats, cov: Floats, limit: Floats
    ) -> None:
        sd = np.sqrt(np.maximum(var, 1e-10))
        self.limit = limit[:, None]
        self.depth = depth[:, None] + sd[:, None] * _NODES
        slope = cov / (sd * sd)
        self.rate = rate[:, None] + slope[:, None] * (self.depth - depth[:, None])
        self.rate_var = np.maximum(rate_var - slope * cov, 1e-12)[:, None]
        self.weight = np.broadcast_to(_WEIGHTS, self.depth.shape)

    def crossed(self, t: Floats, diffusion: Floats) -> Floats:
        """P(passed the limit by ``t`` [day] from now), shape (n,) or (n, m) as ``t``; excess counts as passed."""
        when = t.reshape(len(t), -1, 1)
        f = passage(
            when,
            (self.limit - self.depth)[:, None, :],
            self.rate[:, None, :],
            self.rate_var[:, None, :],
            diffusion[:, None, None],
        )
        return np.asarray((f * self.weight[:, None, :]).sum(axis=2)).reshape(t.shape)


def quantiles(
    depth: Floats,
    var: Floats,
    rate: Floats,
    rate_var: Floats,
    cov: Floats,
    limit: Floats,
    diffusion: Floats,
    age: Floats,
    levels: tuple[float, ...] = LEVELS,
) -> Floats:
    """Instants of the first passage, shape (n, levels) [day from now]; NaN beyond 183 days.

    A quantile at or below the chance that the limit is already passed lies in the past: there the path back
    is straight, at a rate not below a quarter of its mean, never earlier than ``age`` [day, NaN unknown] ago.
    """
    present = Present(depth, var, rate, rate_var, cov, limit)
    wanted = np.array(levels)
    grid = np.exp(_GRID) - _SHIFT_DAYS
    passed = present.crossed(np.broadcast_to(grid, (len(depth), len(grid))), diffusion)
    ahead = _ahead(present, np.maximum.accumulate(passed, axis=1), wanted, diffusion)
    over = np.flatnonzero(passed[:, 0] >= wanted.min())
    if len(over):
        past = _past(
            depth[over], var[over], rate[over], rate_var[over], cov[over], limit[over], age[over], wanted
        )
        ahead[over] = np.where(passed[over, :1] >= wanted, np.minimum(past, 0.0), ahead[over])
    return ahead


def _ahead(present: Present, passed: Floats, wanted: Floats, diffusion: Floats) -> Floats:
    """Instants [day] at which P(passed) reaches ``wanted``, (n, levels); NaN beyond the grid.

    ``passed`` (n, grid) brackets each; within, the probit of P(passed) is nearly a straight line over the
    logarithm of time, so that a few bracketed secants suffice: within 6 minutes, or 0.6 %, of a long bisection.
    """
    reached = passed[:, None, :] >= wanted[None, :, None]
    first = np.maximum(reached.argmax(axis=2), 1)
    rows = np.arange(len(passed))[:, None]
    z = ndtri(wanted)
    low, high = _GRID[first - 1], _GRID[first]
    z_low, z_high = _probit(passed[rows, first - 1]), _probit(passed[rows, first])
    for step in range(_SECANTS):
        share = _share(z, z_low, z_high)
        wide = high - low > 0.3 / 2**step  # a secant that has not halved the bracket is drawn to its middle
        share = np.where(wide, 0.25 + 0.5 * share, np.clip(share, 0.05, 0.95))
        middle = low + share * (high - low)
        z_middle = _probit(present.crossed(np.exp(middle) - _SHIFT_DAYS, diffusion))
        above = z_middle >= z
        high, z_high = np.where(above, middle, high), np.where(above, z_middle, z_high)
        low, z_low = np.where(above, low, middle), np.where(above, z_low, z_middle)
    at = np.exp(low + _share(z, z_low, z_high) * (high - low)) - _SHIFT_DAYS
    return np.where(reached.any(axis=2), at, np.nan)


def _share(z: Floats, z_low: Floats, z_high: Floats) -> Floats:
    return np.clip((z - z_low) / np.where(z_high > z_low, z_high - z_low, 1.0), 0.0, 1.0)


def _probit(p: Floats) -> Floats:
    return np.asarray(ndtri(np.clip(p, 1e-9, 1.0 - 1e-9)))


def _past(
    depth: Floats,
    var: Floats,
    rate: Floats,
    rate_var: Floats,
    cov: Floats,
    limit: Floats,
    age: Floats,
    levels: Floats,
) -> Floats:
    """Quantiles of the instant at which a path already over passed the limit [day, negative], (n, levels).

    P(passed by -s) = P(depth - rate s > limit), a normal in closed form, inverted by bisection.
    """
    speed = np.maximum(rate, np.maximum(0.05 * np.sqrt(np.maximum(rate_var, 0.0)), 1e-6))
    longest = np.where(np.isfinite(age), np.maximum(age, 0.0), HORIZON_DAYS)
    low = np.zeros((len(depth), len(levels)))
    high = np.broadcast_to(longest[:, None], low.shape)
    for _ in range(_HALVINGS):
        s = (low + high) / 2
        spread = np.sqrt(np.maximum(var[:, None] - 2 * cov[:, None] * s + rate_var[:, None] * s * s, 1e-12))
        still = ndtr(((depth - limit)[:, None] - speed[:, None] * s) / spread) >= levels
        low = np.where(still, s, low)
        high = np.where(still, high, s)
    return -low


def interval(
    base: Floats,
    limit: Floats,
    rate: Floats,
    rate_var: Floats,
    diffusion: Floats,
    residual: Floats,
    residual_var: Floats,
    *,
    alpha: float = 0.10,
    longest_days: float = HORIZON_DAYS,
) -> Floats:
    """The latest time after a complete pump-out at which P(crossed) is still at most ``alpha`` [day].

    ``limit`` is a fraction of ``base`` [m]; a fresh cycle starts from ``residual`` ± its sd. At most
    ``longest_days``. The bound for frequency proposals.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha: a probability between 0 and 1, not {alpha}")
    none = np.zeros_like(rate)
    present = Present(residual, residual_var, rate, rate_var, none, limit * base)
    low, high = none.copy(), np.full_like(rate, longest_days)
    whole = present.crossed(high, diffusion) <= alpha
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fine = present.crossed(middle, diffusion) <= alpha
        low = np.where(fine, middle, low)
        high = np.where(fine, high, middle)
    return np.where(whole, longest_days, low)
