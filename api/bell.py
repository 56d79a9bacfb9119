"""A bell between the writer's thread and event streams: rung after a commit, heard on asyncio loops."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Bell:
    """Wakes whoever waits for journal lines. ``ring`` may be called from any thread."""

    def __init__(self, seq: int = 0) -> None:
        self._lock = threading.Lock()
        self._seq = seq
        self._closed = False
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def seq(self) -> int:
        """The newest journal line that was rung for."""
        return self._seq

    @property
    def closed(self) -> bool:
        """Whether the service is stopping: streams end then."""
        return self._closed

    def ring(self, seq: int) -> None:
        """Journal lines up to ``seq`` are committed."""
        with self._lock:
            self._seq = max(self._seq, seq)
        self._wake()

    def close(self) -> None:
        """Wake everybody for the last time."""
        with self._lock:
            self._closed = True
        self._wake()

    async def wait(self, after_seq: int, timeout_s: float) -> bool:
        """Wait for a line after ``after_seq``, or the end of the service; False when the time ran out."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._closed or self._seq > after_seq:
                return True
            self._waiting.add(entry)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            with self._lock:
                self._waiting.discard(entry)

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for loop, event in waiting:
            with suppress(RuntimeError):  # that loop has ended, and its waiter with it
                loop.call_soon_threadsafe(event.set)
