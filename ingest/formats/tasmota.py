"""Tasmota: ``tele/<topic>/SENSOR`` with one object a chip, ``tele/<topic>/LWT`` Online or Offline.

``Time`` is local and has no offset unless the device is told to send one; ``Epoch`` beside it, where it is there,
is exact. What ``Distance`` is differs by chip (mm of a VL53L0X, km to a thunderstorm of an AS3935): the device
profile names chip and unit. Fields after tasmota.github.io/docs, MQTT and Supported-Peripherals.
"""

from __future__ import annotations

from typing import Any, Final

from ingest.envelope import Uplink, table
from ingest.formats import words
from ingest.formats.part import Format, Part, Place

_TEMPERATURE: Final = {"C": "c", "F": "f"}
_ABOUT: Final = ("Time", "Epoch", "TempUnit", "PressureUnit")  # all chips at once
_PRESSURE: Final = {"hPa": "mbar", "mmHg": "mmhg", "inHg": "inhg"}


def read(payload: bytes, place: Place) -> list[Part]:
    """One telemetry message, or a last will.

    Raises
    ------
    Refused
    """
    if place.event.upper() == "LWT":
        online = words.status(payload)
        return [Part(place.sensor, online=online, heard=False)]
    if place.event.upper() == "STATE":  # uptime and network, no chip
        return [Part(place.sensor)]
    document = table(words.document(payload), "payload")
    exact = document.get("Epoch")
    measured = {name: one for name, one in document.items() if name not in _ABOUT}
    return [
        Part(
            place.sensor,
            Uplink(
                document=measured,
                time=document.get("Time") if exact is None else exact,
                time_name="Time" if exact is None else "Epoch",
                units=_units(measured, document),
            ),
        )
    ]


def _units(measured: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
    """The units Tasmota states for all chips at once, by path of each value."""
    stated = {
        "Temperature": _TEMPERATURE.get(str(document.get("TempUnit"))),
        "Pressure": _PRESSURE.get(str(document.get("PressureUnit"))),
    }
    return {
        f"{chip}.{name}": unit
        for chip, values in measured.items()
        if type(values) is dict
        for name, unit in stated.items()
        if unit is not None and name in values
    }


FORMAT: Final = Format("tasmota", "Tasmota", ("tele/{sensor}/{event}",), read)
