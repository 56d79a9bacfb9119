"""What people and haulers can tell the service, by HTTP or in a recorded stream; one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from alerts.calendar import local_date
from alerts.conditions import subject_of
from alerts.ids import short_id
from alerts.orders import answer
from api.core import Core
from api.fleet_file import frequency_check
from api.recording import Event, parse_instant
from api.retry import Tried, try_inside
from api.service import CommandError, Fleet, IngestResult, ItemTaken
from api.taken import items_of
from ingest.explain import sensor_of
from ingest.message import RawMessage
from store.ports import Store
from store.records import (
    CoreSample,
    FrequencyDecision,
    Interceptor,
    Json,
    Manifest,
    Order,
    Quarantined,
)


class Commands:
    """The commands of one instant. Only the writer's thread runs them, inside one transaction."""

    def __init__(self, core: Core, now_us: int) -> None:
        self._core = core
        self.store: Store = core.store
        self.now_us = now_us
        self.taken: list[RawMessage] = []  # messages taken by this command: they belong into the record

    def manifest(self, manifest: Manifest) -> Manifest:
        """File a manifest and decide what follows from it."""
        self._known(manifest.interceptor)
        if manifest.hauler is not None and manifest.hauler not in {
            h.id for h in self.store.registry.haulers()
        }:
            raise CommandError(f"hauler: {manifest.hauler!r} is not in the fleet")
        number = manifest.number or str(manifest.pumped_us)
        filed = replace(manifest, id=manifest.id or short_id("m", manifest.interceptor, number))
        known = self._core.desk.folder(filed.interceptor).manifests.get(filed.id)
        if known is not None and replace(known, received_us=filed.received_us) == filed:
            return known
        self._core.desk.put_manifest(filed)
        self._core.decide_now([filed.interceptor], self.now_us)
        return filed

    def core_sample(self, sample: CoreSample) -> CoreSample:
        """File a hand measurement and decide what follows from it."""
        interceptor = self._known(sample.interceptor)
        if not 1 <= sample.compartment <= interceptor.compartments:
            raise CommandError(
                f"compartment: {sample.compartment} is not one of 1 … {interceptor.compartments}"
            )
        identity = sample.id or short_id(
            "cs", sample.interceptor, str(sample.compartment), str(sample.sampled_us)
        )
        filed = replace(sample, id=identity)
        known = self._core.desk.folder(filed.interceptor).core_samples.get(filed.id)
        if known is not None and replace(known, received_us=filed.received_us) == filed:
            return known
        self._core.desk.put_core_sample(filed)
        self._core.decide_now([filed.interceptor], self.now_us)
        return filed

    def answer(self, order_id: str, hauler: str, word: str, scheduled_us: int | None) -> Order:
        """Take a hauler's answer to an offer.

        Raises
        ------
        alerts.orders.AnswerError
            No such order, not offered to this hauler, or already answered otherwise.
        """
        order = self.store.ledger.order(order_id)
        situation = self._core.situation(order.interceptor) if order is not None else None
        decision = answer(situation, order, hauler, word, scheduled_us, self.now_us, self._core.rules.policy)
        self._core.apply(decision, self.now_us)
        if not decision.orders:
            assert order is not None
            return order
        return decision.orders[-1]

    def frequency_decision(self, decision: FrequencyDecision) -> FrequencyDecision:
        """File a person's decision on a frequency; the calendar follows it from its effective date."""
        interceptor = self._known(decision.interceptor)
        if decision.frequency is not None:
            site = self._core.sites[interceptor.site]
            today = local_date(self.now_us, site.timezone)
            check = frequency_check(self._core.rules.ordinances, today)
            wrong = check(decision.frequency, site.ordinance, subject_of(interceptor, site))
            if wrong is not None:
                raise CommandError(f"frequency: {wrong}")
        identity = decision.id or short_id("fd", decision.interceptor, str(self.now_us))
        filed = replace(decision, id=identity)
        self._core.desk.put_decision(filed)
        self._core.decide_now([filed.interceptor], self.now_us)
        return filed

    def put_fleet(self, fleet: Fleet) -> int:
        """Insert or update parts of the fleet; returns how many rows changed."""
        changed = self.store.registry.put_fleet(
            sites=fleet.sites,
            interceptors=fleet.interceptors,
            sensors=fleet.sensors,
            haulers=fleet.haulers,
        )
        self._core.registry_changed()
        return changed

    def retry(self, items: Sequence[Quarantined]) -> list[Tried]:
        """Try quarantined items again, as of when they were received."""
        return try_inside(self._core, items, self.now_us)

    def note(self, kind: str, body: Json) -> None:
        """Write down something about the service itself: a line of the journal that no replay has."""
        self._core.desk.journal(self.now_us, kind, None, body)

    def readings(self, messages: Sequence[RawMessage]) -> IngestResult:
        """Take messages that came another way than MQTT; the same path and guarantees."""
        stored = duplicates = 0
        quarantined: list[tuple[str, str]] = []
        items: list[ItemTaken] = []
        for message in messages:
            result = self._core.take([message])
            sensor = self._core.sensors.get(sensor_of(message) or "")
            items += items_of(message, sensor, self._core.rules.profiles, result)
            stored += len(result.stored)
            duplicates += result.duplicates
            quarantined += [(one.reason, one.detail) for one in result.quarantined]
            self.taken.append(message)
        return IngestResult(stored, duplicates, tuple(quarantined), tuple(items))

    def _known(self, interceptor: str) -> Interceptor:
        record = self._core.interceptors.get(interceptor)
        if record is None:
            raise CommandError(f"interceptor: {interceptor!r} is not in the fleet")
        return record


