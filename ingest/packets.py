"""The two MQTT packets of the hot path, read and written here: PUBLISH in, PUBACK out.

paho makes half a dozen objects and takes as many locks for each of them; a message and its acknowledgement cost
a fifth of that here. Every other packet is paho's. Layouts: MQTT 3.1.1 §2.2, §3.3, §3.4; MQTT 5.0 §3.3.2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

PUBLISH: Final = 0x30
PINGREQ: Final = b"\xc0\x00"
DISCONNECT: Final = b"\xe0\x00"  # of MQTT 5 too: without a reason code it is a normal one
_LENGTH_BYTES: Final = 4


class Malformed(Exception):
    """The peer sent what is no MQTT; nothing after it on this connection can be trusted."""


class Published(NamedTuple):
    """One PUBLISH; ``mid`` is 0 at QoS 0."""

    topic: str
    payload: bytes
    mid: int
    qos: int
    retain: bool
    dup: bool
    size: int = 0  # of a payload of which only the head is kept; 0: it is whole
    sha256: str = ""


def length_at(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """A variable byte integer at ``at``: its value and where it ends; None while it is not here whole.

    Raises
    ------
    Malformed
        It goes on beyond four bytes.
    """
    value = shift = 0
    for place in range(at, min(at + _LENGTH_BYTES, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    if len(data) - at >= _LENGTH_BYTES:
        raise Malformed("a length of more than four bytes")
    return None


def read_publish(first: int, body: bytes, *, mqtt_5: bool) -> Published:
    """A PUBLISH from its first byte and what follows the length. A topic that is no UTF-8 is kept readable.

    Raises
    ------
    Malformed
        It is cut short, at QoS 2 or 3, or without a topic: neither was asked for.
    """
    qos = first >> 1 & 3
    if qos > 1:
        raise Malformed(f"a message at QoS {qos}, though 1 is the most that was subscribed")
    at = 2 + int.from_bytes(body[:2], "big")
    name = body[2:at]
    mid = 0
    if qos:
        mid = int.from_bytes(body[at : at + 2], "big")
        at += 2
    if mqtt_5:
        found = length_at(body, at)
        if found is None:
            raise Malformed("a message that is cut short")
        at = found[0] + found[1]
    if at > len(body) or not name or (qos and not mid):
        raise Malformed("a message that is cut short, or has no topic or no packet identifier")
    try:
        topic = name.decode()
    except UnicodeDecodeError:
        topic = name.decode("utf-8", "replace")
    return Published(topic, body[at:], mid, qos, bool(first & 1), bool(first & 8))


def acknowledgements(mids: Iterable[int]) -> bytes:
    """PUBACKs in this order; of MQTT 5 too, where a missing reason code means success."""
    return b"".join([b"\x40\x02" + mid.to_bytes(2, "big") for mid in mids])
