"""What the way to the broker does to messages: it takes time, loses some and brings some twice.

Every sensor has its own place in each step's random numbers, so that what befalls one sensor changes nothing
for another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count as counting
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulators.faults import FaultKind, Schedule

Ints = NDArray[np.int64]

PLACES: Final = 8  # messages of one sensor in one step with random numbers of their own; then they repeat
MEAN_DELAY_S: Final = 0.7
LEAST_DELAY_S: Final = 0.2
BATCH_S: Final = 20.0  # real time a device needs to send what it kept
DAY_S: Final = 86400.0


class Message(NamedTuple):
    """One message as the service will receive it; ``retain`` marks a broker's copy of an older one."""

    received_us: int
    topic: str
    payload: bytes
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Quality:
    """Chances of a message: lost on the way, or sent twice."""

    lost: float = 0.004
    twice: float = 0.003


class Network:
    """Delays [s] of about a second; a second copy follows within a minute or two.

    ``topics`` lists every sensor's topic, ``homes`` its interceptor; faults strike by interceptor. A silent
    sensor's messages are lost; of one that drops out, a part. A device in ``late_batch`` keeps its messages
    until the fault ends and then sends them at once, in any order.
    """

    def __init__(
        self,
        quality: Quality,
        rng: np.random.Generator,
        topics: Sequence[str] = (),
        homes: Sequence[int] = (),
        faults: Schedule | None = None,
    ) -> None:
        self._quality = quality
        self._rng = rng
        self._place = {topic: row for row, topic in enumerate(topics)}
        self._homes = np.array(homes, dtype=np.int64)
        self._faults = faults
        self._waiting: list[Message] = []
        self._kept: dict[int, list[Message]] = defaultdict(list)
        self._last: dict[int, Message] = {}

    def carry(self, sent_us: Ints, topics: list[str], payloads: list[bytes]) -> None:
        """Take messages sent at ``sent_us`` [µs since the epoch], shape (r,), from topics of the city."""
        row = np.array([self._place.setdefault(topic, len(self._place)) for topic in topics], dtype=np.int64)
        chance = self._rng.random((5, PLACES, len(self._place)))[:, _nth(row) % PLACES, row]
        delay_us = 1e6 * (LEAST_DELAY_S - MEAN_DELAY_S * np.log1p(-chance[0]))
        lost = chance[1] < self._share(FaultKind.DROP_OUT, row, sent_us, self._quality.lost)
        lost |= self._struck(FaultKind.SILENCE, row, sent_us)
        twice = chance[2] < self._share(FaultKind.DUPLICATES, row, sent_us, self._quality.twice)
        kept = self._struck(FaultKind.LATE_BATCH, row, sent_us)
        again = chance[4] < self._retained(row, sent_us)
        arrival = sent_us + delay_us.astype(np.int64)
        again_us = arrival + (1e6 * (2.0 + 118.0 * chance[3])).astype(np.int64)
        for at in np.flatnonzero(~lost).tolist():
            message = Message(int(arrival[at]), topics[at], payloads[at])
            place = int(row[at])
            if kept[at]:
                self._kept[place].append(message)
                continue
            self._waiting.append(message)
            if twice[at]:
                self._waiting.append(message._replace(received_us=int(again_us[at])))
            if (
                again[at] and place in self._last
            ):  # somebody subscribed anew: the broker's copy of the last one
                old = self._last[place]
                self._waiting.append(old._replace(received_us=int(again_us[at]), retain=True))
            self._last[place] = message

    def deliver(self, until_us: int) -> list[Message]:
        """What has arrived before ``until_us``, in order of arrival; equal instants by topic."""
        if self._kept:
            self._release(until_us)
        self._waiting.sort()
        arrived = next(
            (index for index, message in enumerate(self._waiting) if message.received_us >= until_us),
            len(self._waiting),
        )
        out, self._waiting = self._waiting[:arrived], self._waiting[arrived:]
        return out

    def _release(self, now_us: int) -> None:
        """Let the devices whose fault is over send what they kept."""
        place = np.array(sorted(self._kept), dtype=np.int64)
        held = self._struck(FaultKind.LATE_BATCH, place, np.full(place.size, now_us))
        for one in place[~held].tolist():
            messages = self._kept.pop(one)
            # a stream of its own, known by what was kept: other sensors' chances are not used up
            rng = np.random.default_rng((one, messages[0].received_us, len(messages)))
            after_us = np.sort(rng.uniform(0.0, 1e6 * BATCH_S, len(messages))).astype(np.int64).tolist()
            self._waiting += [
                messages[which]._replace(received_us=now_us + after)
                for which, after in zip(rng.permutation(len(messages)).tolist(), after_us, strict=True)
            ]

    def _sizes(self, kind: FaultKind, row: Ints, at_us: Ints) -> NDArray[np.float64]:
        """Size of the fault in force for each message, NaN where there is none; asked at the first instant."""
        if self._faults is None or not at_us.size:
            return np.full(row.size, np.nan)
        return self._faults.sizes(kind, float(at_us[0]) / 1e6)[self._homes[row]]

    def _struck(self, kind: FaultKind, row: Ints, at_us: Ints) -> NDArray[np.bool_]:
        return ~np.isnan(self._sizes(kind, row, at_us))

    def _share(self, kind: FaultKind, row: Ints, at_us: Ints, usual: float) -> NDArray[np.float64]:
        sizes = self._sizes(kind, row, at_us)
        return np.where(np.isnan(sizes), usual, sizes)

    def _retained(self, row: Ints, at_us: Ints) -> NDArray[np.float64]:
        """Chance of a retained copy with each message: the fault's copies a day over 96 messages a day."""
        sizes = self._sizes(FaultKind.RETAINED, row, at_us)
        return np.where(np.isnan(sizes), 0.0, sizes * 900.0 / DAY_S)


def _nth(row: Ints) -> Ints:
    """How many messages of the same sensor come before each one."""
    seen: dict[int, counting[int]] = defaultdict(counting)
    return np.array([next(seen[one]) for one in row.tolist()], dtype=np.int64)
