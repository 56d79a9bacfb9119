"""Scores of a replay's public output against the truth of the scenario it replayed.

Only the lines of the public contract are read: ``assessment``, ``pump_out``, ``hot_discharge``, ``alert``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simulators.truth import Line, seconds
from simulators.truthbook import Book, Hot, Record, Service, read_truth, slot

LIMIT: Final = 0.25
HALF_WIDTH: Final = 1.645  # standard deviations of a 90% interval
FAR: Final = 3.0
SERVICE_TOLERANCE_S: Final = 3600.0
HOT_TOLERANCE_S: Final = 1800.0
JUDGED_AFTER_S: Final = 86400.0
HOT_PLAIN_C: Final = 63.3  # 146 degF: clear of a probe's guard band
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Row:
    """One score: ``value`` is None where there was nothing to judge; ``count`` says out of how many."""

    metric: str
    principle: str
    value: float | None
    count: int
    unit: str


@dataclass(frozen=True, slots=True)
class Table:
    """Scores in the order in which they are best read."""

    rows: tuple[Row, ...]

    def value(self, metric: str, principle: str = ALL) -> float | None:
        """One score.

        Raises
        ------
        KeyError
            There is no such row.
        """
        return self.row(metric, principle).value

    def row(self, metric: str, principle: str = ALL) -> Row:
        """One row, with its count.

        Raises
        ------
        KeyError
            There is no such row.
        """
        for row in self.rows:
            if row.metric == metric and row.principle == principle:
                return row
        raise KeyError(f"{metric} for {principle}")

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain objects."""
        return [{name: getattr(row, name) for name in Row.__dataclass_fields__} for row in self.rows]

    def as_text(self) -> str:
        """The rows as an aligned table, metrics down and principles across."""
        principles = list(dict.fromkeys(row.principle for row in self.rows))
        cells = {(row.metric, row.principle): row for row in self.rows}
        lines = [f"{'':<30}" + "".join(f"{name:>20}" for name in principles)]
        for metric, unit in dict.fromkeys((row.metric, row.unit) for row in self.rows):
            label = f"{metric} [{unit}]" if unit else metric
            row = "".join(f"{_cell(cells.get((metric, name))):>20}" for name in principles)
            lines.append(f"{label:<30}{row}")
        return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{'-' if row.value is None else f'{row.value:.3f}'} ({row.count})"


