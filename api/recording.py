"""Recorded streams: the message and event files of contracts.md §3, read and written."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC as _UTC
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec
import numpy as np

from ingest.message import RawMessage


class RecordingError(Exception):
    """A line of a recorded stream is not as contracts.md §3 wants it; the text names file, line and fix."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something the service learned outside MQTT: a manifest, a core sample, a decision, an answer."""

    at_us: int
    type: str
    fields: dict[str, Any]
    where: str  # file:line, for errors


class _Stamp(msgspec.Struct):
    received_at: str


class _MessageLine(msgspec.Struct, forbid_unknown_fields=True):
    received_at: str
    topic: str
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_hex: str | msgspec.UnsetType = msgspec.UNSET
    retain: bool = False
    # of our own records, beside what the contract asks for: sent again by the broker; of a huge payload the head
    dup: bool = False
    size: int = 0
    sha256: str = ""


_stamp = msgspec.json.Decoder(_Stamp)
_message = msgspec.json.Decoder(_MessageLine)


def parse_instant(text: str) -> int:
    """An ISO 8601 instant with an offset [us since the epoch]; ValueError where it is none."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset: write it in UTC, ending in Z")
    return round(instant.timestamp() * 1_000_000)


@contextmanager
def opened(path: str, stdin: BinaryIO) -> Iterator[tuple[BinaryIO, str]]:
    """The file, or standard input spooled to a temporary file so that it can be read twice."""
    if path != "-":
        with Path(path).open("rb") as file:
            yield file, path
        return
    with tempfile.TemporaryFile() as spool:
        while chunk := stdin.read(1 << 20):
            spool.write(chunk)
        spool.seek(0)
        yield spool, "<stdin>"


def read_messages(file: BinaryIO, name: str) -> Iterator[RawMessage]:
    """Messages in order of reception; lines of one instant keep the order of the file.

    Raises
    ------
    RecordingError
        A line is not JSON or not a message; nothing after it is read.
    """
    stamps, offsets, numbers = _index(file, name)
    order = np.argsort(stamps, kind="stable")
    in_order = bool(np.all(order == np.arange(len(order))))
    file.seek(0)
    for row in order:
        if not in_order or row == 0:
            file.seek(int(offsets[row]))
        line = file.readline()
        while in_order and not line.strip():
            line = file.readline()
        yield _parse_message(line, int(stamps[row]), f"{name}:{numbers[row]}")


def _index(file: BinaryIO, name: str) -> tuple[np.ndarray[Any, Any], list[int], list[int]]:
    stamps: list[int] = []
    offsets: list[int] = []
    numbers: list[int] = []
    offset = 0
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                stamps.append(parse_instant(_stamp.decode(line).received_at))
            except (msgspec.DecodeError, ValueError) as error:
                raise RecordingError(f"{name}:{number}: received_at: {error}") from None
            offsets.append(offset)
            numbers.append(number)
        offset += len(line)
    return np.array(stamps, dtype=np.int64), offsets, numbers


def parse_message(line: bytes, where: str) -> RawMessage:
    """One line of a message file; ``where`` stands in errors.

    Raises
    ------
    RecordingError
    """
    try:
        received_us = parse_instant(_stamp.decode(line).received_at)
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise RecordingError(f"{where}: received_at: {error}") from None
    return _parse_message(line, received_us, where)


def _parse_message(line: bytes, received_us: int, where: str) -> RawMessage:
    try:
        parsed = _message.decode(line)
        payload = _payload(parsed)
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordingError(f"{where}: {error}") from None
    return RawMessage(
        topic=parsed.topic,
        payload=payload,
        received_us=received_us,
        retain=parsed.retain,
        dup=parsed.dup,
        size=parsed.size,
        sha256=parsed.sha256,
    )


def _payload(line: _MessageLine) -> bytes:
    if line.payload_hex is not msgspec.UNSET and line.payload is not msgspec.UNSET:
        raise ValueError("both payload and payload_hex: give one of them")
    if isinstance(line.payload_hex, str):
        return bytes.fromhex(line.payload_hex)
    if not isinstance(line.payload, msgspec.Raw):
        raise ValueError("neither payload nor payload_hex")
    raw = bytes(line.payload)
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw


def read_events(file: BinaryIO, name: str) -> list[Event]:
    """Events in order of ``at``.

    Raises
    ------
    RecordingError
        A line is not JSON, or lacks ``at`` or ``type``.
    """
    events = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            at_us = parse_instant(str(fields.pop("at", "")))
        except (msgspec.DecodeError, ValueError) as error:
            raise RecordingError(f"{where}: at: {error}") from None
        kind = fields.pop("type", None)
        if not isinstance(kind, str):
            raise RecordingError(
                f"{where}: type: missing; one of manifest, core_sample, frequency_decision, order_answer"
            )
        events.append(Event(at_us, kind, fields, where))
    return sorted(events, key=lambda event: event.at_us)


def merged(messages: Iterator[RawMessage], events: list[Event]) -> Iterator[RawMessage | Event]:
    """Both streams in order of time; an event comes before a message of the same instant."""

    def order(one: RawMessage | Event) -> tuple[int, int]:
        return (one.received_us, 1) if isinstance(one, RawMessage) else (one.at_us, 0)

    streams: tuple[Iterable[RawMessage | Event], ...] = (events, messages)
    return heapq.merge(*streams, key=order)


def instant_text(us: int) -> str:
    """An instant as ISO 8601 in UTC, to the microsecond where it has one."""
    seconds, micros = divmod(us, 1_000_000)
    text = datetime.fromtimestamp(seconds, tz=_UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{micros:06d}Z" if micros else f"{text}Z"


def write_message(file: IO[bytes], message: RawMessage) -> None:
    """One message as a line of a message file."""
    line: dict[str, Any] = {"received_at": instant_text(message.received_us), "topic": message.topic}
    try:
        line["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        line["payload_hex"] = message.payload.hex()
    if message.retain:
        line["retain"] = True
    if message.dup:
        line["dup"] = True
    if message.size:
        line |= {"size": message.size, "sha256": message.sha256}
    file.write(msgspec.json.encode(line) + b"\n")


def write_event(file: IO[bytes], event: Event) -> None:
    """One event as a line of an event file."""
    file.write(
        msgspec.json.encode({"at": instant_text(event.at_us), "type": event.type, **event.fields}) + b"\n"
    )
