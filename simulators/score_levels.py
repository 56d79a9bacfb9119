"""Scores of daily assessments: depths, their intervals, and when a level is forecast to be passed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simulators.tally import Tally
from simulators.truth import LEVELS, Line, seconds
from simulators.truthbook import DAY_S, Book, Record, slot

HALF_WIDTH: Final = 1.645  # standard deviations of a 90% interval
FAR: Final = 3.0
HORIZON_S: Final = 183 * DAY_S  # a quantile further ahead is null: "not expected within six months"
QUANTILES: Final = (("p05", 0.05), ("p10", 0.10), ("p50", 0.50), ("p90", 0.90), ("p95", 0.95))
Cycle = tuple[str, float, float]  # interceptor, level, instant of the passage [s]


@dataclass(slots=True)
class _Forecasts:
    """What was forecast of one passage, summed over the assessments before it."""

    given: int = 0
    asked: int = 0
    inside: float = 0.0
    loss: float = 0.0
    missed: float = 0.0
    missed_count: int = 0
    first_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Losses:
    """Mean pinball loss [day] of the forecasts of each passage, from its assessments by instant."""

    by_cycle: Mapping[Cycle, Mapping[float, float]]


def score_levels(book: Book, assessments: Iterable[Line], tally: Tally, source: str = "") -> Losses:
    """Score assessments, or a baseline's in the same form (``source`` such as ``@line``).

    Raises
    ------
    KeyError, ValueError
        A line lacks a key of the contract, or holds no time where one must be.
    """
    passages: dict[Cycle, _Forecasts] = defaultdict(_Forecasts)
    losses: dict[Cycle, dict[float, float]] = defaultdict(dict)
    for line in assessments:
        record, at_s = book.records[line["interceptor"]], seconds(line["at"])
        told = _monitored(line, record.compartment)
        _depths(record, at_s, told, tally, source)
        _level_passages(record, at_s, told, passages)
        when = record.crossing_ahead(at_s, book.limit)
        if when is not None:
            loss = _crossing(passages[record.interceptor, 0.0, when], at_s, when, line.get("crossing"))
            if loss is not None:
                losses[record.interceptor, 0.0, when][at_s] = loss
    _enter_passages(book.records, passages, tally, source)
    return Losses(losses)


def score_gain(
    records: Mapping[str, Record], ours: Losses, theirs: Losses, tally: Tally, source: str = ""
) -> None:
    """Pinball loss beside a baseline's, on the assessments that both made; every passage weighs the same."""
    for cycle, mine in ours.by_cycle.items():
        other = theirs.by_cycle.get(cycle, {})
        both = mine.keys() & other.keys()
        if both:
            record = records[cycle[0]]
            faults = record.troubled(min(both), cycle[2])
            top, bottom = (sum(one[at_s] for at_s in both) / len(both) for one in (mine, other))
            tally.add("pinball" + source, record.interceptor, record.principle, faults, top, bottom)


def _monitored(line: Line, compartment: int) -> Mapping[str, Any]:
    """The assessment's own figures of the truth's compartment."""
    if line.get("compartment") == compartment:
        return line
    for entry in line.get("compartments") or ():
        if entry.get("compartment") == compartment:
            found: Mapping[str, Any] = entry
            return found
    return {}


def _depths(record: Record, at_s: float, told: Mapping[str, Any], tally: Tally, source: str) -> None:
    true = record.depths.get(slot(at_s))
    if true is None:
        return
    faults = record.troubled(at_s, at_s)

    def add(metric: str, value: float) -> None:
        tally.add(metric + source, record.interceptor, record.principle, faults, value)

    fog, solids = told.get("fog_mm"), told.get("solids_mm")
    add("known", float(fog is not None and solids is not None))
    if fog is not None:
        add("fog", abs(fog - true.fog_mm))
    if solids is not None:
        add("solids", abs(solids - true.solids_mm))
    fraction, deviation = told.get("fraction"), told.get("fraction_sd")
    if fraction is not None and deviation is not None:
        error = abs(fraction - true.fraction)
        add("inside", float(error <= HALF_WIDTH * deviation))
        add("far", float(error > FAR * deviation))


def _crossing(cycle: _Forecasts, at_s: float, when: float, told: Line | None) -> float | None:
    """Enter one forecast of the limit's passage; returns its pinball loss [day], None where it is null."""
    cycle.asked += 1
    cycle.first_s = min(cycle.first_s, at_s)
    if told is None:
        return None
    cycle.given += 1
    early, late = _instant(told["p05"]), _instant(told["p95"])
    cycle.inside += float(early <= when <= late)
    if told["p50"] is not None:
        cycle.missed += abs(_instant(told["p50"]) - when) / DAY_S
        cycle.missed_count += 1
    true = min(when - at_s, HORIZON_S)
    parts = [(part, true - min(_instant(told[name]) - at_s, HORIZON_S)) for name, part in QUANTILES]
    return sum(max(part * gap, (part - 1.0) * gap) for part, gap in parts) / len(parts) / DAY_S


def _instant(text: str | None) -> float:
    """An instant; null is later than any."""
    return math.inf if text is None else seconds(text)


def _level_passages(
    record: Record, at_s: float, told: Mapping[str, Any], passages: dict[Cycle, _Forecasts]
) -> None:
    """Whether the told depth and rate, each with its deviation, put the passage of a level in their 90%.

    The output forecasts the limit only; a level below it is passed more often, so it tells more of the
    calibration: the depth grows by the rate, and its deviation by that of the rate.
    """
    names = ("fraction", "fraction_sd", "rate_mm_per_day", "rate_sd_mm_per_day")
    values = [told.get(name) for name in names]
    depth_mm = (told.get("fog_mm") or 0.0) + (told.get("solids_mm") or 0.0)
    if any(value is None for value in values) or not depth_mm > 0.0 or not values[0]:
        return
    fraction, deviation, rate, rate_deviation = (float(value or 0.0) for value in values)
    per_mm = fraction / depth_mm  # 1 / base depth, from the line itself
    for level in LEVELS:
        when = record.crossing_ahead(at_s, level)
        if when is None:
            continue
        days = (when - at_s) / DAY_S
        spread = math.hypot(deviation, rate_deviation * per_mm * days)
        cycle = passages[record.interceptor, level, when]
        cycle.asked += 1
        cycle.given += 1
        cycle.first_s = min(cycle.first_s, at_s)
        cycle.inside += float(abs(fraction + rate * per_mm * days - level) <= HALF_WIDTH * spread)


def _enter_passages(
    records: Mapping[str, Record], passages: Mapping[Cycle, _Forecasts], tally: Tally, source: str
) -> None:
    """Within one cycle the forecasts are not independent, so each cycle counts once."""
    for (interceptor, level, when), cycle in passages.items():
        record = records[interceptor]
        faults = record.troubled(cycle.first_s, when)

        def add(metric: str, value: float, bottom: float = 1.0) -> None:
            tally.add(metric + source, interceptor, record.principle, faults, value, bottom)  # noqa: B023

        if level:
            add(f"passage_{round(100 * level)}", cycle.inside / cycle.given)
            continue
        add("crossing_known", cycle.given / cycle.asked)
        if cycle.given:
            add("crossing", cycle.inside / cycle.given)
        if cycle.missed_count:
            add("crossing_error", cycle.missed / cycle.missed_count)
