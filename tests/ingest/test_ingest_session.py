"""The MQTT session against real brokers: versions, windows, acknowledgement, pings, reasons."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest

from ingest.broker import BrokerError, EmbeddedBroker, User
from ingest.message import RawMessage
from ingest.session import MqttSettings, Session
from ingest.told import Window

TOPIC = "quarterline/v1/d-1/readings"


def until(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


@pytest.fixture
def session() -> Iterator[Callable[..., Session]]:
    opened: list[Session] = []

    def make(port: int, *, wait: bool = True, **fields: object) -> Session:
        settings = MqttSettings(port=port, **{"client_id": "t", "keepalive_s": 5, **fields})
        one = Session(settings, time.time, chance=random.Random(1))
        opened.append(one)
        one.start()
        if wait:
            until(lambda: one.ready()[0], "connected")
        return one

    yield make
    for one in opened:
        one.stop()


def publish(port: int, *payloads: bytes, topic: str = TOPIC, qos: int = 1, retain: bool = False) -> None:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for info in [client.publish(topic, payload, qos=qos, retain=retain) for payload in payloads]:
        info.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def collect(session: Session, count: int, *, done: bool = True, limit_s: float = 30.0) -> list[RawMessage]:
    found: list[RawMessage] = []
    end = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < end:
        window = session.next(0.1)
        if window is not None:
            found += window.messages
            if done:
                session.done(window)
    return found


@pytest.fixture
def embedded(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "broker", free_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.mosquitto
def test_mqtt_5_with_at_most_a_window_unacknowledged(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker(["max_inflight_messages 1000"]).port  # type: ignore[attr-defined]
    one = session(port, window=8)
    assert one.status().protocol == "5"
    publish(port, *(b"%d" % n for n in range(30)))
    windows: list[Window] = []
    until(lambda: _take(one, windows) >= 8, "a window")
    until(lambda: one.status().received == 8, "no more than the window")
    for window in windows:
        one.done(window)
    rest = collect(one, 22)
    assert [m.payload for w in windows for m in w.messages] + [m.payload for m in rest] == [
        b"%d" % n for n in range(30)
    ]
    until(lambda: one.status().acknowledged == 30, "all acknowledged")


def _take(one: Session, windows: list[Window]) -> int:
    window = one.next(0.05)
    if window is not None and window.messages:
        windows.append(window)
    return sum(len(w.messages) for w in windows)


def test_the_embedded_broker_gets_3_1_1(embedded: EmbeddedBroker, session: Callable[..., Session]) -> None:
    one = session(embedded.port)
    assert one.status().protocol == "3.1.1"
    assert one.ready() == (True, f"connected to 127.0.0.1:{embedded.port}")
    publish(embedded.port, b"a", b"")
    assert [m.payload for m in collect(one, 2)] == [b"a", b""]


@pytest.mark.mosquitto
def test_what_was_not_acknowledged_comes_again(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker(["persistence true"]).port  # type: ignore[attr-defined]
    one = session(port)
    publish(port, b"0", b"1")
    assert len(collect(one, 2)) == 2
    publish(port, b"2", b"3")
    assert len(collect(one, 2, done=False)) == 2
    until(lambda: one.status().acknowledged == 2, "the first two")
    one.stop()
    again = collect(session(port), 2)
    assert [(m.payload, m.dup) for m in again] == [(b"2", True), (b"3", True)]


@pytest.mark.mosquitto
def test_messages_of_an_absence_are_kept(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port  # type: ignore[attr-defined]
    session(port).stop()
    publish(port, b"meanwhile")
    one = session(port)
    assert one.status().session_present
    assert [m.payload for m in collect(one, 1)] == [b"meanwhile"]


@pytest.mark.mosquitto
def test_pings_go_on_while_nobody_commits_and_nothing_more_is_taken_in(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port  # type: ignore[attr-defined]
    one = session(port, keepalive_s=2, window=4)
    publish(port, b"x")
    held = collect(one, 1, done=False)
    # QoS 0 knows no window: the reader itself must stop at four windows here, and four parts handed over
    flood = [b"%020000d" % n for n in range(100)]
    publish(port, *flood, qos=0)
    until(lambda: one.pending() >= 16, "full")
    quiet_until = time.monotonic() + 5  # the broker hangs up after one and a half keep-alives of silence
    while time.monotonic() < quiet_until:
        assert one.ready()[0]
        assert one.pending() < 40
        time.sleep(0.1)
    found = held + collect(one, 100)
    assert [m.payload for m in found] == [b"x", *flood]
    assert one.status().session_present is False  # still the first connection


def test_a_broker_that_comes_back(embedded: EmbeddedBroker, session: Callable[..., Session]) -> None:
    one = session(embedded.port)
    publish(embedded.port, b"a")
    held = one.next(10)
    while held is not None and not held.messages:
        held = one.next(10)
    assert held is not None
    embedded.stop()
    until(lambda: "lost the connection" in one.ready()[1] or "cannot reach" in one.ready()[1], "noticed")
    embedded.start()
    until(lambda: one.ready()[0], "connected again")
    (again,) = collect(one, 1, done=False)
    assert (again.payload, again.dup) == (b"a", True)
    one.done(held)  # its packet identifier belongs to the connection before
    until(lambda: one.status().waiting == 1, "the first is committed")
    assert one.status().acknowledged == 0
    one.done(Window((again,), 0))
    until(lambda: one.status().acknowledged == 1, "acknowledged on its own connection")
    assert one.status().waiting == 0
    one.stop()
    publish(embedded.port, b"b")
    assert [m.payload for m in collect(session(embedded.port), 1)] == [b"b"]


@pytest.mark.mosquitto
def test_a_broker_that_forgot_the_session_is_told(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    broker = mosquitto_broker()
    one = session(broker.port)  # type: ignore[attr-defined]
    broker.kill()  # type: ignore[attr-defined]
    until(lambda: not one.ready()[0], "noticed")
    broker.start()  # type: ignore[attr-defined]
    until(lambda: one.ready()[0], "connected again")
    assert one.status().sessions_lost == 1


@pytest.mark.mosquitto
def test_retained_is_marked_and_receipt_times_never_go_back(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port  # type: ignore[attr-defined]
    publish(port, b"old", retain=True)
    one = session(port)
    publish(port, b"live", b"0" * 200_000)
    publish(port, b"unsure", qos=0)
    found = collect(one, 4)
    assert [(m.payload[:6], m.retain) for m in found] == [
        (b"old", True),
        (b"live", False),
        (b"000000", False),
        (b"unsure", False),
    ]
    times = [m.received_us for m in found]
    assert times == sorted(times)


@pytest.mark.mosquitto
def test_a_wrong_password_is_named(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session], tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "me", "right"], check=True)
    passwords.chmod(0o644)
    port = mosquitto_broker(["allow_anonymous false", f"password_file {passwords}"]).port  # type: ignore[attr-defined]
    wrong = session(port, wait=False, username="me", password="wrong")
    until(lambda: "check mqtt.username and the password" in wrong.ready()[1], "the reason")
    wrong.stop()
    assert session(port, username="me", password="right").ready()[0]


@pytest.mark.mosquitto
def test_tls_with_a_ca_file(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session], certificates: Path
) -> None:
    lines = [f"certfile {certificates}/server.pem", f"keyfile {certificates}/server.key"]
    port = mosquitto_broker(lines).port  # type: ignore[attr-defined]
    good = session(port, host="localhost", tls=True, ca_file=certificates / "ca.pem")
    assert good.status().protocol == "5"
    good.stop()
    bad = session(port, wait=False, host="localhost", tls=True)
    until(lambda: "check mqtt.ca_file" in bad.ready()[1], "the reason")


def test_a_missing_broker_is_named_and_found_when_it_comes(
    tmp_path: Path, free_port: Callable[[], int], session: Callable[..., Session]
) -> None:
    port = free_port()
    one = session(port, wait=False)
    until(lambda: f"cannot reach 127.0.0.1:{port}" in one.ready()[1], "the reason")
    window = one.next(5)
    assert window is not None
    assert window.messages == ()  # the clock goes on meanwhile
    broker = EmbeddedBroker(tmp_path / "broker", port)
    broker.start()
    until(lambda: one.ready()[0], "connected")
    one.stop()
    broker.stop()


@pytest.mark.mosquitto
def test_two_clients_of_one_id_are_told(
    mosquitto_broker: Callable[..., object], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port  # type: ignore[attr-defined]
    first = session(port)
    second = session(port, wait=False)
    until(
        lambda: any("client id 't' seems to be in use" in one.ready()[1] for one in (first, second)),
        "the reason",
    )


# ---- brokers that are none ---------------------------------------------------------------------------

WELCOME = b"\x20\x02\x00\x00"  # CONNACK of MQTT 3.1.1
SUBSCRIBED = b"\x90\x06\x00\x01\x01\x01\x01\x01"  # SUBACK of packet 1: QoS 1, four times


@pytest.fixture
def scripted() -> Iterator[Callable[[bytes], int]]:
    """A server that answers whatever comes first with the given bytes, and then listens on in silence."""
    listeners: list[socket.socket] = []

    def serve(listener: socket.socket, answer: bytes) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(answer)
                while peer.recv(4096):
                    pass

    def start(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for one in listeners:
        one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (SUBSCRIBED, "no sign of life for 1 s"),
        (SUBSCRIBED + b"\x32\xff\xff\xff\xff", "a length of more than four bytes"),
        (SUBSCRIBED + b"\x34\x05\x00\x01a\x00\x07", "at QoS 2"),
        (SUBSCRIBED + b"\x32\x03\x00\x09a", "cut short"),
        (b"\x90\x06\x00\x01\x01\x80\x01\x01", "refused the subscription of quarterline/v1/+/status"),
    ],
)
def test_what_a_broker_must_not_do_is_named(
    scripted: Callable[[bytes], int], session: Callable[..., Session], after: bytes, reason: str
) -> None:
    one = session(scripted(WELCOME + after), wait=False, version="3.1.1", keepalive_s=1)
    until(lambda: reason in one.ready()[1], reason)
    assert not one.ready()[0]


# ---- the embedded broker -----------------------------------------------------------------------------


def test_a_taken_port_is_named(tmp_path: Path, embedded: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match=f"127.0.0.1:{embedded.port}.*choose another"):
        EmbeddedBroker(tmp_path / "other", embedded.port).start()


@pytest.mark.parametrize("how", ["its starter is killed", "its watcher is killed"])
def test_it_ends_with_whoever_started_it(tmp_path: Path, free_port: Callable[[], int], how: str) -> None:
    port = free_port()
    program = (
        "import sys, pathlib\nfrom ingest.broker import EmbeddedBroker\n"
        f"broker = EmbeddedBroker(pathlib.Path({str(tmp_path / 'b')!r}), {port})\n"
        "broker.start()\nprint(broker.pid, flush=True)\nsys.stdin.read()\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with starter:
        assert starter.stdout is not None
        watcher = int(starter.stdout.readline())
        assert listens(port)
        os.kill(starter.pid if "starter" in how else watcher, signal.SIGKILL)
        until(lambda: not listens(port), "the end of the broker")
        starter.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_queue_survives_the_brokers_end(
    embedded: EmbeddedBroker, session: Callable[..., Session]
) -> None:
    session(embedded.port).stop()
    publish(embedded.port, b"kept")
    embedded.stop()
    embedded.start()
    assert [m.payload for m in collect(session(embedded.port), 1)] == [b"kept"]


def test_a_user_publishes_only_what_it_may(
    tmp_path: Path, free_port: Callable[[], int], session: Callable[..., Session]
) -> None:
    users = [User("service", "s"), User("d-1", "d", publish=("quarterline/v1/d-1/#",), subscribe=("none",))]
    broker = EmbeddedBroker(tmp_path / "broker", free_port(), users=users)
    broker.start()
    one = session(broker.port, username="service", password="s")
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="d-1")
    client.username_pw_set("d-1", "d")
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.publish("quarterline/v1/d-2/readings", b"not mine", qos=1)
    client.publish(TOPIC, b"mine", qos=1).wait_for_publish(10)
    assert [m.payload for m in collect(one, 1)] == [b"mine"]
    client.disconnect()
    client.loop_stop()
    one.stop()
    broker.stop()
