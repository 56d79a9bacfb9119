"""Milesight gateways, whose uplink is like that of ChirpStack: the DevEUI names the sensor."""

from __future__ import annotations

from typing import Final

from ingest.envelope import table
from ingest.formats import chirpstack, words
from ingest.formats.part import Format, Part, Place
from ingest.formats.same import same_sensor


def read(payload: bytes, place: Place) -> list[Part]:
    """One uplink.

    Raises
    ------
    Refused
    """
    envelope = table(words.document(payload), "payload")
    sensor = same_sensor(chirpstack.eui_of(envelope), "devEUI", place)
    return [Part(sensor, chirpstack.up(envelope))]


FORMAT: Final = Format(
    "milesight", "Milesight gateways", ("milesight/uplink", "milesight/uplink/{sensor}"), read
)
