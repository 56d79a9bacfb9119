"""A source of windows that a test writes itself, in place of a broker's session."""

from __future__ import annotations

import queue
from typing import Any

from ingest.told import Window


class Script:
    """A source that gives what the test puts in, and remembers what was acknowledged."""

    def __init__(self) -> None:
        self.windows: queue.Queue[Window] = queue.Queue()
        self.acknowledged: list[Window] = []

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def next(self, timeout_s: float) -> Window | None:
        try:
            return self.windows.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def done(self, window: Any) -> None:
        self.acknowledged.append(window)

    def pending(self) -> int:
        return sum(len(one.messages) for one in list(self.windows.queue))

    def bound(self) -> int:
        return 1000

    def ready(self) -> tuple[bool, str]:
        return True, "scripted"
