"""A sensor out of its place: hanging loose, or slipped on its mount.

Liquid in a tank falls once and comes back once; heights that swing to and fro between readings are no liquid,
but a device that lies beside its place, as under an opened cover. And where surface and solids shift alike
while the grease keeps its thickness, it was the mount that moved: neither a pump-out nor drift.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.estimate import FOG, SOLIDS
from analysis.model import Bools, Floats
from analysis.state import WINDOW, Rows, SensorState, in_step

SWING: Final = 0.10  # m between two readings
AGREE: Final = 0.03  # m about the median of the window
FEW: Final = 3  # of the window's readings agree: it hangs loose …
MOST: Final = 6  # … and is in its place again
REVERSALS: Final = 2
TIDE_S: Final = 3 * 3600.0  # in a longer silence liquid may go up and down by itself
ALIKE: Final = 0.010  # m between the shifts of surface, solids and one reading and the next …
ALIKE_PITCH: Final = 0.35  # … or of a rod's pitch; a little more than that is the least shift that is told
SLIP_READINGS: Final = 8


def loose(sensor: SensorState, rows: Rows, time: Floats, surface: Floats) -> tuple[Bools, Bools]:
    """Take n surfaces into the windows (changes the state); where a sensor hangs loose, and newly so, (n,).

    The slot of the window is moved on by whoever remembers the layers of the same readings.
    """
    slot = sensor.slot[rows]
    index = np.arange(len(sensor.slot))[rows]
    since = sensor.loose_s[rows]
    was = np.isfinite(since)
    apart = ~was & (time - sensor.last_s[rows] > TIDE_S)
    if apart.any():
        sensor.surfaces[index[apart]] = np.nan
    if in_step(rows, slot):
        before = sensor.surfaces[:, slot[0] - 1].copy()
        sensor.surfaces[:, slot[0]] = surface
    else:
        before = sensor.surfaces[index, slot - 1]
        sensor.surfaces[index, slot] = surface
    odd = np.flatnonzero((np.abs(surface - before) > SWING) | was)
    if not len(odd):
        return was, np.zeros_like(was)
    turn = (slot[odd, None] + 1 + np.arange(WINDOW)) % WINDOW
    window = np.take_along_axis(sensor.surfaces[index[odd]], turn, axis=1)  # oldest first
    agreeing = _agreeing(window)
    reversals = _reversals(window)
    begins = ~was[odd] & (reversals >= REVERSALS) & (agreeing <= FEW)
    ends = was[odd] & ((agreeing >= MOST) | (reversals == 0))
    since[odd] = np.where(begins, time[odd], np.where(ends, np.nan, since[odd]))
    sensor.loose_s[rows] = since
    now = np.isfinite(since)
    return now, now & ~was


def _agreeing(window: Floats) -> Floats:
    """How many of each window's readings (n, WINDOW) lie about their median; all where it is not full."""
    ordered = np.sort(window, axis=1)
    near = np.abs(window - ordered[:, WINDOW // 2, None]) < AGREE
    return np.where(np.isfinite(window).all(axis=1), near.sum(axis=1), WINDOW)


def _reversals(window: Floats) -> Floats:
    """How often each window's swings turn from up to down or back."""
    move = np.diff(window, axis=1)
    turn = np.where(np.abs(move) > SWING, np.sign(move), 0.0)
    last, count = np.zeros(len(window)), np.zeros(len(window))
    for step in turn.T:
        count += step * last < 0
        last = np.where(step != 0, step, last)
    return count


def slipping(
    sensor: SensorState,
    rows: Rows,
    time: Floats,
    surface: Floats,
    depth: Floats,
    rest: Floats,
    x: Floats,
    pitch: Floats,
) -> tuple[Bools, Floats]:
    """Where n readings (changes the state) look like a slipped mount, and by how much one surely has, (n,) each.

    ``rest`` is the surface's known height, ``x`` (n, 2) the expected layers, ``pitch`` that of a rod's electrodes,
    else NaN. What the heights are surely off
    by [m], 0 elsewhere, is added to the sensor's ``offset``: later readings are to be corrected by it.
    """
    shift = depth[:, SOLIDS] - x[:, SOLIDS]  # the surface rests a little below its mean, the solids do not
    within = np.fmax(ALIKE, ALIKE_PITCH * pitch)
    alike = np.abs(surface - rest - shift) < within
    suspect = (np.abs(shift) > 1.2 * within) & alike & (np.abs(depth[:, FOG] - x[:, FOG]) < within)
    count, mean = sensor.shift_count[rows], sensor.shift[rows]
    if not (suspect.any() or count.any()):
        return suspect, np.zeros(len(suspect))
    goes_on = suspect & (count > 0) & (np.abs(shift - mean) < within)
    fresh = suspect & (count == 0)
    count = np.where(goes_on, count + 1, np.where(fresh, 1, np.maximum(count - 2, 0)))  # one may miss
    mean = np.where(goes_on, mean + (shift - mean) / np.maximum(count, 1), np.where(fresh, shift, mean))
    sure = count >= SLIP_READINGS
    found = np.where(sure, mean, 0.0)
    sensor.offset[rows] += found
    sensor.slipped_s[rows] = np.where(sure, time, sensor.slipped_s[rows])
    sensor.shift_count[rows] = np.where(sure, 0, count)
    sensor.shift[rows] = mean
    return (count > 0) & ~sure, found
