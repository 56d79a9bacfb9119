"""Between the source and the writer: numbers what comes, and keeps it on disk while the writer cannot take it.

As a rule the writer takes windows from the source through :meth:`Intake.next` and nobody else is awake. When it has
been busy with one window for longer than the patience, the keeper (a thread of its own) puts that window and all
that follow into the spool and acknowledges them; the writer then reads on from the spool until that is empty, so
the order of reception holds throughout. Where the spool cannot take a window either, it is not acknowledged.

Every message has a number, over the life of the store; the writer commits the number of the last one with it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from api.source import Source, Window
from ingest.message import RawMessage
from ingest.spool import Spool, SpoolError, SpoolFull, SpoolStatus

__all__ = ["Flow", "Handed", "Intake", "Notice"]

_log = structlog.get_logger("quarterline.spool")

_LOOK_S: Final = 0.1
_QUIET_S: Final = 0.02  # between two looks for something to keep
_RETRY_S: Final = 0.5
_RUN: Final = 1000  # messages read from the spool at once
_NOTICES: Final = 16


@dataclass(slots=True, eq=False)
class Handed:
    """A window on its way to the store; ``number`` is that of its first message."""

    messages: Sequence[RawMessage]
    watermark_us: int
    number: int
    window: Window | None  # the source's own; None where it came out of the spool
    acknowledged: bool = False

    @property
    def last(self) -> int:
        """Number of its last message."""
        return self.number + len(self.messages) - 1


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the spool that an operator should find in the journal; the times are the service's [µs]."""

    state: str  # half, full, drained
    at_us: int
    bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class Flow:
    """How far what was received has come.

    ``waiting`` messages are with the reader, which holds at most about ``bound``; the oldest one handed on and not yet
    acknowledged came ``lag_s`` ago, the oldest one in the spool and not yet committed ``spool_age_s`` ago.
    """

    waiting: int = 0
    bound: int = 0
    lag_s: float = 0.0
    spool: SpoolStatus | None = None
    spool_age_s: float = 0.0


