"""What was really so: latent layers, pump-outs, crossings, hot discharges; lines beside the messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from simulators.interceptor import Depths, Tanks, fraction
from simulators.kitchen import SLOT_S, Floats, Inflow
from simulators.plan import CityPlan
from simulators.trucks import Job

Line = dict[str, Any]
LEVELS: Final = (0.10, 0.15, 0.20, 0.25)
MONITORED: Final = 0  # column of compartment 1: every sensor hangs there


def iso(time_s: float) -> str:
    """Time [s since the epoch] as ISO 8601 in UTC, milliseconds."""
    text = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds(text: str) -> float:
    """The inverse of :func:`iso`: seconds since the epoch of an ISO 8601 time with offset.

    Raises
    ------
    ValueError
        The text is no time, or carries no offset.
    """
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"time without an offset: {text!r}")
    return when.timestamp()


def header_lines(plan: CityPlan, start_s: float) -> list[Line]:
    """One line a sensor: what hangs where, so that scores can be told apart by principle."""
    return [
        {
            "at": iso(start_s),
            "type": "sensor",
            "interceptor": plan.interceptors[sensor.interceptor].id,
            "sensor": sensor.id,
            "compartment": 1,
            "principle": str(sensor.principle),
            "tau_s": sensor.tau_s,
        }
        for sensor in plan.sensors
    ]


class Witness:
    """Follows the latent layers and writes down what happens to them."""

    def __init__(self, plan: CityPlan, tanks: Tanks, layers: Depths) -> None:
        self._ids = [interceptor.id for interceptor in plan.interceptors]
        self._compartments = [interceptor.compartments for interceptor in plan.interceptors]
        self._tanks = tanks
        self._before = fraction(tanks, layers)[:, MONITORED]
        self._passed = self._before[:, None] >= np.array(LEVELS)

    def midnight(self, now_s: float, layers: Depths) -> list[Line]:
        """The latent layers of every interceptor at a local midnight."""
        filled = fraction(self._tanks, layers)
        return [
            {
                "at": iso(now_s),
                "type": "depths",
                "interceptor": name,
                "compartment": 1,
                "fog_mm": _mm(layers.fog[row, MONITORED]),
                "solids_mm": _mm(layers.solids[row, MONITORED]),
                "fraction": round(float(filled[row, MONITORED]), 6),
                "compartments": _compartments(layers.fog[row], layers.solids[row], self._compartments[row]),
            }
            for row, name in enumerate(self._ids)
        ]

    def crossings(self, now_s: float, layers: Depths, done: Sequence[Job]) -> list[Line]:
        """First passages of this cycle in the step that starts at ``now_s``, interpolated within it."""
        after = fraction(self._tanks, layers)[:, MONITORED]
        levels = np.array(LEVELS)
        new = (after[:, None] >= levels) & ~self._passed
        lines = [
            self._crossing(int(row), int(column), now_s, after)
            for row, column in zip(*np.nonzero(new), strict=True)
        ]
        self._passed |= new
        for job in done:  # a service opens these passages again
            self._passed[job.interceptor] = after[job.interceptor] >= levels
        self._before = after
        return lines

    def _crossing(self, row: int, column: int, now_s: float, after: Floats) -> Line:
        gain = after[row] - self._before[row]
        part = (LEVELS[column] - self._before[row]) / gain if gain > 0.0 else 1.0
        return {
            "at": iso(now_s + SLOT_S * float(np.clip(part, 0.0, 1.0))),
            "type": "crossing",
            "interceptor": self._ids[row],
            "compartment": 1,
            "level": LEVELS[column],
        }

    def pump_outs(self, done: Sequence[Job]) -> list[Line]:
        """The services that ended in this step."""
        return [
            {
                "at": iso(job.end_s or job.at_s),
                "type": "pump_out",
                "interceptor": self._ids[job.interceptor],
                "id": job.id,
                "start": iso(job.start_s or job.at_s),
                "end": iso(job.end_s or job.at_s),
                "complete": job.complete,
                "fall_mm": _mm(job.level_from_m - job.level_to_m),
                "volume_l": round(job.volume_m3 * 1e3, 1),
                "before": _compartments(job.before[0], job.before[1], self._compartments[job.interceptor]),
                "after": _compartments(job.after[0], job.after[1], self._compartments[job.interceptor]),
            }
            for job in done
        ]

    def hot_discharges(self, now_s: float, inflow: Inflow) -> list[Line]:
        """The purges above 60 degC of the step that starts at ``now_s``."""
        return [
            {
                "at": iso(now_s + float(inflow.pulse_start_s[row])),
                "type": "hot_discharge",
                "interceptor": self._ids[row],
                "start": iso(now_s + float(inflow.pulse_start_s[row])),
                "end": iso(now_s + float(inflow.pulse_start_s[row] + inflow.pulse_s[row])),
                "peak_c": round(float(inflow.pulse_c[row]), 2),
                "duration_s": round(float(inflow.pulse_s[row]), 1),
            }
            for row in np.flatnonzero(inflow.hot).tolist()
        ]


def _mm(value_m: float) -> float:
    return round(float(value_m) * 1e3, 3)


def _compartments(fog: Floats, solids: Floats, count: int) -> list[Line]:
    return [
        {"compartment": number + 1, "fog_mm": _mm(fog[number]), "solids_mm": _mm(solids[number])}
        for number in range(count)
    ]
