"""ESPHome: ``<node>/sensor/<entity>/state`` as bare text, ``<node>/status`` online or offline.

Each entity has a topic of its own and no time; ``nan`` and ``None`` mean: no value.
Topics after esphome.io, MQTT Client Component.
"""

from __future__ import annotations

from typing import Final

from ingest.envelope import Uplink
from ingest.formats import words
from ingest.formats.part import Format, Part, Place


def read(payload: bytes, place: Place) -> list[Part]:
    """One state of one entity, or the node's word that it is there.

    Raises
    ------
    Refused
    """
    if not place.field:
        online = words.status(payload)
        return [Part(place.sensor, online=online, heard=False)]
    return [Part(place.sensor, Uplink(document={place.field: words.plain(payload)}))]


FORMAT: Final = Format("esphome", "ESPHome", ("{sensor}/sensor/{field}/state", "{sensor}/status"), read)
