"""Growth processes fitted to whole paths by maximum likelihood: what a forecast of a crossing may be held against.

Wiener with a fixed and with a random drift (Si et al. 2013, MSSP), inverse Gaussian, and inverse Gaussian with gamma
frailty (Morita et al. 2021, doi 10.1002/qre.2762). They know paths to their end; the estimator, which does not,
forecasts by :mod:`analysis.forecast` alone, and so do the checks that use these fits. Units of depth and time are the
caller's; increments are arrays (paths, steps), NaN where a path is shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import bdtr, gammaln, kve, log_ndtr, roots_legendre
from scipy.stats import gamma

from analysis.model import Bools, Floats, Ints

_LOG_2PI: Final = float(np.log(2.0 * np.pi))
_NODES, _WEIGHTS = roots_legendre(2000)


class Wiener(NamedTuple):
    """x(t) - x(0) = drift·t + √diffusion·B(t), the drift of a path ~ N(``drift``, ``drift_var``)."""

    drift: float
    drift_var: float
    diffusion: float
    log_likelihood: float

    def posterior(self, elapsed: Floats, grown: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the drift of paths that have ``grown`` so much in the time ``elapsed``."""
        if self.drift_var == 0.0:
            return np.full_like(grown, self.drift), np.zeros_like(grown)
        precision = 1.0 / self.drift_var + elapsed / self.diffusion
        mean = (self.drift / self.drift_var + grown / self.diffusion) / precision
        return mean, 1.0 / precision


class InverseGaussian(NamedTuple):
    """Increments over dt ~ IG(mean θ·dt, shape η·(θ·dt)²); ``frailty_var`` ξ of a gamma frailty of mean 1, or 0."""

    theta: float
    eta: float
    frailty_var: float
    log_likelihood: float

    @property
    def aic(self) -> float:
        """Akaike's criterion; the frailty's variance counts as a parameter where there is one."""
        return 2.0 * (3 if self.frailty_var else 2) - 2.0 * self.log_likelihood

    def reached(self, t: Floats, gap: float) -> Floats:
        """P(a new path has grown by ``gap`` until ``t``): over the frailty by quadrature of its quantiles."""
        mean = self.theta * t
        hazard = -_log_survival(np.full_like(t, gap), mean, self.eta * mean**2)
        if self.frailty_var == 0.0:
            return np.asarray(np.exp(-hazard))
        xi = self.frailty_var
        frailty = gamma.ppf((_NODES + 1.0) / 2.0, 1.0 / xi, scale=xi)
        return np.asarray(np.exp(-hazard[..., None] / frailty) @ _WEIGHTS / 2.0)


def fit_fixed(dt: Floats, dx: Floats) -> Wiener:
    """One drift for all paths; closed form."""
    known = np.isfinite(dx)
    t, x = dt[known], dx[known]
    drift = float(x.sum() / t.sum())
    diffusion = float(np.mean((x - drift * t) ** 2 / t))
    likelihood = -0.5 * float(len(x) * (_LOG_2PI + np.log(diffusion) + 1.0) + np.log(t).sum())
    return Wiener(drift, 0.0, diffusion, likelihood)


def fit_random(dt: Floats, dx: Floats) -> Wiener:
    """A drift for each path, normal among them.

    A path's n increments say the same as its growth X over T and the spread W = Σ dx²/dt - X²/T about it:
    X ~ N(mT, PT² + σ²T), W/σ² ~ χ² of n - 1 degrees; m is profiled out, σ² and P are sought.
    """
    steps = np.isfinite(dx).sum(axis=1)
    span, grown = np.nansum(np.where(np.isnan(dx), np.nan, dt), axis=1), np.nansum(dx, axis=1)
    spread = np.nansum(dx**2 / dt, axis=1) - grown**2 / span
    constant = steps.sum() * _LOG_2PI + np.log(dt[np.isfinite(dx)]).sum()

    def mean(diffusion: float, drift_var: float) -> float:
        weight = 1.0 / (diffusion + drift_var * span)
        return float((grown * weight).sum() / (span * weight).sum())

    def deviance(logs: Floats) -> float:
        diffusion, drift_var = np.exp(logs)
        whole = diffusion + drift_var * span
        off = (grown - mean(diffusion, drift_var) * span) ** 2 / (span * whole)
        each = (steps - 1) * np.log(diffusion) + np.log(whole) + spread / diffusion + off
        return float(constant + each.sum())

    start = np.array([spread.sum() / (steps - 1).sum(), np.var(grown / span) + 1e-12])
    (diffusion, drift_var), lowest = _least(deviance, start)
    return Wiener(mean(diffusion, drift_var), drift_var, diffusion, -0.5 * lowest)


