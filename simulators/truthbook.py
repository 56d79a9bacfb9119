"""The truth of a scenario, read back and put in order for scoring."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from simulators.truth import Line, seconds

LIMIT: Final = 0.25  # of both ordinances
GRID_S: Final = 900.0  # truth and assessments are matched to this
DAY_S: Final = 86400.0
YEAR_S: Final = 365.25 * DAY_S
AFTERMATH_S: Final = DAY_S  # what a fault's end brings about is the fault's too


@dataclass(frozen=True, slots=True)
class Depth:
    """Latent layers of the monitored compartment at a local midnight."""

    fog_mm: float
    solids_mm: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Service:
    """A true pump-out [s since the epoch]; the layers left behind in the monitored compartment [mm]."""

    start_s: float
    end_s: float
    complete: bool
    fall_mm: float
    after_fog_mm: float = 0.0
    after_solids_mm: float = 0.0


@dataclass(frozen=True, slots=True)
class Hot:
    """A true discharge above 60 degC."""

    start_s: float
    end_s: float
    peak_c: float

    @property
    def duration_s(self) -> float:
        """How long it flowed [s]."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault in force from ``start_s`` to ``end_s`` [s since the epoch]."""

    kind: str
    start_s: float
    end_s: float

    @property
    def over_s(self) -> float:
        """When nothing is put down to it any more: a day after its end."""
        return self.end_s + AFTERMATH_S


@dataclass(slots=True)
class Record:
    """One interceptor's truth, each list in order of time."""

    interceptor: str
    principle: str = "unknown"
    compartment: int = 1
    tau_s: float | None = None
    depths: dict[int, Depth] = field(default_factory=dict)  # by slot, see :func:`slot`
    midnights_s: list[float] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    crossings: dict[float, list[float]] = field(default_factory=dict)  # by level [s]
    hot: list[Hot] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)  # of the services

    def settle(self) -> None:
        """Put everything in order once all lines are entered."""
        self.services.sort(key=lambda service: service.start_s)
        self.starts_s = [service.start_s for service in self.services]
        self.hot.sort(key=lambda hot: hot.start_s)
        self.midnights_s = sorted(key * GRID_S for key in self.depths)
        for times in self.crossings.values():
            times.sort()

    def next_service(self, at_s: float) -> float:
        """Start of the first pump-out after ``at_s``; infinity where none follows."""
        index = bisect_right(self.starts_s, at_s)
        return self.starts_s[index] if index < len(self.starts_s) else float("inf")

    def last_service(self, at_s: float) -> float:
        """End of the last pump-out that began at or before ``at_s``; minus infinity where there is none."""
        index = bisect_right(self.starts_s, at_s)
        return self.services[index - 1].end_s if index else float("-inf")

    def crossing_ahead(self, at_s: float, level: float) -> float | None:
        """First passage above ``level`` after ``at_s`` in the same cycle, None where the cycle ends first."""
        times = self.crossings.get(level, [])
        index = bisect_right(times, at_s)
        if index == len(times) or times[index] > self.next_service(at_s):
            return None
        return times[index]

    def fraction_at(self, at_s: float) -> float | None:
        """Latent fraction at ``at_s``, between the midnights around it of one cycle; None where unknown."""
        index = bisect_right(self.midnights_s, at_s)
        if index == 0:
            return None
        first_s = self.midnights_s[index - 1]
        before = self.depths[slot(first_s)].fraction
        if index == len(self.midnights_s) or self.midnights_s[index] - first_s > 1.1 * DAY_S:
            return before
        after_s = self.midnights_s[index]
        if self.next_service(first_s) < after_s:  # a service lies between them
            return before if self.next_service(first_s) > at_s else None
        part = (at_s - first_s) / (after_s - first_s)
        return before * (1 - part) + self.depths[slot(after_s)].fraction * part

    def highest(self, start_s: float, end_s: float) -> float | None:
        """Largest latent fraction at the midnights from ``start_s`` to ``end_s``; None where there is none."""
        first, last = bisect_left(self.midnights_s, start_s), bisect_right(self.midnights_s, end_s)
        return max((self.depths[slot(at_s)].fraction for at_s in self.midnights_s[first:last]), default=None)

    def troubled(self, start_s: float, end_s: float) -> frozenset[str]:
        """Kinds of the faults in force, or over for less than a day, at any instant of the span."""
        return frozenset(one.kind for one in self.troubles if one.start_s <= end_s and start_s < one.over_s)


@dataclass(frozen=True, slots=True)
class Book:
    """The truth of all interceptors, and from when to when they were watched [s since the epoch].

    ``limit`` is the fraction that the service was to forecast the passage of, and to warn above.
    """

    records: dict[str, Record]
    first_s: float
    last_s: float
    limit: float = LIMIT

    @property
    def span_s(self) -> float:
        """How long was watched [s]."""
        return max(self.last_s - self.first_s, 0.0)

    @property
    def years(self) -> float:
        """How long was watched [year]."""
        return self.span_s / YEAR_S


def slot(at_s: float) -> int:
    """Number of the quarter-hour of an instant."""
    return round(at_s / GRID_S)


def read_truth(lines: Iterable[Line], limit: float = LIMIT) -> Book:
    """Put the lines of a truth file in order, for a service that holds them against ``limit``.

    Raises
    ------
    KeyError, ValueError
        A line is no line of truth; the key or the value is named.
    """
    records: dict[str, Record] = {}
    first_s, last_s = float("inf"), float("-inf")
    for line in lines:
        if line["type"] == "fault":  # drawn ahead, so it may lie beyond what was watched
            at_s = seconds(line["start"])
        else:
            at_s = seconds(line["at"])
            first_s, last_s = min(first_s, at_s), max(last_s, at_s)
        record = records.setdefault(line["interceptor"], Record(line["interceptor"]))
        _enter(record, line, at_s)
    for record in records.values():
        record.settle()
    return Book(records, first_s, last_s, limit)


def _enter(record: Record, line: Line, at_s: float) -> None:
    kind = line["type"]
    if kind == "sensor":
        _enter_sensor(record, line)
    elif kind == "depths":
        record.depths[slot(at_s)] = Depth(line["fog_mm"], line["solids_mm"], line["fraction"])
    elif kind == "pump_out":
        record.services.append(_service(record, line))
    elif kind == "crossing":
        record.crossings.setdefault(line["level"], []).append(at_s)
    elif kind == "hot_discharge":
        record.hot.append(Hot(seconds(line["start"]), seconds(line["end"]), line["peak_c"]))
    elif kind == "fault":
        record.troubles.append(Trouble(line["kind"], at_s, seconds(line["end"])))
    else:
        raise ValueError(f"type: {kind!r} is no line of truth")


def _enter_sensor(record: Record, line: Line) -> None:
    if record.principle == "unknown":
        record.principle, record.compartment = line["principle"], line["compartment"]
    elif line["principle"] not in record.principle.split("+"):  # several sensors in one interceptor
        record.principle = "+".join(sorted((*record.principle.split("+"), line["principle"])))
    if record.tau_s is None:
        record.tau_s = line["tau_s"]


def _service(record: Record, line: Line) -> Service:
    left = next((one for one in line["after"] if one["compartment"] == record.compartment), None)
    return Service(
        seconds(line["start"]),
        seconds(line["end"]),
        line["complete"],
        line["fall_mm"],
        left["fog_mm"] if left is not None else 0.0,
        left["solids_mm"] if left is not None else 0.0,
    )
