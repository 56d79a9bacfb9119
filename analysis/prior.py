"""What a fleet knows before a site has shown it: its rates by kitchen, learned once a day from all sites.

The fold never sees what is learned here: a state carries the readings and the fixed start of
:data:`analysis.estimate.DEFAULT_PRIOR`, and :func:`exchange` puts the day's prior in that start's place when
the state is read. So folding in pieces, again or after a restart gives the same state whatever was learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from analysis.estimate import FOG, Kalman, RatePrior
from analysis.fleet import Fleet
from analysis.model import Floats, Ints
from analysis.state import FleetState

#: The start's log-variance 0.7² = 0.49, split over sites of a kitchen, kitchens, and the fleet's own mean.
SITES_VAR: Final = 0.25
KITCHENS_VAR: Final = 0.12
FLEET_VAR: Final = 0.12
SITES_WEIGHT: Final = 10.0  # degrees of freedom that the start's spread over sites counts as
KITCHENS_WEIGHT: Final = 4.0
SHARE_WEIGHT: Final = 5.0  # sites that the start's share of grease counts as
LEAST_DAYS: Final = 7  # of own readings in the cycle …
LEAST_CV: Final = 0.5  # … and least sureness of the own rate, to teach others


@dataclass(frozen=True, slots=True)
class FleetPrior:
    """Rates to expect: of the ``fleet``, where a kitchen is not known, and of each of its ``kitchens``."""

    fleet: RatePrior = field(default_factory=RatePrior)
    kitchens: Mapping[str, RatePrior] = field(default_factory=dict)


class Rates(NamedTuple):
    """Mean [m/day] and variance [(m/day)²] of the rate to expect of each track and layer, shape (tracks, 2)."""

    mean: Floats
    var: Floats


class Shrunk(NamedTuple):
    """Normal-normal estimate of log rates: a kitchen's ``mean`` and ``var`` (kitchens,), and what is above it."""

    mean: Floats
    var: Floats
    fleet_mean: float
    fleet_var: float
    sites: float  # variance between sites of one kitchen
    kitchens: float  # variance between kitchens


def rates(fleet: Fleet, prior: FleetPrior) -> Rates:
    """Lay a prior out over the tracks of a fleet; the normal has the lognormal's moments."""
    table = [prior.kitchens.get(name, prior.fleet).moments() for name in fleet.kitchens]
    mean = np.array([one[0] for one in table], dtype=np.float64).reshape(-1, 2)
    sd = np.array([one[1] for one in table], dtype=np.float64).reshape(-1, 2)
    base = fleet.track_base[:, None]
    return Rates(mean[fleet.track_kitchen] * base, (sd[fleet.track_kitchen] * base) ** 2)


def start(base: Floats, prior: RatePrior) -> Rates:
    """The prior that every state began with, by tracks of ``base`` (n,) [m]."""
    mean, sd = prior.moments()
    return Rates(base[:, None] * np.array(mean), (base[:, None] * np.array(sd)) ** 2)


def exchange(k: Kalman, old: Rates, new: Rates) -> Kalman:
    """The filter as it would be, had its rate been expected as ``new`` instead of ``old``; arrays (n, 2).

    Bayes' rule for normals: the posterior times N(r; new) / N(r; old), which draws the depth along by its
    covariance. Where the filter is wider than the old prior, a service having widened it, nothing is own and the
    new prior stands.
    """
    own = np.maximum(1.0 / k.p11 - 1.0 / old.var, 0.0)
    told = np.where(own > 0.0, k.r / k.p11 - old.mean / old.var, 0.0)
    p11 = 1.0 / (own + 1.0 / new.var)
    r = p11 * (told + new.mean / new.var)
    slope = k.p01 / k.p11
    return Kalman(
        k.x + slope * (r - k.r),
        r,
        k.p00 + slope * slope * (p11 - k.p11),
        slope * p11,
        p11,
    )


def own_share(p11: Floats, expected: Floats) -> Floats:
    """Share of the information on the whole rate that is the interceptor's own, (n,) in 0 … 1.

    ``p11`` and the prior's variance ``expected`` have shape (n, 2) [(m/day)²]: information is 1 / variance.
    """
    return np.asarray(np.clip(1.0 - p11.sum(axis=1) / expected.sum(axis=1), 0.0, 1.0))


