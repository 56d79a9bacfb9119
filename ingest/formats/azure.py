"""Azure: messages of IoT Hub as Event Grid, CloudEvents and routing wrap them, the body as an object or in base64.

The device is the one the hub itself authenticated: ``iothub-connection-device-id`` (or ``connectionDeviceId``,
``data.deviceId``). Fields after learn.microsoft.com: Event Grid schema of IoT Hub, IoT Hub message routing.
"""

from __future__ import annotations

from typing import Any, Final

from ingest.envelope import Uplink, table, text
from ingest.formats import words
from ingest.formats.part import Format, Part, Place
from ingest.formats.same import same_sensor
from ingest.refused import Refused
from store.records import Json

_TELEMETRY: Final = "Microsoft.Devices.DeviceTelemetry"
_PRESENCE: Final = {"Microsoft.Devices.DeviceConnected": True, "Microsoft.Devices.DeviceDisconnected": False}
_DEVICE: Final = ("iothub-connection-device-id", "connectionDeviceId")
_QUEUED: Final = ("iothub-creation-time-utc", "iothub-enqueuedtime", "enqueuedTime")


def read(payload: bytes, place: Place) -> list[Part]:
    """One event, or an array of them.

    Raises
    ------
    Refused
    """
    document = words.document(payload)
    if type(document) is not list:
        return [_event(table(document, "payload"), place)]
    found = []
    for at, one in enumerate(document):
        try:
            found.append(_event(table(one, "event"), place))
        except Refused as refused:
            found.append(Part(place.sensor, refused=Refused(refused.reason, f"[{at}] {refused.detail}")))
    return found or [Part(place.sensor, heard=False)]


def _event(event: Json, place: Place) -> Part:
    kind = event.get("eventType", event.get("type"))
    if "Body" in event or "SystemProperties" in event:
        return _message(event.get("Body"), event.get("SystemProperties"), event.get("EnqueuedTimeUtc"), place)
    data = table(event.get("data"), "data")
    online = _PRESENCE.get(kind) if type(kind) is str else None
    if online is not None:
        sensor = same_sensor(text(data.get("deviceId"), "data.deviceId"), "data.deviceId", place)
        return Part(sensor, online=online, heard=False, optional=True)
    if kind != _TELEMETRY:
        return Part(place.sensor, heard=False, optional=True)
    return _message(
        data.get("body"), data.get("systemProperties"), event.get("eventTime", event.get("time")), place
    )


def _message(body: Any, system: Any, fallback: Any, place: Place) -> Part:
    properties = table(system, "systemProperties")
    stated = next((properties[name] for name in _DEVICE if name in properties), None)
    sensor = same_sensor(text(stated, _DEVICE[0]), _DEVICE[0], place)
    if type(body) is str:
        body = words.document(words.from_base64(body, "body") or b"")
    inner = table(body, "body")
    own = inner.get("time")
    queued = next((properties[name] for name in _QUEUED if name in properties), fallback)
    return Part(
        sensor,
        Uplink(
            document=inner,
            time=queued if own is None else own,
            time_name="eventTime" if own is None else "time",
        ),
    )


FORMAT: Final = Format("azure", "Azure IoT Hub and Event Grid", ("azure/#",), read)
