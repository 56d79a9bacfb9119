"""When the fill crosses a limit: first passage of a Wiener process with uncertain drift.

Lineage: Si et al. 2013 (MSSP); truncation of the present depth as Tang 2014 (Energies 7:520). Depths [m],
time [day], rates [m/day], diffusion [m²/day]; all arrays broadcast.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from analysis.model import Floats, Ints

HORIZON_DAYS: Final = 183.0  # "not expected within six months" beyond
LEVELS: Final = (0.05, 0.10, 0.50, 0.90, 0.95)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LEGENDRE, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(24)
_CUT: Final = 5.0  # sd below the limit: nearer than that it cuts through what is known of the depth
_TAIL: Final = 4.5
_HALVINGS: Final = 22
_STEPS: Final = 24
_TRUSTED: Final = 6
_SURE: Final = 0.0003
_SHIFT_DAYS: Final = 0.02  # half an hour: where the logarithm of time begins to be straight
_CHUNK: Final = 2048


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
    """The joint normal of total depth and rate on n rows, split over nodes of the depth below the limit.

    ``depth``, ``rate`` are means; ``cov`` their covariance. What already lies above ``limit`` is ``over``, shape
    (n,), exactly; the rest is conditioned on a depth below it. Where all of it is below, Gauss-Hermite nodes do
    with few; where the limit cuts through it, Gauss-Legendre ones up to the limit.
    """

    def __init__(
        self, depth: Floats, var: Floats, rate: Floats, rate_var: Floats, cov: Floats, limit: Floats
    ) -> None:
        sd = np.sqrt(np.maximum(var, 1e-10))
        slope = cov / (sd * sd)
        room = (limit - depth) / sd
        self.over = ndtr(-room)
        self._near = np.flatnonzero(room < _CUT)
        near = np.zeros(len(depth), dtype=bool)
        near[self._near] = True
        self._far = np.flatnonzero(~near)
        self._place = np.empty(len(depth), dtype=np.int64)  # of each row among those of its kind
        for kind in (self._near, self._far):
            self._place[kind] = np.arange(len(kind))
        self._is_near = near
        self._nodes = []
        for rows in (self._far, self._near):
            z, weight = _far_nodes(len(rows)) if rows is self._far else _near_nodes(room[rows])
            self._nodes.append(
                (
                    sd[rows, None] * (room[rows, None] - z),
                    rate[rows, None] + slope[rows, None] * sd[rows, None] * z,
                    np.maximum(rate_var - slope * cov, 1e-12)[rows, None],
                    weight,
                )
            )

    def crossed(self, t: Floats, diffusion: Floats, rows: Ints | None = None) -> Floats:
        """P(passed the limit by ``t`` [day] from now) of ``rows`` (all by default), as ``t`` and ``diffusion`` (n,)."""
        which = np.arange(len(self.over)) if rows is None else rows
        out = self.over[which]
        is_near = self._is_near[which]
        for kind, (gap, rate, rate_var, weight) in enumerate(self._nodes):
            here = np.flatnonzero(is_near == bool(kind))
            if len(here):
                at = self._place[which[here]]
                f = passage(t[here, None], gap[at], rate[at], rate_var[at], diffusion[here, None])
                out[here] += np.einsum("ij,ij->i", f, weight[at])
        return np.minimum(out, 1.0)


def _far_nodes(count: int) -> tuple[Floats, Floats]:
    return np.broadcast_to(_NODES, (count, len(_NODES))), np.broadcast_to(_WEIGHTS, (count, len(_NODES)))


def _near_nodes(room: Floats) -> tuple[Floats, Floats]:
    """Nodes of a standard normal below ``room`` (n,), with weights that add up to its chance."""
    low = np.minimum(room, 0.0) - _TAIL
    half = (np.minimum(room, _TAIL) - low) / 2
    z = low[:, None] + half[:, None] * (1.0 + _LEGENDRE)
    weight = half[:, None] * _LEGENDRE_WEIGHTS * np.exp(-z * z / 2)
    total = weight.sum(axis=1, keepdims=True)
    return z, weight * (ndtr(room)[:, None] / np.where(total > 0.0, total, 1.0))


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
    wanted = np.array(levels)
    columns = (depth, var, rate, rate_var, cov, limit, diffusion, age)
    out = np.full((len(depth), len(levels)), np.nan)
    for first in range(0, len(depth), _CHUNK):  # small enough to stay in the cache
        part = slice(first, first + _CHUNK)
        out[part] = _quantiles(wanted, *(column[part] for column in columns))
    return out


def _quantiles(
    wanted: Floats,
    depth: Floats,
    var: Floats,
    rate: Floats,
    rate_var: Floats,
    cov: Floats,
    limit: Floats,
    diffusion: Floats,
    age: Floats,
) -> Floats:
    present = Present(depth, var, rate, rate_var, cov, limit)
    last = present.crossed(np.full(len(depth), HORIZON_DAYS), diffusion)
    ahead = np.full((len(depth), len(wanted)), np.nan)
    rows, column = np.nonzero((present.over[:, None] < wanted) & (wanted <= last[:, None]))
    line = _Line(limit - depth, rate, var, rate_var, 2.0 * cov + diffusion).rows(rows)
    ahead[rows, column] = _ahead(present, line, rows, wanted[column], diffusion, last)
    over = np.flatnonzero(present.over >= wanted.min())
    if len(over):
        past = _past(
            depth[over], var[over], rate[over], rate_var[over], cov[over], limit[over], age[over], wanted
        )
        ahead[over] = np.where(present.over[over, None] >= wanted, np.minimum(past, 0.0), ahead[over])
    return ahead


class _Line(NamedTuple):
    """The normal of the depth without regard to earlier passages: near enough to start from, and to correct by.

    The probit of its chance to be above the limit is z(t) = (mt - w)/√(s² + ct + Pt²).
    """

    gap: Floats
    rate: Floats
    var: Floats
    rate_var: Floats
    mixed: Floats

    def rows(self, rows: Ints) -> _Line:
        return _Line(*(column[rows] for column in self))

    def probit(self, t: Floats) -> Floats:
        spread = np.sqrt(np.maximum(self.var + t * (self.mixed + t * self.rate_var), 1e-12))
        return (self.rate * t - self.gap) / spread

    def when(self, z: Floats) -> Floats:
        """The instant of a probit [day]: the quadratic's root on its side of w/m; NaN where there is none."""
        zz = z * z
        a = self.rate * self.rate - zz * self.rate_var
        b = 2.0 * self.rate * self.gap + zz * self.mixed
        c = self.gap * self.gap - zz * self.var
        root = b + np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(z < 0.0, 2.0 * c / root, np.where(a > 0.0, root / (2.0 * a), np.nan))


