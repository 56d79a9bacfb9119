"""Field reports of section A that the session, the decoder and the store answer; docs/field_reports.md lists all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sessions import TOPIC, Sessions, collect, publish, until

from ingest import decode
from ingest.broker import EmbeddedBroker
from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store import open_store
from store.ports import Store
from store.records import Sensor

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.fixture
def session() -> Iterator[Sessions]:
    made = Sessions()
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "store", durable=False)
    yield one
    one.close()


@pytest.fixture
def decoder(profiles: dict[str, DeviceProfile]) -> Decoder:
    return Decoder({name: Sensor(name, "gi-1") for name in ("d-1", "d-2")}, profiles)


def said(payload: bytes, topic: str = TOPIC, *, at_us: int = NOW_US, **kinds: bool) -> RawMessage:
    return RawMessage(topic, payload, at_us, **kinds)


def counts(store: Store) -> tuple[int, int, int, int]:
    now = store.history.totals()
    assert now.received == now.stored + now.duplicate + now.quarantined + now.retained + now.heartbeat
    return now.stored, now.duplicate, now.quarantined, now.retained


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def broker(request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Any]:
    if request.param == "mosquitto":
        yield request.getfixturevalue("mosquitto_broker")(["persistence true"])
        return
    one = EmbeddedBroker(tmp_path / "broker", free_port())
    one.start()
    yield one
    one.stop()


def test_L5_the_broker_restarts_and_both_readings_come(broker: Any, session: Sessions) -> None:
    one = session(broker.port)
    publish(broker.port, b"n=1")
    assert collect(one, 1) == [b"n=1"]
    broker.stop()
    until(lambda: not one.ready()[0], "noticed, and said")
    broker.start()
    publish(broker.port, b"n=2")
    assert collect(one, 1, 60) == [b"n=2"]
    assert one.status().connections == 2


def test_L7_an_error_over_one_device_stops_no_other(
    decoder: Decoder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = decode.native.read

    def faulty(document: Any, table: Any) -> Any:
        if document.get("tank_c") == 13:
            raise KeyError("a fault of ours")
        return read(document, table)

    monkeypatch.setattr(decode.native, "read", faulty)
    window = decoder.decode(
        [
            said(b'{"tank_c": 1, "seq": 1}'),
            said(b'[{"tank_c": 2, "seq": 2}, {"tank_c": 13, "seq": 3}]', "quarterline/v1/d-2/readings"),
            said(b'{"tank_c": 4, "seq": 4}'),
            said(b'{"tank_c": 13}', "quarterline/v1/d-2/readings"),
        ]
    )
    assert [item.seq for item in window.items] == [1, 4]
    assert [(one.reason, one.sensor) for one in window.quarantined] == [("fault", "d-2")] * 2
    assert "KeyError: 'a fault of ours'" in window.quarantined[0].detail
    store.history.commit(window)
    assert counts(store) == (2, 0, 2, 0)


@pytest.mark.mosquitto
def test_L13_what_waits_for_an_absent_member_of_a_shared_subscription_is_not_lost(
    mosquitto_broker: Callable[..., Any], session: Sessions
) -> None:
    port = mosquitto_broker().port
    shared = ("$share/group/quarterline/v1/+/readings",)
    first = session(port, client_id="member-1", subscriptions=shared)
    session(port, client_id="member-2", subscriptions=shared).stop()
    publish(port, *(b"%d" % n for n in range(100)))
    found: list[bytes] = []
    until(lambda: found.extend(collect(first, 1, 0.2)) or len(found) >= 1, "some for the first")  # type: ignore[func-returns-value]
    again = session(port, client_id="member-2", subscriptions=shared)
    end = time.monotonic() + 30
    while len(found) < 100 and time.monotonic() < end:
        found += collect(first, 1, 0.1) + collect(again, 1, 0.1)
    assert sorted(found, key=int) == [b"%d" % n for n in range(100)]


def test_L14_the_dup_flag_alone_makes_no_duplicate(decoder: Decoder, store: Store) -> None:
    body = b'{"time": "2026-03-01T11:59:00Z", "surface_mm": 1000}'
    store.history.commit(decoder.decode([said(body, dup=True)]))
    assert counts(store) == (1, 0, 0, 0)
    store.history.commit(decoder.decode([said(body, dup=True)]))
    assert counts(store) == (1, 1, 0, 0)


class Listener:
    """A broker that delivers what it is told and writes down the acknowledgements in their order."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._peer: socket.socket | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        self._peer, _ = self._listener.accept()
        self._peer.recv(4096)
        self._peer.sendall(b"\x20\x02\x00\x00" + b"\x90\x06\x00\x01\x01\x01\x01\x01")
        rest = b""
        while data := self._peer.recv(4096):
            rest += data
            while len(rest) >= 2 and len(rest) >= 2 + rest[1]:  # all that comes now is short
                if rest[0] == 0x40:
                    self.acknowledged.append(int.from_bytes(rest[2:4], "big"))
                rest = rest[2 + rest[1] :]

    def deliver(self, *mids: int) -> None:
        assert self._peer is not None
        for mid in mids:
            body = len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + mid.to_bytes(2, "big") + b"x"
            self._peer.sendall(b"\x32" + bytes([len(body)]) + body)

    def close(self) -> None:
        for one in (self._listener, self._peer):
            if one is not None:
                one.close()


