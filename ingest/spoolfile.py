"""Records of the disk spool: written one after the other, each with its own checksums.

A record is a head of 32 bytes, little endian, and a body::

    mark 4 | length of the body u32 | number u64 | received_us i64 | CRC-32 of the body u32 | CRC-32 of the head u32
    body: MessagePack array [topic, payload, retain, dup, qos, size, sha256]

The head has a checksum of its own, so that a record the writer never finished (a whole head, or none, and less than
its body: it was never acknowledged) can be told from one that the disk has damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import msgspec

from ingest.message import RawMessage

__all__ = ["DAMAGED", "HEAD_BYTES", "Damage", "Record", "encode", "records"]

#: Topic under which a damaged record goes on to quarantine; no subscription reaches it.
DAMAGED: Final = "quarterline/spool/damaged"
_MARK: Final = b"\xabQS1"
_HEAD: Final = struct.Struct("<4sIQqII")
_CHECKED: Final = struct.Struct("<4sIQqI")  # the head up to its own checksum
HEAD_BYTES: Final = _HEAD.size


class _Body(msgspec.Struct, array_like=True, frozen=True):
    topic: str
    payload: bytes
    retain: bool = False
    dup: bool = False
    qos: int = 1
    size: int = 0
    sha256: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Body)


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record; ``end`` is where the next one begins."""

    number: int
    message: RawMessage
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record.

    ``torn`` where the writer was interrupted; ``number`` and ``received_us`` where the head can be trusted.
    """

    start: int
    end: int
    torn: bool
    number: int | None = None
    received_us: int | None = None


def encode(first: int, messages: Iterable[RawMessage]) -> bytes:
    """The records of messages in order of reception, numbered from ``first``."""
    parts: list[bytes] = []
    for number, one in enumerate(messages, first):
        body = _encoder.encode(
            _Body(one.topic, one.payload, one.retain, one.dup, one.qos, one.size, one.sha256)
        )
        checked = _CHECKED.pack(_MARK, len(body), number, one.received_us, crc32(body))
        parts += (checked, crc32(checked).to_bytes(4, "little"), body)
    return b"".join(parts)


def records(data: bytes, start: int = 0) -> Iterator[Record | Damage]:
    """What the bytes of a segment hold from ``start``, in order; every byte is part of one thing yielded."""
    at = start
    while at < len(data):
        one = _read(data, at)
        if isinstance(one, Damage) and one.number is None and not one.torn:
            one = Damage(at, _next_record(data, at + 1), torn=False)
            if one.end == len(data) and not any(data[at:]):
                one = Damage(at, len(data), torn=True)  # room the file system gave, never written to
        yield one
        at = one.end


def _read(data: bytes, at: int) -> Record | Damage:
    if len(data) - at < HEAD_BYTES:
        return Damage(at, len(data), torn=True)
    mark, length, number, received_us, body_crc, head_crc = _HEAD.unpack_from(data, at)
    if mark != _MARK or crc32(data[at : at + _CHECKED.size]) != head_crc:
        return Damage(at, len(data), torn=False)
    end = at + HEAD_BYTES + length
    if end > len(data):
        return Damage(at, len(data), torn=True)
    body = data[at + HEAD_BYTES : end]
    if crc32(body) != body_crc:
        return Damage(at, end, torn=False, number=number, received_us=received_us)
    try:
        one = _decoder.decode(body)
    except msgspec.DecodeError:  # a later version's, or none of ours
        return Damage(at, end, torn=False, number=number, received_us=received_us)
    message = RawMessage(
        one.topic, one.payload, received_us, one.retain, one.dup, 0, one.qos, 0, one.size, one.sha256
    )
    return Record(number, message, end)


def _next_record(data: bytes, at: int) -> int:
    """Where the next head that can be trusted begins, or the end."""
    while (at := data.find(_MARK, at)) >= 0:
        if len(data) - at >= HEAD_BYTES:
            head_crc = _HEAD.unpack_from(data, at)[-1]
            if crc32(data[at : at + _CHECKED.size]) == head_crc:
                return at
        at += 1
    return len(data)
