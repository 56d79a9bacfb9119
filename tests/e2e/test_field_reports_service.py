"""Field reports that only the whole service answers, beside a real broker; docs/field_reports.md lists all."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import Publisher, Service, until

from store import open_store

pytestmark = [pytest.mark.slow]
T0_S = 1_767_225_600  # 2026-01-01T00:00:00Z


def configure(service: Service, mqtt: str = "", rest: str = "") -> None:
    """More lines of the configuration, in [mqtt] and at its end."""
    text = service._config.read_text()
    service._config.write_text(text.replace("[http]", f"{mqtt}\n[http]") + f"\n{rest}\n")


def rows(service: Service) -> list[int]:
    """Times of the stored readings, the service being down [s]."""
    store = open_store(service.data)
    try:
        assert store.integrity() == "ok"
        return [row.time_us // 10**6 for row in store.history.readings(["d-1"], since_us=0, until_us=2**62)]
    finally:
        store.close()


class Lock:
    """Keeps the store from being written, as another program may."""

    def __init__(self, data: Path) -> None:
        self._raw = sqlite3.connect(
            data / "quarterline.sqlite3", isolation_level=None, timeout=30, check_same_thread=False
        )

    def take(self) -> None:
        self._raw.execute("BEGIN IMMEDIATE")

    def give(self) -> None:
        self._raw.execute("ROLLBACK")

    def close(self) -> None:
        self._raw.close()


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def any_port(request: pytest.FixtureRequest) -> int:
    if request.param == "embedded":
        return int(request.getfixturevalue("embedded").port)
    return int(
        request.getfixturevalue("mosquitto_broker")(["persistence true", "max_queued_messages 0"]).port
    )


def test_L1_bad_payloads_do_not_fill_the_window(
    any_port: int, make_service: Callable[..., Service], publisher: Callable[[int], Publisher]
) -> None:
    service = make_service(any_port)
    configure(service, "window = 50")
    service.start()
    until(service.ready, "ready")
    sensor = publisher(any_port)
    sensor.send(*(b"not json" for _ in range(150)))
    sensor.send(b'{"surface_mm": 1000}')
    until(lambda: service.counters()["stored"] == 1, "the good one")
    assert service.counters()["quarantined"] == 150


def test_L2_what_was_not_committed_is_not_lost_by_kill_9(
    any_port: int, make_service: Callable[..., Service], publisher: Callable[[int], Publisher]
) -> None:
    service = make_service(any_port)
    service.start()
    until(service.ready, "ready")
    lock = Lock(service.data)
    lock.take()
    publisher(any_port).send(*(b'{"time": %d, "surface_mm": 1000}' % (T0_S + n) for n in range(100)))
    until(lambda: service.counters()["pending"] > 0, "received, and not committed")
    service.end(signal.SIGKILL)
    lock.give()
    lock.close()
    service.start()
    until(lambda: service.counters()["stored"] == 100, "all of them")
    until(lambda: service.counters()["pending"] == 0, "and nothing else")
    service.end(signal.SIGTERM)
    assert rows(service) == [T0_S + n for n in range(100)]


@pytest.mark.mosquitto
def test_L4_without_a_client_id_it_does_not_start_and_leaves_no_session(
    mosquitto_broker: Callable[..., Any], make_service: Callable[..., Service]
) -> None:
    broker = mosquitto_broker()
    service = make_service(broker.port)
    configure(service, 'client_id = ""')
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "api", "serve", "--config", str(service._config)],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert re.search(r"quarterline\.toml:\d+: mqtt\.client_id: .*is empty", done.stderr), done.stderr
        assert "Traceback" not in done.stderr
    assert "New client connected" not in broker.log


def test_L6_a_slow_store_holds_the_flow_and_loses_nothing(
    any_port: int, make_service: Callable[..., Service], publisher: Callable[[int], Publisher]
) -> None:
    service = make_service(any_port)
    service.start()
    until(service.ready, "ready")
    lock, over = Lock(service.data), threading.Event()

    def hinder() -> None:
        while not over.is_set():
            lock.take()
            over.wait(0.3)
            lock.give()
            over.wait(0.02)

    thread = threading.Thread(target=hinder)
    thread.start()
    try:
        publisher(any_port).send(*(b'{"time": %d, "surface_mm": 1000}' % (T0_S + n) for n in range(5000)))
    finally:
        over.set()
        thread.join(30)
        lock.close()
    until(lambda: service.counters()["stored"] == 5000, "all stored", 120)
    assert service.counters()["quarantined"] == 0


READER_DIES = """
import pathlib, sys, threading, time
from api import serve
from api.settings import load_settings

