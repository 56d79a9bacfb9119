"""The session's way to the broker: passwords and certificates that change, names, slow connections, huge messages."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sessions import Sessions, collect, publish, until

from ingest.broker import EmbeddedBroker
from ingest.reasons import words


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


# ---- passwords and certificates that change ----------------------------------------------------------


@pytest.mark.mosquitto
def test_a_password_changed_on_disk_is_used_at_the_next_connection(
    mosquitto_broker: Callable[..., Any], session: Sessions, tmp_path: Path
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
    mosquitto_broker: Callable[..., Any], session: Sessions
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
    session: Sessions, free_port: Callable[[], int], mosquitto_broker: Callable[..., Any]
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
    mosquitto_broker: Callable[..., Any], session: Sessions, certificates: Path, tmp_path: Path
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
    session: Sessions,
) -> None:
    one = session(1883, wait=False, host="broker.invalid")  # RFC 6761: never resolves
    until(lambda: "the name 'broker.invalid' cannot be resolved" in one.ready()[1], "the reason", 60)
    assert "check mqtt.host and this machine's DNS" in one.ready()[1]
    first, later = one.next(5), one.next(5)
    assert first is not None
    assert later is not None
    assert later.watermark_us > first.watermark_us


def test_while_a_connection_is_being_made_the_clock_goes_on_and_it_can_stop(
    session: Sessions,
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


@pytest.mark.mosquitto
def test_tls_where_the_broker_speaks_none_is_named(
    mosquitto_broker: Callable[..., Any], session: Sessions
) -> None:
    port = mosquitto_broker().port
    one = session(port, wait=False, host="localhost", tls=True)
    until(lambda: "check mqtt.tls and mqtt.port" in one.ready()[1], "the reason")


@pytest.mark.parametrize(
    (
        "message",
        "remedy",
    ),  # OpenSSL's X509_verify_cert_error_string, and Python's of a name that does not fit
    [
        ("Hostname mismatch, certificate is not valid for 'broker'.", "check mqtt.host"),
        ("IP address mismatch, certificate is not valid for '10.0.0.1'.", "check mqtt.host"),
        ("certificate has expired", "renew it, and check both clocks"),
        ("self-signed certificate", "check mqtt.ca_file"),
        ("unable to get local issuer certificate", "check mqtt.ca_file"),
    ],
)
def test_what_is_wrong_with_a_certificate_says_what_to_look_at(message: str, remedy: str) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = message
    assert words(error, "broker").endswith(remedy)


# ---- threads and huge messages -----------------------------------------------------------------------


# the point of it: an error that ends a thread
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_ended_is_told(session: Sessions, broker: Any) -> None:
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
    mosquitto_broker: Callable[..., Any], session: Sessions
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
