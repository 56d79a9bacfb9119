"""From the state to what a person reads: depths, fraction, probabilities, crossing instants, health."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from analysis import forecast, health
from analysis.estimate import DAY_S, FOG, SOLIDS, Kalman, diffusion, predict
from analysis.fleet import Fleet
from analysis.model import Assessment, Bools, CompartmentAssessment, Floats, HealthFlag, Ints
from analysis.prior import Rates, exchange, own_share, start
from analysis.state import FleetState

FORWARD_RATE_SD: Final = 0.20  # relative: menus and seasons to come (trial of the reference simulation)
EVIDENCE_DAYS: Final = 7
EVIDENCE_CV: Final = 0.5
HIGH_FOR_S: Final = 3600.0
TAMPER_FOR_S: Final = 7 * DAY_S
MOVED_FOR_S: Final = 30 * DAY_S  # long enough for somebody to measure the mount again
_LASTING: Final = frozenset({"low_battery", "out_of_range", "clock", "cover_open"})

Crossing = tuple[float | None, float | None, float | None, float | None, float | None]


class Outlook(NamedTuple):
    """Tracks now, layer arrays (n, 2), others (n,): what :func:`assess` turns into rows."""

    k: Kalman
    var: Floats
    known: Bools  # layers
    fraction: Floats  # NaN where a layer is unknown
    fraction_sd: Floats
    p_over: Floats
    own: Floats  # share of the rate's information that is the track's own


def outlook(
    fleet: Fleet, state: FleetState, tracks: Ints, now_s: float, expected: Rates | None = None
) -> Outlook:
    """Carry these tracks to ``now_s`` [s] and say how full they are, vectorised.

    ``expected`` is the day's prior of the rates of all tracks; without one the start's stands.

    Before its first reading a track whose last pump-out is known is told by the prior, wide as it is; one
    that speaks without showing a layer has that layer unknown.
    """
    track = state.track
    base = fleet.track_base[tracks]
    then = track.time_s[tracks]
    dt = np.where(np.isfinite(then), np.maximum(now_s - then, 0.0), 0.0) / DAY_S
    before = track.kalman(tracks)
    begun = start(base, fleet.prior)
    if expected is not None:
        new = Rates(expected.mean[tracks], expected.var[tracks])
        before, begun = exchange(before, begun, new), new
    share = own_share(before.p11, begun.var)
    k = predict(before, dt[:, None], diffusion(before.r, base, fleet.prior))
    silent = np.isnan(track.last_s[tracks]) & np.isfinite(then) & (then <= now_s)
    heard = fleet.track_heard[tracks][:, None]
    known = track.seen[tracks] | (track.by_hand[tracks] & ~heard) | (silent[:, None] & heard)
    x = np.maximum(k.x, 0.0)
    var = k.p00 + track.bias[tracks] + track.doubt[tracks]
    whole = known.all(axis=1)
    fraction = np.where(whole, (x[:, FOG] + x[:, SOLIDS]) / base, np.nan)
    sd = np.where(whole, np.sqrt(var[:, FOG] + var[:, SOLIDS]) / base, np.nan)
    limit = fleet.limit[fleet.track_interceptor[tracks]]
    return Outlook(k._replace(x=x), var, known, fraction, sd, ndtr((fraction - limit) / sd), share)


def crossings(fleet: Fleet, state: FleetState, tracks: Ints, now: Outlook, now_s: float) -> Floats:
    """Instants [s] of passing the limit if nobody pumps, shape (n, 5): p05 to p95; NaN beyond 183 days."""
    out = np.full((len(tracks), len(forecast.LEVELS)), np.nan)
    rows = np.flatnonzero(np.isfinite(now.fraction))
    if not len(rows):
        return out
    which = tracks[rows]
    owner = fleet.track_interceptor[which]
    k = now.k
    rate = k.r[rows].sum(axis=1)
    since = state.interceptor.since_s[owner]
    days = forecast.quantiles(
        depth=k.x[rows].sum(axis=1),
        var=now.var[rows].sum(axis=1),
        rate=rate,
        rate_var=k.p11[rows].sum(axis=1) + (FORWARD_RATE_SD * rate) ** 2,
        cov=k.p01[rows].sum(axis=1),
        limit=fleet.limit[owner] * fleet.track_base[which],
        diffusion=diffusion(k.r[rows], fleet.track_base[which], fleet.prior).depth.sum(axis=1),
        age=(now_s - since) / DAY_S,
    )
    out[rows] = now_s + days * DAY_S
    return out


def assess(
    fleet: Fleet,
    state: FleetState,
    now_s: float,
    *,
    indices: Sequence[int] | None = None,
    silent_after_s: float | None = None,
    expected: Rates | None = None,
) -> list[Assessment]:
    """What is known of these interceptors (all by default) at ``now_s`` [s], one row each, in order.

    ``silent_after_s`` replaces three nominal intervals, at least an hour. A sensor that never spoke has no
    flag. ``expected`` is the day's prior of the rates (:func:`analysis.prior.rates`); without it the start's.
    """
    who = np.arange(len(fleet.interceptors)) if indices is None else np.asarray(indices, dtype=np.int64)
    tracks, first = fleet.tracks_of.rows(who)
    ends = np.r_[first, len(tracks)][1:]
    now = outlook(fleet, state, tracks, now_s, expected)
    fullest = _fullest(now.fraction, first, ends)
    shown = fullest[fullest >= 0]
    when = np.full((len(tracks), len(forecast.LEVELS)), np.nan)
    if len(shown):
        when[shown] = crossings(fleet, state, tracks[shown], _slice(now, shown), now_s)
    return [
        _row(fleet, state, now_s, int(w), tracks, now, when, (int(a), int(b), int(f)), silent_after_s)
        for w, a, b, f in zip(who, first, ends, fullest, strict=True)
    ]


def _slice(now: Outlook, rows: Ints) -> Outlook:
    k = Kalman(*[a[rows] for a in now.k])
    return Outlook(
        k, now.var[rows], now.known[rows], now.fraction[rows], now.fraction_sd[rows], now.p_over[rows],
        now.own[rows],
    )  # fmt: skip


def _fullest(fraction: Floats, start: Ints, end: Ints) -> Ints:
    """Position of each interceptor's fullest track; its first where no fraction is known, -1 without tracks."""
    best = np.where(start < end, start, -1)
    share = np.append(np.where(np.isnan(fraction), -np.inf, fraction), -np.inf)
    for step in range(1, int((end - start).max(initial=0))):
        place = np.minimum(start + step, len(fraction))
        fuller = (start + step < end) & (share[place] > share[best])
        best = np.where(fuller, place, best)
    return best


