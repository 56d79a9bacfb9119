"""Scores of what was told of events: pump-outs, hot discharges, alarms above the limit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from simulators.heard import Heard
from simulators.tally import Tally
from simulators.truth import Line, seconds
from simulators.truthbook import DAY_S, YEAR_S, Book, Hot, Record, Service

SERVICE_TOLERANCE_S: Final = 3600.0
VISIBLE_FALL_MM: Final = 25.0
JUDGED_AFTER_S: Final = DAY_S  # nobody is held to what happened in the last day
HOT_PLAIN_C: Final = (146.0 - 32.0) / 1.8  # clear of a probe's guard band
HOT_TOLERANCE: Final = 2.0  # intervals between messages
WELL_BELOW: Final = 0.02  # 23 % where the limit is 25 %
SLACK: Final = 0.01  # a fraction that hovers at the limit after its passage is no false alarm
SKIM: Final = "skim"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the samples of one interceptor go."""

    record: Record
    heard: Heard | None
    tally: Tally

    def add(self, metric: str, faults: Iterable[str], top: float, bottom: float = 1.0) -> None:
        self.tally.add(metric, self.record.interceptor, self.record.principle, faults, top, bottom)


def score_events(
    book: Book, heard: Mapping[str, Heard], output: Mapping[str, list[Line]], tally: Tally
) -> None:
    """Score ``pump_out``, ``hot_discharge`` and ``alert`` lines.

    Raises
    ------
    KeyError, ValueError
        A line lacks a key of the contract, or holds no time where one must be.
    """
    pump_outs = _by_interceptor(_last_by_id(output.get("pump_out", ())))
    discharges = _by_interceptor(_last_by_id(output.get("hot_discharge", ())))
    alarms = _first_firings(output.get("alert", ()))
    for name, record in book.records.items():
        place = _Place(record, heard.get(name), tally)
        for faults, years in _stretches(record, book):
            for metric in ("over_false", "over_false_far", "invented"):
                place.add(metric, faults, 0.0, years)
        _services(place, book, pump_outs[name])
        _hot(place, book, discharges[name])
        _over_limit(place, book, alarms[name])


def _last_by_id(lines: Iterable[Line]) -> list[Line]:
    return list({line["id"]: line for line in lines}.values())


def _by_interceptor(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line["interceptor"]].append(line)
    return found


def _first_firings(alerts: Iterable[Line]) -> dict[str, list[float]]:
    """When each ``over_limit`` by estimate fired first [s], in order of time."""
    fired: dict[str, dict[str, float]] = defaultdict(dict)
    for line in alerts:
        if line["kind"] == "over_limit" and line["state"] == "firing" and line["basis"] == "estimate":
            fired[line["interceptor"]].setdefault(line["id"], seconds(line["at"]))
    return defaultdict(list, {name: sorted(times.values()) for name, times in fired.items()})


def _stretches(record: Record, book: Book) -> Iterable[tuple[frozenset[str], float]]:
    """The time watched, cut where a fault begins or ends: kinds in force, and the length [year]."""
    edges = {book.first_s, book.last_s}
    for one in record.troubles:
        edges |= {min(max(edge, book.first_s), book.last_s) for edge in (one.start_s, one.over_s)}
    for first_s, last_s in pairwise(sorted(edges)):
        middle_s = (first_s + last_s) / 2.0
        yield record.troubled(middle_s, middle_s), (last_s - first_s) / YEAR_S


# ---- pump-outs ---------------------------------------------------------------------------------------


def _windows(service: Service, heard: Heard | None) -> tuple[bool, tuple[float, float], tuple[float, float]]:
    """Whether messages came during a service; when it may be dated; when something is rightly told of it."""
    near = (service.start_s - SERVICE_TOLERANCE_S, service.end_s + SERVICE_TOLERANCE_S)
    count, before, after = (1, *near) if heard is None else heard.around(service.start_s, service.end_s)
    if count:
        return True, near, near
    return False, (before, after), (min(before, near[0]), max(after, near[1]))


def _services(place: _Place, book: Book, told: list[Line]) -> None:
    record = place.record
    left = sorted(told, key=lambda line: seconds(line["pumped_at"]))
    for service in record.services:
        seen, dated, near = _windows(service, place.heard)
        match = _best(left, near, service.complete)
        if match is not None:
            left.remove(match)
            place.add("precision", record.troubled(service.start_s, service.end_s), 1.0)
        if service.end_s > book.last_s - JUDGED_AFTER_S:
            continue
        right = (
            match is not None
            and bool(match["complete"]) == service.complete
            and dated[0] <= seconds(match["pumped_at"]) <= dated[1]
        )
        kind = "complete" if service.complete else "partial"
        metric = f"recall_{kind}" if seen else f"recall_{kind}_hidden"
        if service.fall_mm < VISIBLE_FALL_MM:
            metric = "recall_small"
        place.add(metric, record.troubled(service.start_s, service.end_s), float(right))
    for line in left:
        at_s = seconds(line["pumped_at"])
        if not line["complete"] and _skimmed(record, at_s):
            continue  # grease was taken; the contract lets that be told so
        faults = record.troubled(at_s, at_s)
        place.add("precision", faults, 0.0)
        place.add("invented", faults, 1.0, 0.0)