def fit_inverse_gaussian(dt: Floats, dx: Floats) -> InverseGaussian:
    """The inverse Gaussian process of rising paths; closed form.

    Raises
    ------
    ValueError
        A path falls or stands still.
    """
    known = _rising(dx)
    t, x = dt[known], dx[known]
    theta = float(x.sum() / t.sum())
    eta = float(len(x) / ((x - theta * t) ** 2 / x).sum())
    return InverseGaussian(theta, eta, 0.0, float(_log_density(x, theta * t, eta * (theta * t) ** 2).sum()))


def fit_gamma_frailty(dt: Floats, dx: Floats) -> InverseGaussian:
    """The same with each path's hazards divided by a frailty ~ gamma(mean 1, variance ξ).

    With h and H the hazard and cumulated hazard of an increment, a path has the density
    Πh ∫ z⁻ⁿ exp(-ΣH/z) gamma(z) dz, a modified Bessel function of the second kind of order 1/ξ - n.

    Raises
    ------
    ValueError
        A path falls or stands still.
    """
    plain = fit_inverse_gaussian(dt, dx)

    def loss(logs: Floats) -> float:
        theta, eta, xi = np.exp(logs)
        log_hazards, hazard, steps = _hazards(dt, dx, theta, eta)
        shape = 1.0 / xi
        order, argument = shape - steps, 2.0 * np.sqrt(hazard / xi)
        bessel = np.log(kve(order, argument)) - argument
        prior = np.log(2.0) + shape * np.log(shape) - gammaln(shape)
        return -float((log_hazards + prior + 0.5 * order * np.log(xi * hazard) + bessel).sum())

    (theta, eta, xi), lowest = _least(loss, np.array([plain.theta, plain.eta, 0.2]))
    return InverseGaussian(theta, eta, xi, -lowest)


def frailties(model: InverseGaussian, dt: Floats, dx: Floats) -> Floats:
    """Mean of each path's frailty given its increments (paths,): a generalised inverse Gaussian's mean."""
    _, hazard, steps = _hazards(dt, dx, model.theta, model.eta)
    order, argument = 1.0 / model.frailty_var - steps, 2.0 * np.sqrt(hazard / model.frailty_var)
    ratio = kve(order + 1.0, argument) / kve(order, argument)
    return np.asarray(np.sqrt(model.frailty_var * hazard) * ratio)


def undercovers(covered: Bools, path: Ints, *, nominal: float = 0.90, risk: float = 0.05) -> bool:
    """Whether intervals hold too seldom what they promise: a binomial test in which a path counts once.

    ``covered`` and ``path`` (forecasts,): forecasts of one path stand and fall together, so that the share they
    cover is taken as that of so many paths (analysis.md §5: count cycles, not forecasts).
    """
    paths, index = np.unique(path, return_inverse=True)
    share = np.bincount(index, weights=covered.astype(float)) / np.bincount(index)
    return bool(bdtr(np.floor(share.sum() + 1e-9), len(paths), nominal) < risk)


def _least(loss: Callable[[Floats], float], start: Floats) -> tuple[list[float], float]:
    """The positive parameters at which a function of their logarithms is least, and that least value."""
    best = minimize(
        loss, np.log(start), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 4000}
    )
    return [float(v) for v in np.exp(best.x)], float(best.fun)


def _rising(dx: Floats) -> Bools:
    known = np.isfinite(dx)
    if (dx[known] <= 0.0).any():
        raise ValueError("dx: an increment is not positive; an inverse Gaussian path only rises")
    return known


def _hazards(dt: Floats, dx: Floats, theta: float, eta: float) -> tuple[Floats, Floats, Floats]:
    """Of each path: Σ log h, Σ H, and the number of its increments."""
    mean = theta * dt
    shape = eta * mean**2
    survival = _log_survival(dx, mean, shape)
    log_hazards = np.nansum(_log_density(dx, mean, shape) - survival, axis=1)
    return log_hazards, -np.nansum(survival, axis=1), np.isfinite(dx).sum(axis=1).astype(np.float64)


def _log_density(x: Floats, mean: Floats, shape: Floats) -> Floats:
    return np.asarray(0.5 * (np.log(shape / x**3) - _LOG_2PI - shape * (x - mean) ** 2 / (mean**2 * x)))


def _log_survival(x: Floats, mean: Floats, shape: Floats) -> Floats:
    """log P(IG > x), by logarithms: both terms of the difference vanish in the tail."""
    root = np.sqrt(shape / x)
    first = log_ndtr(-root * (x / mean - 1.0))
    second = 2.0 * shape / mean + log_ndtr(-root * (x / mean + 1.0))
    return np.asarray(first + np.log1p(-np.exp(np.minimum(second - first, -1e-300))))
