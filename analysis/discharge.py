"""Hot discharges at an inlet probe: strictly above the limit, with hysteresis in elapsed time.

Only inlet temperatures count: a tank's bulk barely feels a slug (40 L at 71 °C warm 3,785 L by 0.7 K).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.model import Bools, Floats, Ints
from analysis.state import Rows, SensorState

GUARD_K: Final = 0.6  # IEC 60751 class B at 60 degC, guard band after JCGM 106
CLEAR_BELOW_K: Final = 2.8  # 5 °F: an episode at the 140 °F limit ends below 135 °F (57.2 °C)
OFF_DELAY_S: Final = 300.0  # s below that before it has ended
LAG_CADENCE: Final = 3.0  # time constants: with longer steps the lag cannot be undone
LAG_UNSURE: Final = 0.35  # relative uncertainty of the time constant (coating, second pole)
POSSIBLE: Final = 1
CONFIRMED: Final = 2


def watch(
    sensor: SensorState,
    rows: Rows,
    time: Floats,
    inlet: Floats,
    inlet_max: Floats,
    over_s: Floats,
    limit: Floats,
    tau: Floats,
    interval: Floats,
) -> tuple[Ints, Ints]:
    """Advance the episodes of n sensors by one reading each (changes the working state).

    ``inlet`` now, ``inlet_max`` and ``over_s`` since the last message, NaN where not sent. Returns the
    positions whose status rose and those whose episode has ended (its state is still there to be read).
    """
    last = sensor.inlet_s[rows]
    since = np.where(np.isfinite(last), time - last, interval)
    peak, unsure = _peak(sensor.inlet_c[rows], inlet, inlet_max, over_s, since, limit, tau)
    heard = np.isfinite(peak)
    status = sensor.hot[rows]
    over = heard & (peak > limit) & ~_hot_from_the_start(sensor, rows, inlet_max, over_s, limit)
    level = np.where(over, np.where(peak - unsure > limit, CONFIRMED, POSSIBLE), 0)
    window = np.minimum(since, 2 * interval)
    begins = over & (status == 0)
    hot_now = over & (inlet > limit)
    span = np.where(np.isfinite(over_s) & hot_now, np.minimum(over_s, window), window)
    begin = np.where(np.isfinite(inlet_max) | np.isfinite(over_s), time - span, time)
    sensor.hot_start_s[rows] = np.where(begins, begin, sensor.hot_start_s[rows])
    sensor.hot_peak_c[rows] = np.where(
        begins, peak, np.where(over, np.fmax(peak, sensor.hot_peak_c[rows]), sensor.hot_peak_c[rows])
    )
    seconds = np.where(np.isfinite(over_s), over_s, np.where(hot_now & ~begins, since, 0.0))
    total = np.where(begins, 0.0, sensor.hot_over_s[rows]) + np.where(over, seconds, 0.0)
    sensor.hot_over_s[rows] = np.where(over | (status > 0), total, sensor.hot_over_s[rows])
    sensor.hot_end_s[rows] = np.where(over, time, sensor.hot_end_s[rows])
    rose = level > status
    sensor.hot[rows] = np.maximum(status, level)
    ended = _cooling(sensor, rows, time, since, peak, inlet_max, limit, over)
    told = np.isfinite(inlet) | heard
    sensor.inlet_c[rows] = np.where(told, inlet, sensor.inlet_c[rows])
    sensor.inlet_s[rows] = np.where(told, time, sensor.inlet_s[rows])
    return np.flatnonzero(rose), np.flatnonzero(ended)


def _hot_from_the_start(
    sensor: SensorState, rows: Rows, inlet_max: Floats, over_s: Floats, limit: Floats
) -> Bools:
    """Where a probe has been hot since it first spoke: nothing was seen to be discharged, until it cools.

    A maximum or a count of seconds that the device keeps itself is of its own window, and counts.
    """
    before = sensor.inlet_c[rows]
    never_cool = np.isnan(sensor.inlet_s[rows]) | (before > limit)
    return np.asarray((sensor.hot[rows] == 0) & never_cool & np.isnan(inlet_max) & np.isnan(over_s))


def _peak(
    before: Floats,
    inlet: Floats,
    inlet_max: Floats,
    over_s: Floats,
    since: Floats,
    limit: Floats,
    tau: Floats,
) -> tuple[Floats, Floats]:
    """The wastewater's hottest since the last message [degC] and how unsure it is [K].

    T_in = T + tau dT/dt, where the step is at most three time constants; a device that only counts seconds
    above 60 degC saw at least that much.
    """
    plain = np.fmax(inlet, inlet_max)
    usable = (tau > 0) & (since > 0) & (since <= LAG_CADENCE * tau)
    gain = np.where(usable, tau / np.where(since > 0, since, 1.0), 0.0)
    lift = np.where(usable, np.maximum(gain * (inlet - before), 0.0), 0.0)
    lift = np.where(np.isfinite(lift), lift, 0.0)
    peak = np.fmax(plain, inlet + lift)
    counted = (over_s > 0) & ~(plain > limit) & (limit <= 60.0)
    peak = np.where(counted, np.fmax(peak, limit + 1e-3), peak)
    used = lift * (peak > plain)
    return peak, GUARD_K * inversion_gain(gain * (used > 0)) + LAG_UNSURE * used


def inversion_gain(steps: Floats) -> Floats:
    """How much undoing a lag of so many ``steps`` (tau / step) multiplies a reading's error, arrays (n,).

    T + tau (T - T_before) / step: sqrt((1 + tau/step)² + (tau/step)²), 1 where nothing is undone.
    """
    return np.asarray(np.hypot(1.0 + steps, steps))


def _cooling(
    sensor: SensorState,
    rows: Rows,
    time: Floats,
    since: Floats,
    peak: Floats,
    inlet_max: Floats,
    limit: Floats,
    over: np.ndarray,
) -> np.ndarray:
    cool = (peak < limit - CLEAR_BELOW_K) & (sensor.hot[rows] > 0)
    start = np.where(np.isfinite(inlet_max), time - since, time)  # a maximum speaks for its whole window
    known = sensor.cool_since_s[rows]
    known = np.where(cool, np.where(np.isnan(known), start, known), np.where(np.isnan(peak), known, np.nan))
    known = np.where(over, np.nan, known)
    sensor.cool_since_s[rows] = known
    return np.asarray(cool & (time - known >= OFF_DELAY_S))


def close(sensor: SensorState, row: int) -> None:
    """Forget an ended episode."""
    sensor.hot[row] = 0
    for field in (
        sensor.hot_start_s, sensor.hot_end_s, sensor.hot_peak_c, sensor.hot_over_s, sensor.cool_since_s,
    ):  # fmt: skip
        field[row] = np.nan
