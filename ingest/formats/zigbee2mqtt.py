"""Zigbee2MQTT: ``zigbee2mqtt/<friendly name>`` with the device's state, ``…/availability``.

A friendly name can be changed. With ``include_device_information`` the state carries the device's IEEE address,
and that is then the sensor's id (``0x00124b0012345678``). Fields after zigbee2mqtt.io, MQTT topics and messages.
"""

from __future__ import annotations

from typing import Final

from ingest.envelope import Uplink, table, text
from ingest.formats import words
from ingest.formats.part import Format, Part, Place


def read(payload: bytes, place: Place) -> list[Part]:
    """One state, or a word on availability (text, or an object with ``state``).

    Raises
    ------
    Refused
    """
    if place.sensor == "bridge":  # Zigbee2MQTT's own
        return [Part("", heard=False)]
    if place.event == "availability":
        if payload.lstrip()[:1] == b"{":
            online = words.connectivity(table(words.document(payload), "payload").get("state"), "state")
        else:
            online = words.status(payload)
        return [Part(place.sensor, online=online, heard=False)]
    if place.event:  # set, get and whatever else a client publishes below the device
        return [Part(place.sensor, heard=False)]
    document = dict(table(words.document(payload), "payload"))
    address = text(table(document.pop("device", None), "device").get("ieeeAddr"), "device.ieeeAddr")
    sensor = (address or place.sensor).lower()
    seen = document.pop("last_seen", None)
    return [Part(sensor, Uplink(document=document, time=seen, time_name="last_seen"))]


FORMAT: Final = Format(
    "zigbee2mqtt", "Zigbee2MQTT", ("zigbee2mqtt/{sensor}", "zigbee2mqtt/{sensor}/{event}"), read
)
