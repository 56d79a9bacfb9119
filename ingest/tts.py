"""The Things Stack v3 over MQTT: ``v3/<application>@<tenant>/devices/<device id>/<kind>``.

Fields after the API reference of The Things Stack; zero, false and empty values are left out by the server.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.envelope import Uplink, table, text, undecoded
from ingest.refused import Refused, shown

TOPIC: Final = re.compile(r"v3/[^/]+/devices/([^/]+)/([a-z]+(?:/[a-z]+)*)")


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
        It is simulated, no envelope, or nobody decoded its bytes.
    """
    envelope = table(document, "payload")
    if envelope.get("simulated") is True:
        raise Refused("simulated", "simulated: true; a simulated uplink is never a reading")
    if event != "up":
        return Uplink()
    message = table(envelope.get("uplink_message"), "uplink_message")
    decoded = message.get("decoded_payload")
    if decoded is None and message.get("frm_payload"):
        raise undecoded("uplink_message.decoded_payload", "The Things Stack")
    return Uplink(
        document=decoded,
        time=message.get("received_at", envelope.get("received_at")),
        time_name="uplink_message.received_at",
        seq=message.get("f_cnt", 0),  # zeros are left out
        seq_name="uplink_message.f_cnt",
    )
