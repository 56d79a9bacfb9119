"""Baselines beside the estimate, in the form of assessments: what a simple reader and an oracle would say.

The line takes the last reading at its word and draws a straight line through the daily medians of a fortnight;
it keeps the last slope that rose until a week of the new cycle is seen. The oracle is a Kalman filter that is told
what no estimator can know: how fast the layers really grow, every pump-out, and how far off the device is, for how
long: bias, variance and persistence of its errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from simulators.heard import Heard
from simulators.score_levels import HORIZON_S, QUANTILES
from simulators.truth import Line, iso
from simulators.truthbook import DAY_S, Book, Record, slot

Floats = NDArray[np.float64]
WINDOW_DAYS: Final = 14
FEWEST_DAYS: Final = 7
FALL_RATIO: Final = 0.6  # a daily median below this part of the one before …
FALL_POINTS: Final = 0.03  # … and lower by this much of the base depth begins a new line
LEAST_SD_MM: Final = 0.1
WEEK: Final = 7
MOST_STAYS: Final = 0.99


@dataclass(frozen=True, slots=True)
class _Days:
    """Readings by local midnight (k,): median of the day before it, and the last reading [mm], NaN unknown."""

    midnight_s: Floats
    fog: Floats
    solids: Floats
    last_fog: Floats
    last_solids: Floats


def _days(record: Record, heard: Heard) -> _Days | None:
    """None where the device never speaks of one of the layers."""
    fog, solids = 1e3 * heard.fog_m, 1e3 * heard.solids_m
    if not (np.isfinite(fog).any() and np.isfinite(solids).any()):
        return None
    # A device that sees both layers, and speaks of one, finds the other too thin to see.
    fog, solids = (
        np.where(np.isnan(fog) & np.isfinite(solids), 0.0, fog),
        np.where(np.isnan(solids) & np.isfinite(fog), 0.0, solids),
    )
    known = np.isfinite(fog)
    at_s, received_s = heard.at_s[known], heard.received_s[known]
    fog, solids = fog[known], solids[known]
    midnight_s = np.array(record.midnights_s)
    out = np.full((4, midnight_s.size), np.nan)
    first, last = np.searchsorted(at_s, midnight_s - DAY_S), np.searchsorted(at_s, midnight_s)
    for place in range(midnight_s.size):
        here = np.arange(first[place], last[place])
        here = here[received_s[here] <= midnight_s[place]]
        if here.size:
            out[:, place] = np.median(fog[here]), np.median(solids[here]), fog[here[-1]], solids[here[-1]]
        elif place:
            out[2:, place] = out[2:, place - 1]
    return _Days(midnight_s, *out)


def _line(
    record: Record,
    at_s: float,
    fog: float,
    solids: float,
    base_mm: float,
    ahead_s: Mapping[str, float] | None,
) -> Line:
    """An assessment; ``ahead_s`` are the quantiles of the time to the passage, infinity where none comes.

    They are None where no forecast can be made.
    """
    return {
        "at": iso(at_s),
        "type": "assessment",
        "interceptor": record.interceptor,
        "compartment": record.compartment,
        "fog_mm": fog,
        "solids_mm": solids,
        "fraction": (fog + solids) / base_mm,
        "crossing": None
        if ahead_s is None
        else {name: iso(at_s + value) if value <= HORIZON_S else None for name, value in ahead_s.items()},
    }


def line_forecasts(book: Book, heard: Mapping[str, Heard]) -> Iterator[Line]:
    """The last reading, and a straight line to the limit: all its quantiles are the same instant."""
    for name, record in book.records.items():
        days = _days(record, heard[name]) if name in heard else None
        if days is None:
            continue
        base_mm = 1e3 * heard[name].base_m
        filled = (days.fog + days.solids) / base_mm
        begin, slope = 0, float("nan")
        for place, at_s in enumerate(days.midnight_s.tolist()):
            if place and _fell(filled, place):
                begin = place
            fog, solids = float(days.last_fog[place]), float(days.last_solids[place])
            if not np.isfinite(fog + solids):
                continue
            slope = _slope(filled[max(begin, place - WINDOW_DAYS + 1) : place + 1], slope)
            when_s = _straight(book.limit - (fog + solids) / base_mm, slope)
            ahead_s = None if when_s is None else {each: when_s for each, _ in QUANTILES}
            yield _line(record, at_s, fog, solids, base_mm, ahead_s)


def _fell(filled: Floats, place: int) -> bool:
    before, now = filled[place - 1], filled[place]
    return bool(now < FALL_RATIO * before and before - now > FALL_POINTS)


def _slope(filled: Floats, before: float) -> float:
    """Least squares through daily values [1/day]; ``before`` where they are fewer than seven, or do not rise."""
    day = np.flatnonzero(np.isfinite(filled))
    if day.size < FEWEST_DAYS:
        return before
    away = day - day.mean()
    found = float(away @ filled[day] / (away @ away))
    return found if found > 0.0 else before


def _straight(left: float, slope: float) -> float | None:
    """Time to the limit [s] that is ``left`` above; 0 where it is passed, None where no line has risen yet."""
    if left <= 0.0:
        return 0.0
    return left / slope * DAY_S if slope > 0.0 else None


# ---- the oracle --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """What the oracle is told of one layer, by day (k,) or for good; [mm], [mm/day], [mm²], [mm²/day].

    ``growth`` is the true growth of each day, evened over a week; ``ahead`` its mean over the rest of the cycle.
    An error of the device has the variance ``noise`` and keeps the part ``stays`` of itself from day to day.
    """

    growth: Floats
    ahead: Floats
    unrest: float
    bias: float
    noise: float
    stays: float


@dataclass(frozen=True, slots=True)
class _Filtered:
    """One layer at each midnight, arrays (k,): depth [mm], its variance [mm²], and what is known of growth."""

    depth: Floats
    variance: Floats
    known: _Known


def oracle_forecasts(book: Book, heard: Mapping[str, Heard]) -> Iterator[Line]:
    """A Kalman filter over the daily medians with every parameter true; the state is still to be found."""
    for name, record in book.records.items():
        days = _days(record, heard[name]) if name in heard else None
        if days is None or days.midnight_s.size < FEWEST_DAYS:
            continue
        cycle = np.searchsorted(np.array(record.starts_s), days.midnight_s)
        fog, solids = (_filter(record, days, cycle, layer) for layer in ("fog", "solids"))
        base_mm = 1e3 * heard[name].base_m
        depth, variance = fog.depth + solids.depth, fog.variance + solids.variance
        ahead, unrest = fog.known.ahead + solids.known.ahead, fog.known.unrest + solids.known.unrest
        for place, at_s in enumerate(days.midnight_s.tolist()):
            if not np.isfinite(depth[place]):
                continue
            left_mm = book.limit * base_mm - float(depth[place])
            ahead_s = _passage(left_mm, float(ahead[place]), float(variance[place]), unrest)
            line = _line(record, at_s, float(fog.depth[place]), float(solids.depth[place]), base_mm, ahead_s)
            yield line | {"fraction_sd": float(np.sqrt(variance[place])) / base_mm}


def _know(record: Record, days: _Days, cycle: NDArray[np.int64], layer: str) -> _Known:
    true = np.array([getattr(record.depths[slot(at_s)], f"{layer}_mm") for at_s in record.midnights_s])
    told: Floats = getattr(days, layer)
    growth, ahead, away = (np.zeros(true.size) for _ in range(3))
    for one in np.unique(cycle).tolist():
        here = np.flatnonzero(cycle == one)
        grown = np.diff(true[here])
        if grown.size == 0:
            continue
        width = min(WEEK, grown.size)
        even = np.convolve(grown, np.ones(width), "same") / np.convolve(
            np.ones(grown.size), np.ones(width), "same"
        )
        growth[here[1:]], away[here[1:]] = even, grown - even
        growth[here[0]] = even[0]
        ahead[here[:-1]] = np.cumsum(grown[::-1])[::-1] / np.arange(grown.size, 0, -1)
        ahead[here[-1]] = even[-1]
    same = np.concatenate([[False], cycle[1:] == cycle[:-1]])
    off = np.where(same, told - (true + np.roll(true, 1)) / 2.0, np.nan)
    bias = float(np.nanmean(off)) if np.isfinite(off).any() else 0.0
    off = off - bias
    pairs = np.isfinite(off[1:]) & np.isfinite(off[:-1])
    noise = max(float(np.nanmean(off**2)) if np.isfinite(off).any() else 0.0, LEAST_SD_MM**2)
    stays = float(np.mean(off[1:][pairs] * off[:-1][pairs])) / noise if pairs.any() else 0.0
    unrest = float(np.mean(away[same] ** 2)) if same.any() else 0.0
    return _Known(growth, ahead, unrest, bias, noise, min(max(stays, 0.0), MOST_STAYS))


def _filter(record: Record, days: _Days, cycle: NDArray[np.int64], layer: str) -> _Filtered:
    """Depth and the device's error together: both are in what it says, and only one stays over a pump-out."""
    known = _know(record, days, cycle, layer)
    told: Floats = getattr(days, layer)
    out = np.full((2, told.size), np.nan)
    state = np.array([np.nan, 0.0])
    cover = np.diag([np.nan, known.noise])
    for place in range(told.size):
        growth = float(known.growth[place])
        served = place > 0 and cycle[place] != cycle[place - 1]
        state = np.array([state[0] + growth, known.stays * state[1]])
        cover = cover * np.array([[1.0, known.stays], [known.stays, known.stays**2]])
        cover = cover + np.diag([known.unrest, known.noise * (1.0 - known.stays**2)])
        if served:
            service = record.services[int(cycle[place]) - 1]
            left_mm = service.after_fog_mm if layer == "fog" else service.after_solids_mm
            since_days = max(days.midnight_s[place] - service.end_s, 0.0) / DAY_S
            state[0] = left_mm + growth * since_days
            cover = np.diag([known.unrest, cover[1, 1]])
        seen = float(told[place]) - known.bias + growth / 2.0  # a day's median stands for its noon
        if np.isfinite(seen) and not served:
            state, cover = _see(state, cover, seen, known.noise)
        out[:, place] = state[0], cover[0, 0]
    out[0] = np.where(np.isfinite(out[0]), np.maximum(out[0], 0.0), np.nan)
    return _Filtered(out[0], out[1], known)


