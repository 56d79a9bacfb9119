"""What `broker-config` writes, at the brokers themselves: who may connect, and who may publish what."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import bcrypt
import paho.mqtt.client as paho
import pytest
from commands import configured, refused, run
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from api.credentials import credentials, hashes_of, issue, new_password, username_of
from ingest.broker import _program
from store import open_store
from store.records import Sensor

SENSORS = ("d-0001", "d-0002", "70:b3:d5:7e", "tank.one")  # what ids may contain beside letters: . : -
LIMIT_S = 20.0


class Client:
    """An MQTT client that notes what it was told and what came."""

    def __init__(self, port: int, user: str | None, password: str | None, name: str = "") -> None:
        self.got: list[tuple[str, bytes]] = []
        self.codes: list[ReasonCode] = []
        self.lost = 0
        self.ready = False
        self.acknowledged = 0
        self.mqtt = paho.Client(CallbackAPIVersion.VERSION2, client_id=name)
        if user is not None:
            self.mqtt.username_pw_set(user, password)
        self.mqtt.on_connect = lambda *args: self.codes.append(args[3])
        self.mqtt.on_message = lambda _c, _u, m: self.got.append((m.topic, m.payload))
        self.mqtt.on_subscribe = lambda *_: setattr(self, "ready", True)
        self.mqtt.on_publish = lambda *_: setattr(self, "acknowledged", self.acknowledged + 1)
        self.mqtt.on_disconnect = lambda *_: setattr(self, "lost", self.lost + 1)
        with suppress(OSError):
            self.mqtt.connect("127.0.0.1", port)
        self.mqtt.loop_start()
        until(lambda: bool(self.codes) or self.lost > 0, "an answer to CONNECT")

    @property
    def refused(self) -> bool:
        return not self.codes or self.codes[0].is_failure

    def close(self) -> None:
        self.mqtt.disconnect()
        self.mqtt.loop_stop()


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configured(tmp_path)


@pytest.fixture
def passwords(config: Path) -> dict[str, str]:
    """Sensors registered by the command, with the password each was shown."""
    found = {}
    for one in SENSORS:
        shown = run("sensor", "add", one, "--interceptor", "i", "--config", str(config), "--json")
        found[one] = json.loads(shown.stdout)["password"]
    return found


@pytest.fixture
def clients() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(*args: Any, **more: Any) -> Client:
        made.append(Client(*args, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def service_password(folder: Path) -> str:
    return (folder / "quarterline.password").read_text().strip()


def check_access(port: int, clients: Callable[..., Client], passwords: dict[str, str], service: str) -> None:
    """Every promise of the access list, at a running broker."""
    assert clients(port, None, None).refused
    assert clients(port, "d-0001", "wrong").refused
    assert clients(port, "d-0001", passwords["d-0002"]).refused
    assert clients(port, "quarterline", passwords["d-0001"]).refused

    reader = clients(port, "quarterline", service, name="the-service")
    assert not reader.refused
    reader.mqtt.subscribe([("quarterline/v1/+/readings", 1), ("quarterline/v1/+/status", 1)])
    until(lambda: reader.ready, "SUBACK")

    # another's topic; a topic of the service's; what the service alone may read
    thief = clients(port, "d-0001", passwords["d-0001"])
    assert not thief.refused
    for topic in ("quarterline/v1/d-0002/readings", "quarterline/v1/d-0001/readings/x", "elsewhere"):
        thief.mqtt.publish(topic, b"forged", qos=1)
    spy = clients(port, "d-0002", passwords["d-0002"])
    spy.mqtt.subscribe("quarterline/v1/+/readings", 1)

    expected = []
    for one in SENSORS:
        sensor = clients(port, username_of(one), passwords[one])
        assert not sensor.refused, one
        for kind, payload in (("readings", b'{"surface_mm": 1200}'), ("status", b"online")):
            expected.append((f"quarterline/v1/{one}/{kind}", payload))
            sensor.mqtt.publish(*expected[-1], qos=1)
        until(lambda sensor=sensor: sensor.acknowledged == 2, f"both of {one} acknowledged")
    until(lambda: len(reader.got) >= len(expected), "everything the sensors said")
    assert sorted(reader.got) == sorted(expected)  # all of theirs, nothing forged
    assert spy.got == []


@pytest.mark.mosquitto
def test_at_mosquitto_each_sensor_publishes_under_its_own_id_only(
    config: Path,
    passwords: dict[str, str],
    tmp_path: Path,
    mosquitto_broker: Callable[..., Any],
    free_port: Callable[[], int],
    clients: Callable[..., Client],
) -> None:
    out, port = tmp_path / "out", free_port()
    told = run(
        "broker-config", "mosquitto", "--out", str(out), "--host", "127.0.0.1", "--port", str(port),
        "--config", str(config),
    )  # fmt: skip
    assert "4 sensors may publish" in told.stderr
    lines = (out / "quarterline.conf").read_text().replace("/etc/mosquitto/quarterline", str(out))
    broker = mosquitto_broker(lines.splitlines(), port=port)
    check_access(port, clients, passwords, service_password(out))

    # a client id is no way to push the service off: it keeps its session whoever claims its name
    service = clients(port, "quarterline", service_password(out), name="quarterline")
    intruder = clients(port, "d-0001", passwords["d-0001"], name="quarterline")
    assert not intruder.refused
    intruder.mqtt.publish("quarterline/v1/d-0001/readings", b"{}", qos=1)
    until(lambda: intruder.acknowledged == 1, "the intruder works, under its own name")
    assert service.lost == 0, broker.log


@pytest.mark.mosquitto
def test_mosquitto_takes_the_certificate_it_is_given(
    config: Path,
    passwords: dict[str, str],
    tmp_path: Path,
    mosquitto_broker: Callable[..., Any],
    free_port: Callable[[], int],
    clients: Callable[..., Client],
) -> None:
    certificate, secret, out, port = tmp_path / "c.pem", tmp_path / "k.pem", tmp_path / "out", free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", str(secret), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    run(
        "broker-config", "mosquitto", "--out", str(out), "--at", str(out), "--host", "127.0.0.1",
        "--port", str(port), "--tls-cert", str(certificate), "--tls-key", str(secret), "-c", str(config),
    )  # fmt: skip
    broker = mosquitto_broker((out / "quarterline.conf").read_text().splitlines(), port=port)
    codes: list[ReasonCode] = []
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set("d-0001", passwords["d-0001"])
    client.tls_set(ca_certs=str(certificate))
    client.on_connect = lambda *args: codes.append(args[3])
    client.connect("localhost", port)
    client.loop_start()
    until(lambda: bool(codes), f"an answer to CONNECT: {broker.log}")
    client.disconnect()
    client.loop_stop()
    assert not codes[0].is_failure
    plain = clients(port, "d-0001", passwords["d-0001"])
    assert plain.refused  # not without TLS


@pytest.mark.mosquitto
def test_a_new_sensor_and_a_new_password_come_to_mosquitto_by_a_reload(
    config: Path,
    passwords: dict[str, str],
    tmp_path: Path,
    mosquitto_broker: Callable[..., Any],
    free_port: Callable[[], int],
    clients: Callable[..., Client],
) -> None:
    import signal

    out, port = tmp_path / "out", free_port()
    words = ("--out", str(out), "--host", "127.0.0.1", "--port", str(port), "--config", str(config))
    run("broker-config", "mosquitto", *words)
    before = service_password(out)
    lines = (out / "quarterline.conf").read_text().replace("/etc/mosquitto/quarterline", str(out))
    broker = mosquitto_broker(lines.splitlines(), port=port)
    assert clients(port, "quarterline", before).refused is False

    add = run("sensor", "add", "d-0003", "--interceptor", "i", "--config", str(config), "--json")
    new = run("sensor", "password", "D-0001", "--config", str(config), "--json")
    again = run("broker-config", "mosquitto", *words)
    assert "new and shown" not in again.stderr  # the service keeps its password
    assert service_password(out) == before
    broker.process.send_signal(signal.SIGHUP)

    def fits(user: str, password: str) -> bool:
        client = clients(port, user, password)
        client.close()
        return not client.refused

    until(lambda: fits("d-0003", json.loads(add.stdout)["password"]), "the new sensor gets in")
    assert fits("d-0001", json.loads(new.stdout)["password"])
    assert not fits("d-0001", passwords["d-0001"])
    assert fits("quarterline", before)


def test_at_nats_each_sensor_publishes_under_its_own_id_only(
    config: Path,
    passwords: dict[str, str],
    tmp_path: Path,
    free_port: Callable[[], int],
    clients: Callable[..., Client],
) -> None:
    out, port = tmp_path / "out", free_port()
    run(
        "broker-config", "nats", "--out", str(out), "--host", "127.0.0.1", "--port", str(port),
        "--config", str(config),
    )  # fmt: skip
    conf = out / "quarterline.conf"
    conf.write_text(
        conf.read_text().replace("/etc/nats/jetstream", str(tmp_path / "js")).replace(":4222", ":-1")
    )
    log = (tmp_path / "nats.log").open("wb")
    with log:
        server = subprocess.Popen([str(_program()), "-c", str(conf)], stdout=log, stderr=log)
    try:
        until(lambda: answers(port, server, tmp_path / "nats.log"), "the server answers")
        check_access(port, clients, passwords, service_password(out))
        assert b"Plaintext passwords" not in (tmp_path / "nats.log").read_bytes()
    finally:
        server.terminate()
        server.wait(20)


def answers(port: int, server: subprocess.Popen[bytes], log: Path) -> bool:
    import socket

    assert server.poll() is None, log.read_text()
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_the_files_for_emqx_say_what_its_documentation_asks_for(
    config: Path, passwords: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("broker-config", "emqx", "--out", str(out), "--config", str(config))
    # docs.emqx.com, built-in database: user_id,password_hash,salt,is_superuser; PBKDF2 as hexadecimal
    with (out / "quarterline-users.csv").open(newline="") as file:
        rows = {row["user_id"]: row for row in csv.DictReader(file)}
    assert sorted(rows) == sorted(["quarterline", *map(username_of, SENSORS)])
    for one in SENSORS:
        row = rows[username_of(one)]
        key = hashlib.pbkdf2_hmac("sha512", passwords[one].encode(), row["salt"].encode(), 101, 64)
        assert (row["password_hash"], row["is_superuser"]) == (key.hex(), "false")
    # docs.emqx.com, ACL file: Erlang terms, each ended by a full stop, the first that matches wins
    assert (out / "quarterline-acl.conf").read_text().splitlines()[1:] == [
        '{allow, {username, "quarterline"}, subscribe, ["quarterline/v1/+/readings", '
        '"quarterline/v1/+/status", "application/+/device/+/event/up", "v3/+/devices/+/up"]}.',
        '{allow, {username, "70_b3_d5_7e"}, publish, ["quarterline/v1/70:b3:d5:7e/readings", '
        '"quarterline/v1/70:b3:d5:7e/status"]}.',
        '{allow, all, publish, ["quarterline/v1/${username}/readings", "quarterline/v1/${username}/status"]}.',
        "{deny, all}.",
    ]
    conf = (out / "quarterline-emqx.conf").read_text()
    for opening, closing in ("{}", "[]"):
        assert conf.count(opening) == conf.count(closing)
    assert "iterations = 101, dk_length = 64" in conf
    assert "no_match = deny" in conf


@pytest.mark.mosquitto_pub
def test_a_password_is_hashed_as_mosquitto_s_own_tool_would(mosquitto_pub_path: str, tmp_path: Path) -> None:
    # mosquitto_passwd -U hashes a plain file; what it wrote must be what we compute for the same salt
    import shutil

    tool = shutil.which("mosquitto_passwd") or str(Path(mosquitto_pub_path).with_name("mosquitto_passwd"))
    if not Path(tool).exists():
        pytest.skip("mosquitto_passwd comes with the broker")
    file = tmp_path / "passwd"
    file.write_text("d-0001:hello\n")
    subprocess.run([tool, "-U", str(file)], check=True, capture_output=True)
    found = re.fullmatch(r"d-0001:\$7\$(\d+)\$([^$]+)\$(\S+)\n", file.read_text())
    assert found is not None, file.read_text()
    salt = base64.b64decode(found[2])
    key = hashlib.pbkdf2_hmac("sha512", b"hello", salt, int(found[1]), 64)
    assert base64.b64encode(key).decode() == found[3]
    assert int(found[1]) == hashes_of("hello").iterations


def test_only_hashes_are_kept_and_files_that_hold_them_are_the_owner_s(
    config: Path, passwords: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("broker-config", "mosquitto", "--out", str(out), "--config", str(config))
    for one in ("quarterline.passwd", "quarterline.acl", "quarterline.password"):
        assert (out / one).stat().st_mode & 0o777 == 0o600
    data = b"".join(p.read_bytes() for p in (tmp_path / "data").rglob("*") if p.is_file())
    for password in (*passwords.values(), service_password(out)):
        assert password.encode() not in data
    assert all(len(one) == 24 for one in passwords.values())
    assert len(set(passwords.values())) == 4


def test_a_configured_password_of_the_service_is_the_broker_s(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + '[mqtt]\nusername = "ql"\npassword = "given"\n')
    told = run("broker-config", "nats", "--config", str(config))
    assert "given" not in told.output
    hashed = re.search(r'user: "ql", password: "([^"]+)"', told.stdout)
    assert hashed is not None
    assert bcrypt.checkpw(b"given", hashed[1].encode())
    assert run("broker-config", "nats", "--config", str(config)).stdout == told.stdout  # nothing new


def test_a_network_server_may_publish_uplinks_and_no_sensor_s_readings(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = run("broker-config", "mosquitto", "--network-server", "--out", str(out), "--config", str(config))
    assert "network server's user name and password" in told.stderr
    acl = (out / "quarterline.acl").read_text()
    assert (
        "user network-server\ntopic write application/+/device/+/event/up\ntopic write v3/+/devices/+/up\n"
        in acl
    )


def test_tls_names_both_files_or_none(config: Path) -> None:
    told = run("broker-config", "mosquitto", "--tls-cert", "/c.pem", "--tls-key", "/k.pem", "-c", str(config))
    assert "listener 8883 0.0.0.0" in told.stdout
    assert "certfile /c.pem\nkeyfile /k.pem\n" in told.stdout
    half = refused("broker-config", "mosquitto", "--tls-cert", "/c.pem", "-c", str(config))
    assert "--tls-cert and --tls-key go together" in half
    assert "one of mosquitto, nats, emqx" in refused("broker-config", "hivemq", "-c", str(config))


def test_a_sensor_that_has_no_password_is_named(config: Path) -> None:
    store = open_store(config.parent / "data")
    with store.transaction():
        store.registry.put_fleet(sensors=[Sensor("old", "i")])
        issue(store.ledger, "gone", password=new_password(), now_us=1)  # of a sensor that is in no fleet
    assert [one.username for one in credentials(store.ledger.keys())] == ["gone"]
    store.close()
    told = run("broker-config", "mosquitto", "--config", str(config))
    assert "1 sensors have no password yet and cannot connect: old;" in told.stderr
    assert "gone:" not in told.stdout
    listed = run("sensor", "list", "--config", str(config)).stdout
    assert listed == "old  i/1  native  never heard    no password\n"
