"""The fleet's devices: they look at the layers, gather inlet temperatures and speak in native messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from simulators.electronics import electronics
from simulators.faults import FaultKind, Schedule
from simulators.interceptor import Depths as Layers
from simulators.kitchen import SLOT_S, Bools, Floats
from simulators.plan import CityPlan
from simulators.probe import Baths, Probes, Pulse
from simulators.sensor import Device, Principle, View
from simulators.trouble import FILMED_PROBE, Acting, Troubles, outdoors_c

Ints = np.ndarray
AGITATING_M: Final = 0.008  # head over the weir that doubles the unrest at the interfaces
FAHRENHEIT: Final = frozenset({Principle.ROD, Principle.DEPTHS, Principle.AIR_GAP, Principle.SONAR_DOWN})
EPOCH_UNIT: Final = {  # microseconds in the unit of their clock; the others write ISO 8601
    Principle.DEPTHS: 1_000_000,
    Principle.ECHO: 1_000,
    Principle.AIR_GAP: 1_000_000,
    Principle.PRESSURE: 1_000,
    Principle.RADAR: 1,
}
CLIMATE: Final = frozenset({"air_c"})  # fields of a reading that are no levels
DRAUGHT: Final = 0.35  # how far the air under the cover is from the tank's warmth, towards the air outdoors
WATER_KG_M3: Final = 998.0
NOTHING: Final = Acting(0.0, {})
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Spoken:
    """Messages of one step in order of sending."""

    sent_us: Ints
    topics: list[str]
    payloads: list[bytes]

    def take(self, at: Ints) -> Spoken:
        """The messages ``at``."""
        rows = at.tolist()
        return Spoken(
            self.sent_us[at], [self.topics[row] for row in rows], [self.payloads[row] for row in rows]
        )


@dataclass(slots=True)
class _Last:
    """What the devices of a group said in the last step: which of them, and each field's values."""

    rows: Ints | None = None
    told: dict[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Who speaks in a step, in order of time, and where each group's devices stand among them."""

    sensor: Ints
    offset_s: Floats
    regular: Ints
    home: Ints
    order: list[int]
    groups: list[tuple[Ints, list[int], Ints, list[int]]]  # places, the same, rows, electrodes


@dataclass(frozen=True, slots=True)
class _Group:
    principle: Principle
    device: Device
    electrodes: tuple[int, ...]
    last: _Last


class Devices:
    """All sensors of a city.

    Parameters
    ----------
    plan
        The city.
    rng
        Every device's electronics and noise follow from it.
    faults
        What befalls the devices; None: nothing does.
    """

    def __init__(self, plan: CityPlan, rng: np.random.Generator, faults: Schedule | None = None) -> None:
        sensors = plan.sensors
        self._rng = rng
        self._home = np.array([sensor.interceptor for sensor in sensors])
        self._phase_s = np.array([sensor.phase_s for sensor in sensors])
        self._quick = np.array([sensor.in_motion_s is not None for sensor in sensors])
        self._topic = [f"quarterline/v1/{sensor.id}/readings" for sensor in sensors]
        self._seq = rng.integers(100, 40_000, len(sensors)).tolist()
        self._volt = rng.normal(3.62, 0.03, len(sensors))
        self._has_inlet = np.array([sensor.tau_s is not None for sensor in sensors])
        self.probes = Probes(np.array([sensor.tau_s or 10.0 for sensor in sensors]))
        self._baths = Baths(np.array([sensor.tank_tau_s for sensor in sensors]))
        self._principle = [sensor.principle for sensor in sensors]
        self._unit = [EPOCH_UNIT.get(principle) for principle in self._principle]
        self._group_of = np.zeros(len(sensors), dtype=np.int64)
        self._row_in_group = np.zeros(len(sensors), dtype=np.int64)
        self._groups: list[_Group] = []
        density = [plan.interceptors[sensor.interceptor].grease_kg_m3 for sensor in sensors]
        for principle in Principle:
            members = [index for index, sensor in enumerate(sensors) if sensor.principle is principle]
            if not members:
                continue
            self._group_of[members] = len(self._groups)
            self._row_in_group[members] = np.arange(len(members))
            plans = [sensors[index] for index in members]
            electrodes = tuple(item.electrodes for item in plans)
            device = electronics(principle, plans, [density[index] for index in members], rng)
            self._groups.append(_Group(principle, device, electrodes, _Last()))
        self._static_m = np.array([item.base_depth_mm for item in plan.interceptors]) / 1e3
        self._lift = np.array([buoyancy(item.grease_kg_m3) for item in plan.interceptors])
        self._usual = self._turn(np.arange(len(sensors)), self._phase_s)
        troubles = None if faults is None else Troubles(faults, self._home, rng)
        self._troubles = troubles if troubles is not None and troubles.kinds else None
        self._may_stick = troubles is not None and FaultKind.STUCK in troubles.kinds
        self._reset = np.zeros(len(sensors), dtype=bool)

    def speak(
        self, now_s: float, before: Layers, after: Layers, pulse: Pulse, at_work: set[int], age_days: float
    ) -> Spoken:
        """Everything the devices send in the step that starts at ``now_s`` [s since the epoch].

        ``before`` and ``after`` are the layers at its ends, between which each looks; devices that feel the
        liquid move (``at_work``) send their levels every five minutes.
        """
        home, troubles = self._home, self._troubles
        acting = NOTHING if troubles is None else troubles.acting(now_s)
        if troubles is not None:
            self.probes.slow(1.0 + FILMED_PROBE * troubles.film(acting))
        inlet = self.probes.advance(
            Pulse(pulse.pipe_c[home], pulse.pulse_c[home], pulse.start_s[home], pulse.end_s[home]),
            self._phase_s,
        )
        turn = self._turns(at_work)
        sensor, offset_s = turn.sensor, turn.offset_s
        outside_c = outdoors_c(now_s)
        view = self._view(before, after, turn.home, offset_s / SLOT_S, outside_c)
        sent_us = ((now_s + offset_s) * 1e6).astype(np.int64)
        stated_us, volt = sent_us, self._volt - 0.3 * age_days / 365.0
        missed = None
        if troubles is not None:
            view = troubles.disturb(acting, sensor, view, self._static_m[turn.home], outside_c)
            stated_us = troubles.stated_us(acting, sensor, sent_us)
            volt = volt - troubles.lost_v(acting)
            missed = troubles.missed(acting, sensor, volt)
            self._start_again(acting)
            inlet = troubles.inlet(acting, inlet, outside_c)
        bodies = self._bodies(turn, stated_us, view, acting.on(FaultKind.STUCK))
        self._add_climate(bodies, turn, inlet, self._tank(sensor, turn.regular, view.tank_c), volt)
        spoken = Spoken(
            sent_us, [self._topic[index] for index in turn.order], [_encode(body) for body in bodies]
        )
        return spoken if missed is None else spoken.take(np.flatnonzero(~missed))

    def _start_again(self, acting: Acting) -> None:
        """Let devices whose clock has just been reset count their messages from 0."""
        reset = acting.on(FaultKind.CLOCK_RESET)
        if reset is None:
            self._reset[:] = False
            return
        for index in np.flatnonzero(reset & ~self._reset).tolist():
            self._seq[index] = 0
        self._reset = reset

    def _tank(self, sensor: Ints, regular: Ints, tank_c: Floats) -> Floats:
        """What the tank thermometers say in each message; only the regular ones tell it."""
        by_device = np.empty(self._home.size)
        by_device[sensor[regular]] = tank_c[regular]
        return np.asarray(self._baths.advance(by_device, float(SLOT_S))[sensor], dtype=np.float64)

    def _turns(self, at_work: set[int]) -> _Turn:
        if not at_work:
            return self._usual
        moved = np.flatnonzero(np.isin(self._home, list(at_work)) & self._quick)
        extra = [(self._phase_s[moved] + late) % SLOT_S for late in (300, 600)]
        return self._turn(
            np.concatenate([np.arange(self._home.size), moved, moved]),
            np.concatenate([self._phase_s, *extra]),
        )

    def _turn(self, sensor: Ints, offset_s: Floats) -> _Turn:
        """Order messages by time; of a device that speaks several times the first is the regular one."""
        regular = np.arange(sensor.size) < self._home.size
        order = np.argsort(offset_s, kind="stable")
        sensor = sensor[order]
        group_of, rows = self._group_of[sensor], self._row_in_group[sensor]
        groups = []
        for number, group in enumerate(self._groups):
            at = np.flatnonzero(group_of == number)
            electrodes = [group.electrodes[row] for row in rows[at].tolist()]
            groups.append((at, at.tolist(), rows[at], electrodes))
        return _Turn(sensor, offset_s[order], regular[order], self._home[sensor], sensor.tolist(), groups)

    def _view(self, before: Layers, after: Layers, home: Ints, part: Floats, outside_c: float) -> View:
        def between(first: Floats, last: Floats) -> Floats:
            return np.asarray(first + (last - first) * part, dtype=np.float64)

        head = after.head[home]
        burst = self._rng.standard_gamma(2.0, home.size) / 2.0
        level = between(self._stand(before)[home], self._stand(after)[home])
        tank_c = between(before.tank_c[home], after.tank_c[home])
        return View(
            level + head * burst,
            between(before.fog[home, 0], after.fog[home, 0]),
            between(before.solids[home, 0], after.solids[home, 0]),
            tank_c,
            1.0 + head / AGITATING_M,
            after.wet[home, 0],
            tank_c + DRAUGHT * (outside_c - tank_c),
        )

    def _stand(self, layers: Layers) -> Floats:
        """Height of the surface [m], shape (n,): at the outlet, grease stands above what it displaces."""
        full = layers.level >= self._static_m - 1e-9
        return np.asarray(layers.level + np.where(full, self._lift * layers.fog[:, 0], 0.0), dtype=np.float64)

    def _bodies(self, turn: _Turn, stated_us: Ints, view: View, stuck: Bools | None) -> list[dict[str, Any]]:
        iso = np.datetime_as_string(stated_us.astype("M8[us]"), unit="s", timezone="UTC").tolist()
        stamps = stated_us.tolist()
        bodies: list[dict[str, Any]] = []
        for index, text, stamp in zip(turn.order, iso, stamps, strict=True):
            unit = self._unit[index]
            self._seq[index] += 1
            bodies.append({"time": text if unit is None else stamp // unit, "seq": self._seq[index]})
        for group, (at, places, rows, electrodes) in zip(self._groups, turn.groups, strict=True):
            told = group.device.read(rows, view.take(at), self._rng)
            if self._may_stick:
                told = _hold(group.last, rows, told, None if stuck is None else stuck[turn.sensor[at]])
            for name, values in told.items():
                _spread(bodies, places, name, values, electrodes)
        return bodies

    def _add_climate(
        self,
        bodies: list[dict[str, Any]],
        turn: _Turn,
        inlet: tuple[Floats, Floats, Floats],
        tank_c: Floats,
        volts: Floats,
    ) -> None:
        """Temperatures and battery of the regular messages; extra ones carry levels alone."""
        sensor = turn.sensor
        noise = self._rng.normal(0.0, 0.06, (3, sensor.size))
        now, highest = inlet[0][sensor] + noise[0], inlet[1][sensor] + np.abs(noise[1])
        over = np.round(inlet[2][sensor], 1).tolist()
        tank = tank_c + noise[2]
        scaled = [np.round(values * 1.8 + 32.0, 1).tolist() for values in (now, highest, tank)]
        plain = [np.round(values, 2).tolist() for values in (now, highest, tank)]
        volt = np.round(volts, 3).tolist()
        for row in np.flatnonzero(turn.regular).tolist():
            index, body = turn.order[row], bodies[row]
            unit, values = ("f", scaled) if self._principle[index] in FAHRENHEIT else ("c", plain)
            if self._has_inlet[index]:
                body[f"inlet_{unit}"] = values[0][row]
                body[f"inlet_max_{unit}"] = max(values[0][row], values[1][row])
                body["inlet_over_s"] = over[row]
            body[f"tank_{unit}"] = values[2][row]
            body["battery_v"] = volt[index]


def buoyancy(grease_kg_m3: float | None) -> float:
    """Part of a floating layer of this density [kg/m³] that stands above the level it was taken up at.

    0 where the plan names no density: the surface then stays at the outlet.
    """
    return 0.0 if grease_kg_m3 is None else 1.0 - grease_kg_m3 / WATER_KG_M3


def _hold(last: _Last, rows: Ints, told: dict[str, Floats], stuck: Bools | None) -> dict[str, Floats]:
    """Let stuck devices repeat the levels they gave last; the air's temperature goes on.

    Every device speaks in every step, so that ``last`` knows each of them from the second step on.
    """
    if stuck is not None and last.rows is not None and stuck.any():
        told = dict(told)
        for name in told.keys() - CLIMATE:
            values, before = told[name], last.told[name]
            held = np.empty((int(rows.max()) + 1, *values.shape[1:]))
            held[last.rows] = before
            told[name] = np.where(stuck if values.ndim == 1 else stuck[:, None], held[rows], values)
    last.rows, last.told = rows, told
    return told


def _spread(
    bodies: list[dict[str, Any]], places: list[int], name: str, values: Floats, electrodes: list[int]
) -> None:
    """Put one field's values into the bodies ``places``; a profile ends with its own rod, NaN becomes null."""
    for row, value, count in zip(places, values.tolist(), electrodes, strict=True):
        bodies[row][name] = value[:count] if count else value
