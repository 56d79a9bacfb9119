"""What one interceptor's page shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from alerts.calendar import in_words
from alerts.facts import Facts
from alerts.policy import Policy
from api.pages import tables
from api.pages.charts import Crossing, FractionChart, Mark, Point, fraction_bar, fraction_chart, level_of
from api.pages.views import Chip, Due, alert_chip, next_due, order_chip, read_shelf, state_chips
from api.pages.words import (
    BASIS_WORDS,
    KIND_WORDS,
    NONE,
    REASON_WORDS,
    Reader,
    interval,
    percent,
    plain,
)
from api.service import Service
from store.ports import Ledger
from store.records import (
    Alert,
    CoreSample,
    Hauler,
    Interceptor,
    Json,
    Order,
)

_STEPS: Final = ("proposed", "offered", "accepted", "scheduled", "serviced", "verified", "closed")
_DAYS: Final = 400


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure with its uncertainty and where it comes from."""

    label: str
    value: str
    detail: str
    tone: str = "calm"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an order's way; ``state`` is done, now, open or stopped."""

    label: str
    at: str
    state: str


@dataclass(frozen=True, slots=True)
class OrderView:
    """An order and its way so far."""

    id: str
    chip: Chip
    title: str
    due: str
    hauler: str
    papers: str
    note: str
    citation: str
    steps: tuple[Step, ...]
    open: bool


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert with its reason and citation."""

    chip: Chip
    state: str
    since: str
    reason: str
    citation: str
    basis: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One interceptor's page."""

    id: str
    site: str
    subtitle: str
    timezone: str
    ordinance: str
    citation: str
    level: str
    fraction: str
    spread: str
    bar: Markup
    chips: tuple[Chip, ...]
    facts: tuple[Fact, ...]
    due: Due
    chart: Markup | None
    limit: str
    has_samples: bool
    has_pump_outs: bool
    has_partial: bool
    has_crossing: bool
    orders: tuple[OrderView, ...]
    alerts: tuple[AlertView, ...]
    services: tuple[tables.ServiceView, ...]
    readings: tables.ReadingsView
    sensors: tuple[tuple[str, str, str, str], ...]
    health: tuple[Chip, ...]
    clock: str


def detail(service: Service, identity: str) -> Detail | None:
    """One interceptor's page; None where there is none of this id."""
    now_us = round(service.now() * 1e6)
    shelf = read_shelf(service, identity)
    if not shelf.interceptors:
        return None
    (one,) = shelf.interceptors
    site, situation = shelf.sites[one.site], shelf.situations[identity]
    reader = Reader(site.units, site.timezone)
    facts = Facts(situation, now_us, Policy())
    at_us, line = shelf.latest.get(identity, (0, {}))
    samples = service.store.ledger.core_samples(interceptor=identity)
    fraction, sd, p_over = line.get("fraction"), line.get("fraction_sd"), line.get("p_over_limit")
    chart = _chart(service, one, reader, facts, samples, at_us, line, now_us)
    drawn = fraction_chart(chart)
    due = next_due(facts, reader)
    low, high = interval(fraction, sd) if fraction is not None else (0.0, 0.0)
    return Detail(
        id=identity,
        site=site.name,
        subtitle=_subtitle(one, reader),
        timezone=site.timezone,
        ordinance=situation.ordinance.name,
        citation=facts.rules.fill_citation or "program policy",
        level=level_of(fraction, p_over, facts.rules.fill_limit),
        fraction=percent(fraction),
        spread="" if fraction is None else f"90 % interval {percent(low)} to {percent(high)}",
        bar=fraction_bar(fraction, sd, p_over, facts.rules.fill_limit, width=260),
        chips=state_chips(situation, shelf.haulers),
        facts=_facts(line, reader, facts, due),
        due=due,
        chart=drawn if chart.points or chart.samples else None,
        limit=percent(facts.rules.fill_limit, 0),
        has_samples=bool(chart.samples),
        has_pump_outs=any(mark.complete for mark in chart.pump_outs),
        has_partial=any(not mark.complete for mark in chart.pump_outs),
        has_crossing='class="expected"' in drawn,
        orders=_orders(service.store.ledger, situation.orders, shelf.haulers, reader),
        alerts=_alerts(service.store.ledger.alerts(interceptor=identity, limit=30), reader),
        services=tables.services(situation.pump_outs, situation.manifests, samples, shelf.haulers, reader),
        readings=tables.readings(service, [s.id for s in situation.sensors], reader, now_us),
        sensors=tables.sensors(service, situation.sensors, now_us),
        health=tuple(tables.health_chip(flag) for flag in line.get("health") or []),
        clock=reader.at(now_us),
    )


