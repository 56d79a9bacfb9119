"""What every codec gives, and where a message came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.envelope import Uplink
from ingest.formats.memory import Memory
from ingest.refused import Refused


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message came from: what its topic names, and when it was received [us since the epoch, UTC]."""

    topic: str
    sensor: str = ""  # canonical id; empty: the envelope names the sensor
    field: str = ""
    event: str = ""
    received_us: int = 0
    memory: Memory = dataclasses.field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing a message says of one sensor: a reading, connectivity, that it lives, or why it cannot be taken."""

    sensor: str  # canonical id; empty: of nobody, such as a gateway's own word
    uplink: Uplink | None = None  # None: no reading
    online: bool | None = None
    heard: bool = True  # the device itself spoke
    refused: Refused | None = None
    optional: bool = False  # nothing is lost where the sensor is none of the fleet: it is a heartbeat then


@dataclass(frozen=True, slots=True)
class Format:
    """One wire format.

    ``topics`` are its usual topics as templates (:mod:`ingest.formats.template`). ``read`` gives the parts of one
    payload that is within the size limit; it raises :class:`Refused` where it is none, and nothing else.
    """

    name: str
    title: str
    topics: tuple[str, ...]
    read: Callable[[bytes, Place], Sequence[Part]]
