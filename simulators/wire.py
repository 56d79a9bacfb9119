"""The sensors' way to the broker: one MQTT connection that speaks for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from simulators.network import Message

MOST_WAITING: Final = 4000  # messages the broker has not acknowledged
DRAIN_S: Final = 5.0
TELL_EVERY_S: Final = 5.0
FIRST_TELL_S: Final = 1.0

Say = Callable[[str], None]


class Broker:
    """The way to the broker: one connection that speaks for every sensor, QoS 1, bounded in flight."""

    def __init__(self, host: str, port: int, username: str | None, password: str | None, tell: Say) -> None:
        self._tell = tell
        self._address = (host, port)
        self._up = threading.Event()
        self._count = threading.Condition()
        self._unacknowledged = 0
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id="quarterline-city", protocol=MQTTProtocolVersion.MQTTv311
        )
        if username is not None:
            client.username_pw_set(username, password)
        client.max_inflight_messages_set(200)
        client.reconnect_delay_set(1, 10)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        self._client = client

    def start(self) -> None:
        """Connect in the background, again and again until it succeeds."""
        self._client.connect_async(*self._address, keepalive=30)
        self._client.loop_start()

    def wait_up(self, stop: threading.Event) -> bool:
        """Wait until the connection stands; False when it is time to stop."""
        waited = TELL_EVERY_S - FIRST_TELL_S
        while not self._up.wait(0.1):
            if stop.is_set():
                return False
            waited += 0.1
            if waited >= TELL_EVERY_S:
                waited = 0.0
                self._tell(f"no connection to the broker at {self._address[0]}:{self._address[1]} yet")
        return True

    def publish(self, message: Message) -> None:
        """Send one message; never waits."""
        with self._count:
            self._unacknowledged += 1
        self._client.publish(message.topic, message.payload, qos=1, retain=message.retain)

    def room(self, stop: threading.Event, most: int = MOST_WAITING) -> bool:
        """Wait until at most ``most`` messages are unacknowledged; False when it is time to stop."""
        with self._count:
            while self._unacknowledged > most:
                if stop.is_set():
                    return False
                self._count.wait(0.1)
        return True

    def stop(self) -> None:
        """Let what was sent be acknowledged, within 5 seconds, and disconnect."""
        limit = time.monotonic() + DRAIN_S
        with self._count:
            while self._unacknowledged and self._up.is_set() and (left := limit - time.monotonic()) > 0.0:
                self._count.wait(left)
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(
        self, _client: mqtt.Client, _data: object, _flags: object, reason: ReasonCode, _properties: object
    ) -> None:
        if reason.is_failure:
            self._tell(f"the broker refuses: {reason}")
            return
        self._up.set()

    def _on_disconnect(
        self, _client: mqtt.Client, _data: object, _flags: object, reason: ReasonCode, _properties: object
    ) -> None:
        self._up.clear()
        if reason.is_failure:
            self._tell(f"connection to the broker lost: {reason}; messages wait")

    def _on_publish(
        self, _client: mqtt.Client, _data: object, _mid: int, _reason: ReasonCode, _properties: object
    ) -> None:
        with self._count:
            self._unacknowledged -= 1
            self._count.notify_all()
