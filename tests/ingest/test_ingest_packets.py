"""The hot path's own packets, held against paho's reading and writing of the same bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ingest.packets import Malformed, Published, acknowledgements, length_at, read_publish
from ingest.wire import Wire

topics = st.text(st.characters(codec="utf-8", exclude_characters="\x00+#"), min_size=1, max_size=40)


class Recorder:
    """The wire's other side, without a network: gives what was put in, in pieces, keeps what is sent."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.sent = b""

    def recv(self, _size: int) -> bytes:
        if not self.pieces:
            raise BlockingIOError
        return self.pieces.pop(0)

    def send(self, data: bytes) -> int:
        self.sent += data[:3]  # a network that takes little at a time
        return min(len(data), 3)


class Sink:
    """A socket for paho that keeps what it sends."""

    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def close(self) -> None: ...


@contextmanager
def paho_client(version: Any = paho.MQTTv311) -> Iterator[tuple[paho.Client, Sink]]:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=version, manual_ack=True)
    sink = Sink()
    client._sock = sink
    yield client, sink
    client._sock = None


def from_paho(version: Any, topic: str, payload: bytes, qos: int, retain: bool, user: str | None) -> bytes:
    """The PUBLISH that paho sends."""
    properties = None
    if version == paho.MQTTv5 and user is not None:
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = ("who", user)
        properties.MessageExpiryInterval = 60
    with paho_client(version) as (client, sink):
        client.publish(topic, payload, qos, retain, properties)
    return sink.sent


@given(
    st.sampled_from([paho.MQTTv311, paho.MQTTv5]),
    topics,
    st.binary(max_size=400),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=200)),
    st.data(),
)
def test_what_paho_sends_is_read_however_it_is_cut(
    version: Any, topic: str, payload: bytes, qos: int, retain: bool, user: str | None, data: st.DataObject
) -> None:
    packet = from_paho(version, topic, payload, qos, retain, user)
    stream = packet + b"\xd0\x00" + packet  # a PINGRESP between them
    cuts = sorted(data.draw(st.lists(st.integers(1, len(stream) - 1), max_size=6, unique=True)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    wire = Wire(Recorder(pieces))
    found: list[Published] = []
    pings = 0
    while wire.fill():
        found += [
            read_publish(first, body, mqtt_5=version == paho.MQTTv5) for first, body in wire.publishes()
        ]
        if wire.other():
            assert wire.recv(2) == b"\xd0\x00"
            pings += 1
            found += [
                read_publish(first, body, mqtt_5=version == paho.MQTTv5) for first, body in wire.publishes()
            ]
    assert pings == 1
    assert found == [Published(topic, payload, 1 if qos else 0, qos, retain, False)] * 2


@given(st.lists(st.integers(1, 65_535), max_size=50))
def test_acknowledgements_are_those_of_paho(mids: list[int]) -> None:
    with paho_client() as (client, sink):
        for mid in mids:
            client.ack(mid, 1)
    expected = sink.sent
    assert acknowledgements(mids) == expected
    recorder = Recorder([])
    Wire(recorder).send(expected)
    assert recorder.sent == expected


@given(st.integers(0, 255), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_a_message_or_malformed(first: int, body: bytes, mqtt_5: bool) -> None:
    try:
        found = read_publish(first, body, mqtt_5=mqtt_5)
    except Malformed:
        return
    assert found.qos in (0, 1)
    assert found.topic
    assert len(found.payload) < len(body)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
def test_a_wire_never_loses_count_of_any_bytes(pieces: list[bytes]) -> None:
    wire = Wire(Recorder(list(pieces)))
    seen = 0
    try:
        while wire.fill():
            seen += sum(1 + _width(len(body)) + len(body) for _, body in wire.publishes())
            while wire.other():
                length = length_at(bytes(wire._ahead), 1)
                assert length is not None
                seen += len(wire.recv(sum(length)))
                seen += sum(1 + _width(len(body)) + len(body) for _, body in wire.publishes())
    except Malformed:
        return
    assert seen + len(wire._ahead) == sum(map(len, pieces))


def _width(length: int) -> int:
    return 1 if length < 128 else 2


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x00", (0, 1)),
        (b"\x7f", (127, 1)),
        (b"\x80\x01", (128, 2)),
        (b"\xff\xff\xff\x7f", (268_435_455, 4)),  # MQTT 3.1.1 table 2.4: the largest
        (b"\x80", None),
        (b"", None),
        (b"\x80\x80\x80", None),
    ],
)
def test_lengths(data: bytes, found: tuple[int, int] | None) -> None:
    assert length_at(data, 0) == found


def test_a_length_without_an_end() -> None:
    with pytest.raises(Malformed, match="four bytes"):
        length_at(b"\x80\x80\x80\x80", 0)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    yield left, right
    left.close()
    right.close()


def test_the_end_of_the_stream_is_said(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    wire = Wire(left)
    assert wire.fill() == 0
    right.close()
    with pytest.raises(ConnectionError, match="closed by the broker"):
        wire.fill()


def test_what_the_network_does_not_take_is_sent_later_in_order(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    wire = Wire(left)
    parts = [bytes([n]) * 100_000 for n in range(20)]
    for part in parts:
        assert wire.send(part) == len(part)
    assert wire.unsent > 0
    got = b""
    while len(got) < 2_000_000:
        got += right.recv(65_536)
        wire.flush()
    assert got == b"".join(parts)
    assert wire.unsent == 0
