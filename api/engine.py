"""The live service: one writer thread between the MQTT session, the commands and the store.

The thread takes windows from the session and commands from HTTP, puts them in order of time, and lets
:class:`api.core.Core` do the work. A window is acknowledged when everything in it has been committed. While
the store refuses, the window waits here; :mod:`api.intake` keeps what follows in the spool, or leaves it
unacknowledged, and the session goes on pinging.
"""

from __future__ import annotations

import random
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from api.bell import Bell
from api.commands import Commands
from api.core import TAKEN, Core
from api.intake import Flow, Handed, Intake, Notice
from api.recent import Recent
from api.recording import instant_text, write_message
from api.source import Source
from ingest.message import RawMessage
from ingest.spool import Spool
from store.ports import StoreError, StoreHangs
from store.records import JournalEntry

T = TypeVar("T")
_log = structlog.get_logger("quarterline.engine")

_IDLE_S = 0.05
_RETRY_S = (0.1, 5.0)
_REGISTRY_S = 1.0
_COMMANDS: Final = 1000  # that may wait for their turn


@dataclass(slots=True)
class _Waiting:
    at_us: int
    run: Callable[[Commands], Any]
    future: Future[Any]


class Engine:
    """Runs a core on a thread of its own."""

    def __init__(
        self,
        make_core: Callable[[Callable[[list[JournalEntry]], None]], Core],
        source: Source,
        clock: Callable[[], float],
        *,
        record: Path | None = None,
        spool: Callable[[int], Spool] | None = None,
        patience_s: float = 5.0,
        chance: random.Random | None = None,
    ) -> None:
        """``spool`` opens the disk spool for the number of the last message the store holds."""
        self._clock = clock
        self._chance = chance or random.Random()  # back-off jitter only
        self._record = record
        self._commands: deque[_Waiting] = deque()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._fault = ""
        self._passed_us = 0  # commands up to here have had their turn
        self._last_command_us = 0
        self.recent = Recent()
        self._look_again = 0.0
        self.bell = Bell()
        self.core = make_core(lambda entries: self.bell.ring(entries[-1].seq))
        self._taken = int(self.core.store.ledger.get_meta(TAKEN) or 0)
        self._patience_s = patience_s
        self._source = source
        self._intake = Intake(
            source,
            clock,
            taken=self._taken,
            spool=spool(self._taken) if spool is not None else None,
            patience_s=patience_s,
        )
        last = self.core.store.ledger.journal_tail(limit=1)
        self.bell.ring(last[0].seq if last else 0)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # ---- from other threads --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the session and the writer."""
        self._intake.start()
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Commit and acknowledge what has been handed over, then stop."""
        self._stopping.set()
        self._thread.join(timeout_s)
        self._intake.stop()
        self.bell.close()

    def now(self) -> float:
        """The service's clock [s]."""
        return self._clock()

    def submit(self, command: Callable[[Commands], T], timeout_s: float = 30.0) -> T:
        """Run a command in the writer's thread, in one transaction, at this instant; returns what it returns.

        Raises
        ------
        StoreError
            The store refused, or the writer did not come to it in time: nothing of the command was kept.
        StoreHangs
            It is over the command: this may yet be taken.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a command cannot wait for another command")
        with self._lock:
            if self._stopping.is_set() or not self._thread.is_alive():
                raise StoreError("the service is stopping")
            if len(self._commands) >= _COMMANDS:
                raise StoreError(f"{_COMMANDS} commands wait already: {self._fault or 'try again later'}")
            # what was received before this command has been taken, whatever a stepped clock says now
            # and no two commands share an instant: a replay takes events before messages of the same one
            at_us = max(int(self._clock() * 1e6), self._passed_us + 1, self._last_command_us + 1)
            self._last_command_us = at_us
            waiting = _Waiting(at_us, command, Future())
            self._commands.append(waiting)
        try:
            return waiting.future.result(timeout_s)  # type: ignore[no-any-return]  # a Future[Any] by nature
        except TimeoutError:
            if waiting.future.cancel():
                raise StoreError(f"the store is busy or down: {self._fault or 'no answer in time'}") from None
            if waiting.future.done():  # just now, or it is the command's own error
                return waiting.future.result()  # type: ignore[no-any-return]
            raise StoreHangs(
                f"the store has hung over this for {timeout_s:g} s and may yet take it: look before it is sent again"
            ) from None

    def pending(self) -> int:
        """Items received and not yet committed; an uncommitted message counts as one item."""
        return self._intake.pending(self._taken)

    def flow(self) -> Flow:
        """How far what was received has come."""
        return self._intake.flow()

    def readiness(self) -> dict[str, tuple[bool, str]]:
        """Each part the service needs: whether it is well, and why not."""
        alive = self._thread.is_alive()
        return {
            "writer": (alive, "running" if alive else "the writer thread has ended: restart the service"),
            "store": self._store_ready(),
            "spool": self._intake.ready(),
            "mqtt": self._source.ready(),
        }

    def _store_ready(self) -> tuple[bool, str]:
        busy_s = self._intake.busy_s()
        if not self._fault and busy_s >= self._patience_s:
            return False, f"the writer has been busy with one window for {busy_s:.0f} s"
        return not self._fault, self._fault or "ok"

    # ---- the writer's thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(self._intake.next(_IDLE_S))
        except Exception:
            _log.exception("the writer ended")
            raise
        finally:
            with self._lock:
                self._stopping.set()
                _refuse(self._commands)
                self._commands.clear()

    def _turn(self, window: Handed | None) -> None:
        if time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + _REGISTRY_S
            self._patiently(self.core.registry_changed)  # another process may have imported a fleet
        if window is None:
            return
        messages, number = window.messages, window.number
        start = 0
        due = self._due(window.watermark_us)
        for place, waiting in enumerate(due):
            # an event comes before a message of the same instant
            stop = bisect_left(messages, waiting.at_us, lo=start, key=lambda m: m.received_us)
            if not self._take(messages[start:stop], number + start) or not self._patiently(
                lambda at=waiting.at_us: self.core.advance(at)  # type: ignore[misc]  # default binds the value
            ):
                _refuse(due[place:])
                return
            start = stop
            self._execute(waiting)
        if self._take(messages[start:], number + start) and self._patiently(
            lambda: self.core.advance(window.watermark_us)
        ):
            self._intake.done(window)
            for notice in self._intake.notices():
                self._patiently(lambda one=notice: self._tell(one, window.watermark_us))  # type: ignore[misc]

    def _due(self, watermark_us: int) -> list[_Waiting]:
        with self._lock:
            self._passed_us = max(self._passed_us, watermark_us)
            due = [w for w in self._commands if w.at_us <= watermark_us]
            self._commands = deque(w for w in self._commands if w.at_us > watermark_us)
        return sorted(due, key=lambda w: w.at_us)

    def _take(self, messages: Sequence[RawMessage], number: int) -> bool:
        """Commit messages, the first of which has this number; False when the service stops meanwhile."""
        start = 0
        while start < len(messages):
            begin = start

            def span(begin: int = begin) -> None:
                nonlocal start
                start = self.core.accept_span(messages, begin, number + begin)

            if not self._patiently(span):
                return False
            self._taken = number + start - 1
            self.recent.note(messages[begin:start])
            if not self._record_messages(messages[begin:start]):
                return False
        return True

    def _tell(self, notice: Notice, at_us: int) -> None:
        body = {
            "state": notice.state,
            "noticed_at": instant_text(notice.at_us),
            "bytes": notice.bytes,
            "capacity_bytes": notice.capacity_bytes,
        }
        with self.core.desk.transaction():
            self.core.desk.journal(at_us, "spool", None, body)

    def _execute(self, waiting: _Waiting) -> None:
        if not waiting.future.set_running_or_notify_cancel():
            return
        commands = Commands(self.core, waiting.at_us)
        try:
            with self.core.desk.transaction():
                result = waiting.run(commands)
        except Exception as error:
            waiting.future.set_exception(error)
            self._patiently(self.core.registry_changed)  # what was rolled back may have been read already
            return
        self.recent.note(commands.taken)
        if self._record_messages(commands.taken):
            waiting.future.set_result(result)
        else:
            waiting.future.set_exception(StoreError("the service is stopping"))

    def _patiently(self, work: Callable[[], Any]) -> bool:
        """Do the work, again and again while the store refuses; False when the service stops meanwhile."""
        delay = _RETRY_S[0]
        while True:
            try:
                work()
            except StoreError as error:
                if not self._fault:
                    _log.error("the store refuses; it is tried again until it recovers", reason=str(error))
                self._fault = str(error)
                if self._stopping.wait(delay * self._chance.uniform(0.5, 1.0)):
                    return False
                delay = min(delay * 2, _RETRY_S[1])
            else:
                if self._fault:
                    _log.info("the store is well again")
                self._fault = ""
                return True

    def _record_messages(self, messages: Sequence[RawMessage]) -> bool:
        """Append to the record, as patiently as to the store: a replay must not miss what was committed."""
        record = self._record
        if record is None or not messages:
            return True
        return self._patiently(lambda: _append(record, messages))


def _refuse(commands: Iterable[_Waiting]) -> None:
    for waiting in commands:
        if waiting.future.set_running_or_notify_cancel():  # else nobody waits for it any more
            waiting.future.set_exception(StoreError("the service is stopping"))


def _append(record: Path, messages: Sequence[RawMessage]) -> None:
    """All of the messages, or none.

    Raises
    ------
    StoreError
        The file cannot be written.
    """
    try:
        with record.open("ab", buffering=0) as file:
            size = file.tell()
            lines = BytesIO()
            for message in messages:
                write_message(lines, message)
            rest = memoryview(lines.getvalue())
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise StoreError(
            f"the record {record} cannot be written ({error.strerror}): make room, "
            "or take record out of the configuration"
        ) from error
