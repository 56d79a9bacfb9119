"""AWS IoT: a thing's shadow, presence, LoRaWAN uplinks, and the console's wrapper around a message.

Shadows tell seconds, presence milliseconds. Fields after docs.aws.amazon.com/iot: device shadow documents, life cycle
events, IoT Core for LoRaWAN. A wrapped uplink of The Things Stack is read as such.
"""

from __future__ import annotations

from typing import Any, Final

from ingest.envelope import Uplink, table, text, undecoded
from ingest.formats import tts, words
from ingest.formats.part import Format, Part, Place
from ingest.formats.same import same_sensor
from ingest.refused import Refused, shown
from store.records import Json


def read(payload: bytes, place: Place) -> list[Part]:
    """One message of AWS IoT.

    Raises
    ------
    Refused
    """
    document = table(words.document(payload), "payload")
    if place.event in ("connected", "disconnected"):
        online = words.connectivity(document.get("eventType", place.event), "eventType")
        client = text(document.get("clientId"), "clientId")
        return [Part(same_sensor(client, "clientId", place), online=online, heard=False, optional=True)]
    return [_message(document, place)]


def _message(document: Json, place: Place) -> Part:
    inner = document.get("payload")
    if type(inner) is dict and "format" in document:  # as the console and its rules wrap it
        return _message(inner, place)
    if "end_device_ids" in document:
        return _things_stack(document, place)
    if "WirelessDeviceId" in document:
        return _wireless(document, place)
    if type(document.get("state")) is dict:
        return _shadow(document, place)
    if not place.sensor:
        raise Refused(
            "envelope", "payload: names no device, and neither does the topic; add {sensor} to the topic"
        )
    return Part(place.sensor, Uplink(document=document, time=document.get("timestamp", document.get("time"))))


def _shadow(document: Json, place: Place) -> Part:
    reported = document["state"].get("reported")
    if reported is None:  # only what is desired of the thing
        return Part(place.sensor, heard=False)
    uplink = Uplink(
        document=table(reported, "state.reported"), time=document.get("timestamp"), time_name="timestamp"
    )
    return Part(same_sensor(None, "topic", place), uplink)


def _things_stack(document: Json, place: Place) -> Part:
    ids = table(document["end_device_ids"], "end_device_ids")
    device = text(ids.get("device_id"), "end_device_ids.device_id")
    eui = text(ids.get("dev_eui"), "end_device_ids.dev_eui")
    if place.sensor and place.sensor not in ((device or "").lower(), (eui or "").lower()):
        raise Refused(
            "sensor_mismatch", f"end_device_ids: {shown(device)} came on the topic of {shown(place.sensor)}"
        )
    sensor = (eui or device or place.sensor).lower()
    event = next((one for one in ("up", "join") if f"{_KEYS[one]}" in document), "other")
    return Part(sensor, tts.read(document, event))


_KEYS: Final = {"up": "uplink_message", "join": "join_accept"}


def _wireless(document: Json, place: Place) -> Part:
    lorawan = table(table(document.get("WirelessMetadata"), "WirelessMetadata").get("LoRaWAN"), "LoRaWAN")
    eui = text(lorawan.get("DevEui"), "LoRaWAN.DevEui")
    data: Any = document.get("PayloadData")
    raw = words.from_base64(data, "PayloadData")
    uplink = Uplink(
        time=lorawan.get("Timestamp"),
        time_name="LoRaWAN.Timestamp",
        seq=lorawan.get("FCnt"),
        seq_name="LoRaWAN.FCnt",
        raw=raw,
        port=words.port(lorawan.get("FPort"), "LoRaWAN.FPort"),
        unread=undecoded("PayloadData", "a rule of AWS IoT, or in its device profile") if raw else None,
    )
    return Part(same_sensor(eui, "LoRaWAN.DevEui", place), uplink)


FORMAT: Final = Format(
    "aws",
    "AWS IoT",
    (
        "$aws/things/{sensor}/shadow/update/accepted",
        "$aws/things/{sensor}/shadow/name/+/update/accepted",
        "$aws/events/presence/{event}/{sensor}",
        "lorawan/+/+/things/{sensor}/up",
    ),
    read,
)
