"""Plain records that cross the store's ports. Times are microseconds since the epoch, UTC; values are SI.

Records made once a reading are msgspec structs: making a frozen dataclass of their size costs ten times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

CLOCK_REPLACED = 1  # the stated time was outside 2020 … receipt + 5 min; the receipt time stands instead
NO_TIME = 2  # the message stated no time; the receipt time stands


# ---- ingest ------------------------------------------------------------------------------------------


class Item(msgspec.Struct, frozen=True):
    """One decoded reading on its way into the history.

    ``key`` identifies an item that has no good time of its own; with ``check_key`` it is a duplicate when the
    key was stored at or after ``key_since_us``. Such items move by microseconds until their instant is free.
    """

    sensor: str  # canonical (lower case) id
    time_us: int
    received_us: int
    topic: str
    values: dict[str, float]
    profile: tuple[float | None, ...] | None = None
    seq: int | None = None
    flags: int = 0
    key: bytes | None = None
    check_key: bool = False
    key_since_us: int = 0
    raw: bytes = b""  # the element's own bytes (for a quarantine as conflict)
    device_profile: str = "native"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One item that could not become a reading; the first 4 KiB are kept, the hash is of the whole."""

    sensor: str | None
    topic: str
    received_us: int
    reason: str  # short word: unknown_sensor, not_json, conflict, …
    detail: str  # names the field and the fix
    payload: bytes
    size: int
    sha256: str
    device_profile: str | None = None
    id: int = 0
    outcome: str | None = None  # what became of it when it was tried again: stored, duplicate, heartbeat
    tried_us: int | None = None  # when it was last tried again

    @property
    def is_whole(self) -> bool:
        """Whether all of its bytes are kept."""
        return self.size == len(self.payload)


