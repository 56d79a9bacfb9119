"""The service's deterministic heart: messages and commands in, decisions out, on one clock.

It knows no thread, no socket and no clock of its own. The same messages and events in the same order give the
same journal, whether they come from a broker (`api.engine`) or out of a file (`api.replay`).

Decisions fall on a fixed grid of instants. An instant is decided before anything received at or after it is
taken, so what is known at an instant does not depend on how messages happened to be grouped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from alerts.decide import Decision, Situation, decide
from alerts.facts import window_us
from alerts.lines import assessment_line, quarantine_line
from alerts.ordinance import Ordinance
from alerts.policy import Policy
from alerts.rest import at_rest
from analysis.model import Assessment
from api.desk import Desk
from api.estimates import Estimates
from api.findings import record_found
from api.fleetmodel import build_fleet
from api.gaps import GapBook
from api.hands import HandBook
from api.learned import recall, refresh
from api.localdays import new_date, offset_s
from ingest.decode import Decoder
from ingest.formats.memory import Memory
from ingest.message import RawMessage
from ingest.pace import Limits, Pace
from ingest.profile import DeviceProfile
from store.ports import Store
from store.records import (
    CommitResult,
    IngestWindow,
    Interceptor,
    JournalEntry,
    Json,
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


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decides beside the data: ordinances, device profiles, policy, the grid."""

    ordinances: Mapping[str, Ordinance]
    profiles: Mapping[str, DeviceProfile]
    policy: Policy
    decide_every_us: int = 900_000_000
    limits: Limits = field(default_factory=Limits)
    quarantine_keep: int = 100_000
    quarantine_keep_of_one: int = 20_000


