"""A recorded stream through the very same ingest, analysis and decisions, on the stream's own clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final

import msgspec

from api.commands import Commands, event_command
from api.core import Core, Rules
from api.recording import Event, RecordingError, instant_text
from api.service import CommandError
from ingest.message import RawMessage
from store.ports import Store
from store.records import JournalEntry, Totals

_WINDOW: Final = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is, for a person watching."""

    messages: int
    at_us: int


class Replay:
    """Feeds one stream to one core and writes the journal as lines."""

    def __init__(self, store: Store, rules: Rules, out: IO[bytes]) -> None:
        self._store = store
        self._rules = rules
        self._out = out
        self._core: Core | None = None
        self._held: list[RawMessage] = []
        self._messages = 0
        self._at_us = 0

    def run(
        self,
        stream: Iterable[RawMessage | Event],
        *,
        until_us: int | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Totals:
        """Replay everything up to ``until_us``, or to the last line; returns the counts of the summary.

        Raises
        ------
        RecordingError
            A line is not as contracts.md §3 says; the text names file, line and field.
        """
        for one in self._bounded(stream, until_us):
            if isinstance(one, RawMessage):
                self._at_us = one.received_us
                self._held.append(one)
                if len(self._held) >= _WINDOW:
                    self._flush()
                    progress(Progress(self._messages, self._at_us))
            else:
                self._flush()
                self._at_us = one.at_us
                self._event(one)
        self._flush()
        end_us = self._at_us if until_us is None else until_us
        if self._core is not None or until_us is not None:
            self._core_at(end_us).settle(end_us)
        return self._summary(end_us)

    def _bounded(
        self, stream: Iterable[RawMessage | Event], until_us: int | None
    ) -> Iterator[RawMessage | Event]:
        for one in stream:
            at_us = one.received_us if isinstance(one, RawMessage) else one.at_us
            if until_us is not None and at_us > until_us:
                return
            yield one

    def _core_at(self, start_us: int) -> Core:
        if self._core is None:
            self._core = Core(self._store, self._rules, start_us=start_us, written=self._write, cards=False)
        return self._core

    def _flush(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        self._messages += len(held)
        self._core_at(held[0].received_us).accept(held, held[-1].received_us)

    def _event(self, event: Event) -> None:
        try:
            command = event_command(event)
            core = self._core_at(event.at_us)
            core.advance(event.at_us)
            with core.desk.transaction():
                command(Commands(core, event.at_us))
        except CommandError as error:
            text = str(error)
            raise RecordingError(text if text.startswith(event.where) else f"{event.where}: {text}") from None
        except ValueError as error:
            raise RecordingError(f"{event.where}: {error}") from None

    def _write(self, entries: list[JournalEntry]) -> None:
        for entry in entries:
            self._line(entry.at_us, entry.type, entry.interceptor, entry.body)

    def _line(self, at_us: int, kind: str, interceptor: str | None, body: dict[str, object]) -> None:
        line = {"at": instant_text(at_us), "type": kind, "interceptor": interceptor, **body}
        self._out.write(msgspec.json.encode(line) + b"\n")

    def _summary(self, at_us: int) -> Totals:
        totals = self._store.history.totals()
        counts = {name: getattr(totals, name) for name in _COUNTS}
        self._line(at_us, "summary", None, counts)
        return totals


_COUNTS: Final = ("received", "stored", "duplicate", "quarantined", "retained", "heartbeat", "messages")
