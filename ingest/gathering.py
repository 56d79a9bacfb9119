"""Messages on their way from the reader to the writer: gathered into windows, bounded in number and bytes."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ingest.message import RawMessage
from ingest.told import Window

BACKLOG: Final = 4  # windows that may wait here
_HELD_BYTES: Final = 64 * 1024 * 1024  # payloads that may wait here
_PARTS: Final = 4  # handed over in quarters: one is committed while others are read and acknowledged
GATHER_S: Final = 0.1  # a window is handed over at the latest this long after its first message


class Gathering:
    """What one reader has received. ``next`` and ``pending`` are the writer's, the rest is the reader's.

    Parameters
    ----------
    clock
        Service time [s since the epoch].
    window
        The most messages of one window.
    """

    def __init__(self, clock: Callable[[], float], window: int) -> None:
        self._clock = clock
        self._window = window
        self._windows: queue.Queue[Window] = queue.Queue(maxsize=BACKLOG)
        self._gathered: list[RawMessage] = []
        self._held_bytes = 0
        self._handed: deque[Window] = deque()  # and not acknowledged, in order of reception
        self._done: set[int] = set()  # those of them that are committed, behind one that is not
        self.began = 0.0  # when the first of what is gathered came, or of the last handed over [monotonic s]
        self.last_us = 0

    @property
    def is_empty(self) -> bool:
        """Whether everything was handed over."""
        return not self._gathered

    def next(self, timeout_s: float) -> Window | None:
        """The next window, None when there is none in time."""
        try:
            window = self._windows.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if window.messages:
            self._handed.append(window)
        return window

    def done(self, window: Window) -> list[Window]:
        """This window is committed: those that may be acknowledged now, in the order they were handed out."""
        self._done.add(id(window))
        if not any(one is window for one in self._handed):
            self._handed.appendleft(window)  # not one of ours: nobody waits for another
        free = []
        while self._handed and id(self._handed[0]) in self._done:
            free.append(self._handed.popleft())
            self._done.discard(id(free[-1]))
        return free

    def pending(self) -> int:
        """Messages received that no window given out by :meth:`next` holds."""
        return len(self._gathered) + sum(len(one.messages) for one in list(self._windows.queue))

    def bound(self) -> int:
        """The most :meth:`pending` can be, but for what a last look at the network brings."""
        return BACKLOG * (self._window + max(self._window // _PARTS, 1))

    def has_room(self) -> bool:
        """Whether more may be read from the network."""
        return len(self._gathered) < BACKLOG * self._window and self._held_bytes < _HELD_BYTES

    def now_us(self) -> int:
        """The receipt time: the service's clock, never backwards."""
        self.last_us = max(self.last_us, int(self._clock() * 1e6))
        return self.last_us

    def add(self, message: RawMessage) -> None:
        """One more message."""
        if not self._gathered:
            self.began = time.monotonic()
        self._gathered.append(message)
        self._held_bytes += len(message.payload)

    def release(self, window: Window) -> None:
        """A window is committed: its bytes no longer count."""
        self._held_bytes -= sum(len(one.payload) for one in window.messages)

    def hand_over(self, *, idle: bool = True, final: bool = False) -> None:
        """Give what was gathered to the writer; when nothing was, the time up to which that is so."""
        now = self.now_us()
        if not self._gathered:
            if idle and self._windows.empty():
                self._offer(Window((), now))
            return
        size = max(self._window // _PARTS, 1)
        full = len(self._gathered) >= size
        if not (full or idle or final or time.monotonic() - self.began >= GATHER_S):
            return
        while self._gathered:
            part = tuple(self._gathered[:size])
            rest = len(self._gathered) > size
            watermark = part[-1].received_us if rest or not idle else now
            if not self._offer(Window(part, watermark)):
                return
            del self._gathered[:size]
            self.began = time.monotonic()

    def _offer(self, window: Window) -> bool:
        try:
            self._windows.put_nowait(window)
        except queue.Full:
            return False
        return True
