"""Baselines beside the estimate, in the form of assessments: what a simple reader and an oracle would say.

The line takes the last reading at its word and draws a straight line through the daily medians of a fortnight.
The oracle is a Kalman filter that is told what no estimator can know: each cycle's mean rate, the noise and the
bias of each device, and every pump-out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from simulators.heard import Heard
from simulators.score_levels import HORIZON_S, LIMIT, QUANTILES
from simulators.truth import Line, iso
from simulators.truthbook import DAY_S, Book, Record, slot

Floats = NDArray[np.float64]
WINDOW_DAYS: Final = 14
FEWEST_DAYS: Final = 3
FALL_RATIO: Final = 0.6  # a daily median below this part of the one before …
FALL_POINTS: Final = 0.03  # … and lower by this much of the base depth begins a new line
LEAST_SD_MM: Final = 0.1


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
    record: Record, at_s: float, fog: float, solids: float, base_mm: float, ahead_s: Mapping[str, float]
) -> Line:
    """An assessment; ``ahead_s`` are the quantiles of the time to the passage, infinity where none comes."""
    return {
        "at": iso(at_s),
        "type": "assessment",
        "interceptor": record.interceptor,
        "compartment": record.compartment,
        "fog_mm": fog,
        "solids_mm": solids,
        "fraction": (fog + solids) / base_mm,
        "crossing": {
            name: iso(at_s + value) if value <= HORIZON_S else None for name, value in ahead_s.items()
        },
    }


def line_forecasts(book: Book, heard: Mapping[str, Heard]) -> Iterator[Line]:
    """The last reading, and a straight line to the limit: all its quantiles are the same instant."""
    for name, record in book.records.items():
        days = _days(record, heard[name]) if name in heard else None
        if days is None:
            continue
        base_mm = 1e3 * heard[name].base_m
        filled = (days.fog + days.solids) / base_mm
        begin = 0
        for place, at_s in enumerate(days.midnight_s.tolist()):
            if place and _fell(filled, place):
                begin = place
            fog, solids = float(days.last_fog[place]), float(days.last_solids[place])
            if not np.isfinite(fog + solids):
                continue
            slope = _slope(filled[max(begin, place - WINDOW_DAYS + 1) : place + 1])
            ahead_s = _straight((fog + solids) / base_mm, slope)
            yield _line(record, at_s, fog, solids, base_mm, {each: ahead_s for each, _ in QUANTILES})


def _fell(filled: Floats, place: int) -> bool:
    before, now = filled[place - 1], filled[place]
    return bool(now < FALL_RATIO * before and before - now > FALL_POINTS)


def _slope(filled: Floats) -> float:
    """Least squares through daily values [1/day]; NaN from fewer than three."""
    day = np.flatnonzero(np.isfinite(filled))
    if day.size < FEWEST_DAYS:
        return float("nan")
    away = day - day.mean()
    return float(away @ filled[day] / (away @ away))


def _straight(filled: float, slope: float) -> float:
    """Time to the limit [s]; 0 where it is passed, infinity where the line does not rise."""
    if filled >= LIMIT:
        return 0.0
    return (LIMIT - filled) / slope * DAY_S if slope > 0.0 else float("inf")


# ---- the oracle --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """What the oracle is told of one layer: rate by day (k,), and noise; [mm], [mm/day], [mm²], [mm²/day]."""

    rate: Floats
    bias: float
    noise: float
    unrest: float


def oracle_forecasts(book: Book, heard: Mapping[str, Heard]) -> Iterator[Line]:
    """A Kalman filter over the daily medians with every parameter true; the state is still to be found."""
    for name, record in book.records.items():
        days = _days(record, heard[name]) if name in heard else None
        if days is None or days.midnight_s.size < FEWEST_DAYS:
            continue
        cycle = np.searchsorted(np.array(record.starts_s), days.midnight_s)
        found = [_filter(record, days, cycle, layer) for layer in ("fog", "solids")]
        base_mm = 1e3 * heard[name].base_m
        for place, at_s in enumerate(days.midnight_s.tolist()):
            (fog, fog_var, fog_rate, fog_unrest), (solids, solids_var, solids_rate, solids_unrest) = (
                [float(column[place]) for column in one] for one in found
            )
            if not np.isfinite(fog + solids):
                continue
            ahead_s = _passage(
                LIMIT * base_mm - fog - solids,
                fog_rate + solids_rate,
                fog_var + solids_var,
                fog_unrest + solids_unrest,
            )
            line = _line(record, at_s, fog, solids, base_mm, ahead_s)
            yield line | {"fraction_sd": float(np.sqrt(fog_var + solids_var)) / base_mm}


def _know(record: Record, days: _Days, cycle: NDArray[np.int64], layer: str) -> _Known:
    true = np.array([getattr(record.depths[slot(at_s)], f"{layer}_mm") for at_s in record.midnights_s])
    told: Floats = getattr(days, layer)
    same = cycle[1:] == cycle[:-1]
    growth = np.diff(true)
    overall = float(growth[same].mean()) if same.any() else 0.0
    means = {
        one: float(growth[same & (cycle[1:] == one)].mean()) for one in np.unique(cycle[1:][same]).tolist()
    }
    rate = np.array([means.get(one, overall) for one in cycle.tolist()])
    middle = (true[1:] + true[:-1]) / 2.0
    off = (told[1:] - middle)[same & np.isfinite(told[1:])]
    away = (growth - rate[1:])[same]
    return _Known(
        rate,
        bias=float(off.mean()) if off.size else 0.0,
        noise=max(float(off.var()) if off.size else 0.0, LEAST_SD_MM**2),
        unrest=float(away.var()) if away.size else 0.0,
    )


def _filter(
    record: Record, days: _Days, cycle: NDArray[np.int64], layer: str
) -> tuple[Floats, Floats, Floats, Floats]:
    """Depth [mm] and variance [mm²] of one layer at each midnight, with rate and unrest, shape (k,) each."""
    known = _know(record, days, cycle, layer)
    told: Floats = getattr(days, layer)
    depth, variance = np.full(told.size, np.nan), np.full(told.size, np.nan)
    now, spread = float("nan"), float("nan")
    for place in range(told.size):
        rate = float(known.rate[place])
        served = place > 0 and cycle[place] != cycle[place - 1]
        if served:
            service = record.services[int(cycle[place]) - 1]
            now = service.after_fog_mm if layer == "fog" else service.after_solids_mm
            now += rate * max(days.midnight_s[place] - service.end_s, 0.0) / DAY_S
            spread = known.unrest
        else:
            now, spread = now + rate, spread + known.unrest
        seen = told[place] - known.bias + rate / 2.0  # a day's median stands for its noon
        if np.isfinite(seen) and not served:
            gain = spread / (spread + known.noise) if np.isfinite(now) else 1.0
            now = seen if gain == 1.0 else now + gain * (seen - now)
            spread = known.noise if gain == 1.0 else (1.0 - gain) * spread
        now = max(now, 0.0) if np.isfinite(now) else now
        depth[place], variance[place] = now, spread
    return depth, variance, known.rate, np.full(told.size, known.unrest)


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