def learn(fleet: Fleet, state: FleetState) -> FleetPrior:
    """The prior that the rates seen so far give, by kitchen; without any it is the start.

    Each site tells its own rate, the start's part taken out, once a week of readings has made it sure enough.
    """
    track = state.track
    begun = start(fleet.track_base, fleet.prior)
    sure = track.seen.all(axis=1) & (track.days >= LEAST_DAYS)
    own = np.maximum(1.0 / track.p11 - 1.0 / begun.var, 1e-12)
    rate = (track.r / track.p11 - begun.mean / begun.var) / own
    total, var = rate.sum(axis=1), (1.0 / own).sum(axis=1)
    sure &= (rate > 0.0).all(axis=1) & (var < (LEAST_CV * total) ** 2)
    rows = np.flatnonzero(sure)
    logs = np.log(total[rows] / fleet.track_base[rows])
    group = fleet.track_kitchen[rows]
    shrunk = shrink(
        logs, var[rows] / total[rows] ** 2, group, len(fleet.kitchens), math.log(fleet.prior.median)
    )
    shares = _shares(rate[rows, FOG] / total[rows], group, len(fleet.kitchens), fleet.prior.fog_share)
    spread = shrunk.sites + shrunk.kitchens + shrunk.fleet_var
    whole = RatePrior(math.exp(shrunk.fleet_mean), math.sqrt(spread), float(shares[-1]))
    return FleetPrior(
        whole,
        {
            name: RatePrior(math.exp(mean), math.sqrt(shrunk.sites + var), share)
            for name, mean, var, share in zip(
                fleet.kitchens, shrunk.mean.tolist(), shrunk.var.tolist(), shares.tolist(), strict=False
            )
            if name
        },
    )


def shrink(logs: Floats, var: Floats, group: Ints, count: int, begun: float) -> Shrunk:
    """Normal-normal empirical Bayes in two steps: sites shrink to their kitchen, kitchens to the fleet.

    ``logs`` (n,) are log rates of variance ``var``, ``group`` their kitchen out of ``count``, ``begun`` the mean
    of the log rate before any. Spreads by DerSimonian and Laird (1986, Controlled Clinical Trials 7:177), averaged
    with the start's by degrees of freedom.
    """
    sites = _spread(logs, var, group, count, SITES_VAR, SITES_WEIGHT)
    weight = 1.0 / (var + sites)
    total = np.bincount(group, weight, count)
    seen = total > 0.0
    own = np.bincount(group, weight * logs, count) / np.where(seen, total, 1.0)
    own_var = 1.0 / np.where(seen, total, 1.0)
    one = np.zeros(int(seen.sum()), dtype=np.int64)
    kitchens = _spread(own[seen], own_var[seen], one, 1, KITCHENS_VAR, KITCHENS_WEIGHT)
    between = np.where(seen, 1.0 / (own_var + kitchens), 0.0)
    fleet_var = 1.0 / (1.0 / FLEET_VAR + float(between.sum()))
    fleet_mean = fleet_var * (begun / FLEET_VAR + float((between * own).sum()))
    above = 1.0 / (kitchens + fleet_var)
    var_k = 1.0 / (above + np.where(seen, total, 0.0))
    mean_k = var_k * (above * fleet_mean + np.where(seen, total * own, 0.0))
    return Shrunk(mean_k, var_k, fleet_mean, fleet_var, sites, kitchens)


def _spread(logs: Floats, var: Floats, group: Ints, count: int, begun: float, weight: float) -> float:
    """Variance between the members of a group beyond their own, pooled over groups."""
    w = 1.0 / var
    total = np.bincount(group, w, count)
    seen = total > 0.0
    safe = np.where(seen, total, 1.0)
    mean = np.bincount(group, w * logs, count) / safe
    free = float(len(logs) - seen.sum())
    if free <= 0.0:
        return begun
    q = float((w * (logs - mean[group]) ** 2).sum())
    c = float((total - np.bincount(group, w * w, count) / safe).sum())
    return (weight * begun + free * max(0.0, (q - free) / c)) / (weight + free)


def _shares(share: Floats, group: Ints, count: int, begun: float) -> Floats:
    """Share of grease by kitchen, and last that of the fleet, drawn to the start's, (count + 1,)."""
    many = np.bincount(group, minlength=count)
    whole = (SHARE_WEIGHT * begun + share.sum()) / (SHARE_WEIGHT + len(share))
    by_kitchen = (SHARE_WEIGHT * whole + np.bincount(group, share, count)) / (SHARE_WEIGHT + many)
    return np.asarray(np.clip(np.r_[by_kitchen, whole], 0.2, 0.8))
