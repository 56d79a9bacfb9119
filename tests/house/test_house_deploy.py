"""deploy/ and docs/deploy.md: what stands there works, as far as one machine can show."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from typer.main import get_command

from api.cli import app
from api.settings import load_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = (ROOT / "docs" / "deploy.md").read_text()
HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectControlGroups": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "User": "quarterline",
}


def unit(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    parsed.read_string((DEPLOY / name).read_text())
    return parsed


def known(words: list[str]) -> bool:
    """Whether the command and its options are ones of the program."""
    command: Any = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return not hasattr(command, "commands") and all(
        word in options for word in words if re.fullmatch(r"--?[a-z].*", word)
    )


@pytest.mark.parametrize("name", ["quarterline.service", "quarterline-backup.service"])
def test_a_unit_runs_a_command_that_exists_and_is_hardened(name: str) -> None:
    service = unit(name)["Service"]
    assert {key: service.get(key) for key in HARDENED} == HARDENED
    binary, *words = service["ExecStart"].split()
    assert binary == "/opt/quarterline/venv/bin/quarterline"
    assert known(words)
    assert "/etc/quarterline/quarterline.toml" in words
    assert service["StateDirectory"] == "quarterline"


def test_the_service_ends_in_its_own_time_and_the_timer_starts_the_backup() -> None:
    assert int(unit("quarterline.service")["Service"]["TimeoutStopSec"]) >= 30
    assert unit("quarterline.service")["Service"]["Restart"] == "on-failure"
    assert unit("quarterline-backup.timer")["Timer"]["Persistent"] == "true"
    backup = unit("quarterline-backup.service")["Service"]
    assert backup["ReadWritePaths"] in backup["ExecStart"]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    files = [DEPLOY / "quarterline.service", DEPLOY / "quarterline-backup.service"]
    timer = (DEPLOY / "quarterline-backup.timer").read_text()
    if analyze is None:  # the keys are checked above; systemd's own opinion needs systemd
        assert re.search(r"^OnCalendar=\*-\*-\* \d\d:\d\d:\d\d$", timer, re.MULTILINE)
        return
    for file in files:
        text = file.read_text().replace("/opt/quarterline/venv/bin/quarterline", sys.executable)
        (tmp_path / file.name).write_text(text)
    (tmp_path / "quarterline-backup.timer").write_text(timer)
    done = subprocess.run(
        [analyze, "verify", *map(str, tmp_path.iterdir())], capture_output=True, text=True, timeout=60
    )
    ours = [line for line in done.stderr.splitlines() if "quarterline" in line and "man " not in line]
    assert not ours


def test_the_example_configuration_is_taken(tmp_path: Path) -> None:
    (tmp_path / "mqtt-password").write_text("secret\n")
    text = (DEPLOY / "quarterline.toml").read_text().replace("/etc/quarterline", str(tmp_path))
    (tmp_path / "quarterline.toml").write_text(re.sub(r"^# (record = )", r"\1", text, flags=re.MULTILINE))
    settings = load_settings(tmp_path / "quarterline.toml")
    assert settings.data_dir == Path("/var/lib/quarterline")
    assert settings.mqtt.secret() == "secret"
    assert settings.record is not None
    assert settings.http.loopback
    assert (settings.retention.raw_days, settings.retention.hourly_days) == (90, 730)


def test_the_guide_names_files_and_commands_that_exist() -> None:
    for name in re.findall(r"\bdeploy/([a-z.-]+[a-z])", GUIDE):
        assert (DEPLOY / name).is_file(), name
    for link in re.findall(r"\]\(([a-z.]+)\)", GUIDE):
        assert (ROOT / "docs" / link).is_file(), link
    commands = re.findall(
        r"^(?:sudo -u quarterline )?/opt/quarterline/venv/bin/quarterline (.+)$", GUIDE, re.MULTILINE
    )
    commands += re.findall(r"`(?:quarterline|q) ([a-z][^`]*)`", GUIDE)
    commands += re.findall(r"^q (.+)$", GUIDE, re.MULTILINE)  # the alias that the guide sets
    assert len(commands) >= 8
    for words in commands:
        assert known(words.split()), words
    for unit_name in re.findall(r"\b(quarterline[a-z-]*\.(?:service|timer))\b", GUIDE):
        assert (DEPLOY / unit_name).is_file(), unit_name
    assert {path.name for path in DEPLOY.iterdir()} == set(re.findall(r"\bdeploy/([a-z.-]+[a-z])", GUIDE))


def quarterline(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "api", *words, "-c", "quarterline.toml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


FLEET = """
[[sites]]
id = "s"
name = "S"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
[[interceptors]]
id = "i"
site = "s"
kind = "gravity"
base_depth_mm = 1200
"""
COUNT = 1500  # more than Mosquitto's default queue holds


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mosquitto_with_this_file_lets_sensors_in_and_keeps_messages_over_a_restart(
    tmp_path: Path, mosquitto_broker: Callable[..., Any], free_port: Callable[[], int]
) -> None:
    (tmp_path / "quarterline.toml").write_text('data_dir = "data"\n')
    (tmp_path / "fleet.toml").write_text(FLEET)
    quarterline(tmp_path, "fleet", "import", "fleet.toml")
    secret = json.loads(quarterline(tmp_path, "sensor", "add", "d-1", "--interceptor", "i", "--json"))[
        "password"
    ]
    quarterline(tmp_path, "broker-config", "mosquitto", "--out", "broker")
    own = (tmp_path / "broker" / "quarterline.password").read_text().strip()

    port = free_port()
    text = (
        (DEPLOY / "mosquitto.conf")
        .read_text()
        .replace("/etc/mosquitto/quarterline", str(tmp_path / "broker"))
    )
    text = text.replace("listener 1883 0.0.0.0", f"listener {port} 127.0.0.1")
    broker = mosquitto_broker(text.splitlines(), port=port)

    def client(user: str | None, password: str | None) -> paho.Client:
        one = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=user or "", clean_session=user is None)
        if user is not None:
            one.username_pw_set(user, password)
        return one

    assert refused(client(None, None), port)
    assert refused(client("d-1", "wrong"), port)
    service = client("quarterline", own)
    connected(service, port)
    subscribed = threading.Event()
    service.on_subscribe = lambda *_: subscribed.set()
    service.subscribe("quarterline/v1/+/readings", qos=1)
    assert subscribed.wait(20)
    service.disconnect()
    service.loop_stop()

    # on a connection of its own: Mosquitto 2.0.11 may end a 3.1.1 connection over a message that it denies
    stray = client("d-1", secret)
    connected(stray, port)
    other = stray.publish("quarterline/v1/d-2/readings", b"not mine")
    other.wait_for_publish(60)
    assert other.is_published()
    stray.disconnect()
    stray.loop_stop()

    sensor = client("d-1", secret)
    connected(sensor, port)
    sent = [sensor.publish("quarterline/v1/d-1/readings", b"%d" % n, qos=1) for n in range(COUNT)]
    for info in sent:
        info.wait_for_publish(60)
        assert info.is_published()
    sensor.disconnect()
    sensor.loop_stop()
    broker.stop()
    broker.start()

    got: list[bytes] = []
    everything = threading.Event()
    again = client("quarterline", own)

    def take(_client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        got.append(message.payload)
        if len(got) >= COUNT:
            everything.set()

    again.on_message = take
    connected(again, port)
    assert everything.wait(60), len(got)
    again.disconnect()
    again.loop_stop()
    assert got == [b"%d" % n for n in range(COUNT)]


def connected(client: paho.Client, port: int) -> None:
    done, codes = threading.Event(), []

    def note(_c: paho.Client, _d: object, _f: object, code: object, _p: object) -> None:
        codes.append(str(code))
        done.set()

    client.on_connect = note
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert done.wait(20)
    assert codes == ["Success"]


def refused(client: paho.Client, port: int) -> bool:
    done, codes = threading.Event(), []

    def note(_c: paho.Client, _d: object, _f: object, code: object, _p: object) -> None:
        codes.append(str(code))
        done.set()

    client.on_connect = note
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert done.wait(20)
    client.disconnect()
    client.loop_stop()
    return codes[0] == "Not authorized"
