"""Where the writer's windows come from: what any source can do, and one that is nothing but the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ingest.message import RawMessage

__all__ = ["ClockSource", "Source", "Window"]


class Window(Protocol):
    """Messages in order of reception, and the service time up to which nothing received is missing."""

    @property
    def messages(self) -> Sequence[RawMessage]: ...
    @property
    def watermark_us(self) -> int: ...


class Source(Protocol):
    """Where windows come from: an MQTT session, or nothing but the clock."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def next(self, timeout_s: float) -> Window | None: ...
    def done(self, window: Any) -> None: ...
    def pending(self) -> int: ...
    def bound(self) -> int: ...
    def ready(self) -> tuple[bool, str]: ...


@dataclass(frozen=True, slots=True)
class _Tick:
    messages: tuple[RawMessage, ...]
    watermark_us: int


class ClockSource:
    """A source without MQTT: the clock goes on, readings come by HTTP only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wake = threading.Event()

    def start(self) -> None:
        """Nothing to connect."""

    def stop(self) -> None:
        """Let a waiting ``next`` return."""
        self._wake.set()

    def next(self, timeout_s: float) -> _Tick:
        """An empty window up to now."""
        self._wake.wait(timeout_s)
        return _Tick((), int(self._clock() * 1e6))

    def done(self, window: Any) -> None:
        """Nobody waits for an acknowledgement."""

    def pending(self) -> int:
        """Nothing is ever on its way."""
        return 0

    def bound(self) -> int:
        """None can wait."""
        return 0

    def ready(self) -> tuple[bool, str]:
        """Always."""
        return True, "no broker configured"
