"""What the benchmarks send: messages of a thousand sensors, by number and shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from store.records import Sensor

SENSORS: Final = 1000
_T0_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_EVERY_MS: Final = 900_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One layout of a message: its sensors, where the message of a number is published, what it says."""

    name: str
    title: str
    filter: str
    sensor: Callable[[int], Sensor]
    topic: Callable[[int], str]
    payload: Callable[[int], bytes]
    readings: int = 1  # in a message

    def sensors(self) -> dict[str, Sensor]:
        """All of them, by id."""
        return {one.id: one for one in map(self.sensor, range(SENSORS))}


def sensor(number: int) -> str:
    """Whose the message of this number is."""
    return f"b-{number % SENSORS:04d}"


def topic(number: int) -> str:
    """Where it is published."""
    return f"quarterline/v1/{sensor(number)}/readings"


def at(number: int) -> int:
    """When it was measured [ms since the epoch]: a sensor sends every 15 minutes."""
    return _T0_MS + number // SENSORS * _EVERY_MS


def payload(number: int) -> bytes:
    """One native message of nine fields."""
    return (
        f'{{"time": {at(number)}, "seq": {number // SENSORS}, "surface_mm": {1180 + number % 40}, '
        f'"fog_bottom_mm": {1101 - number % 50}, "solids_top_mm": {88 + number % 9}, "inlet_f": 104.5, '
        f'"inlet_max_f": 118.4, "tank_c": 27.{number % 10}, "battery_v": 3.61}}'
    ).encode()


def _small(number: int) -> bytes:
    return b'{"time": %d, "surface_mm": %d}' % (at(number), 1180 + number % 40)


def _eleven(number: int) -> bytes:
    return payload(number)[:-1] + b', "rssi_dbm": -%d, "air_c": 19.5}' % (70 + number % 30)


def _electrodes(count: int) -> Callable[[int], bytes]:
    def body(number: int) -> bytes:
        values = [round(0.4 + (number + k) % 50 / 100, 2) for k in range(count)]
        return _text({"time": at(number), "seq": number // SENSORS, "profile": values, "tank_c": 27.5})

    return body


def _array(number: int) -> bytes:
    first = _T0_MS + number // SENSORS * 50 * _EVERY_MS
    return _text(
        [{"time": first + k * _EVERY_MS, "surface_mm": 1180 + k, "inlet_c": 40.5} for k in range(50)]
    )


def _eui(number: int) -> str:
    return f"{0xA840410000000000 + number % SENSORS:016x}"


def _chirpstack(number: int) -> bytes:
    at_s = at(number) // 1000
    eui = _eui(number)
    hop = {"gatewayId": "0016c001f153a14c", "uplinkId": number, "rssi": -36, "snr": 10.5, "metadata": {}}
    return _text({
        "deduplicationId": f"00000000-0000-4000-8000-{number:012x}", "time": at_s,
        "deviceInfo": {"tenantName": "t", "applicationId": "u", "applicationName": "a", "devEui": eui,
                       "deviceProfileName": "p", "deviceName": "n", "tags": {}},
        "devAddr": "00189440", "adr": True, "dr": 1, "fCnt": number // SENSORS, "fPort": 85, "confirmed": False,
        "data": "A2cKAQSC0AM=", "object": {"distance": 900 + number % 90, "temperature": 26.6, "battery": 98},
        "rxInfo": [hop, hop],
        "txInfo": {"frequency": 867100000, "modulation": {"lora": {"bandwidth": 125000, "spreadingFactor": 11}}},
    })  # fmt: skip


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def _native(number: int) -> Sensor:
    return Sensor(sensor(number), "bench")


_READINGS: Final = "quarterline/v1/+/readings"
NINE: Final = Shape("nine", "9 fields", _READINGS, _native, topic, payload)
SHAPES: Final = {
    one.name: one
    for one in (
        NINE,
        Shape("small", "1 field", _READINGS, _native, topic, _small),
        Shape("eleven", "11 fields", _READINGS, _native, topic, _eleven),
        Shape("rods", "rods of 24 electrodes", _READINGS, _native, topic, _electrodes(24)),
        Shape("array", "array of 50 readings", _READINGS, _native, topic, _array, readings=50),
        Shape("electrodes", "200 electrodes", _READINGS, _native, topic, _electrodes(200)),
        Shape(
            "chirpstack",
            "ChirpStack v4 event",
            "application/+/device/+/event/up",
            lambda number: Sensor(_eui(number), "bench", profile="milesight-udl"),
            lambda number: f"application/1/device/{_eui(number)}/event/up",
            _chirpstack,
        ),
    )
}
