"""What the pages show, worked out from the store: the list of interceptors and what happened last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, TypeVar

from markupsafe import Markup

from alerts.facts import Facts
from alerts.policy import Policy
from alerts.situation import Situation
from api.pages.charts import fraction_bar, level_of, sparkline
from api.pages.words import (
    ALERT_WORDS,
    KIND_WORDS,
    NONE,
    ORDER_WORDS,
    REASON_WORDS,
    Reader,
    ago,
    in_days,
    interval,
    percent,
    plain,
)
from api.service import Service
from store.records import Alert, Hauler, Interceptor, JournalEntry, Json, Order, Sensor, Site

PAGE: Final = 100
_SPARK_DAYS: Final = 30
_TOLD: Final = ("alert", "order", "pump_out", "hot_discharge", "frequency_proposal")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chip:
    """One state in a word or two; ``tone`` colours it: bad, warn, info, good, calm."""

    text: str
    tone: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    """The next date by which something must happen, and by what it is set."""

    text: str
    detail: str
    tone: str
    order: int  # for sorting: days from now


@dataclass(frozen=True, slots=True)
class Row:
    """One interceptor in the list."""

    id: str
    site: str
    kind: str
    bar: Markup
    level: str
    fraction: str
    spread: str
    rate: str
    spark: Markup
    due: Due
    chips: tuple[Chip, ...]
    last: str
    last_tone: str
    urgency: tuple[int, int, float, str]


@dataclass(frozen=True, slots=True)
class Told:
    """One line of what happened."""

    at: str
    interceptor: str | None
    site: str
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One count above the list."""

    count: int
    label: str
    tone: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The page of all interceptors."""

    rows: tuple[Row, ...]
    tiles: tuple[Tile, ...]
    told: tuple[Told, ...]
    clock: str
    total: int
    shown: int
    query: str
    only: str
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """The store's records by interceptor, read once for a page."""

    sites: Mapping[str, Site]
    interceptors: tuple[Interceptor, ...]
    sensors: Mapping[str, list[Sensor]]
    haulers: tuple[Hauler, ...]
    situations: Mapping[str, Situation]
    latest: Mapping[str, tuple[int, Json]]
    contacts: Mapping[str, int]


def read_shelf(service: Service, only: str | None = None) -> Shelf:
    """Read what the pages need, of all interceptors or of one."""
    store, ledger = service.store, service.store.ledger
    sites = {one.id: one for one in store.registry.sites()}
    interceptors = tuple(one for one in store.registry.interceptors() if only in (None, one.id))
    sensors: dict[str, list[Sensor]] = defaultdict(list)
    for sensor in store.registry.sensors():
        sensors[sensor.interceptor].append(sensor)
    haulers = tuple(store.registry.haulers())
    alerts = _by(ledger.alerts(open_only=True, interceptor=only))
    orders = _by(ledger.orders(interceptor=only))
    pump_outs = _by(ledger.pump_outs(interceptor=only))
    manifests = _by(ledger.manifests(interceptor=only))
    decisions = _by(ledger.frequency_decisions(interceptor=only))
    situations = {
        one.id: Situation(
            interceptor=one,
            site=sites[one.site],
            ordinance=service.ordinances[sites[one.site].ordinance],
            sensors=tuple(sensors[one.id]),
            alerts=tuple(alerts[one.id]),
            order=next(
                (o for o in orders[one.id] if o.state not in ("closed", "declined", "cancelled")), None
            ),
            orders=tuple(orders[one.id]),
            pump_outs=tuple(pump_outs[one.id]),
            manifests=tuple(manifests[one.id]),
            decisions=tuple(decisions[one.id]),
            haulers=haulers,
        )
        for one in interceptors
    }
    return Shelf(
        sites, interceptors, sensors, haulers, situations, ledger.latest(only), store.history.contacts()
    )