class Intake:
    """A source for the writer over another source.

    Parameters
    ----------
    taken
        Number of the last message that the store holds.
    spool
        None: what cannot be committed waits unacknowledged.
    patience_s
        How long the writer may be busy with one window.
    """

    def __init__(
        self,
        source: Source,
        clock: Callable[[], float],
        *,
        taken: int = 0,
        spool: Spool | None = None,
        patience_s: float = 5.0,
    ) -> None:
        self._source = source
        self._clock = clock
        self._spool = spool
        self._patience_s = patience_s
        self._tap = threading.Lock()  # whoever holds it says what comes next
        self._last = max(taken, spool.last if spool else 0)
        self._behind = spool is not None and self._last > taken  # what comes queues behind the spool
        self._in_hand: Handed | None = None  # with the writer
        self._since: float | None = None  # when the writer was handed that, or nothing
        self._unsaved: Handed | None = None  # with the writer, and to be kept before anything else
        self._kept: Handed | None = None  # with the keeper
        self._level = 0  # 1 from half full, 2 where something found no room
        self._trouble = ""
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="spool", daemon=True)

    # ---- from any thread -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the source, and the keeper where there is a spool."""
        if self._behind and self._spool is not None:
            _log.info("the spool is drained first", messages=self._spool.status().records)
        self._source.start()
        if self._spool is not None:
            self._keeper.start()

    def stop(self) -> None:
        """Stop both; what is neither committed nor in the spool stays with the broker."""
        self._stopping.set()
        if self._keeper.is_alive():
            self._keeper.join(10)
        self._source.stop()
        if self._spool is not None and not self._keeper.is_alive():
            self._spool.close()

    def pending(self, taken: int) -> int:
        """Messages received after the one that was committed as number ``taken``."""
        return self._source.pending() + max(self._last - taken, 0)

    def busy_s(self) -> float:
        """How long the writer has been busy with one window [s]."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def flow(self) -> Flow:
        """How far what was received has come."""
        now_us = int(self._clock() * 1e6)
        waiting = [one for one in (self._in_hand, self._kept) if one and one.messages]
        unacknowledged = [one.messages[0].received_us for one in waiting if not one.acknowledged]
        status = self._spool.status() if self._spool else None
        spooled = [one.messages[0].received_us for one in waiting if one.acknowledged]
        if status is not None and status.oldest_us is not None:
            spooled.append(status.oldest_us)
        return Flow(
            self._source.pending(),
            self._source.bound(),
            max(now_us - min(unacknowledged, default=now_us), 0) / 1e6,
            status,
            max(now_us - min(spooled, default=now_us), 0) / 1e6,
        )

    def ready(self) -> tuple[bool, str]:
        """Whether the spool does its work, and how full it is."""
        if self._spool is None:
            return True, "none"
        status = self._spool.status()
        share = status.bytes / status.capacity_bytes
        holds = f"holds {status.records} messages, {share:.0%} of {status.capacity_bytes} bytes"
        if self._trouble:
            return (
                False,
                f"{self._trouble}; nothing more is acknowledged until the store or the spool has room",
            )
        if share >= 0.5:
            return True, f"degraded: {holds}; make the store well before it is full"
        return True, holds if self._behind else "empty"

    def notices(self) -> list[Notice]:
        """What an operator should know since this was last asked."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    # ---- the writer's thread -------------------------------------------------------------------------

    def next(self, timeout_s: float) -> Handed | None:
        """What comes next in order of reception; None when there is nothing in time."""
        self._since = None
        try:
            with self._tap:
                self._in_hand = self._following(timeout_s)
                self._since = time.monotonic()
                return self._in_hand
        except SpoolError as error:  # what stands there comes first: nothing else is handed on
            self._complain(error)
            self._stopping.wait(_RETRY_S)
            return None

    def done(self, handed: Handed) -> None:
        """All of it is committed."""
        with self._tap:
            self._acknowledge(handed)
            self._in_hand = None
            if self._unsaved is handed:
                self._unsaved = None
        if self._spool is not None:
            self._spool.discard(handed.last)

    def _following(self, timeout_s: float) -> Handed | None:
        spool = self._spool
        if self._behind and spool is not None:
            run = spool.read(_RUN)
            if run is not None:
                return Handed(run.messages, run.messages[-1].received_us, run.number, None, acknowledged=True)
            # what the keeper still holds comes next, and then the source itself
            kept, self._kept = self._kept, None
            self._behind = False
            self._note_drained(spool)
            if kept is not None:
                return kept
        return self._number(self._source.next(timeout_s))

    def _number(self, window: Window | None) -> Handed | None:
        if window is None:
            return None
        handed = Handed(window.messages, window.watermark_us, self._last + 1, window)
        self._last = handed.last
        return handed

    def _acknowledge(self, handed: Handed) -> None:
        if not handed.acknowledged:
            handed.acknowledged = True
            self._source.done(handed.window)

    # ---- the keeper's thread -------------------------------------------------------------------------

    def _keep(self) -> None:
        assert self._spool is not None
        while not self._stopping.is_set():
            try:
                pause_s = self._look(self._spool)
            except Exception:  # the writer does without the keeper, the keeper not without its thread
                _log.exception("the spool was broken by a fault")
                pause_s = _RETRY_S
            if pause_s:
                self._stopping.wait(pause_s)

    def _look(self, spool: Spool) -> float:
        """Keep one window, if that is to be done; returns how long to wait before the next look [s]."""
        if not self._behind and not self._impatient():
            return _LOOK_S
        with self._tap:
            handed = self._to_keep()
        if handed is None:
            return _QUIET_S if self._behind else _LOOK_S
        try:
            spool.append(handed.number, handed.messages)
        except SpoolError as error:
            self._note_trouble(spool, error)
            return _RETRY_S
        with self._tap:
            self._acknowledge(handed)
            if self._unsaved is handed:
                self._unsaved = None
            if self._kept is handed:
                self._kept = None
        self._note_kept(spool)
        return 0.0

    def _impatient(self) -> bool:
        return self.busy_s() >= self._patience_s

    def _to_keep(self) -> Handed | None:
        """What is to be kept next; the first time, what the writer has in hand."""
        if not self._behind:
            if not self._impatient():
                return None
            self._behind = True
            _log.warning(
                "the store does not keep up; what comes is kept in the spool", after_s=self._patience_s
            )
            if self._in_hand is not None and self._in_hand.messages and not self._in_hand.acknowledged:
                self._unsaved = self._in_hand
        if self._unsaved is None and self._kept is None:
            handed = self._number(self._source.next(0.0))
            if handed is not None and handed.messages:
                self._kept = handed
            elif handed is not None:
                self._acknowledge(handed)
        return self._unsaved or self._kept

    # ---- what is told --------------------------------------------------------------------------------

    def _note_kept(self, spool: Spool) -> None:
        if self._trouble:
            _log.info("the spool has room again")
        self._trouble = ""
        status = spool.status()
        if self._level < 1 and 2 * status.bytes >= status.capacity_bytes:
            self._level = 1
            _log.warning("the spool is half full", bytes=status.bytes, capacity_bytes=status.capacity_bytes)
            self._note("half", status)

    def _note_trouble(self, spool: Spool, error: SpoolError) -> None:
        self._complain(error)
        if self._level < 2 and isinstance(error, SpoolFull):
            self._level = 2
            self._note("full", spool.status())

    def _complain(self, error: SpoolError) -> None:
        if not self._trouble:
            _log.error(
                "the spool cannot be used; what is neither kept nor committed waits", reason=str(error)
            )
        self._trouble = str(error)

    def _note_drained(self, spool: Spool) -> None:
        _log.info("the spool is drained")
        if self._level:
            self._note("drained", spool.status())
        self._level, self._trouble = 0, ""

    def _note(self, state: str, status: SpoolStatus) -> None:
        self._notices.append(Notice(state, int(self._clock() * 1e6), status.bytes, status.capacity_bytes))
