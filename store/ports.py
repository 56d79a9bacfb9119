"""The ports of the store. One contract suite each (tests/store) runs over every adapter.

One thread writes. Everything written inside one ``Store.transaction()`` is committed together or not at all;
reads outside a transaction may come from any thread and see the last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from store.records import (
    Alert,
    ApiKey,
    CommitResult,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    Gap,
    Hauler,
    HotDischargeRecord,
    IngestWindow,
    Interceptor,
    JournalEntry,
    Json,
    KeptState,
    Manifest,
    Order,
    OutboxItem,
    PumpOutRecord,
    Quarantined,
    Sensor,
    SignIn,
    Site,
    StoredReading,
    Totals,
)


class StoreError(Exception):
    """The store could not do what was asked; nothing of the transaction was kept."""


class StoreFull(StoreError):
    """The disk is full: stop acknowledging, stay alive, try again."""


class StoreHangs(StoreError):
    """The store has not answered in time: whether anything was kept is not known yet."""


class History(Protocol):
    """Readings, quarantine and the counters over all time."""

    def commit(self, window: IngestWindow) -> CommitResult:
        """Write one window in one transaction (its own, or the one under way); the identity rules of contracts.md §2.

        A conflicting item is quarantined whole: nothing of it is stored. Counters are committed with the data.
        """

    def readings(
        self, sensors: Sequence[str], *, since_us: int, until_us: int, received_before_us: int | None = None
    ) -> list[StoredReading]:
        """Readings with since <= time < until, ordered by (time, sensor); optionally only those received before."""

    def scan(self, *, received_since_us: int, received_before_us: int) -> Iterator[list[StoredReading]]:
        """Readings in order of (received, sensor, time), in chunks: to catch up after a restart."""

    def last(self, sensors: Sequence[str]) -> dict[str, StoredReading]:
        """The newest reading by event time of each sensor that has one."""

    def first_us(self, sensors: Sequence[str]) -> int | None:
        """The oldest event time of these sensors' readings, None where there is none."""

    def totals(self) -> Totals:
        """Counts over all time."""

    def quarantine(
        self,
        *,
        after_id: int = 0,
        limit: int = 100,
        sensor: str | None = None,
        reason: str | None = None,
        waiting_only: bool = False,
        newest_first: bool = False,
    ) -> list[Quarantined]:
        """Quarantined items in order of id, those with id > after_id; optionally only those not taken since."""

    def tried(self, id: int, *, at_us: int, outcome: str | None, reason: str = "", detail: str = "") -> None:
        """Note what became of a quarantined item that was tried again; without an outcome, why it still cannot be."""

    def trim_quarantine(self, *, most: int, most_of_one: int, sensors: Iterable[str | None]) -> int:
        """Drop the oldest items beyond ``most`` in all, and ``most_of_one`` of each of these sensors; counts them."""

    def quarantine_dropped(self) -> int:
        """How many quarantined items were dropped for want of room, over all time."""

    def paces(self) -> dict[str, int]:
        """When each hasty sensor's token bucket would be full again [us], see ``IngestWindow.paces``."""

    def before(
        self, sensor: str, time_us: int, *, limit: int, received_before_us: int = 2**62
    ) -> list[StoredReading]:
        """The last readings of a sensor before a time, newest first."""

    def after(self, sensor: str, time_us: int, *, received_before_us: int = 2**62) -> StoredReading | None:
        """The first reading of a sensor after a time."""

    def unknown_fields(self) -> dict[tuple[str, str], int]:
        """How often each (sensor, field) was ignored."""

    def connectivity(self) -> dict[str, tuple[bool, int]]:
        """Last status by sensor: online, received_us."""

    def contacts(self) -> dict[str, int]:
        """When each sensor was last heard, readings or not [received_us]."""


class Registry(Protocol):
    """Sites, interceptors, sensors, haulers. ``replace_fleet`` is idempotent: the same fleet again changes nothing."""

    def sites(self) -> list[Site]: ...
    def interceptors(self) -> list[Interceptor]: ...
    def sensors(self) -> list[Sensor]: ...
    def haulers(self) -> list[Hauler]: ...
    def put_fleet(
        self,
        *,
        sites: Iterable[Site] = (),
        interceptors: Iterable[Interceptor] = (),
        sensors: Iterable[Sensor] = (),
        haulers: Iterable[Hauler] = (),
    ) -> int:
        """Insert or update these objects, deleting none; returns how many rows changed.

        Raises StoreError naming the object where a reference does not exist.
        """

    def version(self) -> int:
        """Grows with every change."""


