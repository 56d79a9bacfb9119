"""The Things Stack v3 over MQTT: ``v3/<application>@<tenant>/devices/<device id>/<kind>``.

Fields after the API reference of The Things Stack; zero, false and empty values are left out by the server.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.envelope import Uplink, table, text, undecoded
from ingest.formats import words
from ingest.refused import Refused, shown

TOPIC: Final = re.compile(r"v3/[^/]+/devices/([^/]+)/([a-z]+(?:/[a-z]+)*)")
_DEVICE: Final = ("join", "down/ack", "down/nack", "service/data", "location/solved")  # the device spoke


def sensor_of(document: Any, device: str) -> str:
    """The sensor an envelope names: the DevEUI, else the device id, which must be the topic's.

    Raises
    ------
    Refused
        It is no envelope, or it came on the topic of another device.
    """
    ids = table(table(document, "payload").get("end_device_ids"), "end_device_ids")
    stated = text(ids.get("device_id"), "end_device_ids.device_id")
    if stated is not None and stated.lower() != device:
        raise Refused(
            "sensor_mismatch",
            f"end_device_ids.device_id: {shown(stated)} came on the topic of {shown(device)}",
        )
    return (text(ids.get("dev_eui"), "end_device_ids.dev_eui") or device).lower()


def read(document: Any, event: str) -> Uplink:
    """One message of a device.

    Raises
    ------
    Refused
        It is simulated or no envelope.
    """
    envelope = table(document, "payload")
    if envelope.get("simulated") is True:
        raise Refused("simulated", "simulated: true; a simulated uplink is never a reading")
    if event == "up":
        return _up(envelope, "uplink_message")
    if event == "up/normalized":
        return _up(envelope, "uplink_normalized")
    return Uplink(heard=event in _DEVICE)


def _up(envelope: dict[str, Any], name: str) -> Uplink:
    message = table(envelope.get(name), name)
    decoded = message.get("decoded_payload")
    if decoded is None:
        decoded = _normalized(message.get("normalized_payload"), name)
    raw = words.from_base64(message.get("frm_payload"), f"{name}.frm_payload")
    return Uplink(
        document=decoded,
        time=message.get("received_at", envelope.get("received_at")),
        time_name=f"{name}.received_at",
        seq=message.get("f_cnt", 0),  # zeros are left out
        seq_name=f"{name}.f_cnt",
        raw=raw,
        port=words.port(message.get("f_port"), f"{name}.f_port"),
        unread=undecoded(f"{name}.decoded_payload", "The Things Stack") if decoded is None and raw else None,
    )


def _normalized(found: Any, name: str) -> Any:
    """The normalized object; of several measurements in one uplink the last is the newest."""
    if type(found) is list:
        found = found[-1] if found else None
    return None if found is None else table(found, f"{name}.normalized_payload")