def _row(
    fleet: Fleet,
    state: FleetState,
    now_s: float,
    who: int,
    tracks: Ints,
    now: Outlook,
    when: Floats,
    place: tuple[int, int, int],
    silent_after_s: float | None,
) -> Assessment:
    start, end, at = place
    flags = _health(fleet, state, who, now_s, silent_after_s)
    watched = fleet.track_heard[tracks[start:end]] | now.known[start:end].any(axis=1)
    rows = (start + np.flatnonzero(watched)).tolist()
    parts = tuple(_compartment(fleet, int(tracks[p]), now, p) for p in rows)
    last = float(
        np.max(state.sensor.last_s[fleet.sensors_of[who]], initial=-np.inf, where=_heard(fleet, state, who))
    )
    since = float(state.interceptor.since_s[who])
    best = parts[rows.index(at)] if at in rows else None
    known = best is not None and best.fraction is not None
    rate = float(now.k.r[at].sum()) if known else None
    own_sd = float(np.sqrt(now.k.p11[at].sum())) if known else None
    evidence = (
        rate is not None
        and own_sd is not None
        and int(state.track.days[tracks[at]]) >= EVIDENCE_DAYS
        and own_sd < EVIDENCE_CV * rate
    )
    return Assessment(
        interceptor=fleet.interceptors[who].id,
        time_s=now_s,
        compartment=best.compartment if best else None,
        fog_m=best.fog_m if best else None,
        fog_sd_m=best.fog_sd_m if best else None,
        solids_m=best.solids_m if best else None,
        solids_sd_m=best.solids_sd_m if best else None,
        fraction=best.fraction if best else None,
        fraction_sd=best.fraction_sd if best else None,
        p_over_limit=best.p_over_limit if best else None,
        rate_m_per_day=rate,
        rate_sd_m_per_day=None
        if rate is None or own_sd is None
        else math.hypot(own_sd, FORWARD_RATE_SD * rate),
        rate_own_share=float(now.own[at]) if known else None,
        crossing_s=_crossing(when[at]) if known else None,
        health=flags,
        compartments=parts,
        own_evidence=evidence,
        last_reading_s=last if np.isfinite(last) else None,
        since_s=since if np.isfinite(since) else None,
    )


def _heard(fleet: Fleet, state: FleetState, who: int) -> Bools:
    return np.isfinite(state.sensor.last_s[fleet.sensors_of[who]])


