"""What the session does about a broker that forgets, stalls, hears another of our name, or changes its keys."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest

from ingest.backoff import Backoff
from ingest.broker import EmbeddedBroker
from ingest.session import MqttSettings, Notice, Remembered, Session

TOPIC = "quarterline/v1/d-1/readings"


def until(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


@pytest.fixture
def session() -> Iterator[Callable[..., Session]]:
    opened: list[Session] = []

    def make(port: int, *, wait: bool = True, **fields: Any) -> Session:
        told = {
            name: fields.pop(name) for name in ("remembered", "silent_after_s", "clock") if name in fields
        }
        clock = told.pop("clock", time.time)
        settings = MqttSettings(port=port, **{"client_id": "t", "keepalive_s": 5, **fields})
        opened.append(Session(settings, clock, chance=random.Random(1), **told))
        opened[-1].start()
        if wait:
            until(lambda: opened[-1].ready()[0], "connected")
        return opened[-1]

    yield make
    for one in opened:
        one.stop()


def publish(port: int, *payloads: bytes, topic: str = TOPIC, retain: bool = False) -> None:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for info in [client.publish(topic, payload, qos=1, retain=retain) for payload in payloads]:
        info.wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


def collect(session: Session, count: int, limit_s: float = 30.0) -> list[bytes]:
    found: list[bytes] = []
    end = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < end:
        window = session.next(0.1)
        if window is not None:
            found += [one.payload for one in window.messages]
            session.done(window)
    return found


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def broker(request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Any]:
    """A broker that keeps sessions over a restart."""
    if request.param == "mosquitto":
        yield request.getfixturevalue("mosquitto_broker")(["persistence true"])
        return
    one = EmbeddedBroker(tmp_path / "broker", free_port())
    one.start()
    yield one
    one.stop()


# ---- subscriptions of a kept session -----------------------------------------------------------------


def test_a_topic_taken_out_of_the_configuration_no_longer_comes(
    broker: Any, session: Callable[..., Session]
) -> None:
    both = ("a/+/readings", "b/+/readings")
    first = session(broker.port, subscriptions=both)
    until(lambda: bool(first.notices()), "settled")
    first.stop()
    second = session(broker.port, subscriptions=both[:1], remembered=Remembered(both, True))
    told: list[Notice] = []
    until(lambda: told.extend(second.notices()) or bool(told), "settled")  # type: ignore[func-returns-value]
    assert [(one.kind, one.topics) for one in told] == [("settled", both[:1])]
    publish(broker.port, b"gone", topic="b/1/readings")
    publish(broker.port, b"kept", topic="a/1/readings")
    assert collect(second, 1) == [b"kept"]
    second.stop()
    publish(broker.port, b"gone too", topic="b/1/readings")
    publish(broker.port, b"kept too", topic="a/1/readings")
    third = session(broker.port, subscriptions=both[:1])
    assert third.status().session_present
    assert collect(third, 1) == [b"kept too"]


# ---- a session the broker lost -----------------------------------------------------------------------


@pytest.mark.mosquitto
def test_a_lost_session_is_a_possible_loss_with_its_span(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session]
) -> None:
    broker = mosquitto_broker()  # without persistence
    one = session(broker.port)
    publish(broker.port, b"x")
    assert collect(one, 1) == [b"x"]
    before_us = int(time.time() * 1e6)
    broker.kill()
    until(lambda: not one.ready()[0], "noticed")
    broker.start()
    until(lambda: one.ready()[0], "connected again")
    lost = [notice for notice in one.notices() if notice.kind == "possible_loss"]
    assert len(lost) == 1
    assert before_us - 60_000_000 < lost[0].since_us <= lost[0].until_us <= int(time.time() * 1e6)
    assert "may be missing" in one.ready()[1]
    assert one.status().sessions_lost == 1


@pytest.mark.mosquitto
def test_a_session_lost_while_the_service_was_down_is_known_from_what_was_remembered(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port
    seen_us = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
    one = session(port, remembered=Remembered((), True, seen_us))
    until(lambda: one.status().sessions_lost == 1, "told")
    notice = next(notice for notice in one.notices() if notice.kind == "possible_loss")
    assert notice.since_us == seen_us
    assert "between 2026-03-01T12:00:00Z and " in notice.detail


def test_the_first_session_of_all_and_a_kept_one_are_no_loss(
    broker: Any, session: Callable[..., Session]
) -> None:
    session(broker.port).stop()
    again = session(broker.port, remembered=Remembered((), True, 1))
    broker.stop()
    until(lambda: not again.ready()[0], "noticed")
    broker.start()
    until(lambda: again.ready()[0], "connected again")
    assert again.status().sessions_lost == 0
    assert {notice.kind for notice in again.notices()} <= {"settled"}


# ---- a connection that is well, and nothing comes ----------------------------------------------------


class Mute:
    """A broker that welcomes, answers pings, and never delivers a message."""

    def __init__(self) -> None:
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._peers.append(peer)
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        peer.recv(4096)
        known = b"\x01" if self.connections > 1 else b"\x00"
        peer.sendall(
            b"\x20\x02" + known + b"\x00" + b"\x90\x06\x00\x01\x01\x01\x01\x01"
        )  # CONNACK, SUBACK of 3.1.1
        try:
            while data := peer.recv(4096):
                peer.sendall(b"\xd0\x00" * data.count(b"\xc0\x00"))
        except OSError:
            pass

    def deliver(self, payload: bytes) -> None:
        body = len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + payload
        self._peers[-1].sendall(b"\x30" + bytes([len(body)]) + body)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._peers):
            one.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    one = Mute()
    yield one
    one.close()


def test_a_silent_broker_is_told_and_tried_anew_once(mute: Mute, session: Callable[..., Session]) -> None:
    one = session(mute.port, version="3.1.1", keepalive_s=2, stall_s=1.0)
    until(lambda: mute.connections == 2, "a new connection")
    until(lambda: one.ready()[0], "connected anew")
    assert "no message has come for" in one.ready()[1]
    assert one.status().stalled
    told = one.notices()
    assert [notice.kind for notice in told].count("stalled") == 1
    quiet_until = time.monotonic() + 3.5  # three and a half times the limit: it must not go round in circles
    while time.monotonic() < quiet_until:
        assert one.ready()[0]
        time.sleep(0.05)
    assert mute.connections == 2
    mute.deliver(b"at last")
    assert collect(one, 1) == [b"at last"]
    assert not one.status().stalled
    assert one.ready()[1] == f"connected to 127.0.0.1:{mute.port}"


def test_a_store_that_holds_everything_up_is_no_stall(mute: Mute, session: Callable[..., Session]) -> None:
    one = session(mute.port, version="3.1.1", keepalive_s=2, silent_after_s=lambda: 1.0)
    mute.deliver(b"waits")
    held = one.next(5)
    while held is not None and not held.messages:
        held = one.next(5)
    assert held is not None
    quiet_until = time.monotonic() + 3
    while time.monotonic() < quiet_until:
        assert not one.status().stalled
        time.sleep(0.05)
    one.done(held)
    until(lambda: mute.connections == 2, "the silence counts once the message is committed")


# ---- another of our name -----------------------------------------------------------------------------


@pytest.mark.slow
def test_of_two_with_one_client_id_the_newcomer_steps_back(
    broker: Any, session: Callable[..., Session]
) -> None:
    first = session(broker.port, clock=time.time)
    settled = time.monotonic() + 10.5  # the first has a long connection to lose
    until(lambda: time.monotonic() > settled, "the first is settled")
    second = session(broker.port, wait=False)
    until(lambda: second.status().contested, "the newcomer steps back", 60)
    until(lambda: first.ready()[0], "the first is connected again")
    assert "client id 't' seems to be in use by another client" in second.ready()[1]
    assert "The next attempt is in" in second.ready()[1]
    connections = first.status().connections + second.status().connections
    quiet_until = time.monotonic() + 5
    while time.monotonic() < quiet_until:
        assert first.ready()[0]
        time.sleep(0.05)
    assert first.status().connections + second.status().connections == connections
    assert not first.status().contested
    publish(broker.port, b"still mine")
    assert b"still mine" in collect(first, 1)


def test_pauses_grow_and_a_contested_name_makes_them_long() -> None:
    backoff = Backoff(random.Random(0))
    missing = [backoff.after(welcomed=False, age_s=0.1, taken_over=False) for _ in range(9)]
    for pause, most in zip(missing, (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert most / 2 <= pause <= most
    assert backoff.after(welcomed=True, age_s=3600.0, taken_over=False) <= 1.0  # a good one came to its end
    lives = [backoff.after(welcomed=True, age_s=1.0, taken_over=False) for _ in range(5)]
    assert [pause >= 60 for pause in lives] == [False, False, False, True, True]
    assert backoff.contested
    assert lives[4] >= 120
    assert backoff.after(welcomed=True, age_s=11.0, taken_over=False) <= 1.0
    assert not backoff.contested
    assert (
        backoff.after(welcomed=True, age_s=60.0, taken_over=True) <= 2.0
    )  # whoever was there first comes back
    assert backoff.after(welcomed=True, age_s=1.0, taken_over=True) >= 60.0


# ---- passwords and certificates that change ----------------------------------------------------------


@pytest.mark.mosquitto
def test_a_password_changed_on_disk_is_used_at_the_next_connection(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session], tmp_path: Path
) -> None:
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "me", "new"], check=True)
    passwords.chmod(0o644)
    broker = mosquitto_broker(["allow_anonymous false", f"password_file {passwords}"])
    secret.write_text("old\n")
    one = session(broker.port, wait=False, username="me", password_file=secret)
    until(lambda: "check mqtt.username and the password" in one.ready()[1], "refused")
    secret.unlink()
    until(lambda: f"mqtt.password_file {secret} cannot be read" in one.ready()[1], "the reason")
    secret.write_text("new\n")
    until(lambda: one.ready()[0], "connected by the new password")


@pytest.mark.mosquitto
def test_told_to_connect_anew_it_does_so_at_once_and_loses_nothing(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session]
) -> None:
    port = mosquitto_broker().port
    one = session(port)
    one.reconnect()
    until(lambda: one.status().connections == 2, "a second connection")
    publish(port, b"x")
    assert collect(one, 1) == [b"x"]
    assert one.status().session_present
    assert one.status().sessions_lost == 0


@pytest.mark.mosquitto
def test_told_to_connect_anew_it_does_not_wait_for_the_end_of_its_pause(
    session: Callable[..., Session], free_port: Callable[[], int], mosquitto_broker: Callable[..., Any]
) -> None:
    port = free_port()
    one = session(port, wait=False)
    one._backoff._pause_s = 3600.0  # as after a long time without a broker
    until(lambda: "cannot reach" in one.ready()[1], "the reason")
    mosquitto_broker(port=port)
    one.reconnect()
    until(lambda: one.ready()[0], "connected")


@pytest.mark.mosquitto
def test_a_broker_may_ask_for_a_certificate_and_trust_may_change(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session], certificates: Path, tmp_path: Path
) -> None:
    lines = [
        f"certfile {certificates}/server.pem", f"keyfile {certificates}/server.key",
        f"cafile {certificates}/ca.pem", "require_certificate true",
    ]  # fmt: skip
    port = mosquitto_broker(lines).port
    trust = tmp_path / "trust.pem"
    trust.write_bytes(b"no certificate")
    keys = {"cert_file": certificates / "server.pem", "key_file": certificates / "server.key"}
    one = session(port, wait=False, host="localhost", tls=True, ca_file=trust, **keys)
    until(lambda: f"mqtt.ca_file {trust} cannot be used" in one.ready()[1], "the reason")
    trust.write_bytes((certificates / "ca.pem").read_bytes())
    until(lambda: one.ready()[0], "connected by the renewed file")
    one.stop()
    without = session(port, wait=False, host="localhost", tls=True, ca_file=trust)
    until(lambda: "mqtt.cert_file where it asks for one" in without.ready()[1], "the reason")


# ---- names and addresses -----------------------------------------------------------------------------


def test_a_name_that_nobody_knows_is_tried_for_ever_and_the_clock_goes_on(
    session: Callable[..., Session],
) -> None:
    one = session(1883, wait=False, host="broker.invalid")  # RFC 6761: never resolves
    until(lambda: "the name 'broker.invalid' cannot be resolved" in one.ready()[1], "the reason", 60)
    assert "check mqtt.host and this machine's DNS" in one.ready()[1]
    first, later = one.next(5), one.next(5)
    assert first is not None
    assert later is not None
    assert later.watermark_us > first.watermark_us


def test_while_a_connection_is_being_made_the_clock_goes_on_and_it_can_stop(
    session: Callable[..., Session],
) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1)  # takes connections, and never answers TLS
    try:
        one = session(listener.getsockname()[1], wait=False, host="127.0.0.1", tls=True)
        marks = []
        until(lambda: bool(marks.append(one.next(5)) or len(marks) >= 20), "twenty windows", 4)  # type: ignore[func-returns-value]
        times = [mark.watermark_us for mark in marks if mark is not None]
        assert times == sorted(times)
        assert len(set(times)) > 10
        one.stop()
        assert not one._thread.is_alive()
    finally:
        listener.close()


# ---- threads and huge messages -----------------------------------------------------------------------


# the point of it: an error that ends a thread
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_ended_is_told(session: Callable[..., Session], broker: Any) -> None:
    broken = threading.Event()

    def clock() -> float:
        if broken.is_set():
            raise SystemExit  # what no handler of errors catches
        return time.time()

    one = session(broker.port, clock=clock)
    broken.set()
    until(lambda: not one.ready()[0], "noticed", 10)
    assert one.ready()[1] == "the thread that reads the network has ended: restart the service"


@pytest.mark.mosquitto
def test_of_a_huge_message_the_head_the_size_and_the_hash_are_kept(
    mosquitto_broker: Callable[..., Any], session: Callable[..., Session]
) -> None:
    broker = mosquitto_broker()  # the embedded broker takes nothing above 1 MiB
    huge = b"[" + b"0123456789" * 80_000 + b"0123456789" * 25_000  # 1.05 MB, beyond what is read whole
    one = session(broker.port)
    publish(broker.port, b"before", huge, b"after")
    found = []
    end = time.monotonic() + 30
    while len(found) < 3 and time.monotonic() < end:
        window = one.next(0.1)
        if window is not None:
            found += window.messages
            one.done(window)
    assert [len(m.payload) for m in found] == [6, 4096, 5]
    assert found[1].payload == huge[:4096]
    assert (found[1].size, found[1].sha256) == (len(huge), sha256(huge).hexdigest())
    assert (found[0].size, found[2].size) == (0, 0)
    until(lambda: one.status().acknowledged == 3, "acknowledged as the others")
