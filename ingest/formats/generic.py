"""JSON and plain text of any maker on a topic of one's own; the device profile says what the fields mean.

The topic names the sensor: ``plant/{sensor}/level``. Of plain text it may name the field too; otherwise the field is
``value``. An object may bring ``time`` and ``seq`` of the native message.
"""

from __future__ import annotations

from typing import Final

from ingest.envelope import Uplink
from ingest.formats import words
from ingest.formats.part import Format, Part, Place
from ingest.limits import check, split
from ingest.refused import Refused


def read_json(payload: bytes, place: Place) -> list[Part]:
    """An object, or an array of them: a reading each.

    Raises
    ------
    Refused
    """
    if payload.lstrip()[:1] != b"[":
        return [_object(payload, place)]
    check(payload, most=1 << 20)
    found = []
    for at, element in enumerate(split(payload)):
        try:
            found.append(_object(element, place))
        except Refused as refused:
            found.append(Part(place.sensor, refused=Refused(refused.reason, f"[{at}] {refused.detail}")))
    return found or [Part(place.sensor)]


def _object(payload: bytes, place: Place) -> Part:
    document = words.document(payload)
    if type(document) is not dict:  # a bare JSON value on a topic that names its field
        document = {place.field or "value": document}
    return Part(place.sensor, Uplink(document=document, time=document.get("time"), seq=document.get("seq")))


def read_text(payload: bytes, place: Place) -> list[Part]:
    """One bare value.

    Raises
    ------
    Refused
    """
    return [Part(place.sensor, Uplink(document={place.field or "value": words.plain(payload)}))]


JSON: Final = Format("json", "JSON through a device profile", (), read_json)
TEXT: Final = Format("text", "plain text through a device profile", (), read_text)
