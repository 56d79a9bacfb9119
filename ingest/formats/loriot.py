"""LORIOT: ``{"cmd": "rx" or "gw", "EUI": …, "ts": ms, "fcnt", "port", "data": hex}``; ``gw`` names the gateways too.

``bat`` is the network server's own reckoning of the LoRaWAN battery byte, beside what the device says of itself, and
no percentage: it is left alone. Other commands (downlinks, statistics) are the server's. The decoded object is
``decoded`` where the server has a codec.
"""

from __future__ import annotations

from typing import Final

from ingest.envelope import Uplink, table, text, undecoded
from ingest.formats import words
from ingest.formats.part import Format, Part, Place
from ingest.formats.same import same_sensor
from ingest.refused import Refused


def read(payload: bytes, place: Place) -> list[Part]:
    """One message of LORIOT's application output.

    Raises
    ------
    Refused
    """
    envelope = table(words.document(payload), "payload")
    command, eui = text(envelope.get("cmd"), "cmd"), text(envelope.get("EUI"), "EUI")
    if command is None:
        raise Refused("envelope", "cmd: missing; this is no message of LORIOT")
    if command not in ("rx", "gw") or eui is None:
        return [Part((eui or place.sensor).lower(), heard=False, optional=True)]
    sensor = same_sensor(eui, "EUI", place)
    raw = words.from_hex(envelope.get("data"), "data")
    decoded = envelope.get("decoded")
    if type(decoded) is dict and type(decoded.get("data")) is dict:
        decoded = decoded["data"]
    uplink = Uplink(
        document=decoded,
        time=envelope.get("ts"),
        time_name="ts",
        seq=envelope.get("fcnt", 0),
        seq_name="fcnt",
        raw=raw,
        port=words.port(envelope.get("port"), "port"),
        unread=undecoded("decoded", "LORIOT, or in its device profile") if decoded is None and raw else None,
    )
    return [Part(sensor, uplink)]


FORMAT: Final = Format("loriot", "LORIOT", ("loriot/+/{event}", "loriot/{event}"), read)
