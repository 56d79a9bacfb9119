"""What the session does about a broker that forgets, stalls, or hears another of our name."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sessions import TOPIC, Sessions, collect, publish, until

from ingest.backoff import Backoff
from ingest.broker import EmbeddedBroker
from ingest.session import Notice, Remembered


@pytest.fixture
def session() -> Iterator[Sessions]:
    made = Sessions()
    yield made
    made.close()


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


def test_L3_a_topic_taken_out_of_the_configuration_no_longer_comes(broker: Any, session: Sessions) -> None:
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
    mosquitto_broker: Callable[..., Any], session: Sessions
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
    mosquitto_broker: Callable[..., Any], session: Sessions
) -> None:
    port = mosquitto_broker().port
    seen_us = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
    one = session(port, remembered=Remembered((), True, seen_us))
    until(lambda: one.status().sessions_lost == 1, "told")
    notice = next(notice for notice in one.notices() if notice.kind == "possible_loss")
    assert notice.since_us == seen_us
    assert "between 2026-03-01T12:00:00Z and " in notice.detail


def test_the_first_session_of_all_and_a_kept_one_are_no_loss(broker: Any, session: Sessions) -> None:
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


def test_L19_a_silent_broker_is_told_and_tried_anew_once(mute: Mute, session: Sessions) -> None:
    one = session(mute.port, version="3.1.1", keepalive_s=6, stall_s=1.0)
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


def test_a_store_that_holds_everything_up_is_no_stall(mute: Mute, session: Sessions) -> None:
    one = session(mute.port, version="3.1.1", keepalive_s=6, silent_after_s=lambda: 1.0)
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
def test_L12_of_two_with_one_client_id_the_newcomer_steps_back(broker: Any, session: Sessions) -> None:
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
