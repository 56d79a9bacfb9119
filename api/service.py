"""What the HTTP room needs of the running service: reads from any thread, writes as commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from alerts.ordinance import Ordinance
    from api.bell import Bell
    from api.intake import Flow
    from api.recent import Recent
    from api.retry import Tried
    from api.settings import Settings
    from ingest.message import RawMessage
    from ingest.profile import DeviceProfile
    from ingest.told import SessionStatus
    from store.ports import Store
    from store.records import (
        CoreSample,
        FrequencyDecision,
        Hauler,
        Interceptor,
        Manifest,
        Order,
        Quarantined,
        Sensor,
        Site,
    )

T = TypeVar("T")


class CommandError(ValueError):
    """A command names something that does not exist or cannot be; the text names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Registry objects to insert or update together; nothing that is absent is deleted."""

    sites: tuple[Site, ...] = ()
    interceptors: tuple[Interceptor, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    haulers: tuple[Hauler, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemTaken:
    """What became of one item: stored, duplicate, quarantined or heartbeat; ``place`` is that in an array."""

    place: int | None
    outcome: str
    time_us: int | None
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of messages handed in by a command: items stored, known already, and quarantined."""

    stored: int
    duplicates: int
    quarantined: tuple[tuple[str, str], ...]  # reason, detail
    items: tuple[ItemTaken, ...] = ()  # one by one, in the order they stood in the message


class Commands(Protocol):
    """What HTTP requests and replay events can do, in the transaction under way."""

    @property
    def store(self) -> Store: ...
    @property
    def now_us(self) -> int: ...

    def manifest(self, manifest: Manifest) -> Manifest:
        """File a hauler's paper; the same paper again changes nothing."""

    def core_sample(self, sample: CoreSample) -> CoreSample:
        """File a hand measurement; the same sample again changes nothing."""

    def answer(self, order_id: str, hauler: str, word: str, scheduled_us: int | None) -> Order:
        """A hauler's answer to an offer; raises alerts.orders.AnswerError where none is awaited."""

    def frequency_decision(self, decision: FrequencyDecision) -> FrequencyDecision:
        """File a person's decision on a maintenance frequency."""

    def put_fleet(self, fleet: Fleet) -> int:
        """Insert or update registry objects; returns how many rows changed."""

    def retry(self, items: Sequence[Quarantined]) -> list[Tried]:
        """Try quarantined items again, as of when they were received."""

    def readings(self, messages: Sequence[RawMessage]) -> IngestResult:
        """Take messages of devices that do not speak MQTT, by the rules of contracts.md §2."""


class Service(Protocol):
    """The running service as its HTTP face sees it."""

    @property
    def store(self) -> Store: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def ordinances(self) -> Mapping[str, Ordinance]: ...
    @property
    def profiles(self) -> Mapping[str, DeviceProfile]: ...
    @property
    def recent(self) -> Recent: ...

    def now(self) -> float:
        """The service's clock [s since the epoch]; a demo's runs faster than the wall's."""

    def submit(self, command: Callable[[Commands], T]) -> T:
        """Run a command in the writer's thread inside one transaction; raises what the command raises."""

    def readiness(self) -> dict[str, tuple[bool, str]]:
        """Each part (broker, store, …): whether it is well, and the detail a person needs when it is not."""

    def pending(self) -> int:
        """Items received and not yet committed."""

    def flow(self) -> Flow:
        """How far what was received has come: the reader's queue, the spool, what waits for its acknowledgement."""

    def session(self) -> SessionStatus | None:
        """How the MQTT session is; None where no broker is wanted."""

    def subscribe(self) -> Bell:
        """The bell that rings after every commit that wrote journal lines."""
