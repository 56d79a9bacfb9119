"""Pump-outs: noticed reading by reading, judged when the liquid is back and three readings agree.

A service may begin in two ways: the surface falls below its rest (a drawdown), or the layers are suddenly
gone (it happened between two readings, or the device cannot see the liquid). Until it is judged the filter
of that track waits; a single spike opens a case that the next three readings close again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from analysis.estimate import FOG, RESIDUAL_SD, Kalman, RatePrior
from analysis.model import Bools, Floats, Ints
from analysis.quality import at_static
from analysis.state import AFTER, Rows, TrackState

VISIBLE_FALL: Final = 0.025  # m below rest: a fall worth a case
NEAR_FLOOR: Final = (
    0.35  # of the static level: the lowest reading of a full drawdown is rarely its lowest point
)
DEEP_FALL: Final = 0.5  # of the static level: liquid went, whatever the layers say
BUOYANCY: Final = 0.12
GONE_SD: Final = 4.0
GONE_SHARE: Final = 0.3  # of what was there
GONE_LEAST: Final = 0.020  # m
HIDING_S: Final = 1200.0  # s: a shorter silence hides no service of a tank
MISSED: Final = 1.5  # nominal intervals of silence: a message at least is missing
PATIENCE_S: Final = 96 * 3600.0  # s: refilling by inflow alone takes days
RATE_WIDENING: Final = 0.25  # relative sd added to the learned rate by a service
STANDING: Final = 0.010  # m: a surface that changes less stands
STANDS_S: Final = 2700.0  # s without a new low: the pump has stopped
FULL: Final = 0.7  # of the static level: from a lower start a fall says nothing of a service
SETTLED: Final = 0.10  # m between two readings: more, and the liquid still moves
QUICK_S: Final = 3 * 3600.0  # s: a truck empties the largest tank within this
STEADY: Final = 0.8  # share of the last days about the static level: liquid that stands, not one that passes
STAYS_S: Final = 3600.0  # s about the static level after the refill: it is back for good
ALONE_AFTER: Final = 16  # readings that must agree where one layer is all a device sees
EMPTIED: Final = 0.08  # of the static level: what stood there last is no deeper than that, seen or not
TAMPER: Final = -1
UNEXPLAINED: Final = -2  # less is seen than before, and nothing tells why: a cleaned probe, a little skimming
NONE: Final = 0
PARTIAL: Final = 1
COMPLETE: Final = 2


class Sight(NamedTuple):
    """What one round of readings sees on n tracks; layer arrays (n, 2), sd includes interval widths.

    ``most`` is the greatest depth that the reading allows: the upper end where it is only an interval, the
    device's least layer where it found none after a silence that may hide a service.
    """

    time: Floats
    depth: Floats
    most: Floats
    sd: Floats
    surface: Floats
    surface_sd: Floats
    base: Floats
    static: Floats
    resolution: Floats
    interval: Floats


class Case(NamedTuple):
    """A judged service of one track (row of the working state)."""

    row: int
    verdict: int
    confidence: float
    before: Floats
    after: Floats


def _below(track: TrackState, rows: Rows, sight: Sight) -> Floats:
    """How far the surface stands below a visible fall from its rest [m], negative above; NaN unseen."""
    fall = np.maximum(VISIBLE_FALL, 3.0 * sight.surface_sd)
    return np.asarray(track.rest[rows] - fall - sight.surface)


def _gone(track: TrackState, rows: Rows, sight: Sight, k: Kalman) -> Bools:
    seen = track.seen[rows]
    here = np.isfinite(sight.most) & seen
    drop = np.where(here, k.x - sight.most, 0.0)
    sd = np.where(np.isfinite(sight.sd), sight.sd, sight.most / 2)
    var = np.where(here, k.p00 + sd * sd, 0.0)
    there = np.where(here, k.x, 0.0)
    limit = np.maximum(GONE_SD * np.sqrt(var[:, 0] + var[:, 1]), GONE_SHARE * (there[:, 0] + there[:, 1]))
    return np.asarray(drop[:, 0] + drop[:, 1] > np.maximum(limit, GONE_LEAST))


def watch(track: TrackState, rows: Rows, sight: Sight, k: Kalman) -> tuple[Bools, Ints]:
    """Advance the cases of n tracks by one reading each (changes the working state ``track``).

    Returns where a case is open, so that the filter must wait, and the positions ready to be judged.
    """
    below = _below(track, rows, sight)
    mode = track.mode[rows]
    # Without its grease the liquid comes back a little lower: by 12 % of the layer at most (SG 0.88).
    back = np.where(track.seen[rows, FOG] & (mode == 1), BUOYANCY * np.maximum(k.x[:, FOG], 0.0), 0.0)
    low = below > back
    begins = (mode == 0) & (low | _gone(track, rows, sight, k))
    opened = (mode == 1) | begins
    if not opened.any():
        return opened, np.empty(0, dtype=np.int64)
    if begins.any():
        _begin(track, rows, sight, begins, low)
    dry = opened & low
    falling = dry & ~(sight.surface > track.lowest[rows] - STANDING)
    track.lowest[rows] = np.where(dry, np.fmin(track.lowest[rows], sight.surface), track.lowest[rows])
    track.lowest_s[rows] = np.where(falling, sight.time, track.lowest_s[rows])
    track.lows[rows] += dry
    _collect(track, rows, sight, opened, dry & ~_over(track, rows, sight))
    overdue = opened & (sight.time - track.open_s[rows] > PATIENCE_S)
    seen = track.seen[rows]
    stayed = seen.any(axis=1) | (sight.time - track.end_s[rows] >= STAYS_S)
    # one layer's word alone, without the liquid's: it must be given again and again
    alone = seen.any(axis=1) & ~seen.all(axis=1) & ~track.sees_liquid[rows]
    enough = track.after_count[rows] >= np.where(alone, ALONE_AFTER, AFTER)
    ready = opened & (stayed & enough | overdue)
    track.mode[rows] = opened
    return opened, np.flatnonzero(ready)


def _over(track: TrackState, rows: Rows, sight: Sight) -> Bools:
    """Where the pump has stopped though the liquid is still low: it rises, or stands, and shows the layers."""
    rises = sight.surface > track.lowest[rows] + 2 * STANDING
    stands = sight.time - track.lowest_s[rows] >= STANDS_S
    shown = (np.isfinite(sight.depth) | ~track.seen[rows]).all(axis=1) & track.seen[rows].any(axis=1)
    return np.asarray((rises | stands) & shown)


def _begin(track: TrackState, rows: Rows, sight: Sight, begins: Bools, low: Bools) -> None:
    used = np.fmax(track.used_s[rows, 0], track.used_s[rows, 1])
    last = np.where(low | ~np.isfinite(used), track.last_s[rows], used)
    last = np.where(np.isfinite(last), last, sight.time)
    for field, value in (
        (track.start_s, (last + sight.time) / 2),
        (track.open_s, sight.time),
        (track.before_s, last),
        (track.end_s, sight.time),
    ):
        field[rows] = np.where(begins, value, field[rows])
    track.lowest[rows] = np.where(begins, np.nan, track.lowest[rows])
    track.lowest_s[rows] = np.where(begins, sight.time, track.lowest_s[rows])
    track.lows[rows] = np.where(begins, 0, track.lows[rows])
    track.after_count[rows] = np.where(begins, 0, track.after_count[rows])
    track.after[rows] = np.where(begins[:, None, None], np.nan, track.after[rows])


def _collect(track: TrackState, rows: Rows, sight: Sight, opened: Bools, dry: Bools) -> None:
    """Gather readings after the service; ``dry``, while the pump is on, the gathering starts anew."""
    moving = opened & (np.abs(sight.surface - track.level[rows]) > SETTLED)  # liquid that still comes or goes
    dry = dry | moving
    count = np.where(dry, 0, track.after_count[rows])
    blind = ~track.seen[rows].any(axis=1)
    useful = opened & ~dry & (np.isfinite(sight.depth).any(axis=1) | blind | np.isfinite(sight.surface))
    first = useful & (count == 0)
    track.end_s[rows] = np.where(first, sight.time, track.end_s[rows])
    after = track.after[rows]
    after = np.where(dry[:, None, None], np.nan, after)
    slot = np.arange(AFTER) == (count % AFTER)[:, None]  # the newest ones
    fill = useful[:, None, None] & slot[:, None, :]
    track.after[rows] = np.where(fill, sight.depth[:, :, None], after)
    track.after_count[rows] = count + useful


def judge(track: TrackState, row: int, sight: Sight, at: int, k: Kalman) -> Case:
    """Judge the case of one track, ``row`` of the state and position ``at`` of the round.

    Complete: what is left of FOG and solids together is at most the largest of 10 % of what was there, 2 % of
    the base depth and twice the device's resolution, judged as a probability, and the liquid was seen near
    the floor; without a drawdown only where both layers went and the device cannot see the liquid or was
    silent long enough (contracts, section 3). Layers gone under its eyes without a drawdown are tampering; a
    part of them is partial service only where a message of that time is missing.
    """
    seen = track.seen[row]
    before = np.where(seen, np.maximum(k.x[at], 0.0), np.nan)
    after, sd = _after(track, row, sight, at, seen)
    lows = int(track.lows[row])
    lowest = float(track.lowest[row])
    static = float(sight.static[at])
    drained = lows >= 1 and lowest <= NEAR_FLOOR * static
    deep = lows >= 1 and lowest <= DEEP_FALL * static
    drop = before - after
    spread = np.sqrt(k.p00[at] + sd * sd)
    total = float(np.nansum(drop))
    wide = float(np.sqrt(np.nansum(np.where(seen, spread**2, 0.0))))
    size = float(np.nansum(before))
    fell = total > max((2.0 if lows >= 2 else 3.0) * wide, 0.2 * size, 0.010)
    limit = max(0.1 * size, 0.02 * float(sight.base[at]), 2.0 * float(sight.resolution[at]))
    left = float(np.nansum(after))
    left_sd = float(np.sqrt(np.nansum(np.where(seen, sd * sd, 0.0))))
    p = float(ndtr((limit - left) / max(left_sd, 1e-6)))
    if not seen.all():  # the surface itself was seen at the floor: whatever is not seen went with the liquid
        p = min(p, 0.75) if lows >= 1 and lowest <= EMPTIED * static else 0.0
    full = not track.rest[row] < FULL * static
    if not seen.any():
        served = drained and lows >= 2 and _stood_and_came_back(track, row, sight, at)
        return Case(row, PARTIAL if served else NONE, 0.6 if served else 0.0, before, after)
    if drained and (fell or (lows >= 2 and full)):
        sure = 0.5 + 0.49 * abs(2 * p - 1) if p > 0.0 or seen.all() else 0.6
        return Case(row, COMPLETE if p >= 0.5 else PARTIAL, sure, before, after)
    if lows >= 2 and (fell or (deep and full)):
        return Case(row, PARTIAL, 0.9 if fell else 0.6, before, after)
    if not fell:
        return Case(row, NONE, 0.0, before, after)
    thin = np.where(seen, before, np.inf) <= limit / 2
    both = bool(np.all((drop > 2.0 * spread) | thin)) and bool(seen.all())
    silence = float(track.end_s[row] - track.before_s[row])
    hidden = silence >= HIDING_S or not bool(track.sees_liquid[row]) or (lows == 1 and deep)
    if both and hidden and p >= 0.5:
        return Case(row, COMPLETE, 0.75 * p, before, after)
    blind = silence >= MISSED * float(sight.interval[at]) or not bool(track.sees_liquid[row])
    if (hidden and blind) or lows:
        return Case(row, PARTIAL, 0.6, before, after)
    return Case(row, TAMPER if total > 0.5 * size else UNEXPLAINED, 0.3, before, after)


def _stood_and_came_back(track: TrackState, row: int, sight: Sight, at: int) -> bool:
    """Whether a level alone tells a service: it stood at the static level, fell fast, and is back to stay.

    A tide or a river falls too, but only passes the static level, falls for hours or does not come back.
    """
    quick = float(track.lowest_s[row] - track.before_s[row]) <= QUICK_S
    stood = track.calm[row] >= STEADY and at_static(track.rest[row], sight.static[at])
    stays = track.after_count[row] >= AFTER and at_static(sight.surface[at], sight.static[at])
    return bool(quick and stood and stays)


def _after(track: TrackState, row: int, sight: Sight, at: int, seen: Bools) -> tuple[Floats, Floats]:
    """Median depths after the service and their sd; a layer too thin to be seen is half the resolution."""
    values = track.after[row]
    least = float(sight.resolution[at])
    out = np.full(2, np.nan)
    sd = np.full(2, np.nan)
    for layer in np.flatnonzero(seen):
        good = values[layer][np.isfinite(values[layer])]
        out[layer] = np.median(good) if good.size else least / 2
        spread = sight.sd[at, layer]
        sd[layer] = spread if good.size and np.isfinite(spread) else least / 2
    return out, sd


def reset(k: Kalman, at: int, case: Case, base: float, prior: RatePrior) -> None:
    """Put the filter of one track on what is left; the learned rate stays and widens (changes ``k``)."""
    means, _ = prior.moments()
    for layer in (0, 1):
        if np.isfinite(case.after[layer]):
            k.x[at, layer] = case.after[layer]
            k.p00[at, layer] = max(RESIDUAL_SD * base, 0.5 * case.after[layer]) ** 2
        rate = max(abs(float(k.r[at, layer])), 0.3 * means[layer] * base)
        k.p01[at, layer] = 0.0
        k.p11[at, layer] += (RATE_WIDENING * rate) ** 2
