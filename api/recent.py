"""The last messages of each topic as they came, in memory: what `sensor check` looks at.

Nothing decides by them. They are gone after a restart; readings and quarantine are in the store.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from ingest.explain import sensor_of
from ingest.message import RawMessage

KEPT: Final = 10  # messages of a topic
_TOPICS: Final = 10_000
_BYTES: Final = 32 << 20  # of payloads, over all topics
_WHOLE: Final = 16 << 10  # of a longer payload only the head is kept
_HEAD: Final = 1 << 10


class Recent:
    """A ring of messages for each topic. The writer adds, other threads look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[str, deque[RawMessage]] = {}
        self._bytes = 0

    def note(self, messages: Sequence[RawMessage]) -> None:
        """Keep messages that have been committed; the oldest of a topic make room for them."""
        rings, size = self._rings, 0
        with self._lock:
            for message in messages:
                ring = rings.get(message.topic)
                if ring is None:
                    ring = rings[message.topic] = deque(maxlen=KEPT)
                elif len(ring) == KEPT:
                    size -= len(ring[0].payload)
                if len(message.payload) > _WHOLE:
                    message = _head(message)
                size += len(message.payload)
                ring.append(message)
            self._bytes += size
            if self._bytes > _BYTES or len(rings) > _TOPICS:
                self._make_room()

    def of(self, sensor: str) -> list[RawMessage]:
        """A sensor's last messages, newest first."""
        with self._lock:
            rings = [list(ring) for ring in self._rings.values()]
        mine = [ring for ring in rings if sensor_of(ring[-1]) == sensor]
        return sorted((one for ring in mine for one in ring), key=lambda m: m.received_us, reverse=True)

    def _make_room(self) -> None:
        """Forget the half of the topics that have been quiet longest, until the rest fits."""
        quiet_first = sorted(self._rings, key=lambda topic: self._rings[topic][-1].received_us)
        while quiet_first and (self._bytes > _BYTES or len(self._rings) > _TOPICS):
            half = len(quiet_first) // 2 + 1
            for topic in quiet_first[:half]:
                self._bytes -= sum(len(one.payload) for one in self._rings.pop(topic))
            del quiet_first[:half]


def _head(message: RawMessage) -> RawMessage:
    size = message.size or len(message.payload)
    return msgspec.structs.replace(message, payload=message.payload[:_HEAD], size=size)
