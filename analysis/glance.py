"""A first look at many interceptors: cheap, vectorised, and enough to tell where nothing can have changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis import health
from analysis.assess import HIGH_FOR_S, TAMPER_FOR_S, outlook
from analysis.fleet import Fleet
from analysis.model import Floats, Ints
from analysis.state import Bools, FleetState


class Glance(NamedTuple):
    """Shape (n,) each: the least and greatest P(over the limit) of the monitored compartments (NaN where
    none is known), and whether any health flag that matters to a decision is up."""

    p_least: Floats
    p_most: Floats
    remark: Bools


def glance(fleet: Fleet, state: FleetState, who: Ints, now_s: float) -> Glance:
    """Look at the interceptors ``who`` (n,) at ``now_s`` [s]; each must have a sensor."""
    tracks, first = _joined(fleet.tracks_of, who)
    sensors, sensor_first = _joined(fleet.sensors_of, who)
    p = outlook(fleet, state, tracks, now_s).p_over
    s, t = state.sensor, state.track
    last = s.last_s[sensors]
    still = last - s.same_since_s[sensors]
    moved = s.temp_high[sensors] - s.temp_low[sensors]
    stuck = (still > health.STUCK_S) & (s.same_count[sensors] >= health.STUCK_COUNT)
    ill = np.isfinite(s.low_battery_s[sensors]) | np.isfinite(s.out_of_range_s[sensors])
    ill |= stuck & (moved > health.STUCK_KELVIN)
    high = t.last_s[tracks] - t.high_s[tracks] >= HIGH_FOR_S
    odd = high | (now_s - t.tamper_s[tracks] < TAMPER_FOR_S)
    return Glance(
        np.fmin.reduceat(p, first),
        np.fmax.reduceat(p, first),
        np.logical_or.reduceat(ill, sensor_first) | np.logical_or.reduceat(odd, first),
    )


def _joined(groups: tuple[Ints, ...], who: Ints) -> tuple[Ints, Ints]:
    """The rows of these interceptors one after the other, and where each begins."""
    parts = [groups[w] for w in who.tolist()]
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    return np.concatenate(parts), np.cumsum(sizes) - sizes
