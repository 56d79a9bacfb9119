"""Quarantined items once more through the decoder, after a device profile or the fleet has changed.

An item is judged as of the instant it was received, whatever is said of clocks included; it enters the history as
received now, as late data do. It counts as received once more, with its new outcome; its row in quarantine says what
became of it and is never tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec

from alerts.lines import quarantine_line
from api.core import HISTORY_VERSION, Core
from api.recording import instant_text
from ingest.decode import Decoder
from ingest.message import RawMessage
from store.ports import Store
from store.records import CommitResult, IngestWindow, Quarantined

MOST: Final = 1000  # items of one transaction
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one item: stored, duplicate, heartbeat, quarantined (as before) or cut (not all of it is kept)."""

    id: int
    sensor: str | None
    outcome: str
    reason: str = ""
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "id": self.id,
            "sensor": self.sensor,
            "outcome": self.outcome,
            "reason": self.reason or None,
            "detail": self.detail or None,
        }


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which items: these ids, or those of a sensor, of a reason, or all that were not taken since."""

    ids: tuple[int, ...] = ()
    sensor: str | None = None
    reason: str | None = None

    def items(self, store: Store, *, after_id: int = 0, waiting_only: bool = True) -> Iterator[Quarantined]:
        """The items after an id, in order of their ids."""
        wanted, after = set(self.ids), max(min(self.ids, default=1) - 1, after_id)
        while True:
            page = store.history.quarantine(
                after_id=after,
                limit=_PAGE,
                sensor=None if self.sensor is None else self.sensor.lower(),
                reason=self.reason,
                waiting_only=waiting_only,
            )
            for one in page:
                if not wanted or one.id in wanted:
                    yield one
            if len(page) < _PAGE or (wanted and page[-1].id >= max(wanted)):
                return
            after = page[-1].id


class _AsBeforeError(Exception):
    """Undoes the part of a transaction in which an item only went into quarantine again."""

    def __init__(self, one: Quarantined) -> None:
        super().__init__()
        self.one = one


def try_again(
    store: Store, decoder: Decoder, item: Quarantined, now_us: int
) -> tuple[Tried, CommitResult | None, IngestWindow | None]:
    """One item, in the transaction under way; what was committed of it, and the window it decoded to."""
    if item.outcome is not None:
        return Tried(item.id, item.sensor, item.outcome, detail="was taken before"), None, None
    if not item.is_whole:
        detail = (
            f"of {item.size} bytes only the first {len(item.payload)} were kept: it cannot be tried again"
        )
        return Tried(item.id, item.sensor, "cut", item.reason, detail), None, None
    decoded = decoder.decode([RawMessage(item.topic, item.payload, item.received_us)])
    taken = tuple(msgspec.structs.replace(one, received_us=now_us) for one in decoded.items)
    window = replace(decoded, items=taken, messages=0, paces=())
    try:
        with store.transaction():
            result = store.history.commit(window)
            if len(result.quarantined) == 1 and not (result.stored or result.duplicates or window.heartbeats):
                raise _AsBeforeError(result.quarantined[0])
    except _AsBeforeError as again:
        one = again.one
        store.history.tried(item.id, at_us=now_us, outcome=None, reason=one.reason, detail=one.detail)
        return Tried(item.id, item.sensor, "quarantined", one.reason, one.detail), None, None
    outcome = "stored" if result.stored else "duplicate" if result.duplicates else "heartbeat"
    store.history.tried(item.id, at_us=now_us, outcome=outcome)
    return Tried(item.id, item.sensor, outcome), result, window


def try_inside(core: Core, items: Sequence[Quarantined], now_us: int) -> list[Tried]:
    """Items of a running service, in the transaction under way; the journal tells what became of them."""
    decoder = Decoder(core.sensors, core.rules.profiles, limits=core.rules.limits)
    out = []
    for item in items:
        tried, result, window = try_again(core.store, decoder, item, now_us)
        out.append(tried)
        if result is None or window is None:
            continue
        owner = core.owner_of(item.sensor)
        for one in result.quarantined:
            core.desk.journal(now_us, "quarantine", owner, quarantine_line(one))
        core.desk.journal(now_us, "quarantine_retried", owner, tried.as_json())
        core.desk.after_commit(partial(core.heard, result, window))
    return out


def try_beside(store: Store, decoder: Decoder, chosen: Chosen, now_us: int) -> Iterator[Tried]:
    """All chosen items, beside a running service or without one, which folds the history anew when it sees it."""
    items = list(chosen.items(store))
    for start in range(0, len(items), MOST):
        with store.transaction():
            tried = [try_again(store, decoder, one, now_us)[0] for one in items[start : start + MOST]]
            if any(one.outcome == "stored" for one in tried):
                version = int(store.ledger.get_meta(HISTORY_VERSION) or 0)
                store.ledger.set_meta(HISTORY_VERSION, str(version + 1))
        yield from tried


def counts(tried: Sequence[Tried]) -> dict[str, int]:
    """How many of each outcome."""
    found = dict.fromkeys(("stored", "duplicate", "heartbeat", "quarantined", "cut"), 0)
    for one in tried:
        found[one.outcome] += 1
    return found


def export_line(one: Quarantined) -> dict[str, Any]:
    """An item for a program: the fields of a message file, and why it lies here."""
    line: dict[str, Any] = {
        "id": one.id,
        "received_at": instant_text(one.received_us),
        "topic": one.topic,
        "sensor": one.sensor,
        "reason": one.reason,
        "detail": one.detail,
        "device_profile": one.device_profile,
        "size": one.size,
        "sha256": one.sha256,
        "whole": one.is_whole,
        "outcome": one.outcome,
        "tried_at": None if one.tried_us is None else instant_text(one.tried_us),
    }
    try:
        line["payload"] = one.payload.decode()
    except UnicodeDecodeError:
        line["payload_hex"] = one.payload.hex()
    return line


def message_line(one: Quarantined) -> dict[str, Any]:
    """An item as a line of a message file, for a replay; only of one that is whole."""
    line = export_line(one)
    return {name: line[name] for name in ("received_at", "topic", "payload", "payload_hex") if name in line}