def _best(left: list[Line], window: tuple[float, float], complete: bool) -> Line | None:
    """Among the lines dated in the window, the first of the right kind, or else the first."""
    inside = [line for line in left if window[0] <= seconds(line["pumped_at"]) <= window[1]]
    return next((line for line in inside if bool(line["complete"]) == complete), next(iter(inside), None))


def _skimmed(record: Record, at_s: float) -> bool:
    return SKIM in record.troubled(at_s, at_s + SERVICE_TOLERANCE_S)


# ---- hot discharges ----------------------------------------------------------------------------------


def _hot(place: _Place, book: Book, told: list[Line]) -> None:
    record, heard = place.record, place.heard
    interval_s = 900.0 if heard is None else heard.interval_s
    if heard is not None and not heard.probed:
        confirmed = sum(line["status"] == "confirmed" for line in told)
        place.add("hot_by_tank", (), float(confirmed))
    for line in told:
        at_s = seconds(line["start"])
        faults = record.troubled(at_s, at_s)
        right = float(any(_same_hot(line, hot, interval_s) for hot in record.hot))
        place.add("hot_precision", faults, right)
        if line["status"] == "confirmed":
            place.add("hot_precision_confirmed", faults, right)
    for hot in record.hot:
        if not _plain(hot, record, heard) or hot.end_s > book.last_s - JUDGED_AFTER_S:
            continue
        faults = record.troubled(hot.start_s, hot.end_s)
        matches = [line for line in told if _same_hot(line, hot, interval_s)]
        place.add("hot_recall", faults, float(bool(matches)))
        sure = any(line["status"] == "confirmed" for line in matches)
        place.add("hot_recall_confirmed", faults, float(sure))


def _plain(hot: Hot, record: Record, heard: Heard | None) -> bool:
    """Whether it must be seen: two time constants long, clear of the guard band, its maximum received."""
    if record.tau_s is None or hot.duration_s < 2 * record.tau_s or hot.peak_c < HOT_PLAIN_C:
        return False
    return heard is None or heard.maximum_between(hot.start_s, hot.end_s + 1.2 * heard.interval_s)


def _same_hot(line: Line, hot: Hot, interval_s: float) -> bool:
    start_s = seconds(line["start"])
    end_s = start_s if line["end"] is None else seconds(line["end"])
    slack_s = HOT_TOLERANCE * interval_s
    return start_s <= hot.end_s + slack_s and end_s >= hot.start_s - slack_s


# ---- over the limit ----------------------------------------------------------------------------------


def _over_limit(place: _Place, book: Book, fired: list[float]) -> None:
    record, limit = place.record, book.limit
    for at_s in fired:
        if not _truly_over(record, at_s, limit):
            faults, fraction = record.troubled(at_s, at_s), record.fraction_at(at_s)
            place.add("over_false", faults, 1.0, 0.0)
            if fraction is None or fraction < limit - WELL_BELOW:
                place.add("over_false_far", faults, 1.0, 0.0)
    for when in record.crossings.get(limit, []):
        until = min(record.next_service(when), book.last_s)
        begin = record.last_service(when)
        first = next((at_s for at_s in fired if begin < at_s < until), None)
        faults = record.troubled(when - DAY_S, until if first is None else max(first, when))
        if first is None:  # a lower bound: it had not fired when the truck came, or the stream ended
            reached = record.highest(when, until)
            place.add("over_excess", faults, 100.0 * ((reached or limit) - limit), 0.0)
            place.add("over_delay", faults, (until - when) / DAY_S, 0.0)
            if until - when >= JUDGED_AFTER_S:
                place.add("over_recall", faults, 0.0)
            continue
        fraction = record.fraction_at(first)
        place.add("over_recall", faults, 1.0)
        place.add("over_delay", faults, (first - when) / DAY_S)
        if fraction is not None:
            place.add("over_excess", faults, 100.0 * (fraction - limit))


def _truly_over(record: Record, at_s: float, limit: float) -> bool:
    """Whether this cycle had passed the limit by then and not fallen back, or began above it unseen."""
    fraction, begin = record.fraction_at(at_s), record.last_service(at_s)
    if any(begin < when <= at_s for when in record.crossings.get(limit, [])):
        return fraction is None or fraction > limit - SLACK or math.isclose(fraction, limit - SLACK)
    return fraction is not None and fraction > limit