class Ledger(Protocol):
    """Alerts, orders, papers, decisions, journal, outbox, keys, sign-ins. ``put_*`` inserts or updates by id."""

    # journal: append only, seq dense and ascending
    def append(self, at_us: int, type: str, interceptor: str | None, body: Json) -> JournalEntry: ...
    def journal(
        self, *, after: int = 0, limit: int = 1000, types: Sequence[str] = (), interceptor: str | None = None
    ) -> list[JournalEntry]: ...
    def journal_tail(
        self, *, limit: int, types: Sequence[str] = (), interceptor: str | None = None
    ) -> list[JournalEntry]:
        """The newest entries, newest first."""

    # named scalars of the service, such as the last decision instant
    def get_meta(self, name: str) -> str | None: ...
    def set_meta(self, name: str, value: str) -> None: ...

    def put_alert(self, alert: Alert) -> None: ...
    def alerts(
        self, *, open_only: bool = False, interceptor: str | None = None, limit: int = 10_000
    ) -> list[Alert]:
        """Alerts, newest change first; open means not resolved."""

    def put_order(self, order: Order) -> None:
        """Raises StoreError when the interceptor already has another open order (a partial unique index)."""

    def order(self, id: str) -> Order | None: ...
    def orders(
        self,
        *,
        open_only: bool = False,
        interceptor: str | None = None,
        hauler: str | None = None,
        limit: int = 10_000,
    ) -> list[Order]:
        """Orders, newest first; open means not closed, declined or cancelled."""

    def put_pump_out(self, pump_out: PumpOutRecord) -> None: ...
    def pump_outs(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[PumpOutRecord]: ...
    def put_hot_discharge(self, hot: HotDischargeRecord) -> None: ...
    def hot_discharges(
        self, *, interceptor: str | None = None, limit: int = 10_000
    ) -> list[HotDischargeRecord]: ...
    def put_gap(self, gap: Gap) -> None: ...
    def gaps(
        self,
        *,
        sensor: str | None = None,
        interceptor: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        limit: int = 10_000,
    ) -> list[Gap]:
        """Gaps that began at since <= start < until, newest first."""

    def put_manifest(self, manifest: Manifest) -> None: ...
    def manifests(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[Manifest]: ...
    def put_core_sample(self, sample: CoreSample) -> None: ...
    def core_samples(self, *, interceptor: str | None = None, limit: int = 10_000) -> list[CoreSample]: ...
    def put_frequency_decision(self, decision: FrequencyDecision) -> None: ...
    def frequency_decisions(self, *, interceptor: str | None = None) -> list[FrequencyDecision]: ...
    def put_frequency_proposal(self, proposal: FrequencyProposal) -> None: ...
    def frequency_proposals(self, *, interceptor: str | None = None) -> list[FrequencyProposal]: ...

    # assessments: at most one a day and interceptor, in the journal too; `latest` is rewritten at every decision
    def put_latest(self, at_us: int, bodies: Mapping[str, Json]) -> None: ...
    def latest(self, interceptor: str | None = None) -> dict[str, tuple[int, Json]]: ...

    def enqueue(self, item: OutboxItem) -> None:
        """Does nothing when an item of this id is there already."""

    def due(self, now_us: int, *, limit: int = 50) -> list[OutboxItem]: ...
    def put_outbox(self, item: OutboxItem) -> None: ...
    def outbox(self, *, state: str | None = None, limit: int = 1000) -> list[OutboxItem]: ...

    def put_key(self, key: ApiKey) -> None: ...
    def keys(self, *, id: str | None = None, subject: str | None = None) -> list[ApiKey]:
        """API keys, oldest first; all of them, the one of an id, or those of a hauler or sensor."""

    def put_sign_in(self, sign_in: SignIn) -> None: ...
    def sign_in(self, digest: str) -> SignIn | None: ...
    def delete_sign_in(self, digest: str) -> bool:
        """True when it was there: a one-time link is used by whoever deletes it."""

    # Idempotency-Key: the answer given the first time
    def remembered(self, key: str) -> tuple[str, int, str] | None:
        """(digest of the request, HTTP status, body) or None."""

    def remember(self, key: str, digest: str, status: int, body: str, now_us: int) -> None: ...


class Keeping(Protocol):
    """Thinning of readings, and what the estimate remembers of those that were thinned.

    Spans of ``spared`` are (first, last) event times [us], both included: readings in them stay as they are.
    """

    def kept_states(self) -> list[KeptState]: ...
    def kept_state(self, interceptor: str) -> KeptState | None: ...
    def put_kept_state(self, state: KeptState) -> None: ...
    def next_us(self, sensors: Sequence[str], since_us: int) -> int | None:
        """The oldest event time not before an instant."""

    def newest_reception_us(self, sensors: Sequence[str], since_us: int, until_us: int) -> int | None:
        """When the last of a span's readings was received."""

    def thin(
        self,
        sensors: Sequence[str],
        since_us: int,
        until_us: int,
        bucket_us: int,
        spared: Sequence[tuple[int, int]],
    ) -> int:
        """Keep the first reading of each bucket and kind of message; returns how many went."""

    def thinnable(
        self,
        sensors: Sequence[str],
        since_us: int,
        until_us: int,
        bucket_us: int,
        spared: Sequence[tuple[int, int]],
    ) -> int:
        """How many readings :meth:`thin` would remove."""

    def delete(
        self, sensors: Sequence[str], before_us: int, spared: Sequence[tuple[int, int]], limit: int
    ) -> int:
        """Remove readings older than an instant, the oldest first, at most so many; returns how many went."""

    def deletable(self, sensors: Sequence[str], before_us: int, spared: Sequence[tuple[int, int]]) -> int:
        """How many readings :meth:`delete` would remove in the end."""


class Store(Protocol):
    """One data directory or database."""

    @property
    def history(self) -> History: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def keeping(self) -> Keeping: ...

    def transaction(self) -> AbstractContextManager[None]:
        """BEGIN IMMEDIATE … COMMIT on the writer's connection; nested calls join the outer one.

        A nested one that fails undoes its own part; the outer goes on if its caller catches the error.

        Raises StoreFull when the disk is full, StoreError on any other failure of the engine.
        """

    def integrity(self) -> str:
        """``ok``, or what the engine says is wrong."""

    def close(self) -> None: ...
