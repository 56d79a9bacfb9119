"""A city of interceptors, stepped a quarter of an hour at a time: what its sensors send, and the truth."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from simulators.devices import Devices
from simulators.faults import Fault, FaultKind, FaultPlan
from simulators.fleetfile import fleet_toml
from simulators.interceptor import Depths, Tanks, TankState, advance, depths
from simulators.kitchen import KINDS, SLOT_S, Inflow, KitchenDay, Kitchens, day_shape, upset
from simulators.network import Message, Network, Quality
from simulators.past import live_through
from simulators.plan import CityPlan, draw_plan
from simulators.probe import Pipes
from simulators.scenario import DEFAULT_START_S, Scenario
from simulators.sensor import Principle
from simulators.strike import fault_lines, strike
from simulators.trucks import Job, Yard
from simulators.truth import Line, Witness, header_lines, seconds

__all__ = ["DEFAULT_START_S", "City", "Step", "UnknownInterceptorError"]

STRIDE: Final = 0x9E3779B97F4A7C15F39CC0605CEDC835  # between steps, of the noise: odd and large
FIRST_PART: Final = 0.62  # of the surface that belongs to the first of two compartments


class UnknownInterceptorError(LookupError):
    """The city has no interceptor of that id."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step brought: messages in order of arrival, lines of truth, pump-outs that ended."""

    start_s: float
    messages: list[Message]
    truth: list[Line]
    done: list[Job]


