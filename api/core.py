"""The service's deterministic heart: messages and commands in, decisions out, on one clock.

It knows no thread, no socket and no clock of its own. The same messages and events in the same order give the
same journal, whether they come from a broker (`api.engine`) or out of a file (`api.replay`).

Decisions fall on a fixed grid of instants. An instant is decided before anything received at or after it is
taken, so what is known at an instant does not depend on how messages happened to be grouped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from alerts.decide import Decision, Situation, decide
from alerts.ids import short_id
from alerts.lines import assessment_line, hot_discharge_line, pump_out_line, quarantine_line
from alerts.ordinance import Ordinance
from alerts.policy import Policy
from analysis.model import Assessment, Found, HotDischarge, Layers, PumpOut
from api.desk import Desk
from api.estimates import Estimates
from api.fleetmodel import build_fleet
from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.ports import Store
from store.records import (
    CommitResult,
    HotDischargeRecord,
    IngestWindow,
    Interceptor,
    JournalEntry,
    Json,
    PumpOutRecord,
    Sensor,
    Site,
    StoredReading,
)

FIRST_INSTANT: Final = "first_instant_us"
LAST_INSTANT: Final = "last_instant_us"
TAKEN: Final = "messages_taken"  # number of the last message, committed with it
HISTORY_VERSION: Final = "history_version"
SWEEP_US: Final = 3_600_000_000  # rules of time alone (silence, due dates, offers) are looked at hourly
DAY_US: Final = 86_400_000_000
_SAME_SERVICE_US: Final = 2 * 3_600_000_000  # a pump-out found again this close to a known one is that one


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decides beside the data: ordinances, device profiles, policy, the grid."""

    ordinances: Mapping[str, Ordinance]
    profiles: Mapping[str, DeviceProfile]
    policy: Policy
    decide_every_us: int = 900_000_000


