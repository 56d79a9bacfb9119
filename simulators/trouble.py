"""Faults of devices: from the schedule to what each reading suffers.

What the size of a fault means: coating, how ripe the film gets (0 … 1); false echo, a wrong distance [m]; foam,
its height [m]; dead electrode, how many; drift, metres in 30 days; spikes, their height [m]; moved, how far
the mount slipped down [m]; low battery, how many volts are lost in the end; clock reset, the day from which the
clock starts again, counted from 1970-01-01. Stuck and cover open have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import cos, pi
from typing import Final

import numpy as np

from simulators.faults import DAY_S, FaultKind, Schedule
from simulators.kitchen import Bools, Floats
from simulators.sensor import Harm, View

Ints = np.ndarray
FILM_DAYS: Final = 10.0  # a film ripens to 63 % in this time
DRIFT_DAYS: Final = 30.0
BATTERY_DAYS: Final = 5.0
FALSE_SHARE: Final = 0.3  # of the readings under a false echo
SPIKE_SHARE: Final = 0.04
WEAK_V: Final = 3.2  # below, messages begin to fail …
DEAD_V: Final = 2.4  # … and here nearly all do
MOST_MISSED: Final = 0.9
FILMED_PROBE: Final = 1.5  # a ripe film makes a probe slower by this factor more
HARMING: Final = (
    FaultKind.COATING,
    FaultKind.FALSE_ECHO,
    FaultKind.FOAM,
    FaultKind.DEAD_ELECTRODE,
    FaultKind.DRIFT,
    FaultKind.SPIKES,
)
OF_DEVICES: Final = (
    *HARMING,
    FaultKind.STUCK,
    FaultKind.MOVED,
    FaultKind.COVER_OPEN,
    FaultKind.LOW_BATTERY,
    FaultKind.CLOCK_RESET,
)
YEAR_S: Final = 365.25 * DAY_S
OUTDOORS_C: Final = (18.0, 4.5, 6.0)  # mean, and swing of year and day, near Los Angeles
WARMEST_UTC_S: Final = 22 * 3600.0  # 14:00 there
WARMEST_OF_YEAR_S: Final = 218 * DAY_S


def outdoors_c(now_s: float) -> float:
    """Air outdoors [degC] at ``now_s`` [s since the epoch]: the mean course of year and day."""
    mean, year, day = OUTDOORS_C
    season = cos(2 * pi * (now_s - WARMEST_OF_YEAR_S) / YEAR_S)
    return mean + year * season + day * cos(2 * pi * (now_s - WARMEST_UTC_S) / DAY_S)


@dataclass(frozen=True, slots=True)
class Force:
    """One kind of fault in force: where, since when [s since the epoch] and how strong (0 elsewhere), (d,)."""

    on: Bools
    start_s: Floats
    size: Floats


@dataclass(frozen=True, slots=True)
class Acting:
    """The faults in force at ``now_s`` [s since the epoch]; a kind that nobody suffers from is not in it."""

    now_s: float
    forces: Mapping[FaultKind, Force]

    def on(self, kind: FaultKind) -> Bools | None:
        """Which devices suffer from ``kind``, shape (d,); None where none does."""
        force = self.forces.get(kind)
        return None if force is None else force.on

    def grown(self, kind: FaultKind, days: float) -> Floats | None:
        """Size times the part 1 - exp(-age / days) that has come about so far, shape (d,)."""
        force = self.forces.get(kind)
        if force is None:
            return None
        return np.asarray(force.size * -np.expm1(-(self.now_s - force.start_s) / (days * DAY_S)))


class Troubles:
    """Draws what faults leave to chance, each kind from a stream of its own.

    Parameters
    ----------
    schedule
        Faults by interceptor.
    home
        Interceptor of each device, shape (d,).
    rng
        Gives the streams; nothing is drawn from it.
    """

    def __init__(self, schedule: Schedule, home: Ints, rng: np.random.Generator) -> None:
        mine = [one for one in schedule.faults if one.kind in OF_DEVICES]
        self.kinds = frozenset(one.kind for one in mine)
        self._schedule = schedule
        self._home = home
        self._streams = dict(zip(FaultKind, rng.spawn(len(FaultKind)), strict=True))
        self._edges = np.unique([edge for one in mine for edge in (one.start_s, one.end_s)])
        self._between = -1
        self._forces: dict[FaultKind, Force] = {}

    def acting(self, now_s: float) -> Acting:
        """The faults in force in the step that starts at ``now_s`` [s since the epoch]."""
        between = int(np.searchsorted(self._edges, now_s, side="right"))
        if between != self._between:
            self._between = between
            self._forces = {}
            for kind in FaultKind:
                if kind not in self.kinds:
                    continue
                size = self._schedule.sizes(kind, now_s)[self._home]
                on = np.isfinite(size)
                if on.any():
                    age_s = np.where(on, self._schedule.ages(kind, now_s)[self._home], 0.0)
                    self._forces[kind] = Force(on, now_s - age_s, np.where(on, size, 0.0))
        return Acting(now_s, self._forces)

    def harm(self, acting: Acting, sensor: Ints) -> Harm | None:
        """What disturbs the readings of devices ``sensor``, shape (r,); None where nothing does."""
        forces = acting.forces
        if not any(kind in forces for kind in HARMING):
            return None
        count = sensor.size
        harm = Harm.none(count)
        foam, false, spike, drift, dead = harm.foam, harm.false, harm.spike, harm.drift, harm.dead
        if (force := forces.get(FaultKind.FOAM)) is not None:
            foam = force.size[sensor] * self._streams[FaultKind.FOAM].uniform(0.6, 1.4, count)
        if (force := forces.get(FaultKind.FALSE_ECHO)) is not None:
            heard = self._streams[FaultKind.FALSE_ECHO].random(count) < FALSE_SHARE
            false = np.where(heard & force.on[sensor], force.size[sensor], np.nan)
        if (force := forces.get(FaultKind.SPIKES)) is not None:
            chance = self._streams[FaultKind.SPIKES].random(count)
            sign = np.where(chance < SPIKE_SHARE / 2, -1.0, np.where(chance < SPIKE_SHARE, 1.0, 0.0))
            spike = sign * force.size[sensor]
        if (force := forces.get(FaultKind.DRIFT)) is not None:
            age_days = (acting.now_s - force.start_s) / DAY_S
            drift = (force.size * age_days / DRIFT_DAYS)[sensor]
        if (force := forces.get(FaultKind.DEAD_ELECTRODE)) is not None:
            dead = np.where(force.on, np.maximum(np.round(force.size), 1.0), 0.0)[sensor]
        film = self.film(acting)[sensor]
        hurt = np.zeros(self._home.size, dtype=bool)
        for kind in HARMING:
            if kind in forces:
                hurt |= forces[kind].on
        luck = self._streams[FaultKind.COATING].random(count)
        return Harm(foam, film, false, drift, spike, dead, luck, hurt[sensor])

    def film(self, acting: Acting) -> Floats:
        """How ripe the film on each device is, shape (d,), 0 … 1."""
        film = acting.grown(FaultKind.COATING, FILM_DAYS)
        return np.zeros(self._home.size) if film is None else film

    def disturb(self, acting: Acting, sensor: Ints, view: View, reach_m: Floats, outside_c: float) -> View:
        """What devices ``sensor`` have before them under their faults; ``reach_m`` is the liquid's depth.

        A mount that slipped down sees every height that much higher. Under an open cover a device lies
        anywhere, in air of ``outside_c`` [degC].
        """
        harm = self.harm(acting, sensor)
        if harm is not None:
            view = replace(view, harm=harm)
        slip = acting.forces.get(FaultKind.MOVED)
        if slip is not None:
            down = slip.size[sensor]
            view = replace(view, surface=view.surface + down, solids=view.solids + down)
        out = acting.on(FaultKind.COVER_OPEN)
        if out is None:
            return view
        lying = out[sensor]
        part = self._streams[FaultKind.COVER_OPEN].random((3, sensor.size))
        surface = 1.3 * reach_m * part[0]
        air_c = view.tank_c if view.air_c is None else view.air_c
        return replace(
            view,
            surface=np.where(lying, surface, view.surface),
            fog=np.where(lying, 0.6 * surface * part[1], view.fog),
            solids=np.where(lying, 0.4 * surface * part[2], view.solids),
            tank_c=np.where(lying, outside_c, view.tank_c),
            air_c=np.where(lying, outside_c, air_c),
        )

    def inlet(
        self, acting: Acting, inlet: tuple[Floats, Floats, Floats], outside_c: float
    ) -> tuple[Floats, Floats, Floats]:
        """What inlet probes say, shape (d,): under an open cover they hang in the air."""
        out = acting.on(FaultKind.COVER_OPEN)
        if out is None:
            return inlet
        now, highest, over = inlet
        return np.where(out, outside_c, now), np.where(out, outside_c, highest), np.where(out, 0.0, over)

    def lost_v(self, acting: Acting) -> Floats | float:
        """Volts that each battery has lost beyond its age, shape (d,)."""
        lost = acting.grown(FaultKind.LOW_BATTERY, BATTERY_DAYS)
        return 0.0 if lost is None else lost

    def missed(self, acting: Acting, sensor: Ints, volt: Floats) -> Bools | None:
        """Messages that a weak battery fails to send, shape (r,); ``volt`` has shape (d,)."""
        weak = acting.on(FaultKind.LOW_BATTERY)
        if weak is None:
            return None
        chance = np.clip((WEAK_V - volt) / (WEAK_V - DEAD_V), 0.0, MOST_MISSED)
        luck = self._streams[FaultKind.LOW_BATTERY].random(sensor.size)
        return np.asarray(weak[sensor] & (luck < chance[sensor]))

    def stated_us(self, acting: Acting, sensor: Ints, sent_us: Ints) -> Ints:
        """The times that the devices state [us since the epoch] in messages sent at ``sent_us``, shape (r,)."""
        force = acting.forces.get(FaultKind.CLOCK_RESET)
        if force is None:
            return sent_us
        ahead_us = ((force.size * DAY_S - force.start_s) * 1e6).astype(np.int64)
        return np.where(force.on[sensor], sent_us + ahead_us[sensor], sent_us)