class Core:
    """One fleet's service over one store. Not thread safe: one thread owns it."""

    def __init__(
        self,
        store: Store,
        rules: Rules,
        *,
        start_us: int,
        written: Callable[[list[JournalEntry]], None] = lambda _: None,
        cards: bool = True,
    ) -> None:
        """``cards`` keeps the newest assessment of every interceptor in the store, for people to look at."""
        self.store = store
        self.rules = rules
        self.desk = Desk(store, written)
        self._new: dict[tuple[str, int], StoredReading] = {}  # a completed row stands for its parts
        self._touched: set[str] = set()
        self._cards = cards
        self._latest: dict[str, Assessment] = {}
        self._looked_us: dict[str, int] = {}  # the instant each interceptor was last looked at
        self._contacts: dict[str, int] = store.history.contacts()
        self._version: tuple[int, str | None] = (-1, None)
        self._pace = Pace(rules.limits, store.history.paces())
        self._memory = Memory()  # of stateful formats: outlives the decoder of one state of the fleet
        self._gaps = GapBook(store, self.desk)
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
        before = self._pace.keep(self._decoder.taken)
        try:
            return self._commit(window, last)
        except BaseException:
            self._pace.put_back(before)
            self._memory.rewind()
            raise

    def _commit(self, window: IngestWindow, last: int | None) -> CommitResult:
        with self.desk.transaction():
            result = self.store.history.commit(window)
            for one in sorted(result.quarantined, key=lambda q: q.received_us):
                line = quarantine_line(one)
                self.desk.journal(one.received_us, "quarantine", self.owner_of(one.sensor), line)
            if result.quarantined:
                self.store.history.trim_quarantine(
                    most=self.rules.quarantine_keep,
                    most_of_one=self.rules.quarantine_keep_of_one,
                    sensors={one.sensor for one in result.quarantined},
                )
            if last is not None:
                self.store.ledger.set_meta(TAKEN, str(last))
            self.desk.after_commit(lambda: self.heard(result, window))
        return result

    def heard(self, result: CommitResult, window: IngestWindow) -> None:
        """What was committed is to be decided on: after the commit."""
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
            assessment=self._assessment(interceptor),
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

    def owner_of(self, sensor: str | None) -> str | None:
        """The interceptor that a sensor hangs in, None where it is not in the fleet."""
        return None if sensor is None else self._owner.get(sensor)

    def registry_changed(self) -> None:
        """Read the registry anew where it (or the history, by an import) changed, and fold again."""
        version = self._stored_version()
        if version == self._version:
            return
        self._read_registry()
        self._version = version
        self._estimates.rebuild(received_before_us=self._last_us)
        self._look_for_new()  # an import's readings may be newer than the last instant
        self._touched.update(self.interceptors)

    # ---- an instant ----------------------------------------------------------------------------------

    def _next_instant(self, to_us: int) -> int | None:
        """The next instant with something to do: new readings, the hourly look, a local midnight."""
        busy = self._new or self._touched or self.desk.filed or not self._whole_hours
        step = self.rules.decide_every_us if busy else SWEEP_US
        instant = (self._last_us // step + 1) * step
        return instant if instant <= to_us else None

    def _decide_at(self, instant_us: int) -> None:
        new, self._new = self._new, {}
        if instant_us % self.rules.decide_every_us == 0:
            # after a restart, what came later may be here already
            self._new = {place: one for place, one in new.items() if one.received_us >= instant_us}
            new = {place: one for place, one in new.items() if place not in self._new} if self._new else new
        self._estimates.mark()
        try:
            with self.desk.transaction():
                self._decide_inside(instant_us, list(new.values()))
                self.store.ledger.set_meta(LAST_INSTANT, str(instant_us))
        except BaseException:
            self._new = {**new, **self._new}
            self._estimates.back()
            raise
        self._touched.clear()
        self.desk.filed = self._hands.waiting(instant_us, among=self.desk.filed)
        self._last_us = instant_us

    def _decide_inside(self, instant_us: int, new: Sequence[StoredReading]) -> None:
        self._gaps.look(new, instant_us)
        advance = self._estimates.advance(new, received_before_us=instant_us, filed=self.desk.filed)
        if instant_us % DAY_US == 0:
            refresh(self._estimates, self.store.ledger)
        told = record_found(self.desk, advance.found, advance.refolded, instant_us)
        midnight = self._at_midnight(instant_us)
        if instant_us % SWEEP_US == 0:
            due = loud = sorted(self.interceptors)
        else:
            touched = {self._owner[r.sensor] for r in new if r.sensor in self._owner}
            touched |= set(self.desk.filed)
            due = sorted(touched | self._touched | midnight)
            loud = self._loud(due, told | self._touched | midnight | set(self.desk.filed), instant_us)
        if not due:
            return
        self._looked_us.update(dict.fromkeys(due, instant_us))
        asked = due if self._cards else loud
        for one in self._estimates.assess(instant_us / 1e6, interceptors=asked) if asked else ():
            self._latest[one.interceptor] = one
        for interceptor in sorted(midnight):
            line = assessment_line(self._latest[interceptor])
            self.desk.journal(instant_us, "assessment", interceptor, line)
        if self._cards:
            self.store.ledger.put_latest(instant_us, {i: _card(self._latest[i]) for i in due})
        for interceptor in loud:
            self._apply(decide(self.situation(interceptor), instant_us, self.rules.policy), instant_us)
        if midnight or instant_us % DAY_US == 0:
            self._estimates.checkpoint()

    def _loud(self, due: Sequence[str], surely: set[str], instant_us: int) -> list[str]:
        """Those of ``due`` for whom a decision may change something; the hourly look asks everybody."""
        fleet = self._estimates.fleet
        quiet = [i for i in due if i not in surely and i in self._looked_us]
        if not quiet:
            return list(due)
        rows = np.array([fleet.interceptor_index[i] for i in quiet], dtype=np.int64)
        resting: set[str] = set()
        seen = self._estimates.glance(rows, instant_us / 1e6)
        for row, interceptor in enumerate(quiet):
            folder = self.desk.folder(interceptor)
            window = window_us(self._sensors_of[interceptor], self.rules.policy)
            if not seen.remark[row] and at_rest(
                folder.alerts.values(), folder.open_order, folder.manifests.values(),
                float(seen.p_least[row]), float(seen.p_most[row]), instant_us, window, self.rules.policy,
            ):  # fmt: skip
                resting.add(interceptor)
        return [i for i in due if i not in resting]

    def _assessment(self, interceptor: str) -> Assessment | None:
        """What was to be known when the interceptor was last looked at; its state has not moved since."""
        at_us = self._looked_us.get(interceptor)
        if at_us is None:
            return None
        one = self._latest.get(interceptor)
        if one is None or one.time_s != at_us / 1e6:
            one = self._estimates.assess(at_us / 1e6, interceptors=[interceptor])[0]
            self._latest[interceptor] = one
        return one

    def _apply(self, decision: Decision, now_us: int) -> None:
        for alert in decision.alerts:
            self.desk.put_alert(alert, now_us)
        for order in decision.orders:
            self.desk.put_order(order, now_us)
        for proposal in decision.proposals:
            self.desk.put_proposal(proposal, now_us)
        for item in decision.outbox:
            self.desk.enqueue(item)

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
        first_us = int(self.store.ledger.get_meta(FIRST_INSTANT) or kept)
        if self._last_us // SWEEP_US > first_us // SWEEP_US:  # everybody has been looked at once
            self._looked_us = dict.fromkeys(self.interceptors, self._last_us)
        for interceptor, (at_us, _) in self.store.ledger.latest().items():
            if interceptor in self.interceptors:
                self._looked_us[interceptor] = at_us
        self._look_for_new()

    def _look_for_new(self) -> None:
        self.desk.filed |= self._hands.waiting(self._last_us)
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
        self._whole_hours = all(offset_s(zone, self._last_us) % 3600 == 0 for zone in self._zones.values())
        self._decoder = Decoder(
            self.sensors, self.rules.profiles, limits=self.rules.limits, pace=self._pace, memory=self._memory
        )
        self._gaps.begin(self.sensors)
        day = datetime.fromtimestamp(self._last_us / 1e6, tz=UTC).date()
        owned = list(self.interceptors.values())
        fleet = build_fleet(owned, sensors, self.sites, self.rules.ordinances, self.rules.profiles, day=day)
        self._hands = HandBook(self.desk, owned)
        self._estimates = Estimates(fleet, self.store.history, self.store.keeping, self._hands)
        recall(self._estimates, self.store.ledger)
        self._latest.clear()
        self._looked_us.clear()

    def _at_midnight(self, instant_us: int) -> set[str]:
        """Interceptors for whom this instant is the first of a local date."""
        every = self.rules.decide_every_us
        if instant_us % every or (self._whole_hours and instant_us % SWEEP_US):
            return set()
        zones = {site for site, zone in self._zones.items() if new_date(zone, instant_us, every)}
        return {i for i, record in self.interceptors.items() if record.site in zones} if zones else zones


def _card(one: Assessment) -> Json:
    """What the list of interceptors shows: the assessment's line and when the sensor last spoke."""
    last = None if one.last_reading_s is None else round(one.last_reading_s * 1e6)
    since = None if one.since_s is None else round(one.since_s * 1e6)
    line = assessment_line(one)
    return {**line, "last_reading_us": last, "since_us": since, "own_evidence": one.own_evidence}