class City:
    """A simulated city.

    Parameters
    ----------
    seed
        Everything follows from it: the same seed gives the same bytes.
    count
        Interceptors, at least 1.
    start_s
        First instant [s since the epoch], a multiple of 900.
    quality
        How well the network carries messages.
    kitchens, principles
        Weights of the kinds of kitchen and of the sensing principles; empty: the usual mix.
    faults
        The kinds that strike, and for how many days [day] from the start they are drawn.

    Raises
    ------
    ValueError
        ``start_s`` is no multiple of 900, or ``count`` below 1.
    """

    def __init__(
        self,
        seed: int,
        count: int = 40,
        start_s: float = DEFAULT_START_S,
        quality: Quality | None = None,
        *,
        kitchens: Mapping[str, float] | None = None,
        principles: Mapping[Principle, float] | None = None,
        faults: Mapping[FaultKind, FaultPlan] | None = None,
        fault_days: float = 366.0,
    ) -> None:
        if start_s % SLOT_S:
            raise ValueError(f"start_s: must be a multiple of {SLOT_S}, is {start_s!r}")
        seeds = np.random.SeedSequence(seed).spawn(7)
        streams = [np.random.default_rng(item) for item in seeds]
        noise = np.random.PCG64(seeds[4])
        streams[4] = np.random.Generator(noise)
        self.plan: CityPlan = draw_plan(streams[0], count, start_s, principles or None, kitchens)
        self.faults = strike(self.plan, faults or {}, start_s, fault_days, seed)
        self.start_s = start_s
        self.now_s = start_s
        self._zone = ZoneInfo(self.plan.timezone)
        feeding = _kitchens(self.plan, streams[1])
        self._tanks = _tanks(self.plan)
        past = live_through(self.plan, feeding, self._tanks, start_s, streams[2])
        self._state = past.state
        self._last_pump_outs = past.last_pump_outs
        self._weather = KitchenDay(feeding, streams[3])
        self._pipes = Pipes(count)
        self._devices = Devices(self.plan, streams[4], self.faults)
        self._noise = noise
        self._noise_from = noise.state
        self._network = Network(
            quality or Quality(),
            streams[5],
            [f"quarterline/v1/{sensor.id}/readings" for sensor in self.plan.sensors],
            [sensor.interceptor for sensor in self.plan.sensors],
            self.faults,
        )
        self._yard = Yard(streams[6], count)
        self._layers = depths(self._tanks, self._state)
        self._witness = Witness(self.plan, self._tanks, self._layers)
        self._index = {item.id: row for row, item in enumerate(self.plan.interceptors)}
        self._opening: list[Line] = header_lines(self.plan, start_s)
        self._ahead = deque(fault_lines(self.plan, self.faults.faults))
        self._skims: deque[Fault] = deque(one for one in self.faults.faults if one.kind is FaultKind.SKIM)

    @classmethod
    def of(cls, scenario: Scenario) -> City:
        """The city of a scenario.

        Raises
        ------
        ValueError
            As the city itself.
        """
        return cls(
            scenario.seed,
            scenario.count,
            scenario.start_s,
            scenario.quality,
            kitchens=scenario.kitchens,
            principles=scenario.principles,
            faults=scenario.faults,
            fault_days=scenario.days,
        )

    @property
    def tanks(self) -> Tanks:
        """Geometry of the interceptors."""
        return self._tanks

    @property
    def state(self) -> TankState:
        """What stands in them now; not to be changed from outside."""
        return self._state

    def layers(self) -> Depths:
        """Latent layers now [m]."""
        return self._layers

    def interceptor_index(self, interceptor: str) -> int:
        """Row of an interceptor.

        Raises
        ------
        UnknownInterceptorError
            The city has none of that id.
        """
        try:
            return self._index[interceptor]
        except KeyError:
            raise UnknownInterceptorError(f"interceptor: {interceptor!r} is not in this city") from None

    def fleet_toml(self, webhook_base: str | None = None) -> str:
        """The fleet file; haulers listen under ``webhook_base``/<hauler id>."""
        return fleet_toml(self.plan, self._last_pump_outs, webhook_base)

    def pump_out(self, interceptor: str, at_s: float, *, complete: bool = True) -> Job:
        """Send a truck: at the first step at or after ``at_s`` [s since the epoch] the pump begins.

        The returned job fills in as the truck works; ``done`` turns true when it leaves.

        Raises
        ------
        UnknownInterceptorError
            The city has no such interceptor.
        """
        return self._yard.ask(self.interceptor_index(interceptor), at_s, complete=complete)

    def step(self) -> Step:
        """Live through the next quarter of an hour."""
        now_s, before = self.now_s, self._layers
        truth, self._opening = self._opening, []
        local_s = self._local(now_s)
        if local_s % 86400 == 0:
            truth += self._witness.midnight(now_s, before)
        truth += self._faults_begun(now_s + SLOT_S)
        ended = self._yard.advance(self._tanks, self._state, now_s)
        done = [job for job in ended if not job.skim]
        inflow = self._inflow(now_s, local_s)
        advance(self._tanks, self._state, inflow, float(SLOT_S))
        self._layers = after = depths(self._tanks, self._state)
        pulse = self._pipes.advance(inflow.mix_c, inflow.pulse_c, inflow.pulse_start_s, inflow.pulse_s)
        age_days = (now_s - self.start_s) / 86400.0
        self._restart_noise(now_s)
        spoken = self._devices.speak(now_s, before, after, pulse, self._yard.at_work, age_days)
        self._network.carry(spoken.sent_us, spoken.topics, spoken.payloads)
        self.now_s = now_s + SLOT_S
        truth += self._witness.crossings(now_s, after, ended)
        truth += self._witness.hot_discharges(now_s, inflow)
        truth += self._witness.pump_outs(done)
        return Step(now_s, self._network.deliver(int(self.now_s * 1e6)), truth, done)

    def _restart_noise(self, now_s: float) -> None:
        """Give every step its own place in the devices' noise: more messages in one change no later step."""
        self._noise.state = self._noise_from
        self._noise.advance(int((now_s - self.start_s) // SLOT_S) * STRIDE)

    def _faults_begun(self, end_s: float) -> list[Line]:
        """Lines of the faults that begin before ``end_s``; the men with the skimmer go to work."""
        while self._skims and self._skims[0].start_s < end_s:
            skim = self._skims.popleft()
            self._yard.skim(skim.interceptor, skim.start_s, skim.size, skim.end_s - skim.start_s)
        lines: list[Line] = []
        while self._ahead and seconds(self._ahead[0]["at"]) < end_s:
            lines.append(self._ahead.popleft())
        return lines

    def _inflow(self, now_s: float, local_s: float) -> Inflow:
        inflow = self._weather.draw(local_s, float(SLOT_S))
        if not self.faults.faults:
            return inflow
        closed = np.isfinite(self.faults.sizes(FaultKind.CLOSURE, now_s))
        return upset(inflow, closed, self.faults.sizes(FaultKind.MENU_SHIFT, now_s))

    def _local(self, now_s: float) -> float:
        offset = datetime.fromtimestamp(now_s, self._zone).utcoffset()
        return now_s + (offset.total_seconds() if offset is not None else 0.0)


def _kitchens(plan: CityPlan, rng: np.random.Generator) -> Kitchens:
    homes = [plan.sites[item.site] for item in plan.interceptors]
    kinds = [KINDS[site.kitchen] for site in homes]
    shifts = rng.normal(0.0, 0.4, len(plan.sites))
    daily = [
        site.seats * kind.litres_a_seat / 1e3 * item.share
        for site, kind, item in zip(homes, kinds, plan.interceptors, strict=True)
    ]
    load = np.array([item.load for item in plan.interceptors])
    return Kitchens(
        daily_m3=np.array(daily),
        slot_share=np.stack(
            [day_shape(kind, shifts[item.site]) for kind, item in zip(kinds, plan.interceptors, strict=True)]
        ),
        weekday=np.array([kind.weekday for kind in kinds]),
        grease_kg_m3=np.array([kind.fog_g_m3 for kind in kinds]) / 1e3 * load,
        solids_kg_m3=np.array([kind.solids_g_m3 for kind in kinds]) / 1e3 * np.sqrt(load),
        mix_c=np.array([kind.mix_c for kind in kinds]) + rng.normal(0.0, 1.5, load.size),
        purges_a_day=np.array([item.purges_a_day for item in plan.interceptors]),
        season_phase=rng.uniform(0.0, 2 * np.pi, load.size),
    )


def _tanks(plan: CityPlan) -> Tanks:
    depth = np.array([item.base_depth_mm for item in plan.interceptors]) / 1e3
    area = np.array([item.volume_l for item in plan.interceptors]) / 1e3 / depth
    two = np.array([item.compartments > 1 for item in plan.interceptors])
    first = np.where(two, FIRST_PART, 1.0) * area
    return Tanks(np.stack([first, area - first], axis=1), depth.copy(), depth)
