"""`quarterline bench ingest`: messages a second acknowledged after commit, beside the bare client in the same run.

A Mosquitto of our own on loopback keeps a queue of messages for an absent consumer. Then, in turn, a bare paho
loop receives and acknowledges such a queue, and session, decoder and store drain another: their ratio is the figure.
Where a Telegraf is on PATH it drains a third.
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

from ingest.bench_payload import NINE, Shape
from ingest.bench_telegraf import CLIENT, drain_telegraf, telegraf
from ingest.broker import BrokerError
from ingest.decode import Decoder
from ingest.profile import load_profiles
from ingest.session import SWITCH_S, MqttSettings, Session
from store import open_store

HOST: Final = "127.0.0.1"
GOAL: Final = 0.65
_LIMIT_S: Final = 300.0
_PUBLISHED_AT_ONCE: Final = 5000  # the publisher's own queue is bounded
_CONFIG: Final = """\
listener {port} {host}
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages {window}
log_type none
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the runs [messages/s]."""

    shape: Shape
    messages: int
    window: int
    version: str
    bare: tuple[float, ...]
    ours: tuple[float, ...]
    telegraf: tuple[float, ...] = ()  # empty where there is none on PATH

    @property
    def ratio(self) -> float:
        """Our median by the bare client's."""
        return statistics.median(self.ours) / statistics.median(self.bare)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "shape": self.shape.name,
            "message_bytes": len(self.shape.payload(0)),
            "messages": self.messages,
            "window": self.window,
            "mqtt": self.version,
            "bare_per_s": list(self.bare),
            "ours_per_s": list(self.ours),
            "telegraf_per_s": list(self.telegraf),
            "ratio": self.ratio,
            "goal": GOAL,
        }


def in_words(result: Result) -> str:
    """For a person."""
    shape = result.shape
    return (
        f"{result.messages} queued QoS 1 messages ({shape.title}, {len(shape.payload(0))} bytes) "
        f"over MQTT {result.version}, window {result.window}, "
        f"median of {len(result.ours)} runs\n"
        f"bare paho, receive and acknowledge:    {statistics.median(result.bare):>9,.0f} messages/s\n"
        f"acknowledged after commit (SQLite):    {statistics.median(result.ours):>9,.0f} messages/s\n"
        f"ratio {result.ratio:.2f} (goal {GOAL})\n{_beside_telegraf(result)}"
    )


def _beside_telegraf(result: Result) -> str:
    if not result.telegraf:
        return "telegraf: not on PATH, so it was not measured beside"
    theirs = statistics.median(result.telegraf)
    ratio = statistics.median(result.ours) / theirs
    return f"telegraf, to a file (no database):     {theirs:>9,.0f} messages/s, ours by it {ratio:.2f}"


def bench_ingest(
    *,
    messages: int,
    runs: int,
    version: str = "3.1.1",
    window: int = 1000,
    shape: Shape = NINE,
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
    bare: list[float] = []
    ours: list[float] = []
    peer: list[float] = []
    program = telegraf()
    with tempfile.TemporaryDirectory(prefix="quarterline-bench-") as folder:
        for run in range(runs):
            with mosquitto(Path(folder), window) as port:
                _queue(port, "bare", messages, shape)
                bare.append(messages / _drain_bare(port, messages, version, window))
            with mosquitto(Path(folder), window) as port:
                _queue(port, "ours", messages, shape)
                data = Path(folder) / f"data-{run}"
                ours.append(messages / _drain_ours(port, messages, version, window, shape, data))
            if program is not None:
                with mosquitto(Path(folder), window) as port:
                    _queue(port, CLIENT, messages, shape)
                    took = drain_telegraf(
                        program, HOST, port, messages, window, shape, Path(folder), _LIMIT_S
                    )
                    peer.append(messages / took)
            progress(f"run {run + 1}: bare {bare[-1]:,.0f}/s, ours {ours[-1]:,.0f}/s")
    sys.setswitchinterval(before)
    return Result(shape, messages, window, version, tuple(bare), tuple(ours), tuple(peer))


@contextmanager
def mosquitto(folder: Path, window: int = 1000) -> Iterator[int]:
    """A Mosquitto of our own on loopback, which drops nothing; gives its port.

    Raises
    ------
    BrokerError
        There is none on this machine, or it does not start.
    """
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise BrokerError("mosquitto is missing: apt-get install mosquitto")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = int(probe.getsockname()[1])
    config = folder / "mosquitto.conf"
    config.write_text(_CONFIG.format(port=port, host=HOST, window=window), encoding="utf-8")
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


def open_session(port: int, client_id: str, topics: str = NINE.filter) -> None:
    """Open a session for ``client_id`` and leave it: from now on the broker queues for it."""
    consumer = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=False, protocol=paho.MQTTv311
    )
    subscribed = []
    consumer.on_connect = lambda client, *_: client.subscribe(topics, qos=1)
    consumer.on_subscribe = lambda *_: subscribed.append(True)
    consumer.connect(HOST, port)
    while not subscribed:
        consumer.loop(0.1)
    consumer.disconnect()
    consumer.loop(0.1)


def _queue(port: int, client_id: str, messages: int, shape: Shape) -> None:
    """Fill the queue of a session that nobody serves."""
    open_session(port, client_id, shape.filter)
    publisher = paho.Client(CallbackAPIVersion.VERSION2, client_id="publisher")
    publisher.max_inflight_messages_set(1000)
    publisher.connect(HOST, port)
    publisher.loop_start()
    for number in range(messages):
        sent = publisher.publish(shape.topic(number), shape.payload(number), qos=1)
        if number % _PUBLISHED_AT_ONCE == 0 or number == messages - 1:
            sent.wait_for_publish(_LIMIT_S)
    publisher.disconnect()
    publisher.loop_stop()


def _drain_bare(port: int, messages: int, version: str, window: int) -> float:
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
        properties.ReceiveMaximum = window
        properties.SessionExpiryInterval = 3600
    client.connect(HOST, port, clean_start=False if version == "5" else 3, properties=properties)
    client.loop_forever()
    return time.perf_counter() - began


def _drain_ours(port: int, messages: int, version: str, window: int, shape: Shape, data_dir: Path) -> float:
    """Seconds that session, decoder and store take to commit and then acknowledge the queue."""
    store = open_store(data_dir)
    decoder = Decoder(shape.sensors(), load_profiles())
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
        stored, sent = store.history.totals().stored, messages * shape.readings
        if stored != sent:
            raise BrokerError(f"only {stored} of {sent} were stored")
        return took
    finally:
        session.stop()
        store.close()
