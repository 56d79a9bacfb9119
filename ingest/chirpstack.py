"""ChirpStack v4 events: ``application/<id>/device/<DevEUI>/event/<kind>``, JSON marshaler.

Fields after chirpstack-docs, integrations/events.
"""

from __future__ import annotations

import re
from typing import Any, Final

from analysis.units import QUANTITIES
from ingest.envelope import Uplink, table, text, undecoded
from ingest.native import as_si, entry, not_a_number
from ingest.refused import Refused, shown

TOPIC: Final = re.compile(r"application/[^/]+/device/([^/]+)/event/([a-z]+)")
_BATTERY: Final = entry(QUANTITIES["battery_pct"], "pct")


def read(document: Any, eui: str, event: str) -> Uplink:
    """One event of the device whose DevEUI the topic names.

    Raises
    ------
    Refused
        The envelope is none of ChirpStack v4's, names another device, or nobody decoded its bytes.
    """
    envelope = table(document, "payload")
    if "devEUI" in envelope or "objectJSON" in envelope:
        raise Refused(
            "envelope", "payload: an envelope of ChirpStack v3; version 4 is understood, upgrade the server"
        )
    stated = text(table(envelope.get("deviceInfo"), "deviceInfo").get("devEui"), "deviceInfo.devEui")
    if stated is not None and stated.lower() != eui:
        raise Refused(
            "sensor_mismatch", f"deviceInfo.devEui: {shown(stated)} came on the topic of {shown(eui)}"
        )
    if event == "up":
        return _up(envelope)
    if event == "status":
        return _status(envelope)
    return Uplink()


def _up(envelope: dict[str, Any]) -> Uplink:
    document = envelope.get("object")
    if document is None and envelope.get("data"):
        raise undecoded("object", "ChirpStack")
    count = envelope.get("fCnt", 0)  # early v4 leaves zeros out
    return Uplink(document=document, time=envelope.get("time"), seq=count, seq_name="fCnt")


def _status(envelope: dict[str, Any]) -> Uplink:
    level = envelope.get("batteryLevel")
    if level is None or envelope.get("batteryLevelUnavailable") or envelope.get("externalPowerSource"):
        return Uplink()
    if type(level) is not int and type(level) is not float:
        raise not_a_number("batteryLevel", level)
    return Uplink(time=envelope.get("time"), values={_BATTERY[0]: as_si("batteryLevel", level, _BATTERY)})