class Core:
    """One fleet's service over one store. Not thread safe: one thread owns it."""

    def __init__(
        self,
        store: Store,
        rules: Rules,
        *,
        start_us: int,
        written: Callable[[list[JournalEntry]], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.rules = rules
        self.desk = Desk(store, written)
        self._new: dict[tuple[str, int], StoredReading] = {}  # a completed row stands for its parts
        self._touched: set[str] = set()
        self._latest: dict[str, Assessment] = {}
        self._contacts: dict[str, int] = store.history.contacts()
        self._version: tuple[int, str | None] = (-1, None)
        self._last_us = 0
        self._resume(start_us)

    # ---- what comes in -------------------------------------------------------------------------------

    @property
    def last_instant_us(self) -> int:
        """The newest instant that has been decided."""
        return self._last_us

    def accept(self, messages: Sequence[RawMessage], upto_us: int) -> None:
        """Take messages in order of reception, deciding each instant on the way, then up to ``upto_us``."""
        start = 0
        while start < len(messages):
            start = self.accept_span(messages, start)
        self.advance(upto_us)

    def accept_span(self, messages: Sequence[RawMessage], start: int, number: int | None = None) -> int:
        """Take the messages from ``start`` to the next instant; returns where the next span starts.

        ``number`` is that of the message at ``start``, where they are counted over the life of the store.
        When the store refuses, nothing of the span was taken: call again with the same arguments.
        """
        self.advance(messages[start].received_us)
        limit = self._last_us + self.rules.decide_every_us
        end = bisect_left(messages, limit, lo=start, key=lambda m: m.received_us)
        self.take(messages[start:end], None if number is None else number + end - start - 1)
        return end

    def take(self, messages: Sequence[RawMessage], last: int | None = None) -> CommitResult:
        """Decode and commit messages of one span between instants, in one transaction; ``last`` is kept with them."""
        window = self._decoder.decode(messages)
        with self.desk.transaction():
            result = self.store.history.commit(window)
            for one in sorted(result.quarantined, key=lambda q: q.received_us):
                owner = self._owner.get(one.sensor) if one.sensor is not None else None
                self.desk.journal(one.received_us, "quarantine", owner, quarantine_line(one))
            if last is not None:
                self.store.ledger.set_meta(TAKEN, str(last))
            self.desk.after_commit(lambda: self._heard(result, window))
        return result

    def _heard(self, result: CommitResult, window: IngestWindow) -> None:
        self._new.update({(r.sensor, r.time_us): r for r in result.stored})
        for sensor, at_us in window.contacts:
            self._contacts[sensor] = max(at_us, self._contacts.get(sensor, 0))

    def advance(self, to_us: int) -> None:
        """Decide every instant of the grid up to and including ``to_us``."""
        every = self.rules.decide_every_us
        while (instant := self._next_instant(to_us)) is not None:
            self._decide_at(instant)
        self._last_us = max(self._last_us, to_us // every * every)

    def settle(self, at_us: int) -> None:
        """Decide once more at an instant off the grid: where a recorded stream ends."""
        self.advance(at_us)
        if at_us > self._last_us:
            self._decide_at(at_us)

    def decide_now(self, interceptors: Iterable[str], now_us: int) -> None:
        """Decide about these interceptors after a command, by the estimates of the last instant."""
        for interceptor in interceptors:
            self._apply(decide(self.situation(interceptor), now_us, self.rules.policy), now_us)

    def situation(self, interceptor: str) -> Situation:
        """Everything a decision about one interceptor rests on."""
        record = self.interceptors[interceptor]
        site = self.sites[record.site]
        folder = self.desk.folder(interceptor)
        return Situation(
            interceptor=record,
            site=site,
            sensors=tuple(self._sensors_of.get(interceptor, ())),
            ordinance=self.rules.ordinances[site.ordinance],
            assessment=self._latest.get(interceptor),
            # in an order of their own, not that of arrival: a restart loads them in another
            alerts=tuple(sorted(folder.alerts.values(), key=lambda a: (a.since_us, a.id))),
            order=folder.open_order,
            orders=tuple(sorted(folder.orders.values(), key=lambda o: (o.opened_us, o.id))),
            pump_outs=tuple(sorted(folder.pump_outs.values(), key=lambda p: (p.start_us, p.id))),
            manifests=tuple(sorted(folder.manifests.values(), key=lambda m: (m.pumped_us, m.id))),
            core_samples=tuple(sorted(folder.core_samples.values(), key=lambda c: (c.sampled_us, c.id))),
            hot_discharges=tuple(sorted(folder.hot_discharges.values(), key=lambda h: (h.start_us, h.id))),
            decisions=tuple(sorted(folder.decisions.values(), key=lambda d: (d.decided_us, d.id))),
            proposals=tuple(sorted(folder.proposals.values(), key=lambda p: (p.at_us, p.id))),
            haulers=self._haulers,
            contacts={
                s.id: self._contacts[s.id]
                for s in self._sensors_of.get(interceptor, ())
                if s.id in self._contacts
            },
        )

    def apply(self, decision: Decision, now_us: int) -> None:
        """Write what a decision says: alerts, orders, proposals, outbox."""
        self._apply(decision, now_us)

    def registry_changed(self) -> None:
        """Read the registry anew where it (or the history, by an import) changed, and fold again."""
        version = self._stored_version()
        if version == self._version:
            return
        self._read_registry()
        self._version = version
        self._estimates.rebuild(received_before_us=self._last_us)
        self._touched.update(self.interceptors)

    # ---- an instant ----------------------------------------------------------------------------------

    def _next_instant(self, to_us: int) -> int | None:
        """The next instant with something to do: new readings, the hourly look, a local midnight."""
        busy = self._new or self._touched or not self._whole_hours
        step = self.rules.decide_every_us if busy else SWEEP_US
        instant = (self._last_us // step + 1) * step
        return instant if instant <= to_us else None

    def _decide_at(self, instant_us: int) -> None:
        new, self._new = self._new, {}
        before = self._estimates.mark()
        try:
            with self.desk.transaction():
                self._decide_inside(instant_us, list(new.values()))
                self.store.ledger.set_meta(LAST_INSTANT, str(instant_us))
        except BaseException:
            self._new = {**new, **self._new}
            self._estimates.back_to(before)
            raise
        self._touched.clear()
        self._last_us = instant_us

    def _decide_inside(self, instant_us: int, new: Sequence[StoredReading]) -> None:
        advance = self._estimates.advance(new, received_before_us=instant_us)
        self._record_found(advance.found, advance.refolded, instant_us)
        midnight = {i for i, record in self.interceptors.items() if self._is_midnight(record, instant_us)}
        sweep = instant_us % SWEEP_US == 0
        touched = {self._owner[r.sensor] for r in new if r.sensor in self._owner} | self._touched | midnight
        due = sorted(self.interceptors if sweep else touched)
        if not due:
            return
        cards: dict[str, Json] = {}
        for one in self._estimates.assess(instant_us / 1e6, interceptors=due):
            self._latest[one.interceptor] = one
            line = assessment_line(one)
            if one.interceptor in midnight:
                self.desk.journal(instant_us, "assessment", one.interceptor, line)
            cards[one.interceptor] = self._card(one, line)
        self.store.ledger.put_latest(instant_us, cards)
        for interceptor in due:
            self._apply(decide(self.situation(interceptor), instant_us, self.rules.policy), instant_us)
        if midnight or instant_us % DAY_US == 0:
            self._estimates.checkpoint()

    def _apply(self, decision: Decision, now_us: int) -> None:
        for alert in decision.alerts:
            self.desk.put_alert(alert, now_us)
        for order in decision.orders:
            self.desk.put_order(order, now_us)
        for proposal in decision.proposals:
            self.desk.put_proposal(proposal, now_us)
        for item in decision.outbox:
            self.desk.enqueue(item)

    @staticmethod
    def _card(one: Assessment, line: Json) -> Json:
        """What the list of interceptors shows: the assessment's line and when the sensor last spoke."""
        last = None if one.last_reading_s is None else round(one.last_reading_s * 1e6)
        since = None if one.since_s is None else round(one.since_s * 1e6)
        return {**line, "last_reading_us": last, "since_us": since, "own_evidence": one.own_evidence}

    # ---- what the fold found -------------------------------------------------------------------------

    def _record_found(self, found: Found, refolded: Mapping[str, float], at_us: int) -> None:
        # a refold passes again through states that were told long ago: only where it ends is news
        again: dict[str, PumpOutRecord] = {}
        for pump_out in found.pump_outs:
            record = self._pump_out_record(pump_out, again.values())
            again[record.id] = record
        for record in again.values():
            known = self.desk.folder(record.interceptor).pump_outs.get(record.id)
            if known is None or pump_out_line(known) != pump_out_line(record):
                self.desk.put_pump_out(record, at_us)
        for interceptor, since_s in refolded.items():
            for known in list(self.desk.folder(interceptor).pump_outs.values()):
                if known.start_us > since_s * 1e6 and known.id not in again and known.confidence > 0:
                    # late readings showed that it was none: the correction repeats the id
                    self.desk.put_pump_out(replace(known, complete=False, confidence=0.0), at_us)
        for hot in {(hot.sensor, hot.start_s): hot for hot in found.hot_discharges}.values():
            self._record_hot(hot, at_us)

    def _pump_out_record(self, found: PumpOut, beside: Iterable[PumpOutRecord]) -> PumpOutRecord:
        start_us, end_us = round(found.start_s * 1e6), round(found.end_s * 1e6)
        known = [
            p
            for p in (*self.desk.folder(found.interceptor).pump_outs.values(), *beside)
            if p.interceptor == found.interceptor
            and p.start_us <= end_us + _SAME_SERVICE_US
            and start_us <= p.end_us + _SAME_SERVICE_US
        ]
        identity = known[0].id if known else short_id("po", found.interceptor, str(start_us))
        return PumpOutRecord(
            id=identity,
            interceptor=found.interceptor,
            start_us=start_us,
            end_us=end_us,
            complete=found.complete,
            confidence=found.confidence,
            before=tuple(_layers(one) for one in found.before),
            after=tuple(_layers(one) for one in found.after),
        )

    def _record_hot(self, hot: HotDischarge, at_us: int) -> None:
        record = HotDischargeRecord(
            id=short_id("hd", hot.sensor, str(round(hot.start_s * 1e6))),
            interceptor=hot.interceptor,
            sensor=hot.sensor,
            start_us=round(hot.start_s * 1e6),
            end_us=None if hot.end_s is None else round(hot.end_s * 1e6),
            peak_c=hot.peak_c,
            duration_s=hot.duration_s,
            status=hot.status,
        )
        known = self.desk.folder(hot.interceptor).hot_discharges.get(record.id)
        if known is not None and hot_discharge_line(known) == hot_discharge_line(record):
            return
        rose = known is not None and known.status != record.status
        ended = record.end_us is not None and (known is None or known.end_us is None or known != record)
        self.desk.put_hot_discharge(record, at_us, tell=rose or ended)

    # ---- registry and start --------------------------------------------------------------------------

    def _resume(self, start_us: int) -> None:
        every = self.rules.decide_every_us
        kept = self.store.ledger.get_meta(LAST_INSTANT)
        self._last_us = int(kept) if kept is not None else start_us // every * every
        self._read_registry()
        self._version = self._stored_version()
        if kept is None:
            with self.desk.transaction():
                self.store.ledger.set_meta(FIRST_INSTANT, str(self._last_us))
                self.store.ledger.set_meta(LAST_INSTANT, str(self._last_us))
            return
        self._estimates.rebuild(received_before_us=self._last_us)
        for one in self._estimates.assess(self._last_us / 1e6):
            self._latest[one.interceptor] = one
        for chunk in self.store.history.scan(received_since_us=self._last_us, received_before_us=2**62):
            self._new.update({(r.sensor, r.time_us): r for r in chunk})

    def _stored_version(self) -> tuple[int, str | None]:
        """Grows with every change of the fleet, and with every import into the history beside the service."""
        return self.store.registry.version(), self.store.ledger.get_meta(HISTORY_VERSION)

    def _read_registry(self) -> None:
        registry = self.store.registry
        self.sites: dict[str, Site] = {s.id: s for s in registry.sites()}
        self.interceptors: dict[str, Interceptor] = {i.id: i for i in registry.interceptors()}
        sensors = registry.sensors()
        self.sensors: dict[str, Sensor] = {s.id: s for s in sensors}
        self._owner = {s.id: s.interceptor for s in sensors}
        self._sensors_of: dict[str, list[Sensor]] = {}
        for sensor in sensors:
            self._sensors_of.setdefault(sensor.interceptor, []).append(sensor)
        self._haulers = tuple(registry.haulers())
        self._zones = {s.id: ZoneInfo(s.timezone) for s in self.sites.values()}
        # where a local midnight falls between whole hours, every instant of the grid is looked at
        self._whole_hours = all(_offset_s(zone, self._last_us) % 3600 == 0 for zone in self._zones.values())
        self._decoder = Decoder(self.sensors, self.rules.profiles)
        day = datetime.fromtimestamp(self._last_us / 1e6, tz=UTC).date()
        fleet = build_fleet(
            list(self.interceptors.values()),
            sensors,
            self.sites,
            self.rules.ordinances,
            self.rules.profiles,
            day=day,
        )
        self._estimates = Estimates(fleet, self.store.history)
        self._latest.clear()

    def _is_midnight(self, interceptor: Interceptor, instant_us: int) -> bool:
        """Whether this instant is the first of a local date at the interceptor's site."""
        zone = self._zones[interceptor.site]
        here = datetime.fromtimestamp(instant_us / 1e6, tz=zone).date()
        before = datetime.fromtimestamp(instant_us / 1e6 - self.rules.decide_every_us / 1e6, tz=zone).date()
        return here != before and instant_us % self.rules.decide_every_us == 0


def _offset_s(zone: ZoneInfo, at_us: int) -> float:
    offset = datetime.fromtimestamp(at_us / 1e6, tz=zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def _layers(one: Layers) -> Json:
    return {"compartment": one.compartment, "fog_m": one.fog_m, "solids_m": one.solids_m}