def _by(rows: Iterable[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for row in rows:
        owner: str | None = getattr(row, "interceptor", None)
        if owner is not None:
            found[owner].append(row)
    return found


def dashboard(service: Service, *, query: str = "", only: str = "all", page: int = 1) -> Dashboard:
    """The list, most urgent first; ``query`` looks for words, ``only`` narrows to what needs attention."""
    now_us = round(service.now() * 1e6)
    shelf = read_shelf(service)
    sparks = _sparks(service, len(shelf.interceptors))
    rows = [_row(shelf, one, now_us, sparks.get(one.id, [])) for one in shelf.interceptors]
    words = query.lower().split()
    found = [
        row
        for row in sorted(rows, key=lambda r: r.urgency)
        if all(word in f"{row.site} {row.id} {row.kind}".lower() for word in words)
        and (only != "attention" or row.urgency[0] < 3)
        and (only != "unknown" or row.level == "unknown")
    ]
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    zone = next(iter(shelf.sites.values())).timezone if shelf.sites else "UTC"
    units = next(iter(shelf.sites.values())).units if shelf.sites else "si"
    return Dashboard(
        rows=tuple(found[(page - 1) * PAGE : page * PAGE]),
        tiles=_tiles(rows, shelf),
        told=_told(service, shelf),
        clock=Reader(units, zone).at(now_us),
        total=len(rows),
        shown=len(found),
        query=query,
        only=only,
        page=page,
        pages=pages,
    )


def _sparks(service: Service, interceptors: int) -> dict[str, list[float | None]]:
    limit = min(max(interceptors, 1) * _SPARK_DAYS, 6000)
    found: dict[str, list[float | None]] = defaultdict(list)
    for entry in reversed(service.store.ledger.journal_tail(limit=limit, types=["assessment"])):
        if entry.interceptor is not None:
            found[entry.interceptor].append(entry.body.get("fraction"))
    return {key: values[-_SPARK_DAYS:] for key, values in found.items()}


def _row(shelf: Shelf, one: Interceptor, now_us: int, spark: list[float | None]) -> Row:
    situation = shelf.situations[one.id]
    facts = Facts(situation, now_us, Policy())
    site = shelf.sites[one.site]
    reader = Reader(site.units, site.timezone)
    _, line = shelf.latest.get(one.id, (0, {}))
    fraction, sd, p_over = line.get("fraction"), line.get("fraction_sd"), line.get("p_over_limit")
    limit = facts.rules.fill_limit
    due = next_due(facts, reader)
    chips = state_chips(situation, shelf.haulers)
    spread = ""
    if fraction is not None:
        low, high = interval(fraction, sd)
        spread = f"{percent(low, 0).removesuffix(' %')} – {percent(high, 0)}"
    last, tone = _last(shelf, one.id, line, now_us)
    return Row(
        id=one.id,
        site=site.name,
        kind=KIND_WORDS.get(one.kind, one.kind),
        bar=fraction_bar(fraction, sd, p_over, limit),
        level=level_of(fraction, p_over, limit),
        fraction=percent(fraction),
        spread=spread,
        rate=reader.rate(line.get("rate_mm_per_day")),
        spark=sparkline([*spark, fraction], limit),
        due=due,
        chips=chips,
        last=last,
        last_tone=tone,
        urgency=(_rank(situation, fraction, limit), due.order, -(fraction or 0.0), one.id),
    )


def _rank(situation: Situation, fraction: float | None, limit: float) -> int:
    firing = [alert for alert in situation.alerts if alert.state in ("firing", "recovering")]
    if any(alert.severity == "critical" for alert in firing) or (fraction or 0.0) > limit:
        return 0
    if situation.order is not None and situation.order.due == "immediately":
        return 0
    if any(alert.severity == "warning" for alert in firing):
        return 1
    return 2 if situation.order is not None or firing else 3


def _last(shelf: Shelf, interceptor: str, line: Json, now_us: int) -> tuple[str, str]:
    sensors = shelf.sensors.get(interceptor, [])
    if not sensors:
        return "no sensor", "calm"
    stamps = [shelf.contacts[s.id] for s in sensors if s.id in shelf.contacts]
    last_us = line.get("last_reading_us") or max(stamps, default=None)
    if last_us is None:
        return "never", "warn"
    age_s = (now_us - int(last_us)) / 1e6
    situation = shelf.situations.get(interceptor)
    # by the alert, so that the page and the decisions never disagree about what silence is
    silent = situation is not None and any(
        alert.kind == "sensor_silent" and alert.state in ("firing", "recovering")
        for alert in situation.alerts
    )
    return ago(age_s), "warn" if silent else "calm"


def next_due(facts: Facts, reader: Reader) -> Due:
    """The next date: the open order's or the calendar's, whichever comes first."""
    order = facts.situation.order
    if order is not None and order.due == "immediately" and order.state not in ("serviced", "verified"):
        return Due("Immediately", "complete pump-out", "bad", -10_000)
    dates: list[tuple[date, str]] = []
    if order is not None and order.due != "immediately" and order.state not in ("serviced", "verified"):
        dates.append((date.fromisoformat(order.due), "by order"))
    if facts.due is not None:
        dates.append((facts.due, "by calendar"))
    if not dates:
        calendar = facts.frequency is not None or facts.rules.max_interval is not None
        if calendar and facts.last_complete_us is None:
            return Due("No record", "ask for the last manifest", "warn", 10_000)
        return Due(NONE, "", "calm", 20_000)
    day, why = min(dates)
    days = (day - facts.today).days
    tone = "bad" if days < 0 else "warn" if days <= 14 else "calm"
    return Due(reader.day(day), f"{in_days(days)}, {why}", tone, days)


def state_chips(situation: Situation, haulers: Sequence[Hauler]) -> tuple[Chip, ...]:
    """Firing alerts by severity, then the open order, then what is pending."""
    severity = {"critical": 0, "warning": 1, "info": 2}
    alerts = sorted(situation.alerts, key=lambda a: (severity.get(a.severity, 3), a.since_us))
    grouped: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.state in ("firing", "recovering"):
            grouped[alert.kind].append(alert)
    chips = [alert_chip(group[0], len(group)) for group in grouped.values()]
    if situation.order is not None:
        chips.append(order_chip(situation.order, haulers))
    return tuple(chips)


def alert_chip(alert: Alert, count: int = 1) -> Chip:
    """An alert as a chip."""
    tone = {"critical": "bad", "warning": "warn"}.get(alert.severity, "info")
    text = ALERT_WORDS.get(alert.kind, plain(alert.kind))
    return Chip(f"{text} ×{count}" if count > 1 else text, tone, alert.reason)


def order_chip(order: Order, haulers: Sequence[Hauler]) -> Chip:
    """An order as a chip: its state and whose it is."""
    names = {one.id: one.name for one in haulers}
    text = ORDER_WORDS.get(order.state, plain(order.state))
    if order.hauler is not None and order.state in ("offered", "accepted", "scheduled"):
        text = f"{text}: {names.get(order.hauler, order.hauler)}"
    tone = "good" if order.state in ("serviced", "verified", "closed") else "info"
    return Chip(text, tone, order.note)


def _tiles(rows: Sequence[Row], shelf: Shelf) -> tuple[Tile, ...]:
    situations = shelf.situations.values()
    over = sum(row.level == "over" for row in rows)
    late = sum(any(a.kind == "overdue" and a.state == "firing" for a in s.alerts) for s in situations)
    orders = sum(s.order is not None for s in situations)
    silent = sum(row.last_tone == "warn" for row in rows)
    return (
        Tile(len(rows), "interceptor" if len(rows) == 1 else "interceptors", "calm"),
        Tile(over, "over the limit by estimate", "bad" if over else "calm"),
        Tile(late, "overdue or without record", "warn" if late else "calm"),
        Tile(orders, "order under way" if orders == 1 else "orders under way", "info" if orders else "calm"),
        Tile(silent, "sensor silent" if silent == 1 else "sensors silent", "warn" if silent else "calm"),
    )


# ---- what happened -----------------------------------------------------------------------------------


def _told(service: Service, shelf: Shelf) -> tuple[Told, ...]:
    owner = {one.id: shelf.sites[one.site] for one in shelf.interceptors}
    names = {one.id: one.name for one in shelf.haulers}
    told = []
    for entry in service.store.ledger.journal_tail(limit=40, types=list(_TOLD)):
        site = owner.get(entry.interceptor or "")
        text, tone = sentence(entry, names, Reader(site.units if site else "si", "UTC"))
        if text:
            at = Reader(site.units, site.timezone).moment(entry.at_us) if site else NONE
            told.append(Told(at, entry.interceptor, site.name if site else "", text, tone))
    return tuple(told[:12])


def sentence(entry: JournalEntry, haulers: Mapping[str, str], reader: Reader) -> tuple[str, str]:
    """A line of the journal in a few words, and its tone; empty where nobody needs to know."""
    body = entry.body
    if entry.type == "alert":
        return _say_alert(body)
    if entry.type == "order":
        return _say_order(body, haulers)
    if entry.type == "pump_out":
        kind = "Complete" if body.get("complete") else "Partial"
        if not body.get("confidence"):
            return "Pump-out withdrawn: later readings show there was none", "warn"
        return f"{kind} pump-out seen by the sensor", "good" if body.get("complete") else "warn"
    if entry.type == "hot_discharge":
        return f"Hot discharge, {body.get('status')}: peak {reader.temperature(body.get('peak_c'))}", "warn"
    return f"Frequency proposed: {body.get('from')} to {body.get('to')}", "info"


def _say_alert(body: Mapping[str, Any]) -> tuple[str, str]:
    words = ALERT_WORDS.get(str(body.get("kind")), plain(str(body.get("kind"))))
    if body.get("state") == "firing":
        return words, {"critical": "bad", "warning": "warn"}.get(str(body.get("severity")), "info")
    return (f"{words}: resolved", "good") if body.get("state") == "resolved" else ("", "calm")


def _say_order(body: Mapping[str, Any], haulers: Mapping[str, str]) -> tuple[str, str]:
    state, hauler = str(body.get("state")), body.get("hauler")
    words = ORDER_WORDS.get(state, plain(state))
    name = haulers.get(str(hauler), str(hauler))
    if state == "proposed":
        return f"{words}: {REASON_WORDS.get(str(body.get('reason')), '')}".rstrip(": "), "info"
    joined = {"offered": " to ", "accepted": " by ", "scheduled": " by ", "declined": " by "}.get(state)
    tone = (
        "good" if state in ("serviced", "verified", "closed") else "warn" if state == "declined" else "info"
    )
    return f"{words}{joined}{name}" if joined and hauler else words, tone