class _Tally:
    """Samples by metric and principle; every sample also counts for all principles together."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.principles: list[str] = []

    def add(self, metric: str, principle: str, value: float) -> None:
        self._samples[metric, principle].append(value)
        self._samples[metric, ALL].append(value)
        if principle not in self.principles:
            self.principles.append(principle)

    def rows(self, name: str, metric: str, unit: str, summary: Callable[[list[float]], float]) -> list[Row]:
        return [
            Row(name, principle, summary(found) if found else None, len(found), unit)
            for principle in (ALL, *sorted(self.principles))
            for found in (self._samples.get((metric, principle), []),)
        ]


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _median(values: list[float]) -> float:
    return float(np.median(values))


def _high(values: list[float]) -> float:
    return float(np.quantile(values, 0.95))


#: name, metric tallied, unit, summary
_ROWS: Final = (
    ("fog_mae", "fog", "mm", _mean),
    ("solids_mae", "solids", "mm", _mean),
    ("depths_known", "known", "", _mean),
    ("fraction_coverage_90", "inside", "", _mean),
    ("fraction_beyond_3_sd", "far", "", _mean),
    ("crossing_coverage_90", "crossing", "", _mean),
    ("crossing_error_median", "crossing_error", "day", _median),
    ("pump_out_recall_complete", "recall_complete", "", _mean),
    ("pump_out_recall_partial", "recall_partial", "", _mean),
    ("pump_out_precision", "precision", "", _mean),
    ("hot_recall", "hot_recall", "", _mean),
    ("hot_recall_confirmed", "hot_recall_confirmed", "", _mean),
    ("hot_precision", "hot_precision", "", _mean),
    ("hot_precision_confirmed", "hot_precision_confirmed", "", _mean),
    ("over_limit_recall", "over_recall", "", _mean),
    ("over_limit_excess_median", "over_excess", "point", _median),
    ("over_limit_excess_p95", "over_excess", "point", _high),
    ("over_limit_delay_median", "over_delay", "day", _median),
    ("over_limit_delay_p95", "over_delay", "day", _high),
)


def score(truth_lines: Iterable[Line], output_lines: Iterable[Line]) -> Table:
    """Score a replay's output lines against truth lines.

    Depths and intervals are judged at local midnights; crossings of the 25% limit by forecasts made before
    them within their cycle, every cycle weighing the same; services and alerts by their own times. Output of
    interceptors the truth does not know is left out.

    Returns
    -------
    Table
        A row for each metric and principle, and one for all together.

    Raises
    ------
    KeyError, ValueError
        A line lacks a key of the contract, or holds no time where one must be.
    """
    book = read_truth(truth_lines)
    output: dict[str, list[Line]] = defaultdict(list)
    for line in output_lines:
        if line.get("interceptor") in book.records:
            output[line["type"]].append(line)
    tally = _Tally()
    _score_depths(book, output["assessment"], tally)
    _score_crossings(book, output["assessment"], tally)
    _score_services(book, _last_by_id(output["pump_out"]), tally)
    _score_hot(book, _last_by_id(output["hot_discharge"]), tally)
    false_alarms = _score_over_limit(book, output["alert"], tally)
    rows = [row for spec in _ROWS for row in tally.rows(*spec)]
    years = book.interceptor_years
    rate = false_alarms / years if years > 0.0 else None
    rows.append(Row("over_limit_false", ALL, rate, false_alarms, "1/interceptor-year"))
    return Table(tuple(rows))


def _last_by_id(lines: Iterable[Line]) -> list[Line]:
    return list({line["id"]: line for line in lines}.values())


def _monitored(line: Line, compartment: int) -> Mapping[str, Any]:
    """The assessment's own figures of the truth's compartment."""
    if line.get("compartment") == compartment:
        return line
    for entry in line.get("compartments") or ():
        if entry.get("compartment") == compartment:
            found: Mapping[str, Any] = entry
            return found
    return {}


def _score_depths(book: Book, assessments: list[Line], tally: _Tally) -> None:
    for line in assessments:
        record = book.records[line["interceptor"]]
        true = record.depths.get(slot(seconds(line["at"])))
        if true is None:
            continue
        told = _monitored(line, record.compartment)
        fog, solids = told.get("fog_mm"), told.get("solids_mm")
        tally.add("known", record.principle, float(fog is not None and solids is not None))
        if fog is not None:
            tally.add("fog", record.principle, abs(fog - true.fog_mm))
        if solids is not None:
            tally.add("solids", record.principle, abs(solids - true.solids_mm))
        fraction, deviation = told.get("fraction"), told.get("fraction_sd")
        if fraction is not None and deviation is not None:
            error = abs(fraction - true.fraction)
            tally.add("inside", record.principle, float(error <= HALF_WIDTH * deviation))
            tally.add("far", record.principle, float(error > FAR * deviation))


def _score_crossings(book: Book, assessments: list[Line], tally: _Tally) -> None:
    """Coverage by cycle: within one cycle the forecasts are not independent, so each cycle counts once."""
    covered: dict[tuple[str, float], list[float]] = defaultdict(list)
    missed: dict[tuple[str, float], list[float]] = defaultdict(list)
    for line in assessments:
        at_s, record = seconds(line["at"]), book.records[line["interceptor"]]
        when = record.crossing_ahead(at_s, LIMIT)
        told = line.get("crossing")
        if when is None or told is None:
            continue
        early, late = _instant(told["p05"]), _instant(told["p95"])
        covered[record.interceptor, when].append(float(early <= when <= late))
        if told["p50"] is not None:
            missed[record.interceptor, when].append(abs(_instant(told["p50"]) - when) / 86400.0)
    for name, cycles in (("crossing", covered), ("crossing_error", missed)):
        for (interceptor, _), values in cycles.items():
            tally.add(name, book.records[interceptor].principle, _mean(values))


def _instant(text: str | None) -> float:
    """An instant; null is later than any."""
    return math.inf if text is None else seconds(text)


def _score_services(book: Book, lines: list[Line], tally: _Tally) -> None:
    told: dict[str, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda one: seconds(one["pumped_at"])):
        told[line["interceptor"]].append(line)
    for name, record in book.records.items():
        left = list(told[name])
        found = []
        for service in record.services:
            match = next((line for line in left if _same_service(line, service)), None)
            if match is not None:
                left.remove(match)
                found.append(match)
            word = "recall_complete" if service.complete else "recall_partial"
            right = match is not None and bool(match["complete"]) == service.complete
            tally.add(word, record.principle, float(right))
        for line in told[name]:
            tally.add("precision", record.principle, float(any(line is one for one in found)))


def _same_service(line: Line, service: Service) -> bool:
    at_s = seconds(line["pumped_at"])
    return service.start_s - SERVICE_TOLERANCE_S <= at_s <= service.end_s + SERVICE_TOLERANCE_S


def _score_hot(book: Book, lines: list[Line], tally: _Tally) -> None:
    told: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        told[line["interceptor"]].append(line)
    for name, record in book.records.items():
        for line in told[name]:
            right = float(any(_same_hot(line, hot) for hot in record.hot))
            tally.add("hot_precision", record.principle, right)
            if line["status"] == "confirmed":
                tally.add("hot_precision_confirmed", record.principle, right)
        for hot in record.hot:
            if not _plain(hot, record):
                continue
            matches = [line for line in told[name] if _same_hot(line, hot)]
            confirmed = any(line["status"] == "confirmed" for line in matches)
            tally.add("hot_recall", record.principle, float(bool(matches)))
            tally.add("hot_recall_confirmed", record.principle, float(confirmed))


def _plain(hot: Hot, record: Record) -> bool:
    """Whether a device with a probe must see it: two time constants long and clear of the guard band."""
    return record.tau_s is not None and hot.duration_s >= 2 * record.tau_s and hot.peak_c >= HOT_PLAIN_C


def _same_hot(line: Line, hot: Hot) -> bool:
    start_s = seconds(line["start"])
    end_s = start_s if line["end"] is None else seconds(line["end"])
    return start_s <= hot.end_s + HOT_TOLERANCE_S and end_s >= hot.start_s - HOT_TOLERANCE_S


def _score_over_limit(book: Book, alerts: list[Line], tally: _Tally) -> int:
    """Judge each first firing of an ``over_limit``; returns the false ones."""
    fired: dict[str, dict[str, float]] = defaultdict(dict)
    for line in alerts:
        if line["kind"] == "over_limit" and line["state"] == "firing" and line["basis"] == "estimate":
            fired[line["interceptor"]].setdefault(line["id"], seconds(line["at"]))
    false = 0
    for name, record in book.records.items():
        times = sorted(fired[name].values())
        false += sum(not _truly_over(record, at_s) for at_s in times)
        for when in record.crossings.get(LIMIT, []):
            until = record.next_service(when)
            first = next((at_s for at_s in times if when <= at_s < until), None)
            early = any(record.last_service(when) < at_s < when for at_s in times)
            if early:
                continue  # fired before the passage: counted above as false
            if first is None and (math.isinf(until) or until - when < JUDGED_AFTER_S):
                continue  # still running, or served before anybody could tell
            tally.add("over_recall", record.principle, float(first is not None))
            if first is not None:
                tally.add("over_delay", record.principle, (first - when) / 86400.0)
                fraction = record.fraction_at(first)
                if fraction is not None:
                    tally.add("over_excess", record.principle, 100.0 * (fraction - LIMIT))
    return false


def _truly_over(record: Record, at_s: float) -> bool:
    """Whether this cycle had passed the limit by then, or began above it unseen."""
    begin = record.last_service(at_s)
    if any(begin < when <= at_s for when in record.crossings.get(LIMIT, [])):
        return True
    fraction = record.fraction_at(at_s)
    return fraction is not None and fraction > LIMIT
