"""One MQTT message as it was received, before anything is known of it."""

from __future__ import annotations

import msgspec


class RawMessage(msgspec.Struct, frozen=True):
    """Topic and bytes as they came, with the instant of reception [µs since the epoch, UTC].

    ``mid`` and ``epoch`` (the connection it came over) are what the session needs to acknowledge it. Of a payload
    too large to be kept, ``payload`` is the head, ``size`` and ``sha256`` are of the whole.
    """

    topic: str
    payload: bytes
    received_us: int
    retain: bool = False
    dup: bool = False
    mid: int = 0
    qos: int = 1
    epoch: int = 0
    size: int = 0  # 0: the payload is whole
    sha256: str = ""
