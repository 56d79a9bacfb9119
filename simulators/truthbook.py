"""The truth of a scenario, read back and put in order for scoring."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from simulators.truth import Line, seconds

GRID_S: Final = 900.0  # truth and assessments are matched to this


@dataclass(frozen=True, slots=True)
class Depth:
    """Latent layers of the monitored compartment at a local midnight."""

    fog_mm: float
    solids_mm: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Service:
    """A true pump-out [s since the epoch]."""

    start_s: float
    end_s: float
    complete: bool
    fall_mm: float


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


@dataclass(slots=True)
class Record:
    """One interceptor's truth, each list in order of time."""

    interceptor: str
    principle: str = "unknown"
    compartment: int = 1
    tau_s: float | None = None
    depths: dict[int, Depth] = field(default_factory=dict)  # by slot, see :func:`slot`
    services: list[Service] = field(default_factory=list)
    crossings: dict[float, list[float]] = field(default_factory=dict)  # by level [s]
    hot: list[Hot] = field(default_factory=list)

    def next_service(self, at_s: float) -> float:
        """Start of the first pump-out after ``at_s``; infinity where none follows."""
        starts = [service.start_s for service in self.services]
        index = bisect_right(starts, at_s)
        return starts[index] if index < len(starts) else float("inf")

    def last_service(self, at_s: float) -> float:
        """End of the last pump-out that began at or before ``at_s``; minus infinity where there is none."""
        starts = [service.start_s for service in self.services]
        index = bisect_right(starts, at_s)
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
        day = 86400.0
        before = max((key for key in self.depths if key * GRID_S <= at_s), default=None)
        if before is None:
            return None
        first_s = before * GRID_S
        after = min((key for key in self.depths if key * GRID_S > at_s), default=None)
        if after is None or after * GRID_S - first_s > 1.1 * day:
            return self.depths[before].fraction
        if self.next_service(first_s) < after * GRID_S:  # a service lies between them
            return self.depths[before].fraction if self.next_service(first_s) > at_s else None
        part = (at_s - first_s) / (after * GRID_S - first_s)
        return self.depths[before].fraction * (1 - part) + self.depths[after].fraction * part


@dataclass(frozen=True, slots=True)
class Book:
    """The truth of all interceptors, and how long it was watched [s]."""

    records: dict[str, Record]
    span_s: float

    @property
    def interceptor_years(self) -> float:
        """Interceptors times years."""
        return len(self.records) * self.span_s / (365.25 * 86400.0)


def slot(at_s: float) -> int:
    """Number of the quarter-hour of an instant."""
    return round(at_s / GRID_S)


def read_truth(lines: Iterable[Line]) -> Book:
    """Put the lines of a truth file in order.

    Raises
    ------
    KeyError, ValueError
        A line is no line of truth; the key or the value is named.
    """
    records: dict[str, Record] = {}
    first_s, last_s = float("inf"), float("-inf")
    for line in lines:
        at_s = seconds(line["at"])
        first_s, last_s = min(first_s, at_s), max(last_s, at_s)
        record = records.setdefault(line["interceptor"], Record(line["interceptor"]))
        _enter(record, line, at_s)
    for record in records.values():
        record.services.sort(key=lambda service: service.start_s)
        record.hot.sort(key=lambda hot: hot.start_s)
        for times in record.crossings.values():
            times.sort()
    return Book(records, max(last_s - first_s, 0.0))


def _enter(record: Record, line: Line, at_s: float) -> None:
    kind = line["type"]
    if kind == "sensor":
        record.principle, record.compartment = line["principle"], line["compartment"]
        record.tau_s = line["tau_s"]
    elif kind == "depths":
        record.depths[slot(at_s)] = Depth(line["fog_mm"], line["solids_mm"], line["fraction"])
    elif kind == "pump_out":
        record.services.append(
            Service(seconds(line["start"]), seconds(line["end"]), line["complete"], line["fall_mm"])
        )
    elif kind == "crossing":
        record.crossings.setdefault(line["level"], []).append(at_s)
    elif kind == "hot_discharge":
        record.hot.append(Hot(seconds(line["start"]), seconds(line["end"]), line["peak_c"]))
    else:
        raise ValueError(f"type: {kind!r} is no line of truth")
