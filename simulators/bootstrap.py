"""Statistics of clustered samples, each with its cluster bootstrap interval.

Samples of one interceptor are not independent, so whole interceptors are drawn with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS: Final = 1000
SEED: Final = 20261201
LEVEL: Final = 0.95  # of the bootstrap interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and its interval; the ends are None where fewer than two clusters exist."""

    value: float
    low: float | None
    high: float | None


@lru_cache(maxsize=64)
def weights(clusters: int) -> Floats:
    """How often each cluster is drawn, shape (DRAWS, clusters); the same at every call."""
    rng = np.random.default_rng((SEED, clusters))
    drawn = rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=DRAWS)
    return drawn.astype(np.float64)


def ratio(cluster: NDArray[np.int64], top: Floats, bottom: Floats) -> Estimate | None:
    """Sum of ``top`` over sum of ``bottom``; a mean where ``bottom`` is 1. Arrays of shape (n,).

    Returns
    -------
    Estimate or None
        None where the sum of ``bottom`` is 0.
    """
    if not bottom.sum() > 0.0:
        return None
    labels, place = np.unique(cluster, return_inverse=True)
    tops = np.bincount(place, top, labels.size)
    bottoms = np.bincount(place, bottom, labels.size)
    value = float(tops.sum() / bottoms.sum())
    if labels.size < 2:
        return Estimate(value, None, None)
    drawn = weights(labels.size)
    under = drawn @ bottoms
    with np.errstate(divide="ignore", invalid="ignore"):
        again = np.where(under > 0.0, (drawn @ tops) / under, np.nan)
    return Estimate(value, *_ends(again))


def quantile(cluster: NDArray[np.int64], value: Floats, seen: Floats, part: float) -> Estimate | None:
    """Quantile ``part`` of values of which some are only lower bounds (``seen`` 0): Kaplan and Meier 1958.

    The smallest value at which at most 1 - ``part`` is left; the largest value where that is never reached.
    """
    if value.size == 0:
        return None
    labels, place = np.unique(cluster, return_inverse=True)
    order = np.lexsort((-seen, value))  # what was seen at a value comes before what was lost there
    place, value, seen = place[order], value[order], seen[order]
    point = _at(np.ones((1, value.size)), value, seen, part)
    if labels.size < 2:
        return Estimate(float(point[0]), None, None)
    again = _at(weights(labels.size)[:, place], value, seen, part)
    return Estimate(float(point[0]), *_ends(again))


def _at(weight: Floats, value: Floats, seen: Floats, part: float) -> Floats:
    """The quantile for each row of ``weight`` (b, n); NaN where a row is all zero."""
    left = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(left > 0.0, 1.0 - weight * seen / left, 1.0)
    reached = np.cumprod(kept, axis=1) <= 1.0 - part + 1e-12
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), value.size - 1)
    return np.where(weight.sum(axis=1) > 0.0, value[first], np.nan)


def _ends(again: Floats) -> tuple[float | None, float | None]:
    good = again[np.isfinite(again)]
    if good.size == 0:
        return None, None
    low, high = np.quantile(good, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return float(low), float(high)
