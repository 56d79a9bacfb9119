"""The publisher and its control port: a real broker, real HTTP, processes of their own."""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import paho.mqtt.client as mqtt
import pytest

from simulators.city import City
from simulators.clock import AcceleratedClock
from simulators.control import ControlServer, Gate
from simulators.truth import iso

START_S = 1_788_246_000.0
LIMIT_S = 60.0


# ---- control port ------------------------------------------------------------------------------------


@pytest.fixture
def control(small_city: Callable[..., City]) -> Iterator[tuple[Gate, str]]:
    gate = Gate(small_city(), np.random.default_rng(1))
    server = ControlServer(gate, 0)
    server.start()
    yield gate, f"http://127.0.0.1:{server.port}"
    server.stop()


def test_a_pump_out_is_done_at_its_simulated_time(control: tuple[Gate, str]) -> None:
    gate, url = control
    name = gate.live(lambda city: city.plan.interceptors[2].id)
    asked = httpx.post(
        f"{url}/pump-outs", json={"interceptor": name, "at": iso(START_S + 1800), "complete": True}
    )
    assert asked.status_code == 202
    where = f"{url}/pump-outs/{asked.json()['id']}"
    seen = []
    before = httpx.get(f"{url}/truth").json()["interceptors"][2]
    for _ in range(8):
        seen.append(httpx.get(where).json()["state"])
        gate.finished(gate.live(City.step).done)
    done = httpx.get(where, params={"wait_s": 1}).json()
    assert list(dict.fromkeys(seen)) == ["waiting", "pumping", "done"]
    assert done["start"] == iso(START_S + 1800)
    assert done["end"] > done["start"]
    assert done["fog_mm"] == pytest.approx(before["fog_mm"], abs=60.0)
    assert done["solids_mm"] == pytest.approx(before["solids_mm"], abs=80.0)
    assert done["volume_l"] > 500
    after = httpx.get(f"{url}/truth").json()["interceptors"][2]
    assert after["fraction"] < 0.1 * before["fraction"] + 0.01


