"""ThingPark (Actility): ``DevEUI_uplink`` and its sisters, one object an event.

The decoded object is ``payload`` where ThingPark has a driver for the device; the driver's name in the envelope may
be another device's, so that only the sensor's own device profile counts.
"""

from __future__ import annotations

from typing import Final

from ingest.envelope import Uplink, table, text, undecoded
from ingest.formats import words
from ingest.formats.part import Format, Part, Place
from ingest.formats.same import same_sensor
from ingest.refused import Refused

_UPLINK: Final = "DevEUI_uplink"
_HEARD: Final = ("DevEUI_location", "DevEUI_notification")


def read(payload: bytes, place: Place) -> list[Part]:
    """One event.

    Raises
    ------
    Refused
    """
    envelope = table(words.document(payload), "payload")
    kind = next((name for name in envelope if name.startswith("DevEUI_")), None)
    if kind is None:
        raise Refused("envelope", f"{_UPLINK}: missing; this is no event of ThingPark")
    event = table(envelope[kind], kind)
    eui = text(event.get("DevEUI"), f"{kind}.DevEUI")
    sensor = same_sensor(eui, f"{kind}.DevEUI", place)
    if kind != _UPLINK:
        return [Part(sensor, heard=kind in _HEARD, optional=True)]
    raw = words.from_hex(event.get("payload_hex"), "DevEUI_uplink.payload_hex")
    decoded = event.get("payload")
    uplink = Uplink(
        document=decoded,
        time=event.get("Time"),
        time_name="DevEUI_uplink.Time",
        seq=event.get("FCntUp", 0),
        seq_name="DevEUI_uplink.FCntUp",
        raw=raw,
        port=words.port(event.get("FPort"), "DevEUI_uplink.FPort"),
        unread=undecoded("DevEUI_uplink.payload", "ThingPark") if decoded is None and raw else None,
    )
    return [Part(sensor, uplink)]


FORMAT: Final = Format(
    "thingpark", "ThingPark (Actility)", ("mqtt/things/{sensor}/uplink", "thingpark/#"), read
)