def _ahead(
    present: Present, line: _Line, rows: Ints, wanted: Floats, diffusion: Floats, last: Floats
) -> Floats:
    """Instants [day] at which P(passed) of ``rows`` reaches ``wanted``, (pairs,); each is known to lie ahead.

    The line's probit differs from the true one by little, and by little more a step further: its inverse at the
    wanted probit, less the difference where it was last asked, converges in two or three steps; what does not is
    halved in the logarithm of time. Done where P(passed) is right to 0.0003.
    """
    z = ndtri(wanted)
    low, high = (
        np.full(len(rows), np.log(_SHIFT_DAYS)),
        np.full(len(rows), np.log(HORIZON_DAYS + _SHIFT_DAYS)),
    )
    at = np.full(len(rows), HORIZON_DAYS)
    target = z + line.probit(at) - _probit(last[rows])
    left = np.arange(len(rows))
    for step in range(_STEPS):
        mine, part = rows[left], line.rows(left)
        guess = np.log(np.maximum(part.when(target[left]), 0.0) + _SHIFT_DAYS)
        inside = (guess > low[left]) & (guess < high[left])
        if step >= _TRUSTED:
            inside &= step % 2 == 0
        guess = np.where(inside, guess, (low[left] + high[left]) / 2)
        t = np.exp(guess) - _SHIFT_DAYS
        f = present.crossed(t, diffusion[mine], mine)
        at[left] = t
        above = f >= wanted[left]
        high[left], low[left] = np.where(above, guess, high[left]), np.where(above, low[left], guess)
        target[left] = z[left] + part.probit(t) - _probit(f)
        left = left[np.abs(f - wanted[left]) > _SURE]
        if not len(left):
            break
    return at


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