# ---- events of a recorded stream ---------------------------------------------------------------------

_FIELDS: Final = {
    "manifest": {
        "interceptor",
        "number",
        "pumped_at",
        "hauler",
        "complete",
        "volume_l",
        "fog_mm",
        "solids_mm",
    },
    "core_sample": {"interceptor", "compartment", "sampled_at", "fog_mm", "solids_mm", "by"},
    "frequency_decision": {"interceptor", "decision", "frequency", "effective", "by", "reason"},
    "order_answer": {"order", "interceptor", "hauler", "answer", "scheduled_at"},
}


class _Fields:
    """An event's fields, taken by name and type; errors name line and field."""

    def __init__(self, event: Event) -> None:
        self._event = event
        allowed = _FIELDS.get(event.type)
        if allowed is None:
            raise CommandError(f"{event.where}: type: {event.type!r} is none of {', '.join(_FIELDS)}")
        unknown = sorted(set(event.fields) - allowed)
        if unknown:
            raise CommandError(
                f"{event.where}: {unknown[0]}: no field of {event.type}; "
                f"known are {', '.join(sorted(allowed))}"
            )

    def _take(self, name: str, kinds: tuple[type, ...], what: str, required: bool) -> Any:
        value = self._event.fields.get(name)
        if value is None and not required:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise CommandError(f"{self._event.where}: {name}: expected {what}, found {value!r}")
        return value

    def text(self, name: str) -> str:
        return str(self._take(name, (str,), "text", True))

    def text_or_none(self, name: str) -> str | None:
        value = self._take(name, (str,), "text", False)
        return None if value is None else str(value)

    def number(self, name: str) -> float:
        return float(self._take(name, (int, float), "a number", True))

    def scaled_or_none(self, name: str, scale: float) -> float | None:
        value = self._take(name, (int, float), "a number", False)
        return None if value is None else float(value) * scale

    def flag(self, name: str) -> bool:
        return bool(self._take(name, (bool,), "true or false", True))

    def whole(self, name: str, default: int) -> int:
        value = self._take(name, (int,), "a whole number", False)
        return default if value is None else int(value)

    def instant(self, name: str) -> int:
        try:
            return parse_instant(self.text(name))
        except ValueError as error:
            raise CommandError(f"{self._event.where}: {name}: {error}") from None

    def instant_or_none(self, name: str) -> int | None:
        return None if self._event.fields.get(name) is None else self.instant(name)


def event_command(event: Event) -> Callable[[Commands], object]:
    """What an event of a recorded stream tells the service.

    Raises
    ------
    CommandError
        The event's type or a field is not as contracts.md §3 says.
    """
    return _EVENTS[event.type](_Fields(event), event) if event.type in _EVENTS else _refuse(event)


def _refuse(event: Event) -> Callable[[Commands], object]:
    _Fields(event)
    raise AssertionError(event.type)


def _manifest(fields: _Fields, event: Event) -> Callable[[Commands], object]:
    manifest = Manifest(
        id="",
        interceptor=fields.text("interceptor"),
        pumped_us=fields.instant("pumped_at"),
        received_us=event.at_us,
        complete=fields.flag("complete"),
        number=fields.text_or_none("number"),
        hauler=fields.text_or_none("hauler"),
        volume_m3=fields.scaled_or_none("volume_l", 1e-3),
        fog_m=fields.scaled_or_none("fog_mm", 1e-3),
        solids_m=fields.scaled_or_none("solids_mm", 1e-3),
    )
    return lambda commands: commands.manifest(manifest)


def _core_sample(fields: _Fields, event: Event) -> Callable[[Commands], object]:
    sample = CoreSample(
        id="",
        interceptor=fields.text("interceptor"),
        compartment=fields.whole("compartment", 1),
        sampled_us=fields.instant("sampled_at"),
        received_us=event.at_us,
        fog_m=fields.number("fog_mm") * 1e-3,
        solids_m=fields.number("solids_mm") * 1e-3,
        by=fields.text_or_none("by") or "",
    )
    return lambda commands: commands.core_sample(sample)


def _frequency_decision(fields: _Fields, event: Event) -> Callable[[Commands], object]:
    word = fields.text("decision")
    if word not in {"approved", "modified", "denied"}:
        raise CommandError(f"{event.where}: decision: {word!r} is none of approved, modified, denied")
    decision = FrequencyDecision(
        id="",
        interceptor=fields.text("interceptor"),
        decision=word,
        frequency=fields.text_or_none("frequency"),
        effective=fields.text_or_none("effective"),
        decided_us=event.at_us,
        by=fields.text_or_none("by") or "",
        reason=fields.text_or_none("reason") or "",
    )
    return lambda commands: commands.frequency_decision(decision)


def _order_answer(fields: _Fields, event: Event) -> Callable[[Commands], object]:
    order, interceptor = fields.text_or_none("order"), fields.text_or_none("interceptor")
    hauler, word, scheduled = (
        fields.text("hauler"),
        fields.text("answer"),
        fields.instant_or_none("scheduled_at"),
    )
    if order is None and interceptor is None:
        raise CommandError(f"{event.where}: order: missing; give the order's id, or the interceptor")

    def run(commands: Commands) -> object:
        identity = order
        if identity is None:
            mine = commands.store.ledger.orders(open_only=True, interceptor=interceptor)
            if not mine:
                raise CommandError(f"{event.where}: interceptor: {interceptor!r} has no open order")
            identity = mine[0].id
        return commands.answer(identity, hauler, word, scheduled)

    return run


_EVENTS: Final = {
    "manifest": _manifest,
    "core_sample": _core_sample,
    "frequency_decision": _frequency_decision,
    "order_answer": _order_answer,
}
