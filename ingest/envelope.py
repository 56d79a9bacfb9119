"""What a network server's envelope comes down to, whichever server it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.refused import Refused, shown
from store.records import Json


@dataclass(frozen=True, slots=True)
class Uplink:
    """One message of a device as its network server passed it on."""

    document: Any = None  # the decoded object; None: a heartbeat
    time: Any = None  # as stated
    time_name: str = "time"
    seq: Any = None
    seq_name: str = "seq"
    values: dict[str, float] = field(default_factory=dict)  # SI values the server itself adds, by column
    units: Mapping[str, str] = field(default_factory=dict)  # units the message itself states, by field
    raw: bytes | None = None  # the device's own bytes, where they came along
    port: int | None = None  # … and the LoRaWAN port they came on
    unread: Refused | None = None  # nobody decoded ``raw``: why, unless the device profile's codec can
    heard: bool = True  # the device itself spoke; False: its server spoke of it


def table(document: Any, name: str) -> Json:
    """A part that must be an object; absent or null is an empty one.

    Raises
    ------
    Refused
    """
    if document is None:
        return {}
    if type(document) is not dict:
        raise Refused("envelope", f"{name}: expected an object, found {shown(document)}")
    return document


def text(document: Any, name: str) -> str | None:
    """A part that must be text; ``None`` where absent or null.

    Raises
    ------
    Refused
    """
    if document is not None and type(document) is not str:
        raise Refused("envelope", f"{name}: expected text, found {shown(document)}")
    return document


def undecoded(name: str, server: str) -> Refused:
    """The refusal of bytes nobody decoded."""
    return Refused(
        "undecoded", f"{name}: missing, only bytes came; give the device a payload codec in {server}"
    )
