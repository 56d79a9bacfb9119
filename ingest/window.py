"""Collects what a window of messages decodes to; every item gets exactly one outcome here."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import structlog

from ingest.message import RawMessage
from ingest.native import near_miss
from ingest.pace import notable
from ingest.refused import Refused
from store.records import IngestWindow, Item, Quarantined

KEPT_BYTES: Final = 4096
_NAMES_PER_SENSOR: Final = 64  # a sensor that makes up names must not fill the table of them
_NAME_LENGTH: Final = 64
_MORE: Final = "…"  # stands for the names beyond
_WARNED: Final = 10_000

_log = structlog.get_logger(__name__)


class NearMisses:
    """Warns once of each unknown field that looks like a known one."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._warned: set[tuple[str, str]] = set()

    def look(self, sensor: str, name: str) -> None:
        meant = None if self._quiet else near_miss(name)
        if meant is None or (sensor, name) in self._warned or len(self._warned) >= _WARNED:
            return
        self._warned.add((sensor, name))
        _log.warning("unknown field ignored", sensor=sensor, field=name, did_you_mean=meant)


class Window:
    """One window in the making."""

    __slots__ = (
        "_contacts",
        "_near",
        "_unknown",
        "heartbeats",
        "items",
        "paces",
        "quarantined",
        "retained",
        "statuses",
    )

    def __init__(self, near: NearMisses) -> None:
        self.items: list[Item] = []
        self.quarantined: list[Quarantined] = []
        self.retained = self.heartbeats = 0
        self.statuses: list[tuple[str, bool, int]] = []
        self.paces: dict[str, int] = {}  # what this window takes from the sensors' buckets, see ingest.pace
        self._unknown: dict[str, dict[str, int]] = {}
        self._contacts: dict[str, int] = {}
        self._near = near

    def quarantine(
        self, message: RawMessage, payload: bytes, refused: Refused, sensor: str | None, profile: str | None
    ) -> None:
        """One item that cannot become a reading; ``payload`` is the element's own where it stood in an array."""
        self.quarantined.append(
            Quarantined(
                sensor=sensor,
                topic=message.topic,
                received_us=message.received_us,
                reason=refused.reason,
                detail=refused.detail,
                payload=payload[:KEPT_BYTES],
                size=message.size or len(payload),
                sha256=message.sha256 or sha256(payload).hexdigest(),
                device_profile=profile,
            )
        )

    def heard(self, sensor: str, received_us: int) -> None:
        """The sensor spoke, readings or not."""
        if received_us > self._contacts.get(sensor, -(2**63)):
            self._contacts[sensor] = received_us

    def unknown(self, sensor: str, names: Iterable[str]) -> None:
        """Count fields that are ignored."""
        counts = self._unknown.setdefault(sensor, {})
        for name in names:
            short = name[:_NAME_LENGTH]
            if short not in counts and len(counts) >= _NAMES_PER_SENSOR:
                short = _MORE
            elif short not in counts:
                self._near.look(sensor, short)
            counts[short] = counts.get(short, 0) + 1

    def close(self, messages: int, received_us: int) -> IngestWindow:
        """The finished window."""
        return IngestWindow(
            items=tuple(self.items),
            quarantined=tuple(self.quarantined),
            retained=self.retained,
            heartbeats=self.heartbeats,
            messages=messages,
            statuses=tuple(self.statuses),
            unknown_fields=tuple(
                (sensor, name, count)
                for sensor, counts in self._unknown.items()
                for name, count in counts.items()
            ),
            contacts=tuple(self._contacts.items()),
            paces=notable(self.paces, received_us),
        )