@dataclass(frozen=True, slots=True)
class IngestWindow:
    """What one window of messages decoded to; committed in one transaction. Order is that of reception."""

    items: tuple[Item, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    retained: int = 0
    heartbeats: int = 0
    messages: int = 0
    statuses: tuple[tuple[str, bool, int], ...] = ()  # sensor, online, received_us
    unknown_fields: tuple[tuple[str, str, int], ...] = ()  # sensor, field, count
    contacts: tuple[tuple[str, int], ...] = ()  # sensor, received_us: it spoke, readings or not
    paces: tuple[tuple[str, int], ...] = ()  # sensor, when its token bucket would be full again [us]


class StoredReading(msgspec.Struct, frozen=True):
    """A reading as the history holds it; ``values`` has only what is present."""

    sensor: str
    time_us: int
    received_us: int
    values: dict[str, float]
    profile: tuple[float | None, ...] | None = None
    flags: int = 0
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a window. ``stored`` holds the rows as they now stand, merged with earlier quantities."""

    stored: tuple[StoredReading, ...]
    duplicates: int
    quarantined: tuple[Quarantined, ...]  # the window's own and the conflicts, with ids
    # items of the window that were not stored, by their place: duplicate, quarantined
    others: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all time, committed with the data they count."""

    messages: int = 0
    received: int = 0
    stored: int = 0
    duplicate: int = 0
    quarantined: int = 0
    retained: int = 0
    heartbeat: int = 0


@dataclass(frozen=True, slots=True)
class KeptState:
    """What the estimate of one interceptor remembers of all readings before ``time_us``, which may be thinned.

    ``newest_us`` is the newest reading in it; ``fingerprint`` names the geometry it was made for. Before
    ``daily_us`` one reading a day is left.
    """

    interceptor: str
    time_us: int
    newest_us: int | None
    daily_us: int
    fingerprint: str
    state: bytes


# ---- registry ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    id: str
    name: str
    ordinance: str
    timezone: str
    kitchen: str = ""
    latitude: float | None = None
    longitude: float | None = None
    units: str = "us"
    seats: int | None = None
    equipment: tuple[str, ...] = ()
    contacts: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Interceptor:
    id: str
    site: str
    kind: str
    base_depth_m: float
    static_level_m: float
    volume_m3: float | None = None
    compartments: int = 1
    frequency: str | None = None  # ISO 8601 duration; None: the ordinance's default
    last_pump_out: str | None = None  # local date, complete; None: unknown
    hauler: str | None = None
    dispatch: str = "notify"
    place: str | None = None  # where it stands (alerts.conditions.PLACES); None: not on file


@dataclass(frozen=True, slots=True)
class Sensor:
    id: str  # canonical (lower case)
    interceptor: str
    compartment: int = 1
    profile: str = "native"
    interval_s: float = 900.0
    device: Json = field(default_factory=dict)  # the SensorModel keys that were given, SI


@dataclass(frozen=True, slots=True)
class Hauler:
    id: str
    name: str
    licenses: tuple[Json, ...] = ()  # kind, number, expires (ISO date)
    webhook: str | None = None
    email: str | None = None
    secret: str | None = None  # whsec_…


# ---- ledger ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of the journal: the same objects as replay's output and the event stream."""

    seq: int
    at_us: int
    type: str
    interceptor: str | None
    body: Json  # the whole line as written, without `at`, `type`, `interceptor`


@dataclass(frozen=True, slots=True)
class Gap:
    """Readings that a sensor sent, or should have sent, between two that are here.

    A gap that late readings close, or move, is corrected under its id: ``missing`` is then 0, or less.
    """

    id: str
    sensor: str
    interceptor: str | None
    kind: str  # sequence: its counter skipped; cadence: nothing for three intervals and an hour
    start_us: int  # the reading before
    end_us: int  # the reading after
    missing: int  # readings; by the cadence an estimate
    first_seq: int | None
    last_seq: int | None
    noticed_us: int


@dataclass(frozen=True, slots=True)
class Alert:
    id: str
    interceptor: str | None
    kind: str
    state: str  # pending, firing, recovering, resolved
    severity: str
    reason: str
    citation: str | None
    basis: str
    sensor: str | None
    flag: str | None
    since_us: int
    changed_us: int
    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    id: str
    interceptor: str
    reason: str  # exceedance, forecast, calendar, request, unverified
    state: str
    due: str  # local ISO date, or "immediately"
    opened_us: int
    changed_us: int
    hauler: str | None = None
    papers: str = "none"  # due, complete, none
    offered_us: int | None = None
    offer_expires_us: int | None = None
    scheduled_us: int | None = None
    declined: tuple[str, ...] = ()  # haulers already tried
    pump_out: str | None = None
    manifest: str | None = None
    citation: str | None = None
    note: str = ""  # why it stands as it does, in plain words


@dataclass(frozen=True, slots=True)
class PumpOutRecord:
    id: str
    interceptor: str
    start_us: int
    end_us: int
    complete: bool
    confidence: float
    before: tuple[Json, ...]
    after: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class HotDischargeRecord:
    id: str
    interceptor: str
    sensor: str
    start_us: int
    end_us: int | None
    peak_c: float
    duration_s: float
    status: str


@dataclass(frozen=True, slots=True)
class Manifest:
    id: str
    interceptor: str
    pumped_us: int
    received_us: int
    complete: bool
    number: str | None = None
    hauler: str | None = None
    volume_m3: float | None = None
    fog_m: float | None = None
    solids_m: float | None = None
    fields: Json = field(default_factory=dict)  # operator, repairs, disposal facility …


@dataclass(frozen=True, slots=True)
class CoreSample:
    id: str
    interceptor: str
    compartment: int
    sampled_us: int
    received_us: int
    fog_m: float
    solids_m: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class FrequencyDecision:
    id: str
    interceptor: str
    decision: str  # approved, modified, denied
    frequency: str | None
    effective: str | None  # local ISO date
    decided_us: int
    by: str
    reason: str
    proposal: str | None = None


@dataclass(frozen=True, slots=True)
class FrequencyProposal:
    id: str
    interceptor: str
    current: str
    proposed: str
    reason: str
    citation: str
    evidence: Json
    effective: str | None
    at_us: int
    state: str = "open"  # open, decided


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """Something to deliver to the world, written in the transaction that decided it."""

    id: str  # also the webhook id: the same for all retries
    channel: str  # webhook, log
    target: str  # hauler id, or a channel's own word
    type: str
    body: Json
    created_us: int
    due_us: int  # real time of the next attempt
    attempts: int = 0
    state: str = "waiting"  # waiting, delivered, failed
    error: str = ""


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    name: str
    role: str  # admin, manager, inspector, hauler, sensor, read-only
    digest: str  # sha256 of the secret part
    subject: str | None  # hauler id, sensor id
    created_us: int
    revoked_us: int | None = None


@dataclass(frozen=True, slots=True)
class SignIn:
    """A browser session, or the one-time link that opens one; only digests are stored."""

    digest: str
    role: str
    name: str
    expires_us: int
    once: bool
