"""Messages to items: every item of a window ends as a reading, a quarantined item, retained or a heartbeat.

Whose a message is, its topic says (or the DevEUI in a network server's envelope), and nothing else. No I/O and
no clock: the receipt time comes with the message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import structlog

from ingest import chirpstack, instants, limits, mapped, native, tts
from ingest.envelope import Uplink
from ingest.instants import Instant
from ingest.message import RawMessage
from ingest.native import Element, Table
from ingest.profile import DeviceProfile
from ingest.refused import Refused, shown
from store.records import IngestWindow, Item, Quarantined, Sensor

KEPT_BYTES: Final = 4096
_TOPIC: Final = re.compile(r"quarterline/v1/([A-Za-z0-9._:-]{1,64})/(readings|status)")
_STATUS: Final = {b"online": True, b"offline": False}

_log = structlog.get_logger("quarterline.ingest")


@dataclass(slots=True)
class _Gathered:
    """What a window has come to so far."""

    items: list[Item] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    retained: int = 0
    heartbeats: int = 0
    statuses: list[tuple[str, bool, int]] = field(default_factory=list)
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    contacts: dict[str, int] = field(default_factory=dict)


class Decoder:
    """Decodes by what the fleet says of each sensor.

    Parameters
    ----------
    sensors
        By canonical (lower case) id.
    profiles
        Device profiles by id.
    """

    def __init__(self, sensors: Mapping[str, Sensor], profiles: Mapping[str, DeviceProfile]) -> None:
        self._sensors = sensors
        self._profiles = profiles
        self._tables: dict[str, Table] = {}
        self._warned: set[tuple[str, str]] = set()

    def decode(self, messages: Sequence[RawMessage]) -> IngestWindow:
        """What these messages are, in order of reception. Never raises for what a message holds."""
        out = _Gathered()
        for message in messages:
            self._message(message, out)
        return IngestWindow(
            items=tuple(out.items),
            quarantined=tuple(out.quarantined),
            retained=out.retained,
            heartbeats=out.heartbeats,
            messages=len(messages),
            statuses=tuple(out.statuses),
            unknown_fields=tuple((sensor, name, count) for (sensor, name), count in out.unknown.items()),
            contacts=tuple(out.contacts.items()),
        )

    # ---- one message ---------------------------------------------------------------------------------

    def _message(self, message: RawMessage, out: _Gathered) -> None:
        sensor = None
        try:
            found = _TOPIC.fullmatch(message.topic)
            if found is not None:
                sensor = found.group(1).lower()
                if found.group(2) == "status":
                    self._status(message, sensor, out)
                else:
                    self._native(message, sensor, out)
            elif message.retain:
                out.retained += 1
            else:
                sensor = self._network_server(message, out)
        except Refused as refused:
            out.quarantined.append(_quarantined(message, sensor, message.payload, refused))

    def _known(self, sensor: str) -> Sensor:
        record = self._sensors.get(sensor)
        if record is None:
            raise Refused(
                "unknown_sensor", f"{shown(sensor)}: is not in the fleet; add the sensor, or check its id"
            )
        return record

    def _profile(self, record: Sensor) -> DeviceProfile:
        profile = self._profiles.get(record.profile)
        if profile is None:
            raise Refused(
                "unknown_profile",
                f"device profile {shown(record.profile)} of this sensor is missing; add its file",
            )
        return profile

    def _table(self, profile: DeviceProfile) -> Table:
        table = self._tables.get(profile.id)
        if table is None:
            table = self._tables[profile.id] = native.table_of(profile.units)
        return table

    def _status(self, message: RawMessage, sensor: str, out: _Gathered) -> None:
        online = _STATUS.get(message.payload.strip().lower())
        if message.retain:
            out.retained += 1
            if online is not None and sensor in self._sensors:
                out.statuses.append((sensor, online, message.received_us))
            return
        self._known(sensor)
        if online is None:
            raise Refused(
                "bad_status", f"payload: {shown(_text(message.payload))} is neither online nor offline"
            )
        out.statuses.append((sensor, online, message.received_us))
        out.heartbeats += 1
        if online:
            out.contacts[sensor] = message.received_us

    # ---- native messages -----------------------------------------------------------------------------

    def _native(self, message: RawMessage, sensor: str, out: _Gathered) -> None:
        if message.retain:
            out.retained += 1
            return
        record = self._known(sensor)
        table = self._table(self._profile(record))
        limits.check(message.payload)
        out.contacts[sensor] = message.received_us
        if message.payload.lstrip()[:1] == b"[":
            elements = limits.split(message.payload)
            if elements:
                self._array(message, record, elements, table, out)
            else:
                out.heartbeats += 1
            return
        element = native.read(limits.parse(message.payload), table)
        self._take(message, record, [(0, element, message.payload)], out)

    def _array(
        self, message: RawMessage, record: Sensor, raws: Sequence[bytes], table: Table, out: _Gathered
    ) -> None:
        """Each element is an item of its own: a bad one is quarantined alone."""
        good = []
        for place, raw in enumerate(raws):
            try:
                good.append((place, native.read(limits.parse(raw), table), raw))
            except Refused as refused:
                located = Refused(refused.reason, f"[{place}] {refused.detail}")
                out.quarantined.append(_quarantined(message, record.id, raw, located, record.profile))
        self._take(message, record, good, out)

    def _take(
        self,
        message: RawMessage,
        record: Sensor,
        elements: Sequence[tuple[int, Element, bytes]],
        out: _Gathered,
    ) -> None:
        """Give the elements of one message their instants, and keep those that say something."""
        said = []
        for place, element, raw in elements:
            self._note_unknown(record.id, element, out)
            if element.is_empty:
                out.heartbeats += 1
            else:
                said.append((place, element, raw))
        for element, raw, instant in _instants(said, message, record):
            out.items.append(_item(message, record, element, raw, instant))

    def _note_unknown(self, sensor: str, element: Element, out: _Gathered) -> None:
        for name in element.unknown:
            out.unknown[sensor, name[:128]] += 1
            meant = native.near_miss(name)
            if meant is not None and (sensor, name) not in self._warned and len(self._warned) < 10_000:
                self._warned.add((sensor, name))
                _log.warning(
                    "an ignored field is close to a known one", sensor=sensor, field=name, known=meant
                )

    # ---- network servers -----------------------------------------------------------------------------

    def _network_server(self, message: RawMessage, out: _Gathered) -> str:
        """A ChirpStack or The Things Stack envelope; returns whose it was."""
        for pattern, read in _SERVERS:
            found = pattern.fullmatch(message.topic)
            if found is not None:
                limits.check(message.payload)
                document = limits.parse(message.payload)
                sensor, uplink = read(document, found.group(1).lower(), found.group(2))
                self._uplink(message, sensor, uplink, out)
                return sensor
        raise Refused(
            "topic",
            f"topic {shown(message.topic)}: expected quarterline/v1/<sensor id>/readings or …/status, or the "
            "uplink topic of ChirpStack v4 or The Things Stack v3",
        )

    def _uplink(self, message: RawMessage, sensor: str, uplink: Uplink, out: _Gathered) -> None:
        try:
            record = self._known(sensor)
            profile = self._profile(record)
            out.contacts[sensor] = message.received_us
            if uplink.document is None:
                element = Element({})
            elif profile.fields:
                element = mapped.read(uplink.document, profile)
            else:
                element = native.read(uplink.document, self._table(profile))
            element.values.update(uplink.values)
            if not element.is_empty or uplink.document is not None:
                element.stated_us = instants.parse_time(uplink.time, uplink.time_name)
                element.seq = instants.parse_seq(uplink.seq, uplink.seq_name)
            self._take(message, record, [(0, element, message.payload)], out)
        except Refused as refused:
            out.quarantined.append(_quarantined(message, sensor, message.payload, refused))


_Read = Callable[[Any, str, str], tuple[str, Uplink]]


def _chirpstack(document: Any, eui: str, event: str) -> tuple[str, Uplink]:
    return eui, chirpstack.read(document, eui, event)


def _tts(document: Any, device: str, event: str) -> tuple[str, Uplink]:
    return tts.sensor_of(document, device), tts.read(document, event)


_SERVERS: Final[tuple[tuple[re.Pattern[str], _Read], ...]] = (
    (chirpstack.TOPIC, _chirpstack),
    (tts.TOPIC, _tts),
)


def _instants(
    said: Sequence[tuple[int, Element, bytes]], message: RawMessage, record: Sensor
) -> list[tuple[Element, bytes, Instant]]:
    """Each element's instant by the clock rule of contracts.md section 2."""
    received = message.received_us
    bad = [
        (place, element.stated_us)
        for place, element, _ in said
        if element.stated_us is None or not instants.is_good(element.stated_us, received)
    ]
    if not bad:
        return [(element, raw, Instant(element.stated_us or 0)) for _, element, raw in said]
    times = instants.replacements(bad, received, round(record.interval_s * 1e6))
    placed = []
    for place, element, raw in said:
        if place not in times:
            placed.append((element, raw, Instant(element.stated_us or 0)))
            continue
        instant = instants.without_good_time(
            element.stated_us,
            times[place],
            received,
            element.seq,
            (element.values, element.profile),
            place=place,
            dup=message.dup,
        )
        placed.append((element, raw, instant))
    return placed


def _item(message: RawMessage, record: Sensor, element: Element, raw: bytes, instant: Instant) -> Item:
    return Item(
        record.id,
        instant.time_us,
        message.received_us,
        message.topic,
        element.values,
        element.profile,
        element.seq,
        instant.flags,
        instant.key,
        instant.check_key,
        instant.key_since_us,
        raw,
        record.profile,
    )


def _quarantined(
    message: RawMessage, sensor: str | None, raw: bytes, refused: Refused, device_profile: str | None = None
) -> Quarantined:
    return Quarantined(
        sensor=sensor,
        topic=message.topic,
        received_us=message.received_us,
        reason=refused.reason,
        detail=refused.detail,
        payload=raw[:KEPT_BYTES],
        size=len(raw),
        sha256=sha256(raw).hexdigest(),
        device_profile=device_profile,
    )


def _text(payload: bytes) -> str:
    return payload[:64].decode("utf-8", "replace")
