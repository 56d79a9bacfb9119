"""One step's work on the state: a batch is folded into it round by round.

In a round every interceptor has at most one reading, so that its order of events is kept while the arithmetic
runs over all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis import calibration, discharge, events, health, hydrostatics, mounts, quality, sensing
from analysis.estimate import DAY_S, SOLIDS, Kalman, diffusion, effective_variance, predict, update, within
from analysis.fleet import Fleet
from analysis.model import Bools, Floats, HotDischarge, Ints, PumpOut, ReadingBatch
from analysis.services import settle_cases
from analysis.state import (
    WINDOW,
    FleetState,
    InterceptorState,
    Rows,
    SensorState,
    TrackState,
    either,
    in_step,
    part_rows,
    put_rows,
    span,
)

_LEVEL_COLUMNS: Final = (
    "surface_m", "distance_m", "fog_bottom_m", "solids_top_m", "fog_depth_m", "solids_depth_m",
    "pressure_pa", "echo_fog_s", "echo_solids_s",
)  # fmt: skip
HIGH_LEVEL: Final = 0.10  # m above the static level: the outlet is blocking
HIGH_CLEAR: Final = 0.06
RISING: Final = 0.010  # m between two readings: more than the surge of a kitchen at the brim


@dataclass(slots=True)
class _Batch:
    """A batch with all that follows from the readings alone, in the order of the rounds."""

    time: Floats
    sensor: Ints  # rows of the working copy
    track: Ints
    interceptor: Ints
    seen: sensing.Measured
    sd: Floats
    impossible: Bools
    fingerprint: Floats
    columns: dict[str, Floats]
    restamped: Bools
    heights: Bools  # surface and solids are told by heights of the same mount
    pitch: Floats

    def column(self, name: str, a: int, b: int) -> Floats | None:
        values = self.columns.get(name)
        return None if values is None else values[a:b]


class Work:
    """One step's work: the touched rows of every part of a state that is changed in place.

    Rows that follow each other are viewed, others copied and put back by :meth:`finish`.
    """

    def __init__(self, fleet: Fleet, state: FleetState, batch: ReadingBatch) -> None:
        self._fleet, self._whole = fleet, state
        self._sensors, sensor = _touched(batch.sensor)
        self._interceptors, interceptor = _touched(fleet.sensor_interceptor[batch.sensor])
        self._tracks = _track_rows(fleet, self._interceptors)
        track = _places(self._tracks, fleet.sensor_track[batch.sensor])
        self.sensor: SensorState = part_rows(state.sensor, span(self._sensors))
        self.track: TrackState = part_rows(state.track, span(self._tracks))
        self.interceptor: InterceptorState = part_rows(state.interceptor, span(self._interceptors))
        geometry = fleet.geometry.rows(span(self._sensors) if batch.sensor is self._sensors else batch.sensor)
        measured, impossible = quality.possible(sensing.measure(batch, geometry), geometry.static)
        spread = measured.variance + measured.lasting + measured.half**2 / 3
        self._b = _Batch(
            batch.time_s, sensor, track, interceptor, measured, np.sqrt(spread), impossible,
            _fingerprint(batch), batch.values, batch.restamped, _heights(batch), geometry.pitch,
        )  # fmt: skip
        self._base = fleet.track_base[self._tracks]
        self._pump_outs: list[PumpOut] = []
        self._hot: list[tuple[float, HotDischarge]] = []

    def round(self, a: int, b: int) -> None:
        """Fold readings a to b, all of different interceptors."""
        batch = self._b
        time = batch.time[a:b]
        sensors, tracks = _rows(batch.sensor[a:b], self._sensors), _rows(batch.track[a:b], self._tracks)
        spiked = self._layers(a, b, time, sensors, tracks)
        self._inlets(a, b, time, sensors)
        temperature = batch.column("tank_c", a, b)
        if temperature is None:
            temperature = batch.column("air_c", a, b)
        health.note(
            self.sensor, sensors, time, self._interval(a, b), batch.fingerprint[a:b],
            np.full(b - a, np.nan) if temperature is None else temperature,
            batch.column("battery_v", a, b), batch.column("battery_pct", a, b), batch.impossible[a:b], spiked,
            batch.restamped[a:b] if batch.restamped.size else np.zeros(b - a, dtype=bool),
        )  # fmt: skip
        self.track.last_s[tracks] = time
        self.interceptor.newest_s[batch.interceptor[a:b]] = time

    def _interval(self, a: int, b: int) -> Floats:
        return self._fleet.interval_s[self._sensors[self._b.sensor[a:b]]]

    def _layers(self, a: int, b: int, time: Floats, sensors: Rows, tracks: Rows) -> Bools:
        seen = self._b.seen
        track = self.track
        calibration.correct(seen.depth[a:b], track.gain[tracks], track.shift[tracks])
        before = track.time_s[tracks]
        dt_s = np.where(np.isfinite(before), np.maximum(time - before, 0.0), 0.0)
        old = track.kalman(tracks)
        k = predict(old, (dt_s / DAY_S)[:, None], diffusion(old.r, self._base[tracks], self._fleet.prior))
        suspect = self._mounts(a, b, time, sensors, tracks, k)
        depth, surface, half = seen.depth[a:b], seen.surface[a:b], seen.half[a:b]
        sight = self._sight(a, b, time)
        opened, ready = events.watch(track, tracks, sight, k)
        noise = np.sqrt(seen.variance[a:b])
        spike = np.abs(depth - k.x) > quality.SPIKE_FLOOR + 3.0 * np.sqrt(k.p00)
        odd = np.flatnonzero(either(spike))  # the median is asked only where the filter is surprised
        if len(odd):
            spike[odd] &= quality.spikes(self.sensor.recent[sensors][odd], depth[odd], noise[odd])
        self._remember(sensors, depth)
        below = quality.too_thin(seen.absent[a:b], k.x, k.p00) & self.sensor.seen[sensors]
        if below.any():
            depth, half = (np.where(below, seen.absent[a:b] / 2, v) for v in (depth, half))
        unrest = quality.rest_variance(surface, track.rest[tracks])[:, None]
        stale = suspect | health.frozen(self.sensor, sensors, self._b.fingerprint[a:b])
        good = np.isfinite(depth) & ~spike & ~(opened | stale)[:, None] & np.isfinite(unrest)
        memory = seen.memory_s[a:b] / DAY_S
        since = (time[:, None] - track.used_s[tracks]) / DAY_S
        since = np.where(np.isfinite(since), since, memory)
        lasting = seen.lasting[a:b] + half**2 / 3
        white = np.where(below, 0.0, seen.variance[a:b])
        variance = effective_variance(white + np.where(good, unrest, 0.0), lasting, since, memory)
        near = within(k, depth, half)
        k = update(k, np.where(good, near, np.nan), variance)
        track.set_kalman(tracks, k)
        track.time_s[tracks] = time
        bias = np.where(below, half**2 / 4, seen.bias[a:b])
        self._mark(tracks, sensors, time, good, bias * track.left[tracks])
        self._surface(tracks, time, surface, seen.surface_var[a:b], opened | suspect)
        ready = ready[~suspect[ready]]
        if len(ready):
            self._judge(a, ready, sight, k)
        self._wait(a, b)
        return np.asarray(either(spike) & ~opened)

    def _mounts(self, a: int, b: int, time: Floats, sensors: Rows, tracks: Rows, k: Kalman) -> Bools:
        """Take out what a loose sensor says, put right what a slipped one says; where a slip is suspected."""
        seen, sensor, track = self._b.seen, self.sensor, self.track
        heights = self._b.heights[a:b]
        away, begins = mounts.loose(sensor, sensors, time, seen.surface[a:b])
        if away.any():
            for field in (seen.surface, seen.depth, seen.absent):
                field[a:b][away] = np.nan
        offset = np.where(heights, sensor.offset[sensors], 0.0)
        self._put_right(a, b, offset)
        surface = np.where(heights, seen.surface[a:b], np.nan)
        suspect, found = mounts.slipping(
            sensor, sensors, time, surface, seen.depth[a:b], track.rest[tracks], k.x, self._b.pitch[a:b]
        )
        self._put_right(a, b, found)
        if offset.any() or found.any():
            seen.depth[a:b, SOLIDS] = np.maximum(seen.depth[a:b, SOLIDS], 0.0)
        ended = begins | (found != 0.0)
        if ended.any():
            track.mode[tracks] = np.where(ended, 0, track.mode[tracks])
        return suspect

    def _put_right(self, a: int, b: int, offset: Floats) -> None:
        if offset.any():
            seen = self._b.seen
            seen.surface[a:b] -= offset
            seen.depth[a:b, SOLIDS] -= offset

    def _sight(self, a: int, b: int, time: Floats) -> events.Sight:
        rows = self._tracks[self._b.track[a:b]]
        seen, fleet = self._b.seen, self._fleet
        depth = seen.depth[a:b]
        silence = time - self.track.last_s[self._b.track[a:b]]
        hidden = np.isnan(depth) & (silence >= events.HIDING_S)[:, None]
        return events.Sight(
            time=time,
            depth=depth,
            most=np.where(hidden, seen.absent[a:b], depth + seen.half[a:b]),
            sd=self._b.sd[a:b],
            surface=seen.surface[a:b],
            surface_sd=np.sqrt(seen.surface_var[a:b]),
            base=fleet.track_base[rows],
            static=fleet.track_static[rows],
            resolution=fleet.track_resolution[rows],
            interval=self._interval(a, b),
        )

    def _remember(self, sensors: Rows, depth: Floats) -> None:
        slot = self.sensor.slot[sensors]
        if in_step(sensors, slot):
            at = self.sensor.recent[:, :, slot[0]]
            at[:] = np.where(np.isfinite(depth), depth, at)
            self.sensor.slot[:] = (slot[0] + 1) % WINDOW
            return
        rows = np.arange(len(self.sensor.slot))[sensors]
        place = rows[:, None], np.arange(2), slot[:, None]
        self.sensor.recent[place] = np.where(np.isfinite(depth), depth, self.sensor.recent[place])
        self.sensor.slot[sensors] = (slot + 1) % WINDOW

    def _mark(self, tracks: Rows, sensors: Rows, time: Floats, good: Bools, bias: Floats) -> None:
        track = self.track
        track.seen[tracks] |= good
        self.sensor.seen[sensors] |= good
        track.used_s[tracks] = np.where(good, time[:, None], track.used_s[tracks])
        track.bias[tracks] = np.where(good, bias, track.bias[tracks])
        today = np.floor(time / DAY_S).astype(np.int64)
        new = either(good) & (today != track.day[tracks])
        track.days[tracks] += new
        track.day[tracks] = np.where(new, today, track.day[tracks])

    def _surface(self, tracks: Rows, time: Floats, surface: Floats, variance: Floats, opened: Bools) -> None:
        track = self.track
        there = np.isfinite(surface)
        track.sees_liquid[tracks] |= there
        last = track.last_s[tracks]
        dt_s = np.where(np.isfinite(last), time - last, 0.0)
        static = self._fleet.track_static[self._tracks[tracks]]
        rest = quality.settle(track.rest[tracks], surface, static, dt_s)
        track.rest[tracks] = np.where(opened, track.rest[tracks], rest)
        calm = quality.calm(track.calm[tracks], surface, static, dt_s)
        track.calm[tracks] = np.where(opened, track.calm[tracks], calm)
        sure = there & (variance < hydrostatics.PRESSURE_SD**2)
        since = track.high_s[tracks]
        since = np.where(sure & (surface > static + HIGH_LEVEL) & np.isnan(since), time, since)
        track.high_s[tracks] = np.where(sure & (surface < static + HIGH_CLEAR), np.nan, since)
        rows = self._tracks[tracks]
        brim = sure & (surface >= self._fleet.track_brim[rows]) & (surface >= track.level[tracks] + RISING)
        track.brim_s[tracks] = np.where(there, np.where(brim, time, np.nan), track.brim_s[tracks])
        track.level[tracks] = np.where(there, surface, track.level[tracks])

    def _judge(self, a: int, ready: Ints, sight: events.Sight, k: Kalman) -> None:
        for at in ready.tolist():
            row = int(self._b.track[a + at])
            case = events.judge(self.track, row, sight, at, k)
            surface = float(sight.surface[at])
            if np.isfinite(surface):
                self.track.rest[row] = surface
            self.track.mode[row] = 0
            if case.verdict == events.NONE:
                away_s = float(sight.time[at] - self.track.open_s[row])
                self.track.calm[row] = quality.less_calm(float(self.track.calm[row]), away_s)
                continue
            if case.verdict == events.TAMPER:
                self.track.tamper_s[row] = self.track.open_s[row]
            events.reset(k, at, case, float(sight.base[at]), self._fleet.prior)
            for field, value in zip(
                (self.track.x, self.track.r, self.track.p00, self.track.p01, self.track.p11), k, strict=True
            ):
                field[row] = value[at]
            if case.verdict < 0:
                continue
            whole = case.verdict == events.COMPLETE
            calibration.served(self.track, row, complete=whole, base=float(sight.base[at]))
            self.track.verdict[row] = case.verdict
            self.track.verdict_conf[row] = case.confidence
            self.track.verdict_before[row] = case.before
            self.track.verdict_after[row] = case.after
            if case.verdict == events.COMPLETE:
                self.track.days[row] = 0
            who = int(self._b.interceptor[a + at])
            if np.isnan(self.interceptor.waiting_s[who]):
                self.interceptor.waiting_s[who] = sight.time[at]

    def _wait(self, a: int, b: int) -> None:
        who = self._b.interceptor[a:b]
        for at in np.flatnonzero(np.isfinite(self.interceptor.waiting_s[who])).tolist():
            row = int(who[at])
            number = int(self._interceptors[row])
            first = int(np.searchsorted(self._tracks, self._fleet.tracks_of[number][0]))
            tracks = np.arange(first, first + len(self._fleet.tracks_of[number]))
            now_s, since_s = float(self._b.time[a + at]), float(self.interceptor.waiting_s[row])
            pump_out = settle_cases(self.track, tracks, now_s, since_s, self._fleet, number)
            if pump_out is None:
                continue
            self._pump_outs.append(pump_out)
            self.interceptor.waiting_s[row] = np.nan
            if pump_out.complete:
                self.interceptor.since_s[row] = pump_out.end_s

    def _inlets(self, a: int, b: int, time: Floats, sensors: Rows) -> None:
        columns = [self._b.column(name, a, b) for name in ("inlet_c", "inlet_max_c", "inlet_over_s")]
        if all(c is None for c in columns):
            return
        none = np.full(b - a, np.nan)
        inlet, peak, over = (none if c is None else c for c in columns)
        rows = self._sensors[self._b.sensor[a:b]]
        fleet = self._fleet
        rose, ended = discharge.watch(
            self.sensor, sensors, time, inlet, peak, over,
            fleet.hot_limit_c[rows], fleet.tau_s[rows], fleet.interval_s[rows],
        )  # fmt: skip
        for at in rose.tolist():
            self._tell(int(self._b.sensor[a + at]), float(time[at]), lasting=True)
        for at in ended.tolist():
            row = int(self._b.sensor[a + at])
            self._tell(row, float(time[at]), lasting=False)
            discharge.close(self.sensor, row)

    def _tell(self, row: int, now_s: float, *, lasting: bool) -> None:
        s, model = self.sensor, self._fleet.sensors[int(self._sensors[row])]
        start, end = float(s.hot_start_s[row]), float(s.hot_end_s[row])
        seconds = float(s.hot_over_s[row])
        episode = HotDischarge(
            interceptor=model.interceptor,
            sensor=model.id,
            start_s=start,
            end_s=None if lasting else end,
            peak_c=float(s.hot_peak_c[row]),
            duration_s=seconds if seconds > 0 else end - start,
            status="confirmed" if s.hot[row] == discharge.CONFIRMED else "possible",
        )
        self._hot.append((now_s, episode))

    def finish(self, pump_outs: list[PumpOut], hot: list[tuple[float, HotDischarge]]) -> None:
        """Put back what was copied, and tell what was noticed, hot discharges with the instant of the remark."""
        for whole, rows, part in (
            (self._whole.sensor, self._sensors, self.sensor),
            (self._whole.track, self._tracks, self.track),
            (self._whole.interceptor, self._interceptors, self.interceptor),
        ):
            where = span(rows)
            if not isinstance(where, slice):
                put_rows(whole, where, part)  # type: ignore[type-var]  # each part goes back to its own kind
        pump_outs += self._pump_outs
        hot += self._hot


def _rows(rows: Ints, whole: Ints) -> Rows:
    """Row numbers, or a plain slice where they are all rows in order: views are cheaper than copies."""
    if len(rows) == len(whole) and bool((rows == np.arange(len(whole))).all()):
        return slice(None)
    return rows


def _touched(rows: Ints) -> tuple[Ints, Ints]:
    """The distinct rows in order, and the place of each of ``rows`` among them."""
    if len(rows) and bool((rows[1:] > rows[:-1]).all()):
        return rows, np.arange(len(rows))
    return np.unique(rows, return_inverse=True)


def _places(rows: Ints, wanted: Ints) -> Ints:
    """The place of each of ``wanted`` among the ascending ``rows``, which hold them all."""
    where = span(rows)
    return wanted - where.start if isinstance(where, slice) else np.searchsorted(rows, wanted)


def _track_rows(fleet: Fleet, interceptors: Ints) -> Ints:
    """All tracks of these interceptors; tracks are laid out in order of their interceptor."""
    start = fleet.tracks_of.start
    first = start[interceptors]
    if bool((start[interceptors + 1] - first == 1).all()):
        return first
    return fleet.tracks_of.rows(interceptors)[0]


def _heights(batch: ReadingBatch) -> Bools:
    told = np.zeros(len(batch.time_s), dtype=bool)
    for name in ("solids_top_m", "echo_solids_s"):
        column = batch.values.get(name)
        if column is not None:
            told |= np.isfinite(column)
    if batch.profile.size:
        told |= np.isfinite(batch.profile).any(axis=1)
    return told


def _fingerprint(batch: ReadingBatch) -> Floats:
    """One number that changes when any level value changes, NaN where a reading has none."""
    out = np.zeros(len(batch.time_s))
    any_ = np.zeros(len(batch.time_s), dtype=bool)
    for weight, name in enumerate(_LEVEL_COLUMNS, start=2):
        column = batch.values.get(name)
        if column is not None:
            there = np.isfinite(column)
            out += np.where(there, column * (1.0 + weight**0.5), 0.0)
            any_ |= there
    if batch.profile.size:
        there = np.isfinite(batch.profile)
        weights = np.sqrt(np.arange(2.0, batch.profile.shape[1] + 2.0))
        out += np.cumsum(np.where(there, batch.profile * weights, 0.0), axis=1)[:, -1]
        any_ |= there.any(axis=1)
    return np.where(any_, out, np.nan)
