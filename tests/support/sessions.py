"""MQTT sessions against real brokers, for the tests that publish to them and wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho

from ingest.session import MqttSettings, Session

TOPIC = "quarterline/v1/d-1/readings"


def until(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


class Sessions:
    """Makes sessions, and ends them all."""

    def __init__(self) -> None:
        self._opened: list[Session] = []

    def __call__(self, port: int, *, wait: bool = True, **fields: Any) -> Session:
        told = {
            name: fields.pop(name) for name in ("remembered", "silent_after_s", "clock") if name in fields
        }
        clock = told.pop("clock", time.time)
        settings = MqttSettings(port=port, **{"client_id": "t", "keepalive_s": 5, **fields})
        one = Session(settings, clock, chance=random.Random(1), **told)
        self._opened.append(one)
        one.start()
        if wait:
            until(lambda: one.ready()[0], "connected")
        return one

    def close(self) -> None:
        for one in self._opened:
            one.stop()


def publish(port: int, *payloads: bytes, topic: str = TOPIC, retain: bool = False) -> None:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for info in [client.publish(topic, payload, qos=1, retain=retain) for payload in payloads]:
        info.wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


def collect(session: Session, count: int, limit_s: float = 30.0) -> list[bytes]:
    found: list[bytes] = []
    end = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < end:
        window = session.next(0.1)
        if window is not None:
            found += [one.payload for one in window.messages]
            session.done(window)
    return found