def test_one_who_waits_is_told_when_it_is_done(control: tuple[Gate, str]) -> None:
    gate, url = control
    name = gate.live(lambda city: city.plan.interceptors[0].id)
    job = httpx.post(f"{url}/pump-outs", json={"interceptor": name, "at": iso(START_S)}).json()
    answers: queue.Queue[str] = queue.Queue()

    def wait() -> None:
        reply = httpx.get(f"{url}/pump-outs/{job['id']}", params={"wait_s": 30}, timeout=40)
        answers.put(reply.json()["state"])

    waiter = threading.Thread(target=wait)
    waiter.start()
    for _ in range(6):
        gate.finished(gate.live(City.step).done)
    assert answers.get(timeout=LIMIT_S) == "done"
    waiter.join()


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, "object"),
        (b'{"at": "2026-09-01T07:00:00Z"}', 400, "interceptor"),
        (b'{"interceptor": "nowhere", "at": "2026-09-01T07:00:00Z"}', 404, "nowhere"),
        (b'{"interceptor": "x", "at": "soon"}', 400, "at"),
        (b'{"interceptor": "x", "at": "2026-09-01T07:00:00"}', 400, "offset"),
        (b'{"interceptor": "x", "at": "2026-09-01T07:00:00Z", "complete": 1}', 400, "complete"),
        (b"x" * 70_000, 413, "Content-Length"),
    ],
)
def test_a_wrong_wish_is_answered_with_the_field(
    control: tuple[Gate, str], body: bytes, status: int, word: str
) -> None:
    answer = httpx.post(f"{control[1]}/pump-outs", content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.json()["detail"]


def test_unknown_places_are_not_here(control: tuple[Gate, str]) -> None:
    assert httpx.get(f"{control[1]}/pump-outs/truck-99").status_code == 404
    assert httpx.get(f"{control[1]}/elsewhere").status_code == 404
    assert httpx.get(f"{control[1]}/pump-outs/x", params={"wait_s": "long"}).status_code == 400


# ---- processes ---------------------------------------------------------------------------------------


class Process:
    """A simulator's process, its lines read as they come."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", f"simulators.{module}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._new = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._new:
                self.lines.append(line)
                self._new.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            return next((hit for line in self.lines if (hit := re.search(pattern, line))), None)

        with self._new:
            assert self._new.wait_for(lambda: found() is not None, LIMIT_S), self.lines
            hit = found()
        assert hit is not None
        return hit

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.child.poll() is None:
            self.child.send_signal(how)
        status = self.child.wait(LIMIT_S)
        self._reader.join()
        assert self.child.stdout is not None
        self.child.stdout.close()
        return status


@pytest.fixture
def run() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(module: str, *arguments: str) -> Process:
        started.append(Process(module, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.end(signal.SIGKILL)


class Ear:
    """A subscriber that keeps what it hears."""

    def __init__(self, port: int) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self._new = threading.Condition()
        self._subscribed = threading.Event()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="ear")
        self.client.on_message = self._hear
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.subscribe("quarterline/#", qos=1)
        self.client.loop_start()
        assert self._subscribed.wait(LIMIT_S)

    def _hear(self, client: mqtt.Client, data: object, message: mqtt.MQTTMessage) -> None:
        with self._new:
            self.heard.append((message.topic, message.payload))
            self._new.notify_all()

    def wait_for(self, count: int) -> list[tuple[str, bytes]]:
        with self._new:
            assert self._new.wait_for(lambda: len(self.heard) >= count, LIMIT_S), len(self.heard)
            return list(self.heard)

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_the_published_city_is_the_recorded_one(
    mosquitto_broker: Callable[..., Any], run: Callable[..., Process], tmp_path: Path
) -> None:
    broker = mosquitto_broker(["max_queued_messages 0"])
    ear = Ear(broker.port)
    publisher = run(
        "publish", "--seed", "3", "--count", "6", "--mqtt-port", str(broker.port), "--speed", "20000",
        "--days", "0.5", "--from-start", "--truth", str(tmp_path / "truth.jsonl"),
    )  # fmt: skip
    city = City(3, 6)
    steps = [city.step() for _ in range(48)]
    sent = [(m.topic, m.payload) for step in steps for m in step.messages]
    assert ear.wait_for(len(sent)) == sent
    assert publisher.child.wait(LIMIT_S) == 0  # ends by itself after half a day
    ear.stop()
    truth = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    assert truth == [line for step in steps for line in step.truth]


def test_a_late_publisher_joins_the_present_and_ends_cleanly(
    mosquitto_broker: Callable[..., Any], run: Callable[..., Process]
) -> None:
    broker = mosquitto_broker()
    ear = Ear(broker.port)
    clock = AcceleratedClock.starting_now(START_S, 20_000.0)
    late = AcceleratedClock(START_S - 3 * 86400, clock.start_real_s, 20_000.0)
    publisher = run(
        "publish", "--count", "4", "--clock", late.as_text(), "--start", iso(START_S - 6 * 86400),
        "--mqtt-port", str(broker.port),
    )  # fmt: skip
    publisher.wait_for(r"joined [345]\.\d\d simulated days")
    first = json.loads(ear.wait_for(20)[0][1])
    port = publisher.wait_for(r"control port http://127\.0\.0\.1:(\d+)").group(1)
    assert len(httpx.get(f"http://127.0.0.1:{port}/truth").json()["interceptors"]) == 4
    assert first["seq"] > 100
    assert publisher.end(signal.SIGINT) == 0
    ear.stop()


def test_a_broker_that_comes_back_gets_the_rest(
    mosquitto_broker: Callable[..., Any], run: Callable[..., Process]
) -> None:
    broker = mosquitto_broker()
    publisher = run("publish", "--count", "4", "--mqtt-port", str(broker.port), "--speed", "5000")
    ear = Ear(broker.port)
    ear.wait_for(5)
    ear.stop()
    broker.kill()
    publisher.wait_for("connection to the broker lost")
    broker.start()
    again = Ear(broker.port)
    again.wait_for(5)
    again.stop()
    assert publisher.end() == 0


def test_no_broker_is_told_and_can_be_ended(
    run: Callable[..., Process], free_port: Callable[[], int]
) -> None:
    publisher = run("publish", "--count", "1", "--mqtt-port", str(free_port()))
    publisher.wait_for("no connection to the broker")
    assert publisher.end() == 0


def test_wrong_use_is_explained(
    run: Callable[..., Process], tmp_path: Path, control: tuple[Gate, str]
) -> None:
    taken = control[1].rpartition(":")[2]
    cases = [
        (("publish", "--clock", "soon"), 2, "start_sim,start_real,speed"),
        (("publish", "--start", "2026-09-01T07:00:01Z"), 2, "start_s"),
        (("publish", "--count", "1", "--control-port", taken), 1, f"--control-port {taken}"),
        (("hauler", "--haulers", str(tmp_path / "none"), "--api", "x", "--city", "y"), 2, "none"),
    ]
    processes = [(run(*arguments), status, word) for arguments, status, word in cases]
    for process, status, word in processes:
        assert process.child.wait(LIMIT_S) == status
        process.end()
        assert word in "".join(process.lines)


def test_the_haulers_process_serves_and_ends(run: Callable[..., Process], tmp_path: Path) -> None:
    file = tmp_path / "haulers.json"
    file.write_text('[{"id": "valley", "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "key": "k"}]')
    haulers = run(
        "hauler", "--haulers", str(file), "--api", "http://127.0.0.1:9", "--city", "http://127.0.0.1:9"
    )
    port = haulers.wait_for(r"ready: 1 haulers at http://127\.0\.0\.1:(\d+)").group(1)
    assert httpx.post(f"http://127.0.0.1:{port}/webhooks/valley", content=b"{}").status_code == 401
    taken = run("hauler", "--haulers", str(file), "--api", "x", "--city", "y", "--port", port)
    assert taken.child.wait(LIMIT_S) == 1
    assert haulers.end() == 0
