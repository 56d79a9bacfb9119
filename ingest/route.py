"""Where a topic leads: to which sensor of the fleet, and by which format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ingest.formats import chirpstack, tts
from ingest.formats.part import Format
from ingest.formats.registry import Router
from ingest.native import Table
from ingest.profile import DeviceProfile

NATIVE_TOPIC: Final = re.compile(r"quarterline/v1/([^/]+)/(readings|status)")


@dataclass(frozen=True, slots=True)
class Device:
    """A sensor of the fleet with what its messages mean."""

    id: str  # canonical
    interval_us: int
    profile: DeviceProfile
    table: Table
    missing: str | None = None  # the id of a device profile that is not there


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic leads."""

    kind: str  # readings, status, chirpstack, tts, format, or nothing
    name: str  # the id in the topic, canonical
    event: str
    device: Device | None
    format: Format | None = None
    field: str = ""  # a field that the topic names

    @property
    def named(self) -> str | None:
        return self.name or None

    @property
    def profile_id(self) -> str | None:
        return self.device.profile.id if self.device is not None else None


def parse_topic(topic: str, devices: Mapping[str, Device], router: Router) -> Route:
    """The route of one topic; its kind is nothing where the topic is none of ours."""
    found = NATIVE_TOPIC.fullmatch(topic)
    if found is not None:
        name = found[1].lower()
        return Route(found[2], name, "", devices.get(name))
    found = chirpstack.TOPIC.fullmatch(topic)
    if found is not None:
        name = found[1].lower()
        return Route("chirpstack", name, found[2], devices.get(name))
    found = tts.TOPIC.fullmatch(topic)
    if found is not None:
        return Route("tts", found[1].lower(), found[2], None)
    other = router.find(topic)
    if other is not None:
        form, names = other
        name = (names.get("sensor") or "").lower()
        event, field = names.get("event") or "", names.get("field") or ""
        return Route("format", name, event, devices.get(name), form, field)
    return Route("", "", "", None)