def _subtitle(one: Interceptor, reader: Reader) -> str:
    parts = [KIND_WORDS.get(one.kind, one.kind).capitalize()]
    if one.volume_m3 is not None:
        parts.append(reader.volume(one.volume_m3))
    parts.append(f"base depth {reader.depth(one.base_depth_m)}")
    parts.append(f"{one.compartments} compartments" if one.compartments > 1 else "1 compartment")
    return " · ".join(parts)


def _facts(line: Json, reader: Reader, facts: Facts, due: Due) -> tuple[Fact, ...]:
    rules, crossing = facts.rules, line.get("crossing") or {}
    over = (line.get("fraction") or 0.0) > rules.fill_limit
    expected, detail = NONE, "no estimate yet"
    if crossing.get("p50"):
        expected = reader.day(datetime.fromisoformat(crossing["p50"]).astimezone(_zone(reader)).date())
        detail = f"80 % interval {_date(crossing.get('p10'), reader)} to {_date(crossing.get('p90'), reader)}"
    elif crossing:
        expected, detail = "Not expected", "within six months"
    frequency = in_words(facts.frequency) if facts.frequency else NONE
    last = reader.day(reader.local(facts.last_complete_us).date()) if facts.last_complete_us else "No record"
    seen = "documented and seen" if facts.documented_us and facts.observed_us else ""
    if not seen and facts.last_complete_us:
        seen = "seen by the sensor" if facts.observed_us else "by the records"
    return (
        Fact("FOG depth", reader.depth_mm(line.get("fog_mm")), reader.spread_mm(line.get("fog_sd_mm"))),
        Fact(
            "Solids depth", reader.depth_mm(line.get("solids_mm")), reader.spread_mm(line.get("solids_sd_mm"))
        ),
        Fact("Growth", reader.rate(line.get("rate_mm_per_day")), "FOG and solids together"),
        Fact(f"{'Reached' if over else 'Reaches'} {percent(rules.fill_limit, 0)}", expected, detail),
        Fact("Last complete pump-out", last, seen),
        Fact("Next due", due.text, due.detail, due.tone),
        Fact("Approved interval", frequency, _longest(facts)),
    )


def _longest(facts: Facts) -> str:
    rules = facts.rules
    if rules.max_interval is None:
        return "the ordinance names none for this device"
    return f"at most {in_words(rules.max_interval)}, {rules.max_citation}"


def _zone(reader: Reader) -> Any:
    return reader.local(0).tzinfo


def _date(text: str | None, reader: Reader) -> str:
    if text is None:
        return "beyond six months"
    return reader.short_day(datetime.fromisoformat(text).astimezone(_zone(reader)).date())


# ---- chart -------------------------------------------------------------------------------------------


