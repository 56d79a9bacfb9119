"""Health of sensors as their readings pass: gaps, flat batteries, impossible or frozen values.

Each remark is the time since when it holds, NaN while it does not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Bools, Floats, Ints
from analysis.state import Rows, SensorState

GAP_INTERVALS: Final = 3.0  # nominal intervals without a reading that are a gap
GAP_LEAST_S: Final = 3600.0
BATTERY_LOW_PCT: Final = 20.0
SUPPLIED_V: Final = (
    1.0  # less runs no device: it lives on another supply, its battery is not there to be judged
)
BATTERY_SAG: Final = 0.82  # of the highest voltage seen: flat for lithium and alkaline cells alike
STUCK_S: Final = 20 * 3600.0
STUCK_COUNT: Final = 24
RESTLESS: Final = 48  # changes of value after which a sensor's own rows of equal values are known
OVERFULL_INTERVALS: Final = 2.0  # nominal intervals missed after a surface that rose at the brim
STUCK_KELVIN: Final = 2.0  # the temperature moved, the levels did not


def silent_after(interval: Floats) -> Floats:
    """Seconds without a reading after which a sensor is silent: three intervals, at least an hour."""
    return np.maximum(GAP_INTERVALS * interval, GAP_LEAST_S)


def note(
    sensor: SensorState,
    rows: Rows,
    time: Floats,
    interval: Floats,
    fingerprint: Floats,
    temperature: Floats,
    volt: Floats | None,
    percent: Floats | None,
    impossible: Bools,
    spiked: Bools,
    restamped: Bools,
) -> None:
    """Take one reading of n sensors into their health (changes the working state)."""
    last = sensor.last_s[rows]
    gap = time - last > silent_after(interval)
    stale = time - sensor.gap_s[rows] > 86400.0  # a gap is news for a day after it ended
    sensor.gap_s[rows] = np.where(gap, time, np.where(stale, np.nan, sensor.gap_s[rows]))
    _since(sensor.out_of_range_s, rows, time, impossible, ~impossible)
    old = time - sensor.spikes_s[rows] > 86400.0
    sensor.spikes_s[rows] = np.where(spiked, time, np.where(old, np.nan, sensor.spikes_s[rows]))
    _since(sensor.clock_s, rows, time, restamped, ~restamped)
    _battery(sensor, rows, time, volt, percent)
    _still(sensor, rows, time, fingerprint, temperature)
    first = sensor.level_s[rows]
    sensor.level_s[rows] = np.where(np.isnan(first) & np.isfinite(fingerprint), time, first)
    sensor.last_s[rows] = time


def frozen(sensor: SensorState, rows: Rows, fingerprint: Floats) -> Bools:
    """Where a reading repeats the last values once more than this sensor's quantisation explains, shape (n,).

    It is no new evidence: three times the longest row of equal values known of the sensor, and four more; of
    a sensor whose values have seldom changed nothing is known.
    """
    same = (fingerprint == sensor.raw[rows]) & (sensor.changes[rows] >= RESTLESS)
    return np.asarray(same & (sensor.same_count[rows] + 1 > _allowed(sensor.run[rows])))


def _allowed(run: Ints) -> Ints:
    return 3 * run + 4


def _since(field: Floats, rows: Rows, time: Floats, begins: Bools, ends: Bools) -> None:
    known = field[rows]
    field[rows] = np.where(ends, np.nan, np.where(begins & np.isnan(known), time, known))


def _battery(
    sensor: SensorState, rows: Rows, time: Floats, volt: Floats | None, percent: Floats | None
) -> None:
    if volt is None and percent is None:
        return
    nothing = np.full(len(time), np.nan)
    volts = nothing if volt is None else volt
    share = nothing if percent is None else percent
    absent = volts < SUPPLIED_V
    if absent.any():
        volts, share = np.where(absent, np.nan, volts), np.where(absent, np.nan, share)
    top = np.fmax(sensor.battery_top_v[rows], volts)
    sensor.battery_top_v[rows] = top
    low = (share < BATTERY_LOW_PCT) | (volts < BATTERY_SAG * top)
    told = np.isfinite(share) | np.isfinite(volts)
    _since(sensor.low_battery_s, rows, time, low, told & ~low)


def _still(sensor: SensorState, rows: Rows, time: Floats, fingerprint: Floats, temperature: Floats) -> None:
    known = np.isfinite(fingerprint)
    same = fingerprint == sensor.raw[rows]
    moved = known & ~same
    sensor.raw[rows] = np.where(known, fingerprint, sensor.raw[rows])
    sensor.changes[rows] += moved
    run = sensor.run[rows]
    ended = np.minimum(
        sensor.same_count[rows], _allowed(run)
    )  # a longer row may be its own: learned in steps
    sensor.run[rows] = np.where(moved, np.maximum(run, ended), run)
    sensor.same_since_s[rows] = np.where(moved, time, sensor.same_since_s[rows])
    sensor.same_count[rows] = np.where(moved, 1, sensor.same_count[rows] + (known & same))
    low, high = sensor.temp_low[rows], sensor.temp_high[rows]
    sensor.temp_low[rows] = np.where(moved, temperature, np.fmin(low, temperature))
    sensor.temp_high[rows] = np.where(moved, temperature, np.fmax(high, temperature))