flag = pathlib.Path(sys.argv[2])

def clock():
    if threading.current_thread().name == "mqtt-reader" and flag.exists():
        raise SystemExit  # ends the thread, and only that
    return time.time()

serve.service_clock = lambda settings: clock
serve.serve(load_settings(pathlib.Path(sys.argv[1])))
"""


def test_L7_a_service_whose_reader_ended_ends_itself_with_a_fault(
    embedded: Any, make_service: Callable[..., Service], tmp_path: Path
) -> None:
    service = make_service(embedded.port)
    service.child = subprocess.Popen(
        [sys.executable, "-c", READER_DIES, str(service._config), str(tmp_path / "flag")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip

    def ready() -> bool:
        try:
            return service.ready()
        except httpx.HTTPError:
            return False

    until(ready, "ready")
    (tmp_path / "flag").touch()
    out, _ = service.child.communicate(timeout=60)
    assert service.child.returncode == 1
    assert b"the thread that reads the network has ended" in out


@pytest.mark.mosquitto
def test_L17_what_the_brokers_queue_dropped_is_named_by_the_counter(
    mosquitto_broker: Callable[..., Any], make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:  # fmt: skip
    broker = mosquitto_broker()  # by default it queues 1000 messages for us and drops the rest
    service = make_service(broker.port)
    configure(service, rest="[clock]\nspeed = 200.0")  # the next decision is at most some seconds away
    service.start()
    until(service.ready, "ready")
    service.end(signal.SIGTERM)
    sensor = publisher(broker.port)
    sensor.send(*(b'{"seq": %d, "surface_mm": 1000}' % n for n in range(1, 3001)))
    service.start()
    until(service.ready, "ready again")
    until(lambda: service.counters()["stored"] >= 1000, "what was queued")
    sensor.send(b'{"seq": 3001, "surface_mm": 1000}')
    until(lambda: _gap(service) is not None, "the gap is told")
    gap = _gap(service)
    assert gap is not None
    stored = service.counters()["stored"]
    assert (gap["kind"], gap["last_seq"], gap["missing"]) == ("sequence", 3000, 3001 - stored)
    assert gap["first_seq"] == stored


def _gap(service: Service) -> dict[str, Any] | None:
    with sqlite3.connect(f"file:{service.data}/quarterline.sqlite3?mode=ro", uri=True) as raw:
        raw.row_factory = sqlite3.Row
        found = raw.execute("SELECT * FROM gaps WHERE missing > 0").fetchone()
    raw.close()
    return None if found is None else dict(found)


@pytest.mark.mosquitto
def test_L23_a_huge_message_costs_little_memory_and_the_next_reading_is_stored(
    mosquitto_broker: Callable[..., Any], make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:  # fmt: skip
    broker = mosquitto_broker()
    service = make_service(broker.port)
    service.start()
    until(service.ready, "ready")
    sensor = publisher(broker.port)
    sensor.send(b'{"surface_mm": 1000}')
    until(lambda: service.counters()["stored"] == 1, "a first one")
    before_kb = _peak_kb(service)
    huge = b"[" + b"0" * 50_000_000
    sensor.send(huge)
    until(lambda: service.counters()["quarantined"] == 1, "the huge one")
    sensor.send(b'{"surface_mm": 1001}')
    until(lambda: service.counters()["stored"] == 2, "the next one")
    assert _peak_kb(service) - before_kb < 20_000  # of 50 MB
    service.end(signal.SIGTERM)
    store = open_store(service.data)
    (kept,) = store.history.quarantine()
    store.close()
    assert (kept.reason, kept.size, len(kept.payload)) == ("too_large", len(huge), 4096)


def _peak_kb(service: Service) -> int:
    assert service.child is not None
    status = Path(f"/proc/{service.child.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])
