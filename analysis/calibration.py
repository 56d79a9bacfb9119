"""Measurements by hand: a core sample or a hauler's stick corrects the depth, and what the site's sensor makes of it.

A sensor's lasting error is a gain of the FOG depth (its sound speed, density or permittivity are the grease's) or an
offset of a layer. A hand measurement tells depth and error apart by their variances. One far outside what both could
mean is not believed: the interval widens to what lies between, and the layer is flagged until a service or a second
measurement that agrees.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.estimate import DAY_S, FOG, RESIDUAL_FRACTION, RESIDUAL_SD, Kalman, diffusion, predict
from analysis.fleet import Fleet
from analysis.model import Bools, Floats, Ints
from analysis.state import FleetState, Rows, TrackState, part_rows, put_rows

INCH: Final = 0.0254  # m: sticks and tubes are marked in inches
PLUG: Final = 0.05  # relative: the tube presses the plug of grease together, and sludge runs out of its foot
STICK: Final = 0.12  # relative: a hauler's stick, read by lamp, often from memory
SURGE: Final = 0.005  # m: the liquid is not quite at rest
GATE_SD: Final = 4.0
BETWEEN: Final = 3.0  # of an unbelieved difference, one sd: sensor and hand both lie within the interval
PAPER_DOUBT: Final = 0.05  # chance that a paper of a complete pump-out has no pump-out behind it
RATE_WIDENING: Final = 0.25  # relative, by a service that nobody but the paper saw
GAIN: Final = (0.4, 2.5)  # half-water grease makes a dry radar over-read 117 %
THIN: Final = 0.020  # m: a thinner layer says nothing of a gain
SERVED_S: Final = DAY_S  # levels before pumping belong to the cycle that ended this little before


def core_variance(depth: Floats) -> Floats:
    """Variance [m²] of a depth [m] by core sample: a reading to the half inch each end, and the plug's disturbance."""
    return INCH**2 / 12 * 2 + (PLUG * depth) ** 2


def paper_variance(depth: Floats) -> Floats:
    """Variance [m²] of a depth [m] that a manifest states: to the inch at each end, coarser, and a surge."""
    return INCH**2 / 3 + SURGE**2 + (STICK * depth) ** 2


def correct(depth: Floats, gain: Floats, shift: Floats) -> None:
    """Put sensors' depths (n, 2) right by their track's gain (n,) of the FOG and shift (n, 2) [m], in place."""
    if (gain != 1.0).any() or shift.any():
        depth[:, FOG] *= gain
        depth += shift


def served(track: TrackState, row: int, *, complete: bool, base: float) -> None:
    """After a service that the sensor saw: an offset goes with the film that made it, the grease's gain stays."""
    hidden = track.by_hand[row] & ~track.seen[row]
    if not complete:
        track.by_hand[row] &= ~hidden  # how much of a layer that no sensor sees was taken, nobody knows
        return
    track.shift[row] = 0.0
    track.doubt[row] = 0.0
    track.doubt_s[row] = np.nan
    track.x[row] = np.where(hidden, RESIDUAL_FRACTION * base, track.x[row])
    track.p00[row] = np.where(hidden, (RESIDUAL_SD * base) ** 2, track.p00[row])
    track.p01[row] = np.where(hidden, 0.0, track.p01[row])


def take_in(
    fleet: Fleet,
    state: FleetState,
    tracks: Ints,
    time_s: Floats,
    depth: Floats,
    variance: Floats,
    emptied: Bools,
) -> None:
    """Fold one hand measurement into each of n different tracks of different interceptors,
    in place: the state must be the caller's alone.

    ``depth`` and ``variance`` (n, 2) [m, m²], NaN where a layer was not measured; ``emptied`` (n,) says that a paper
    tells of a complete pump-out right after it, which counts where no sensor hangs.
    """
    track = part_rows(state.track, tracks)
    base, heard = fleet.track_base[tracks], fleet.track_heard[tracks]
    owner = fleet.track_interceptor[tracks]
    interceptor = part_rows(state.interceptor, owner)
    interceptor.newest_s[:] = np.fmax(interceptor.newest_s, time_s)
    since_s = time_s - interceptor.since_s
    late = heard & (variance[:, FOG] > 0) & emptied & (since_s >= 0) & (since_s < SERVED_S)
    k = _now(fleet, track, base, time_s)
    _measure(fleet, track, tracks, k, np.where(late[:, None], np.nan, depth), variance, time_s)
    bare = emptied & ~heard
    _empty(track, base, bare)
    interceptor.since_s[:] = np.where(bare, time_s, interceptor.since_s)
    put_rows(state.track, tracks, track)
    put_rows(state.interceptor, owner, interceptor)


