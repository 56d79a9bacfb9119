"""ChirpStack events: ``application/<id>/device/<DevEUI>/event/<kind>``, JSON marshaler, versions 3 and 4.

Fields after chirpstack-docs, integrations/events. Version 3 has the DevEUI in base64 (or hexadecimal) and the decoded
object as text in ``objectJSON``; its events are up, status, join, ack, txack, error, location and integration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from analysis.units import QUANTITIES
from ingest.envelope import Uplink, table, text, undecoded
from ingest.formats import words
from ingest.native import as_si, entry, not_a_number
from ingest.refused import Refused, shown

TOPIC: Final = re.compile(r"application/[^/]+/device/([^/]+)/event/([a-z]+)")
_BATTERY: Final = entry(QUANTITIES["battery_pct"], "pct")
_DEVICE: Final = (
    "join",
    "ack",
    "location",
)  # the device spoke; txack, log, error, integration: the server did
_NAMED: Final = re.compile(r"[0-9A-Fa-f]{16}")


def read(document: Any, eui: str, event: str) -> Uplink:
    """One event of the device whose DevEUI the topic names.

    Raises
    ------
    Refused
        The envelope is none of ChirpStack's, or names another device.
    """
    envelope = table(document, "payload")
    stated = eui_of(envelope)
    if stated is not None and stated != eui:
        name = "devEUI" if "devEUI" in envelope else "deviceInfo.devEui"
        raise Refused("sensor_mismatch", f"{name}: {shown(stated)} came on the topic of {shown(eui)}")
    if event == "up":
        return up(envelope)
    if event == "status":
        return _status(envelope)
    return Uplink(heard=event in _DEVICE)


def eui_of(envelope: Mapping[str, Any]) -> str | None:
    """The DevEUI in an envelope of either version, in small hexadecimal digits; None where it names none.

    Raises
    ------
    Refused
    """
    if "devEUI" not in envelope:
        stated = text(table(envelope.get("deviceInfo"), "deviceInfo").get("devEui"), "deviceInfo.devEui")
        return None if stated is None else stated.lower()
    stated = text(envelope["devEUI"], "devEUI")
    if stated is None or _NAMED.fullmatch(stated):
        return None if stated is None else stated.lower()
    raw = words.from_base64(stated, "devEUI")
    if raw is None or len(raw) != 8:
        raise Refused("envelope", f"devEUI: expected eight bytes, found {shown(stated)}")
    return raw.hex()


def up(envelope: Mapping[str, Any]) -> Uplink:
    """An uplink of either version.

    Raises
    ------
    Refused
    """
    document = envelope.get("object")
    if document is None:
        document = _object_json(envelope.get("objectJSON"))
    raw = words.from_base64(envelope.get("data"), "data")
    return Uplink(
        document=document,
        time=_time(envelope),
        seq=envelope.get("fCnt", 0),  # early versions leave zeros out
        seq_name="fCnt",
        raw=raw,
        port=words.port(envelope.get("fPort"), "fPort"),
        unread=undecoded("object", "ChirpStack") if document is None and raw else None,
    )


def _object_json(found: Any) -> Any:
    written = text(found, "objectJSON")
    if not written:
        return None
    try:
        return words.document(written.encode())
    except UnicodeEncodeError:
        raise Refused("envelope", "objectJSON: half a character; send UTF-8") from None


def _time(envelope: Mapping[str, Any]) -> Any:
    """Version 4 says when; version 3 where it was published, or heard by the first gateway with a clock."""
    for name in ("time", "publishedAt"):
        if envelope.get(name) is not None:
            return envelope[name]
    hops = envelope.get("rxInfo") if "devEUI" in envelope else None
    if type(hops) is not list:
        return None
    times = [hop["time"] for hop in hops if type(hop) is dict and hop.get("time") is not None]
    return times[0] if times else None


def _status(envelope: Mapping[str, Any]) -> Uplink:
    level = envelope.get("batteryLevel")
    if level is None or envelope.get("batteryLevelUnavailable") or envelope.get("externalPowerSource"):
        return Uplink()
    if type(level) is not int and type(level) is not float:
        raise not_a_number("batteryLevel", level)
    return Uplink(time=_time(envelope), values={_BATTERY[0]: as_si("batteryLevel", level, _BATTERY)})
