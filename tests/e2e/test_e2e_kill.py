"""kill -9 of the service in the middle of a load: nothing acknowledged is lost, nothing stored twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import paho.mqtt.client as paho
import pytest

from api.service import Fleet
from api.settings import Settings
from api.work import put_fleet
from ingest.broker import EmbeddedBroker
from store import open_store
from store.records import Interceptor, Sensor, Site

SENSORS = 20
EACH = 250
KILLS = 3
T0_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z

BrokerPort = Callable[[str], int]


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def broker_port(
    request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int]
) -> Iterator[int]:
    if request.param == "embedded":
        embedded = EmbeddedBroker(tmp_path / "broker", free_port())
        embedded.start()
        yield embedded.port
        embedded.stop()
        return
    start = request.getfixturevalue("mosquitto_broker")
    yield start(["persistence true", "max_queued_messages 0", "max_inflight_messages 1000"]).port


class Service:
    """`quarterline serve` as a process, to be killed and started again."""

    def __init__(self, folder: Path, mqtt_port: int, http_port: int) -> None:
        self._folder = folder
        self._url = f"http://127.0.0.1:{http_port}"
        self._config = folder / "quarterline.toml"
        self._config.write_text(
            f'data_dir = "data"\n[mqtt]\nport = {mqtt_port}\n[http]\nport = {http_port}\n', encoding="utf-8"
        )
        self.data = folder / "data"
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "service.log").open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "api", "serve", "--config", str(self._config)],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def ready(self, limit_s: float = 60.0) -> None:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            assert self.child is not None
            assert self.child.poll() is None, (self._folder / "service.log").read_text()[-2000:]
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self._url}/readyz", timeout=2).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError((self._folder / "service.log").read_text()[-2000:])

    def stored(self) -> int:
        """Items stored: unlike those received, a redelivery after a kill does not raise their number."""
        for line in httpx.get(f"{self._url}/metrics", timeout=10).text.splitlines():
            if line.startswith('quarterline_items_total{outcome="stored"}'):
                return int(float(line.split()[-1]))
        raise AssertionError("no quarterline_items_total of the stored")

    def end(self, how: signal.Signals) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(how)
            self.child.wait(30)


@pytest.fixture
def service(tmp_path: Path, broker_port: int, free_port: Callable[[], int]) -> Iterator[Service]:
    one = Service(tmp_path, broker_port, free_port())
    store = open_store(Settings(data_dir=one.data).data_dir)
    site = Site("s", "S", "sierra-madre", "America/Los_Angeles")
    put_fleet(
        store,
        Fleet(
            sites=(site,),
            interceptors=(Interceptor("i", "s", "gravity", 1.2, 1.2),),
            sensors=tuple(Sensor(f"d-{n:02d}", "i") for n in range(SENSORS)),
        ),
    )
    store.close()
    yield one
    one.end(signal.SIGKILL)


def publish_all(port: int, sent: list[tuple[str, int]]) -> None:
    """Every message is acknowledged by the broker before it counts as sent."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="load")
    client.connect("127.0.0.1", port)
    client.loop_start()
    for k in range(EACH):
        infos = []
        for n in range(SENSORS):
            text = f'{{"time": {T0_MS + k * 1000}, "seq": {k}, "surface_mm": {1000 + n}, "inlet_c": {20 + k % 50}}}'
            infos.append((n, client.publish(f"quarterline/v1/d-{n:02d}/readings", text, qos=1)))
        for n, info in infos:
            info.wait_for_publish(30)
            sent.append((f"d-{n:02d}", (T0_MS + k * 1000) * 1000))
        time.sleep(0.01)  # pace: the load lasts as long as the kills
    client.loop_stop()
    client.disconnect()


def test_kill_9_under_load_loses_and_doubles_nothing(service: Service, broker_port: int) -> None:
    rng = np.random.default_rng(3)
    service.start()
    service.ready()  # the session exists: from now on the broker keeps what is not acknowledged
    sent: list[tuple[str, int]] = []
    load = threading.Thread(target=publish_all, args=(broker_port, sent))
    load.start()
    for _ in range(KILLS):
        time.sleep(float(rng.uniform(0.3, 1.0)))  # a random moment of the load
        service.end(signal.SIGKILL)
        service.start()
        service.ready()
    load.join(120)
    assert len(sent) == SENSORS * EACH

    end = time.monotonic() + 60
    while time.monotonic() < end and not stored_all(service, sent):
        time.sleep(0.2)
    service.end(signal.SIGTERM)
    store = open_store(service.data)
    try:
        rows = store.history.readings([f"d-{n:02d}" for n in range(SENSORS)], since_us=0, until_us=2**62)
        assert sorted((r.sensor, r.time_us) for r in rows) == sorted(sent)
        assert all(r.values["surface_m"] == pytest.approx((1000 + int(r.sensor[2:])) / 1000) for r in rows)
        totals = store.history.totals()
        assert totals.stored == len(sent)
        assert totals.received == (
            totals.stored + totals.duplicate + totals.quarantined + totals.retained + totals.heartbeat
        )
        assert totals.quarantined == 0
        assert store.integrity() == "ok"
    finally:
        store.close()


def stored_all(service: Service, sent: list[tuple[str, int]]) -> bool:
    return service.stored() >= len(sent)