def test_L16_no_acknowledgement_leaves_before_those_of_what_came_earlier(session: Sessions) -> None:
    listener = Listener()
    one = session(listener.port, version="3.1.1", window=8, keepalive_s=60)
    windows = []
    for mids in ((11, 12), (7, 13), (5,)):
        listener.deliver(*mids)
        count = 0
        end = time.monotonic() + 20
        while count < len(mids) and time.monotonic() < end:
            window = one.next(0.1)
            if window is not None and window.messages:
                windows.append(window)
                count += len(window.messages)
    for window in reversed(windows[1:]):  # the later ones are committed first
        one.done(window)
    quiet_until = time.monotonic() + 0.5
    while time.monotonic() < quiet_until:
        assert listener.acknowledged == []
        time.sleep(0.05)
    one.done(windows[0])
    until(lambda: len(listener.acknowledged) == 5, "all of them")
    assert listener.acknowledged == [11, 12, 7, 13, 5]
    one.stop()
    listener.close()


@pytest.mark.slow
@pytest.mark.mosquitto
def test_L20_ten_thousand_retained_messages_cost_one_connection_and_come_once(
    mosquitto_broker: Callable[..., Any], session: Sessions, decoder: Decoder, store: Store
) -> None:
    port = mosquitto_broker(["max_queued_messages 0"]).port
    _retain(port, 10_000)
    one = session(port)
    publish(port, b'{"surface_mm": 1000}')
    end = time.monotonic() + 60
    while store.history.totals().stored < 1 and time.monotonic() < end:
        window = one.next(0.1)
        if window is not None and window.messages:
            store.history.commit(decoder.decode(window.messages))
            one.done(window)
    assert counts(store) == (1, 0, 0, 10_000)
    assert one.status().connections == 1
    assert store.history.contacts().keys() == {"d-1"}
    until(lambda: one.status().acknowledged == 10_001, "all acknowledged")
    one.reconnect()
    until(lambda: one.status().connections == 2, "a second connection")
    publish(port, b"live")
    assert collect(one, 1) == [b"live"]  # MQTT 5: what is retained came once for this session


def _retain(port: int, count: int) -> None:
    import paho.mqtt.client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    infos = [
        client.publish(f"quarterline/v1/r-{n}/readings", b'{"surface_mm": 1}', qos=1, retain=True)
        for n in range(count)
    ]
    for info in infos:
        info.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def test_L21_a_retained_value_is_no_reading_however_often_the_service_starts(
    broker: Any, session: Sessions, decoder: Decoder, store: Store
) -> None:
    publish(broker.port, b'{"surface_mm": 950}', retain=True)
    for _ in range(3):
        one = session(broker.port)
        publish(broker.port, b"{}")  # comes after what is retained
        seen = False
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            window = one.next(0.1)
            if window is not None and window.messages:
                store.history.commit(decoder.decode([m for m in window.messages if m.payload != b"{}"]))
                one.done(window)
                seen = any(message.payload == b"{}" for message in window.messages)
        assert seen
        one.stop()
    stored, duplicate, quarantined, retained = counts(store)
    assert (stored, duplicate, quarantined) == (0, 0, 0)
    assert retained >= 1
    assert store.history.contacts() == {}


def test_L22_a_will_is_connectivity_and_never_a_reading_or_a_sign_of_life(
    decoder: Decoder, store: Store
) -> None:
    status = "quarterline/v1/d-1/status"
    window = decoder.decode(
        [
            said(b"Online", status, retain=True),
            said(b"OFFLINE", "quarterline/v1/d-2/status"),
            said(b"Online", "tele/d-1/LWT"),
            said(b"Online", "lights/d-1/LWT"),
        ]
    )
    store.history.commit(window)
    assert store.history.connectivity() == {"d-1": (True, NOW_US), "d-2": (False, NOW_US)}
    assert store.history.contacts() == {}  # neither: a gateway or a dead sensor's will says nothing of it
    assert [one.reason for one in window.quarantined] == ["topic"]
    assert store.history.last(["d-1", "d-2"]) == {}


@pytest.mark.parametrize(
    "topic",
    [
        "/quarterline/v1/d-1/readings",
        "quarterline//v1/d-1/readings",
        "quarterline/v1//d-1/readings",
        "quarterline/v1/d-1/readings/",
        "quarterline/v1/d-1//readings",
        "quarterline/v1//readings",
        "quarterline/v1/d\u00e9 1/readings",
        "quarterline/v1/d-1 /readings",
        "quarterline/v1/d-1",
        "application/1/device//event/up",
        "v3//devices/d-1/up",
    ],
)
def test_L25_an_odd_topic_is_nobodys_reading(decoder: Decoder, topic: str) -> None:
    window = decoder.decode([said(b'{"surface_mm": 1000}', topic)])
    assert window.items == ()
    (found,) = window.quarantined
    assert found.topic == topic
    assert found.sensor != "d-1"
    assert window.contacts == ()