def _chart(
    service: Service,
    one: Interceptor,
    reader: Reader,
    facts: Facts,
    samples: Sequence[CoreSample],
    at_us: int,
    line: Json,
    now_us: int,
) -> FractionChart:
    ledger = service.store.ledger
    entries = ledger.journal_tail(limit=_DAYS, types=["assessment"], interceptor=one.id)
    points = [_point(entry.at_us, entry.body) for entry in entries]
    points.append(_point(at_us, line))
    known = [point for point in points if point is not None]
    start_s = min((p.at_s for p in known), default=now_us / 1e6 - 30 * 86_400)
    marks = [
        Mark(
            p.start_us / 1e6,
            f"{'Complete' if p.complete else 'Partial'} pump-out, {reader.at(p.start_us)}",
            p.complete,
        )
        for p in facts.situation.pump_outs
        if p.confidence > 0 and p.start_us / 1e6 >= start_s - 86_400
    ]
    hand = [
        Mark(
            s.sampled_us / 1e6,
            f"Core sample, {reader.at(s.sampled_us)}: {percent((s.fog_m + s.solids_m) / one.base_depth_m)}",
            value=(s.fog_m + s.solids_m) / one.base_depth_m,
        )
        for s in samples
        if s.sampled_us / 1e6 >= start_s - 86_400
    ]
    return FractionChart(
        points=known,
        limit=facts.rules.fill_limit,
        now_s=now_us / 1e6,
        reader=reader,
        pump_outs=marks,
        samples=hand,
        crossing=_crossing(line.get("crossing")),
    )


def _point(at_us: int, line: Mapping[str, Any]) -> Point | None:
    fraction = line.get("fraction")
    return None if fraction is None else Point(at_us / 1e6, fraction, line.get("fraction_sd") or 0.0)


def _crossing(line: Mapping[str, str | None] | None) -> Crossing | None:
    if not line or not line.get("p50"):
        return None
    at = {key: datetime.fromisoformat(text).timestamp() for key, text in line.items() if text is not None}
    return Crossing(at.get("p10", at["p50"]), at["p50"], at.get("p90"))


# ---- orders and alerts -------------------------------------------------------------------------------


def _orders(
    ledger: Ledger, orders: Sequence[Order], haulers: Sequence[Hauler], reader: Reader
) -> tuple[OrderView, ...]:
    names = {one.id: one.name for one in haulers}
    ways: dict[str, dict[str, int]] = defaultdict(dict)
    if orders:
        for entry in ledger.journal(types=["order"], interceptor=orders[0].interceptor, limit=10_000):
            ways[str(entry.body.get("id"))][str(entry.body.get("state"))] = entry.at_us
    return tuple(_order(one, ways[one.id], haulers, names, reader) for one in orders[:12])


def _order(
    one: Order, way: Mapping[str, int], haulers: Sequence[Hauler], names: Mapping[str, str], reader: Reader
) -> OrderView:
    stopped = one.state in ("declined", "cancelled")
    reached = _STEPS.index(one.state) if one.state in _STEPS else -1
    steps = []
    for index, state in enumerate(_STEPS):
        done = state in way or index <= reached
        if stopped and not done:
            break
        mark = "now" if state == one.state and state != "closed" else "done" if done else "open"
        steps.append(Step(state.capitalize(), reader.moment(way.get(state)), mark))
    if stopped:
        steps.append(Step(one.state.capitalize(), reader.moment(way.get(one.state)), "stopped"))
    due = "immediately" if one.due == "immediately" else reader.day(datetime.fromisoformat(one.due).date())
    return OrderView(
        id=one.id,
        chip=order_chip(one, haulers),
        title=f"Because of {REASON_WORDS.get(one.reason, one.reason)}"
        if one.reason == "calendar"
        else REASON_WORDS.get(one.reason, one.reason).capitalize(),
        due=due,
        hauler=names.get(one.hauler or "", one.hauler or NONE),
        papers=one.papers,
        note=one.note,
        citation=one.citation or "",
        steps=tuple(steps),
        open=one.state not in ("closed", "declined", "cancelled"),
    )


def _alerts(alerts: Sequence[Alert], reader: Reader) -> tuple[AlertView, ...]:
    order = {"firing": 0, "recovering": 1, "pending": 2}
    ordered = sorted(alerts, key=lambda a: (order.get(a.state, 3), -a.changed_us))
    return tuple(
        AlertView(
            chip=alert_chip(one) if one.state != "resolved" else Chip(alert_chip(one).text, "calm"),
            state=plain(one.state),
            since=reader.at(one.since_us),
            reason=one.reason,
            citation=one.citation or "",
            basis=BASIS_WORDS.get(one.basis, one.basis),
        )
        for one in ordered[:12]
    )