def _now(fleet: Fleet, track: TrackState, base: Floats, time_s: Floats) -> Kalman:
    before = track.time_s
    dt = np.where(np.isfinite(before), np.maximum(time_s - before, 0.0), 0.0) / DAY_S
    whole: Rows = slice(None)
    old = track.kalman(whole)
    track.time_s[:] = np.fmax(before, time_s)
    return predict(old, dt[:, None], diffusion(old.r, base, fleet.prior))


def _measure(
    fleet: Fleet, track: TrackState, tracks: Ints, k: Kalman, depth: Floats, variance: Floats, time_s: Floats
) -> None:
    told = np.isfinite(depth)
    value, noise = np.where(told, depth, k.x), np.where(told, variance, 1.0)
    lasting = np.where(track.seen, track.bias * ~_rod(fleet, tracks)[:, None], 0.0)
    s = k.p00 + np.where(track.seen, track.bias, 0.0) + track.doubt + noise
    off = value - k.x
    far = told & (off * off > GATE_SD**2 * s)
    near, anew = told & ~far, far & ~track.seen  # without a sensor the newer hand is the better one
    mine = np.where(near & track.seen, lasting / s, 0.0)
    doubted = np.where(near, track.doubt / s, 0.0)
    gain0, gain1 = np.where(near, k.p00 / s, 0.0), np.where(near, k.p01 / s, 0.0)
    fix = (mine + doubted) * off
    _learn(track, k, fix, mine * off)
    track.left[:] *= 1.0 - mine
    track.bias[:] *= 1.0 - mine
    unbelieved = far & track.seen
    track.doubt[:] = np.where(
        unbelieved, np.maximum(track.doubt, (off / BETWEEN) ** 2), track.doubt * (1.0 - doubted)
    )
    track.doubt_s[:] = np.where(unbelieved, time_s[:, None], np.where(near, np.nan, track.doubt_s))
    track.by_hand[:] |= told
    track.set_kalman(
        slice(None),
        Kalman(
            np.where(anew, value, np.maximum(k.x + gain0 * off + fix, 0.0)),
            k.r + gain1 * off,
            np.where(anew, 4.0 * noise, k.p00 * (1.0 - gain0)),
            np.where(anew, 0.0, k.p01 * (1.0 - gain0)),
            k.p11 - gain1 * k.p01,
        ),
    )


def _learn(track: TrackState, k: Kalman, fix: Floats, mine: Floats) -> None:
    """Keep a correction: of the FOG as a gain where it is the grease's, else as an offset."""
    fog, part = k.x[:, FOG], mine[:, FOG]
    as_gain = fog > THIN
    ratio = np.where(as_gain, 1.0 + part / np.where(as_gain, fog, 1.0), 1.0)
    track.gain[:] = np.clip(track.gain * ratio, *GAIN)
    offset = fix.copy()
    offset[:, FOG] -= np.where(as_gain, part, 0.0)
    track.shift[:] += offset * track.seen


def _rod(fleet: Fleet, tracks: Ints) -> Bools:
    """Tracks of electrodes: what is lasting there is the place between two of them, another one tomorrow."""
    rods = np.zeros(len(fleet.track_base), dtype=bool)
    rods[fleet.sensor_track[np.isfinite(fleet.geometry.pitch)]] = True
    return np.asarray(rods[tracks])


def _empty(track: TrackState, base: Floats, rows: Bools) -> None:
    """What a paper alone leaves in tracks that nobody watches: a residual, and a doubt."""
    column, at = base[:, None], rows[:, None]
    left = RESIDUAL_SD * column
    track.p00[:] = np.where(at, left * left + PAPER_DOUBT * track.x**2 + PAPER_DOUBT * track.p00, track.p00)
    track.x[:] = np.where(at, RESIDUAL_FRACTION * column, track.x)
    track.p01[:] = np.where(at, 0.0, track.p01)
    track.p11[:] += np.where(at, (RATE_WIDENING * track.r) ** 2, 0.0)
