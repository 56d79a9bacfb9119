"""A first look at many interceptors: cheap, vectorised, and enough to tell where nothing can have changed."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from analysis import health
from analysis.assess import HIGH_FOR_S, MOVED_FOR_S, TAMPER_FOR_S, outlook
from analysis.fleet import Fleet
from analysis.model import Bools, Floats, Ints
from analysis.prior import Rates
from analysis.state import FleetState


class Glance(NamedTuple):
    """Shape (n,) each: the least and greatest P(over the limit) of the monitored compartments (NaN where
    none is known), and whether any health flag that matters to a decision is up."""

    p_least: Floats
    p_most: Floats
    remark: Bools


BLOCK: Final = 8192  # interceptors looked at in one go: what is worked out of them stays near the processor


def glance(fleet: Fleet, state: FleetState, who: Ints, now_s: float, expected: Rates | None = None) -> Glance:
    """Look at the interceptors ``who`` (n,) at ``now_s`` [s]; each must have a sensor.

    ``expected`` as in :func:`analysis.assess.assess`.
    """
    if len(who) <= BLOCK:
        return _look(fleet, state, who, now_s, expected)
    out = Glance(np.empty(len(who)), np.empty(len(who)), np.empty(len(who), dtype=bool))
    for a in range(0, len(who), BLOCK):
        for whole, part in zip(out, _look(fleet, state, who[a : a + BLOCK], now_s, expected), strict=True):
            whole[a : a + BLOCK] = part
    return out


def _look(fleet: Fleet, state: FleetState, who: Ints, now_s: float, expected: Rates | None) -> Glance:
    tracks, first = fleet.tracks_of.rows(who)
    sensors, sensor_first = fleet.sensors_of.rows(who)
    p = outlook(fleet, state, tracks, now_s, expected).p_over
    s, t = state.sensor, state.track
    last = s.last_s[sensors]
    still = last - s.same_since_s[sensors]
    moved = s.temp_high[sensors] - s.temp_low[sensors]
    stuck = (still > health.STUCK_S) & (s.same_count[sensors] >= health.STUCK_COUNT)
    ill = np.isfinite(s.low_battery_s[sensors]) | np.isfinite(s.out_of_range_s[sensors])
    ill |= stuck & (moved > health.STUCK_KELVIN)
    ill |= np.isfinite(s.loose_s[sensors]) | (now_s - s.slipped_s[sensors] < MOVED_FOR_S)
    high = t.last_s[tracks] - t.high_s[tracks] >= HIGH_FOR_S
    odd = high | (now_s - t.tamper_s[tracks] < TAMPER_FOR_S)
    return Glance(
        np.fmin.reduceat(p, first),
        np.fmax.reduceat(p, first),
        np.logical_or.reduceat(ill, sensor_first) | np.logical_or.reduceat(odd, first),
    )
