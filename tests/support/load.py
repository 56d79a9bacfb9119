"""A load of sensors as a process of its own: known readings, each counted as sent once the broker has said so.

    python load.py --port 1883 --sensors 8 --first 0 --each 1000 --per-second 500 --record FILE

Every sensor is a client of its own. It publishes ``each`` readings at QoS 1, numbered from ``first``, and for
each acknowledgement a line "sensor number moment" goes to FILE (moment: the monotonic clock [s]). A broken
connection is made anew and what was not acknowledged is sent again, as a device with a memory would. It ends when
all are acknowledged, by SIGTERM (no more are begun), or after ``--limit`` seconds; exit status 0 only where every
reading that was begun was acknowledged.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import paho.mqtt.client as paho

T0_S = 1_767_225_600  # 2026-01-01T00:00:00Z
WINDOW = 100  # unacknowledged readings of a sensor at most


def sensor_name(number: int) -> str:
    return f"d-{number:02d}"


def topic(sensor: str) -> str:
    return f"quarterline/v1/{sensor}/readings"


def body(number: int) -> bytes:
    """The reading of this number: one second after the one before."""
    return b'{"time": %d, "seq": %d, "surface_mm": %d, "inlet_c": %d}' % (
        T0_S + number,
        number,
        1000 + number % 100,
        20 + number % 50,
    )


class Device:
    """One sensor's client."""

    def __init__(self, sensor: str, port: int, record: IO[str], lock: threading.Lock) -> None:
        self._sensor = sensor
        self._record, self._lock = record, lock
        self._halves: dict[int, float] = {}  # by packet identifier, while unacknowledged
        self._room = threading.Semaphore(WINDOW)
        self._mine = threading.Lock()
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=f"load-{sensor}",
            clean_session=False,
            protocol=paho.MQTTv311,
        )
        client.max_inflight_messages_set(WINDOW)
        client.max_queued_messages_set(0)
        client.reconnect_delay_set(1, 1)
        client.on_publish = self._acknowledged
        self._client = client
        client.connect_async("127.0.0.1", port, keepalive=10)
        client.loop_start()

    def publish(self, number: int, stopping: threading.Event) -> bool:
        while not self._room.acquire(timeout=0.1):
            if stopping.is_set():
                return False
        # no lock across publish(): paho calls back under a lock of its own
        self._settle(self._client.publish(topic(self._sensor), body(number), qos=1).mid, number)
        return True

    def _acknowledged(self, _client: paho.Client, _data: Any, mid: int, *_: Any) -> None:
        self._settle(mid, time.monotonic())

    def _settle(self, mid: int, half: float) -> None:
        """A reading's number and the moment of its acknowledgement come in either order."""
        with self._mine:
            other = self._halves.pop(mid, None)
            if other is None:
                self._halves[mid] = half
                return
        number, moment = (half, other) if isinstance(half, int) else (other, half)
        with self._lock:
            self._record.write(f"{self._sensor} {number} {moment:.3f}\n")
        self._room.release()

    def open(self) -> int:
        with self._mine:
            return len(self._halves)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sensors", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--each", type=int, required=True)
    parser.add_argument("--per-second", type=float, default=500.0)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--record", type=Path, required=True)
    said = parser.parse_args()

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    end = time.monotonic() + said.limit
    with said.record.open("a", encoding="utf-8", buffering=1) as record:
        lock = threading.Lock()
        devices = [Device(sensor_name(n), said.port, record, lock) for n in range(said.sensors)]
        began = time.monotonic()
        for k in range(said.each):
            if stopping.is_set() or time.monotonic() > end:
                break
            for device in devices:
                if not device.publish(said.first + k, stopping):
                    break
            stopping.wait(max(0.0, began + (k + 1) * said.sensors / said.per_second - time.monotonic()))
        while time.monotonic() < end and any(device.open() for device in devices):
            time.sleep(0.02)  # between two looks
        left = sum(device.open() for device in devices)
        with suppress(OSError):
            for device in devices:
                device.close()
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