def _see(state: Floats, cover: Floats, seen: float, noise: float) -> tuple[Floats, Floats]:
    """Take in depth + error = ``seen``; the first reading is all that is known of the depth."""
    if not np.isfinite(state[0]):
        return np.array([seen, 0.0]), np.array([[noise, -noise], [-noise, noise]])
    both = cover.sum(axis=1)
    gain = both / (both.sum() + LEAST_SD_MM**2)
    return state + gain * (seen - state.sum()), cover - np.outer(gain, both)


def _passage(left_mm: float, rate: float, variance: float, unrest: float) -> dict[str, float]:
    """Quantiles of the time [s] at which a level ``left_mm`` above is passed at a known rate [mm/day].

    At the quantile z the depth is as far from the level as z deviations: (rate t - left)² = z² (P + q t).
    """
    if rate <= 0.0:
        return {name: (0.0 if left_mm <= 0.0 else float("inf")) for name, _ in QUANTILES}
    out = {}
    for name, part in QUANTILES:
        z = float(ndtri(part))
        half = left_mm * rate + z * z * unrest / 2.0
        root = np.sqrt(max(half * half - rate * rate * (left_mm * left_mm - z * z * variance), 0.0))
        out[name] = max(0.0, float(half + np.sign(z) * root) / rate**2) * DAY_S
    return out
