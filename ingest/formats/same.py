"""Whose an envelope is, where topic and envelope may both name the device."""

from __future__ import annotations

from ingest.formats.part import Place
from ingest.refused import Refused, shown


def same_sensor(stated: str | None, name: str, place: Place) -> str:
    """The sensor an envelope names, which must be the topic's where that names one.

    Raises
    ------
    Refused
        They differ, or neither names one.
    """
    found = (stated or "").lower()
    if place.sensor and found and found != place.sensor:
        raise Refused(
            "sensor_mismatch", f"{name}: {shown(stated)} came on the topic of {shown(place.sensor)}"
        )
    if not (found or place.sensor):
        raise Refused("envelope", f"{name}: missing, and the topic names no sensor")
    return found or place.sensor
