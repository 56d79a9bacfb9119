"""Faults of devices: from the schedule to what each reading suffers.

What the size of a fault means: coating, how ripe the film gets (0 … 1); false echo, a wrong distance [m]; foam,
its height [m]; dead electrode, how many; drift, metres in 30 days; spikes, their height [m]; moved, how far
the mount slipped down [m]; low battery, how many volts are lost in the end; clock reset, the day from which the
clock starts again, counted from 1970-01-01. Stuck and cover open have none.
"""

from __future__ import annotations

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
class Acting:
    """The faults in force in one step: size by kind for each device, shape (d,), and age [s]; NaN: none."""

    sizes: dict[FaultKind, Floats]
    ages: dict[FaultKind, Floats]

    def on(self, kind: FaultKind) -> Bools | None:
        """Which devices suffer from ``kind``; None where none does."""
        sizes = self.sizes.get(kind)
        return None if sizes is None else np.isfinite(sizes)

    def size(self, kind: FaultKind) -> tuple[Floats, Floats] | None:
        """Size and age [s] of ``kind``; None where nobody suffers from it."""
        sizes = self.sizes.get(kind)
        return None if sizes is None else (sizes, self.ages[kind])

    @property
    def harming(self) -> bool:
        """Whether any reading suffers in its value."""
        return any(kind in self.sizes for kind in HARMING)


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
        self._schedule = schedule
        self._home = home
        self._kinds = tuple(kind for kind in OF_DEVICES if any(one.kind is kind for one in schedule.faults))
        self._streams = dict(zip(FaultKind, rng.spawn(len(FaultKind)), strict=True))

    def acting(self, now_s: float) -> Acting:
        """The faults in force in the step that starts at ``now_s`` [s since the epoch]."""
        sizes, ages = {}, {}
        for kind in self._kinds:
            size = self._schedule.sizes(kind, now_s)[self._home]
            if np.isfinite(size).any():
                sizes[kind] = size
                ages[kind] = self._schedule.ages(kind, now_s)[self._home]
        return Acting(sizes, ages)

    def harm(self, acting: Acting, sensor: Ints) -> Harm | None:
        """What disturbs the readings of devices ``sensor``, shape (r,); None where nothing does."""
        if not acting.harming:
            return None
        count = sensor.size
        harm = Harm.none(count)

        def sized(kind: FaultKind) -> Floats:
            found = acting.sizes.get(kind)
            return np.zeros(count) if found is None else np.nan_to_num(found[sensor])

        foam, false = sized(FaultKind.FOAM), harm.false
        if FaultKind.FOAM in acting.sizes:
            foam = foam * self._streams[FaultKind.FOAM].uniform(0.6, 1.4, count)
        if (wrong := acting.sizes.get(FaultKind.FALSE_ECHO)) is not None:
            heard = self._streams[FaultKind.FALSE_ECHO].random(count) < FALSE_SHARE
            false = np.where(heard, wrong[sensor], np.nan)
        spike = sized(FaultKind.SPIKES)
        if FaultKind.SPIKES in acting.sizes:
            chance = self._streams[FaultKind.SPIKES].random(count)
            spike = np.where(chance < SPIKE_SHARE, spike, 0.0)
            spike = np.where(chance < SPIKE_SHARE / 2, -spike, spike)
        dead = acting.on(FaultKind.DEAD_ELECTRODE)
        return Harm(
            foam=foam,
            film=self.film(acting)[sensor],
            false=false,
            drift=sized(FaultKind.DRIFT) * self._aged(acting, FaultKind.DRIFT)[sensor] / DRIFT_DAYS,
            spike=spike,
            dead=harm.dead
            if dead is None
            else np.where(dead[sensor], np.maximum(np.round(sized(FaultKind.DEAD_ELECTRODE)), 1.0), 0.0),
            luck=self._streams[FaultKind.COATING].random(count),
        )

    def film(self, acting: Acting) -> Floats:
        """How ripe the film on each device is, shape (d,), 0 … 1."""
        coating = acting.size(FaultKind.COATING)
        if coating is None:
            return np.zeros(self._home.size)
        return np.nan_to_num(coating[0] * -np.expm1(-coating[1] / DAY_S / FILM_DAYS))

    def disturb(self, acting: Acting, sensor: Ints, view: View, reach_m: Floats, outside_c: float) -> View:
        """What devices ``sensor`` have before them under their faults; ``reach_m`` is the liquid's depth.

        A mount that slipped down sees every height that much higher. Under an open cover a device lies
        anywhere, in air of ``outside_c`` [degC].
        """
        view = replace(view, harm=self.harm(acting, sensor))
        slip = acting.sizes.get(FaultKind.MOVED)
        if slip is not None:
            down = np.nan_to_num(slip[sensor])
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

    def lost_v(self, acting: Acting) -> Floats:
        """Volts that each battery has lost beyond its age, shape (d,)."""
        battery = acting.size(FaultKind.LOW_BATTERY)
        if battery is None:
            return np.zeros(self._home.size)
        return np.nan_to_num(battery[0] * -np.expm1(-battery[1] / DAY_S / BATTERY_DAYS))

    def missed(self, acting: Acting, sensor: Ints, volt: Floats) -> Bools | None:
        """Messages that a weak battery fails to send, shape (r,); ``volt`` has shape (d,)."""
        weak = acting.on(FaultKind.LOW_BATTERY)
        if weak is None:
            return None
        chance = np.clip((WEAK_V - volt) / (WEAK_V - DEAD_V), 0.0, MOST_MISSED)
        luck = self._streams[FaultKind.LOW_BATTERY].random(sensor.size)
        return np.asarray(weak[sensor] & (luck < chance[sensor]))

    def stated_us(self, acting: Acting, sensor: Ints, sent_us: Ints, offset_s: Floats) -> Ints:
        """The times that the devices state [us since the epoch] in messages sent at ``sent_us``, shape (r,)."""
        reset = acting.size(FaultKind.CLOCK_RESET)
        if reset is None:
            return sent_us
        since_s = reset[0] * DAY_S + reset[1]
        wrong = np.isfinite(since_s[sensor])
        own_us = (np.nan_to_num(since_s[sensor]) + offset_s) * 1e6
        return np.where(wrong, own_us.astype(np.int64), sent_us)

    def _aged(self, acting: Acting, kind: FaultKind) -> Floats:
        """Age of ``kind`` at each device [day], 0 where there is none."""
        ages = acting.ages.get(kind)
        return np.zeros(self._home.size) if ages is None else np.nan_to_num(ages) / DAY_S