def _crossing(row: Floats) -> Crossing:
    a, b, c, d, e = (float(v) if np.isfinite(v) else None for v in row)
    return (a, b, c, d, e)


def _compartment(fleet: Fleet, track: int, now: Outlook, at: int) -> CompartmentAssessment:
    depth = [float(now.k.x[at, i]) if now.known[at, i] else None for i in (FOG, SOLIDS)]
    sd = [float(np.sqrt(now.var[at, i])) if now.known[at, i] else None for i in (FOG, SOLIDS)]
    whole = bool(now.known[at].all())
    return CompartmentAssessment(
        compartment=int(fleet.track_compartment[track]),
        fog_m=depth[FOG],
        fog_sd_m=sd[FOG],
        solids_m=depth[SOLIDS],
        solids_sd_m=sd[SOLIDS],
        fraction=float(now.fraction[at]) if whole else None,
        fraction_sd=float(now.fraction_sd[at]) if whole else None,
        p_over_limit=float(now.p_over[at]) if whole else None,
    )


def _health(
    fleet: Fleet, state: FleetState, who: int, now_s: float, silent_after_s: float | None
) -> tuple[HealthFlag, ...]:
    flags: list[HealthFlag] = []
    for row in fleet.sensors_of[who].tolist():
        flags += _sensor_flags(fleet, state, row, now_s, silent_after_s)
    for row in fleet.tracks_of[who].tolist():
        high = float(state.track.high_s[row])
        if now_s - high >= HIGH_FOR_S and float(state.track.last_s[row]) - high >= HIGH_FOR_S:
            flags.append(HealthFlag("high_liquid_level", None, "surface", high))
        if _overfull(fleet, state, who, row, now_s):
            flags.append(HealthFlag("possibly_overfull", None, "surface", float(state.track.brim_s[row])))
        tamper = float(state.track.tamper_s[row])
        for layer, quantity in ((FOG, "fog_depth"), (SOLIDS, "solids_depth")):
            doubt = float(state.track.doubt_s[row, layer])
            if np.isfinite(doubt):
                flags.append(HealthFlag("disagrees", None, quantity, doubt))
        if now_s - tamper < TAMPER_FOR_S:
            flags.append(HealthFlag("tamper", None, "fog_depth", tamper))
    return tuple(flags)


def _overfull(fleet: Fleet, state: FleetState, who: int, row: int, now_s: float) -> bool:
    """Whether the surface stood at the brim and rose, and nothing has come since: a ranger has a blind zone."""
    brim = float(state.track.brim_s[row])
    if np.isnan(brim):
        return False
    patience = health.OVERFULL_INTERVALS * float(fleet.interval_s[fleet.sensors_of[who]].max())
    return brim == float(state.track.last_s[row]) and now_s - brim > patience


def _sensor_flags(
    fleet: Fleet, state: FleetState, row: int, now_s: float, silent_after_s: float | None
) -> list[HealthFlag]:
    s, id_ = state.sensor, fleet.sensors[row].id
    flags = []
    last = float(s.last_s[row])
    patience = silent_after_s
    if patience is None:
        patience = float(health.silent_after(fleet.interval_s[row]))
    if now_s - last > patience:
        flags.append(HealthFlag("silent", id_, None, last))
    for name, quantity, since in (
        ("low_battery", None, s.low_battery_s[row]),
        ("out_of_range", None, s.out_of_range_s[row]),
        ("clock", None, s.clock_s[row]),
        ("cover_open", None, s.loose_s[row]),
        ("gap", None, s.gap_s[row]),
        ("spikes", None, s.spikes_s[row]),
    ):
        if np.isfinite(since) and (name in _LASTING or now_s - since < DAY_S):
            flags.append(HealthFlag(name, id_, quantity, float(since)))
    slipped = float(s.slipped_s[row])
    if now_s - slipped < MOVED_FOR_S:
        flags.append(HealthFlag("moved", id_, "surface", slipped))
    still = last - float(s.same_since_s[row])
    moved = float(s.temp_high[row] - s.temp_low[row])
    if still > health.STUCK_S and s.same_count[row] >= health.STUCK_COUNT and moved > health.STUCK_KELVIN:
        flags.append(HealthFlag("stuck", id_, None, float(s.same_since_s[row])))
    started = float(s.level_s[row])
    if last - started >= HIGH_FOR_S:
        unseen = ~state.track.seen[fleet.sensor_track[row]] & ~s.seen[row]
        for layer, quantity in ((FOG, "fog_depth"), (SOLIDS, "solids_depth")):
            if unseen[layer]:
                flags.append(HealthFlag("unobservable", id_, quantity, started))
    return flags
