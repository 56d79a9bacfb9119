"""`quarterline bench ingest`: messages a second acknowledged after commit, beside the bare client in the same run.

A Mosquitto of our own on loopback keeps a queue of messages for an absent consumer. Then, in turn, a bare paho
loop receives and acknowledges such a queue, and session, decoder and store drain another: their ratio is the figure.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ingest.broker import BrokerError
from ingest.decode import Decoder
from ingest.profile import load_profiles
from ingest.session import SWITCH_S, MqttSettings, Session
from store import open_store
from store.records import Sensor

HOST: Final = "127.0.0.1"
SENSORS: Final = 1000
GOAL: Final = 0.65
_T0_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_TOPIC: Final = "quarterline/v1/+/readings"
_LIMIT_S: Final = 300.0
_PUBLISHED_AT_ONCE: Final = 5000  # the publisher's own queue is bounded
_CONFIG: Final = """\
listener {port} {host}
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 1000
log_type none
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the runs [messages/s]."""

    messages: int
    window: int
    version: str
    bare: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Our median by the bare client's."""
        return statistics.median(self.ours) / statistics.median(self.bare)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "messages": self.messages,
            "window": self.window,
            "mqtt": self.version,
            "bare_per_s": list(self.bare),
            "ours_per_s": list(self.ours),
            "ratio": self.ratio,
            "goal": GOAL,
        }


def in_words(result: Result) -> str:
    """For a person."""
    return (
        f"{result.messages} queued QoS 1 messages over MQTT {result.version}, window {result.window}, "
        f"median of {len(result.ours)} runs\n"
        f"bare paho, receive and acknowledge:    {statistics.median(result.bare):>9,.0f} messages/s\n"
        f"acknowledged after commit (SQLite):    {statistics.median(result.ours):>9,.0f} messages/s\n"
        f"ratio {result.ratio:.2f} (goal {GOAL})"
    )


def bench_ingest(
    *,
    messages: int,
    runs: int,
    version: str = "3.1.1",
    window: int = 1000,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Drain a queue of ``messages`` with the bare client and with ours, ``runs`` times in turn.

    Raises
    ------
    BrokerError
        There is no Mosquitto on this machine.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)  # as the service does
    bare, ours = [], []
    with tempfile.TemporaryDirectory(prefix="quarterline-bench-") as folder:
        for run in range(runs):
            with _mosquitto(Path(folder)) as port:
                _queue(port, "bare", messages)
                bare.append(messages / _drain_bare(port, messages, version))
            with _mosquitto(Path(folder)) as port:
                _queue(port, "ours", messages)
                ours.append(
                    messages / _drain_ours(port, messages, version, window, Path(folder) / f"data-{run}")
                )
            progress(f"run {run + 1}: bare {bare[-1]:,.0f}/s, ours {ours[-1]:,.0f}/s")
    sys.setswitchinterval(before)
    return Result(messages, window, version, tuple(bare), tuple(ours))


def payload(number: int) -> bytes:
    """One native message of nine fields."""
    at_ms = _T0_MS + number // SENSORS * 900_000
    return (
        f'{{"time": {at_ms}, "seq": {number // SENSORS}, "surface_mm": {1180 + number % 40}, '
        f'"fog_bottom_mm": {1101 - number % 50}, "solids_top_mm": {88 + number % 9}, "inlet_f": 104.5, '
        f'"inlet_max_f": 118.4, "tank_c": 27.{number % 10}, "battery_v": 3.61}}'
    ).encode()


@contextmanager
def _mosquitto(folder: Path) -> Iterator[int]:
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise BrokerError("mosquitto is missing: apt-get install mosquitto")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = int(probe.getsockname()[1])
    config = folder / "mosquitto.conf"
    config.write_text(_CONFIG.format(port=port, host=HOST), encoding="utf-8")
    child = subprocess.Popen(
        [program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        yield port
    finally:
        child.terminate()
        child.wait(10)


def _wait_for(port: int) -> None:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)  # polling a condition with an end
    raise BrokerError("mosquitto did not start")


def _queue(port: int, client_id: str, messages: int) -> None:
    """Open a session for ``client_id``, leave it, and fill its queue."""
    consumer = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=False, protocol=paho.MQTTv311
    )
    subscribed = []
    consumer.on_connect = lambda client, *_: client.subscribe(_TOPIC, qos=1)
    consumer.on_subscribe = lambda *_: subscribed.append(True)
    consumer.connect(HOST, port)
    while not subscribed:
        consumer.loop(0.1)
    consumer.disconnect()
    consumer.loop(0.1)
    publisher = paho.Client(CallbackAPIVersion.VERSION2, client_id="publisher")
    publisher.max_inflight_messages_set(1000)
    publisher.connect(HOST, port)
    publisher.loop_start()
    for number in range(messages):
        sent = publisher.publish(f"quarterline/v1/b-{number % SENSORS:04d}/readings", payload(number), qos=1)
        if number % _PUBLISHED_AT_ONCE == 0 or number == messages - 1:
            sent.wait_for_publish(_LIMIT_S)
    publisher.disconnect()
    publisher.loop_stop()


def _drain_bare(port: int, messages: int, version: str) -> float:
    """Seconds that a bare loop takes to receive and acknowledge the queue."""
    client = paho.Client(
        CallbackAPIVersion.VERSION2,
        client_id="bare",
        clean_session=None if version == "5" else False,
        protocol=paho.MQTTv5 if version == "5" else paho.MQTTv311,
        manual_ack=True,
    )
    count = 0
    began = 0.0

    def on_message(mine: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        nonlocal count, began
        if not count:
            began = time.perf_counter()
        count += 1
        mine.ack(message.mid, message.qos)
        if count == messages:
            mine.disconnect()

    client.on_message = on_message
    properties = None
    if version == "5":
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it untyped
        properties.ReceiveMaximum = 1000
        properties.SessionExpiryInterval = 3600
    client.connect(HOST, port, clean_start=False if version == "5" else 3, properties=properties)
    client.loop_forever()
    return time.perf_counter() - began


def _drain_ours(port: int, messages: int, version: str, window: int, data_dir: Path) -> float:
    """Seconds that session, decoder and store take to commit and then acknowledge the queue."""
    store = open_store(data_dir)
    sensors = {f"b-{n:04d}": Sensor(f"b-{n:04d}", "bench") for n in range(SENSORS)}
    decoder = Decoder(sensors, load_profiles())
    settings = MqttSettings(host=HOST, port=port, client_id="ours", window=window, version=version)
    session = Session(settings, time.time)
    session.start()
    done, began, limit = 0, 0.0, time.monotonic() + _LIMIT_S
    try:
        while done < messages and time.monotonic() < limit:
            one = session.next(1.0)
            if one is None or not one.messages:
                continue
            began = began or time.perf_counter()
            store.history.commit(decoder.decode(one.messages))
            session.done(one)
            done += len(one.messages)
        while session.status().acknowledged < messages and time.monotonic() < limit:
            session.next(0.01)
        took = time.perf_counter() - began
        if store.history.totals().stored != messages:
            raise BrokerError(f"only {store.history.totals().stored} of {messages} were stored")
        return took
    finally:
        session.stop()
        store.close()
