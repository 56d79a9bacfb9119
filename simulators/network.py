"""What the way to the broker does to messages: it takes time, loses some and brings some twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Message(NamedTuple):
    """One message as the service will receive it."""

    received_us: int
    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Quality:
    """Chances of a message: lost on the way, or sent twice."""

    lost: float = 0.004
    twice: float = 0.003


class Network:
    """Delays [s] of about a second; a second copy follows within a minute or two."""

    def __init__(self, quality: Quality, rng: np.random.Generator) -> None:
        self._quality = quality
        self._rng = rng
        self._waiting: list[Message] = []

    def carry(self, sent_us: np.ndarray, topics: list[str], payloads: list[bytes]) -> None:
        """Take messages sent at ``sent_us`` [µs since the epoch], shape (r,)."""
        rng, count = self._rng, sent_us.size
        delay_us = (1e6 * (0.2 + rng.exponential(0.7, count))).astype(np.int64)
        lost = rng.random(count) < self._quality.lost
        twice = rng.random(count) < self._quality.twice
        again_us = (1e6 * rng.uniform(2.0, 120.0, count)).astype(np.int64)
        arrival = sent_us + delay_us
        arrivals = arrival.tolist()
        self._waiting += [
            Message(arrivals[row], topics[row], payloads[row]) for row in np.flatnonzero(~lost).tolist()
        ]
        self._waiting += [
            Message(int(arrival[row] + again_us[row]), topics[row], payloads[row])
            for row in np.flatnonzero(twice & ~lost).tolist()
        ]

    def deliver(self, until_us: int) -> list[Message]:
        """What has arrived before ``until_us``, in order of arrival; equal instants by topic."""
        self._waiting.sort()
        arrived = next(
            (index for index, message in enumerate(self._waiting) if message.received_us >= until_us),
            len(self._waiting),
        )
        out, self._waiting = self._waiting[:arrived], self._waiting[arrived:]
        return out
