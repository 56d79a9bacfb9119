"""The service and a sensor as processes of their own, for the tests that end or starve them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import paho.mqtt.client as paho

from api.service import Fleet
from api.work import put_fleet
from store import open_store
from store.records import Interceptor, Sensor, Site

OUTCOMES = ("stored", "duplicate", "quarantined", "retained", "heartbeat")
READINGS = "quarterline/v1/d-1/readings"


def until(condition: Callable[[], bool], what: str, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)  # between two looks


class Service:
    """`quarterline serve` as a process; every look at its counters checks that they add up."""

    def __init__(
        self,
        folder: Path,
        data: Path,
        mqtt_port: int,
        http_port: int,
        *,
        mqtt: str = "",
        before: Sequence[str] = (),
    ) -> None:
        """``mqtt``: more lines of that table; ``before``: words before the command, such as ``unshare …``."""
        self.data = data
        self._before = list(before)
        self._log = folder / "service.log"
        self._config = folder / "quarterline.toml"
        self._config.write_text(
            f'data_dir = "{data}"\n[mqtt]\nport = {mqtt_port}\n{mqtt}\n[http]\nport = {http_port}\n',
            encoding="utf-8",
        )
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{http_port}", timeout=10)
        self.child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self, *, wait: bool = True) -> None:
        command = [*self._before, sys.executable, "-m", "api", "serve", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self.child = subprocess.Popen(command, stdout=log, stderr=log)
        if wait:
            self.answers()

    def answers(self) -> None:
        """Wait until it answers at all."""
        until(self._answers, "an answer to /healthz")

    def _answers(self) -> bool:
        assert self.alive(), self._log.read_text()[-2000:]
        with suppress(httpx.HTTPError):
            return self._http.get("/healthz").status_code == 200
        return False

    def alive(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def readiness(self) -> tuple[int, dict[str, str]]:
        """Status of /readyz, and of each part that is not well the reason."""
        answer = self._http.get("/readyz")
        parts = answer.json()["parts"]
        return answer.status_code, {name: one["detail"] for name, one in parts.items() if not one["ok"]}

    def ready(self) -> bool:
        return self.readiness() == (200, {})

    def wait_ready(self, limit_s: float = 90.0) -> None:
        self.answers()
        until(self.ready, "ready", limit_s)

    def counters(self) -> dict[str, int]:
        text = self._http.get("/metrics").text
        found = {
            outcome or name: int(value)
            for name, outcome, value in re.findall(
                r'^quarterline_items_(\w+?)(?:\{outcome="(\w+)"\})? (\d+)$', text, re.MULTILINE
            )
        }
        assert found["received_total"] == sum(found[one] for one in OUTCOMES) + found["pending"], text
        return found

    def gauge(self, name: str) -> float:
        """The metric ``quarterline_<name>``."""
        text = self._http.get("/metrics").text
        found = re.search(rf"^quarterline_{name} (\S+)$", text, re.MULTILINE)
        assert found is not None, text
        return float(found[1])

    def end(self, how: signal.Signals) -> None:
        if self.child is not None and self.alive():
            self.child.send_signal(how)
            self.child.wait(60)

    def close(self) -> None:
        self.end(signal.SIGKILL)
        self._http.close()


def with_fleet(data: Path, sensors: Iterable[str] = ("d-1",)) -> None:
    store = open_store(data)
    put_fleet(
        store,
        Fleet(
            sites=(Site("s", "S", "sierra-madre", "America/Los_Angeles"),),
            interceptors=(Interceptor("i", "s", "gravity", 1.2, 1.2),),
            sensors=tuple(Sensor(one, "i") for one in sensors),
        ),
    )
    store.close()


class Publisher:
    """A sensor's client; what it publishes counts as sent once the broker has acknowledged it."""

    def __init__(self, port: int) -> None:
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._begun: list[paho.MQTTMessageInfo] = []

    def send(self, *payloads: bytes, topic: str = READINGS, retain: bool = False) -> None:
        for one in payloads:
            self.begin(one, topic=topic, retain=retain)
        self.finish()

    def begin(self, payload: bytes, *, topic: str, retain: bool = False) -> None:
        self._begun.append(self._client.publish(topic, payload, qos=1, retain=retain))

    def finish(self) -> None:
        """Wait until all that was begun is acknowledged."""
        for info in self._begun:
            info.wait_for_publish(30)
            assert info.is_published()
        self._begun.clear()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
