"""The fleet's devices: they look at the layers, gather inlet temperatures and speak in native messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from simulators.interceptor import Depths as Layers
from simulators.kitchen import SLOT_S, Floats
from simulators.mounting import SensorPlan
from simulators.plan import CityPlan
from simulators.probe import Probes, Pulse
from simulators.sensor import Depths, Device, Echoes, Interfaces, Principle, Rods, View

Ints = np.ndarray
AGITATING_M: Final = 0.008  # head over the weir that doubles the unrest at the interfaces
FAHRENHEIT: Final = frozenset({Principle.ROD, Principle.DEPTHS})
EPOCH_UNIT: Final = {Principle.DEPTHS: 1_000_000, Principle.ECHO: 1_000}  # the others write ISO 8601
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Spoken:
    """Messages of one step in order of sending."""

    sent_us: Ints
    topics: list[str]
    payloads: list[bytes]


@dataclass(frozen=True, slots=True)
class _Group:
    principle: Principle
    device: Device
    electrodes: tuple[int, ...]


def _electronics(principle: Principle, plans: Sequence[SensorPlan], rng: np.random.Generator) -> Device:
    count = len(plans)
    least = np.array([plan.min_layer_mm for plan in plans]) / 1e3
    if principle is Principle.ROD:
        longest = max(plan.electrodes for plan in plans)
        there = np.arange(longest) < np.array([plan.electrodes for plan in plans])[:, None]
        pitch = np.array([plan.pitch_mm for plan in plans]) / 1e3
        gain = np.where(there, rng.normal(1.0, 0.015, (count, longest)), np.nan)
        return Rods(
            np.array([plan.first_mm for plan in plans]) / 1e3,
            pitch,
            pitch * rng.uniform(0.7, 1.0, count),
            gain,
            rng.normal(0.0, 0.006, (count, longest)),
        )
    if principle is Principle.INTERFACES:
        return Interfaces(rng.normal(0.0, (0.002, 0.0015, 0.002), (count, 3)), least)
    if principle is Principle.DEPTHS:
        return Depths(rng.normal(1.0, 0.025, (count, 2)), least)
    return Echoes(
        np.array([plan.mount_height_mm for plan in plans]) / 1e3,
        np.array([plan.sonar_height_mm for plan in plans]) / 1e3,
        least,
    )


class Devices:
    """All sensors of a city."""

    def __init__(self, plan: CityPlan, rng: np.random.Generator) -> None:
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
        self._principle = [sensor.principle for sensor in sensors]
        self._group_of = np.zeros(len(sensors), dtype=np.int64)
        self._row_in_group = np.zeros(len(sensors), dtype=np.int64)
        self._groups: list[_Group] = []
        for principle in Principle:
            members = [index for index, sensor in enumerate(sensors) if sensor.principle is principle]
            if not members:
                continue
            self._group_of[members] = len(self._groups)
            self._row_in_group[members] = np.arange(len(members))
            plans = [sensors[index] for index in members]
            electrodes = tuple(item.electrodes for item in plans)
            self._groups.append(_Group(principle, _electronics(principle, plans, rng), electrodes))

    def speak(
        self, now_s: float, before: Layers, after: Layers, pulse: Pulse, at_work: set[int], age_days: float
    ) -> Spoken:
        """Everything the devices send in the step that starts at ``now_s`` [s since the epoch].

        ``before`` and ``after`` are the layers at its ends, between which each looks; devices that feel the
        liquid move (``at_work``) send their levels every five minutes.
        """
        home = self._home
        inlet = self.probes.advance(
            Pulse(pulse.pipe_c[home], pulse.pulse_c[home], pulse.start_s[home], pulse.end_s[home]),
            self._phase_s,
        )
        sensor, offset_s, regular = self._turns(at_work)
        view = self._view(before, after, home[sensor], offset_s / SLOT_S)
        sent_us = ((now_s + offset_s) * 1e6).astype(np.int64)
        bodies = self._bodies(sensor, sent_us, view)
        self._add_climate(bodies, sensor, regular, inlet, view.tank_c, age_days)
        return Spoken(sent_us, [self._topic[index] for index in sensor], [_encode(body) for body in bodies])

    def _turns(self, at_work: set[int]) -> tuple[Ints, Floats, Ints]:
        sensor, offset = np.arange(self._home.size), self._phase_s
        regular = np.ones(sensor.size, dtype=bool)
        if at_work:
            moved = np.flatnonzero(np.isin(self._home, list(at_work)) & self._quick)
            offset = np.concatenate(
                [offset, *((self._phase_s[moved] + extra) % SLOT_S for extra in (300, 600))]
            )
            sensor = np.concatenate([sensor, moved, moved])
            regular = np.concatenate([regular, np.zeros(2 * moved.size, dtype=bool)])
        order = np.argsort(offset, kind="stable")
        return sensor[order], offset[order], regular[order]

    def _view(self, before: Layers, after: Layers, home: Ints, part: Floats) -> View:
        def between(first: Floats, last: Floats) -> Floats:
            return np.asarray(first + (last - first) * part, dtype=np.float64)

        head = after.head[home]
        burst = self._rng.standard_gamma(2.0, home.size) / 2.0
        return View(
            between(before.level[home], after.level[home]) + head * burst,
            between(before.fog[home, 0], after.fog[home, 0]),
            between(before.solids[home, 0], after.solids[home, 0]),
            between(before.tank_c[home], after.tank_c[home]),
            1.0 + head / AGITATING_M,
        )

    def _bodies(self, sensor: Ints, sent_us: Ints, view: View) -> list[dict[str, Any]]:
        iso = np.datetime_as_string(sent_us.astype("M8[us]"), unit="s", timezone="UTC").tolist()
        stamps = sent_us.tolist()
        bodies: list[dict[str, Any]] = []
        for index, text, stamp in zip(sensor.tolist(), iso, stamps, strict=True):
            unit = EPOCH_UNIT.get(self._principle[index])
            self._seq[index] += 1
            bodies.append({"time": text if unit is None else stamp // unit, "seq": self._seq[index]})
        group_of = self._group_of[sensor]
        for number, group in enumerate(self._groups):
            at = np.flatnonzero(group_of == number)
            rows = self._row_in_group[sensor[at]]
            here = View(*(getattr(view, name)[at] for name in View.__dataclass_fields__))
            for name, values in group.device.read(rows, here, self._rng).items():
                _spread(bodies, at, name, values, [group.electrodes[row] for row in rows.tolist()])
        return bodies

    def _add_climate(
        self,
        bodies: list[dict[str, Any]],
        sensor: Ints,
        regular: Ints,
        inlet: tuple[Floats, Floats, Floats],
        tank_c: Floats,
        age_days: float,
    ) -> None:
        """Temperatures and battery of the regular messages; extra ones carry levels alone."""
        noise = self._rng.normal(0.0, 0.06, (3, sensor.size))
        now, highest = inlet[0][sensor] + noise[0], inlet[1][sensor] + np.abs(noise[1])
        over = np.round(inlet[2][sensor], 1).tolist()
        tank = tank_c + noise[2]
        scaled = [np.round(values * 1.8 + 32.0, 1).tolist() for values in (now, highest, tank)]
        plain = [np.round(values, 2).tolist() for values in (now, highest, tank)]
        volt = np.round(self._volt - 0.3 * age_days / 365.0, 3).tolist()
        for row in np.flatnonzero(regular).tolist():
            index, body = int(sensor[row]), bodies[row]
            unit, values = ("f", scaled) if self._principle[index] in FAHRENHEIT else ("c", plain)
            if self._has_inlet[index]:
                body[f"inlet_{unit}"] = values[0][row]
                body[f"inlet_max_{unit}"] = max(values[0][row], values[1][row])
                body["inlet_over_s"] = over[row]
            body[f"tank_{unit}"] = values[2][row]
            body["battery_v"] = volt[index]


def _spread(
    bodies: list[dict[str, Any]], at: Ints, name: str, values: Floats, electrodes: Sequence[int]
) -> None:
    """Put one field's values into the bodies ``at``; a profile ends with its own rod, NaN becomes null."""
    for row, value, count in zip(at.tolist(), values.tolist(), electrodes, strict=True):
        bodies[row][name] = value[:count] if count else value
