"""The benchmark's publisher: a process of its own that costs little beside what is measured.

``python -m ingest.bench_publish PORT MESSAGES``: sends readings at QoS 1 in batches of :data:`BATCH`, each after the
broker has acknowledged the one before and as long as it has credit: one byte on standard input for each batch.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Final

from ingest.bench_payload import payload, topic

BATCH: Final = 1000
_CONNECT: Final = (
    b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x00\x00\x03pub"  # MQTT 3.1.1, clean session, no keep-alive
)
_ACKNOWLEDGED: Final = 4  # bytes of a PUBACK


def packet(name: str, body: bytes, mid: int) -> bytes:
    """A PUBLISH at QoS 1 (MQTT 3.1.1 §3.3)."""
    head = name.encode()
    left = 2 + len(head) + 2 + len(body)
    length = bytearray()
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return b"\x32" + length + len(head).to_bytes(2, "big") + head + mid.to_bytes(2, "big") + body


def publish(port: int, messages: int, credit: Callable[[], bool]) -> None:
    """Send readings 0 to ``messages``; ends early where the credit does.

    Raises
    ------
    ConnectionError
        The broker is gone.
    """
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.sendall(_CONNECT)
        _receive(wire, 4)
        for first in range(0, messages, BATCH):
            if not credit():
                return
            numbers = range(first, min(first + BATCH, messages))
            wire.sendall(b"".join(packet(topic(n), payload(n), n - first + 1) for n in numbers))
            _receive(wire, _ACKNOWLEDGED * len(numbers))
        wire.sendall(b"\xe0\x00")


def _receive(wire: socket.socket, size: int) -> None:
    while size:
        data = wire.recv(size)
        if not data:
            raise ConnectionError("the broker is gone")
        size -= len(data)


if __name__ == "__main__":
    publish(int(sys.argv[1]), int(sys.argv[2]), lambda: bool(sys.stdin.buffer.read(1)))
