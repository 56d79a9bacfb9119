"""Whole windows of raw messages to what the history takes: every item becomes exactly one outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from ingest import chirpstack, instants, mapped, native, tts
from ingest.envelope import Uplink
from ingest.limits import check, parse, split
from ingest.message import RawMessage
from ingest.native import Element, Table
from ingest.pace import Limits, Pace
from ingest.profile import NATIVE, DeviceProfile
from ingest.refused import Refused, shown
from ingest.spoolfile import DAMAGED
from ingest.window import NearMisses, Window
from store.records import IngestWindow, Item, Sensor

NATIVE_TOPIC: Final = re.compile(r"quarterline/v1/([^/]+)/(readings|status)")
_STATUS: Final = {b"online": True, b"offline": False}
_TOPICS: Final = (
    "quarterline/v1/<sensor>/readings or …/status, application/<id>/device/<DevEUI>/event/<kind> (ChirpStack), "
    "v3/<application>@<tenant>/devices/<id>/<kind> (The Things Stack)"
)


_log = structlog.get_logger("quarterline.decode")


class _PoisonError(Exception):
    """A fault of this program over one message; the others of its window must not wait for its repair."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__()
        self.place = place
        self.refused = Refused(
            "fault",
            f"this program failed over the message ({type(error).__name__}: {error}); report it with its bytes",
        )


@dataclass(frozen=True, slots=True)
class _Device:
    """A sensor of the fleet with what its messages mean."""

    id: str  # canonical
    interval_us: int
    profile: DeviceProfile
    table: Table
    missing: str | None = None  # the id of a device profile that is not there


@dataclass(frozen=True, slots=True)
class _Route:
    """Where a topic leads."""

    kind: str  # readings, status, chirpstack, tts, or nothing
    name: str  # the id in the topic, canonical
    event: str
    device: _Device | None

    @property
    def named(self) -> str | None:
        return self.name or None

    @property
    def profile_id(self) -> str | None:
        return self.device.profile.id if self.device is not None else None


class Decoder:
    """Decodes for one state of the fleet; build a new one when the registry changes.

    Whose a message is, the topic says (for The Things Stack the DevEUI in the envelope of that topic); ids
    compare without case. Nothing a message contains makes :meth:`decode` raise.

    Parameters
    ----------
    limits
        How large a message may be.
    pace
        How fast a sensor may send; None where nobody is in a hurry, as in an import.
    quiet
        Whether the log is spared of unknown fields that look like known ones.
    """

    def __init__(
        self,
        sensors: Mapping[str, Sensor],
        profiles: Mapping[str, DeviceProfile],
        *,
        limits: Limits | None = None,
        pace: Pace | None = None,
        quiet: bool = False,
    ) -> None:
        self.taken: dict[str, int] = {}  # by the last window, of the sensors' pace: for Pace.keep
        self._most = (limits or Limits()).message_bytes
        self._pace = pace
        tables: dict[str, Table] = {}
        self._devices: dict[str, _Device] = {}
        for sensor in sensors.values():
            profile = profiles.get(sensor.profile, NATIVE)
            missing = None if sensor.profile in profiles else sensor.profile
            table = tables.setdefault(profile.id, native.table_of(profile.units))
            identity = sensor.id.lower()
            self._devices[identity] = _Device(
                identity, round(sensor.interval_s * 1e6), profile, table, missing
            )
        self._routes: dict[str, _Route] = {}
        self._near = NearMisses(quiet=quiet)

    def decode(self, messages: Sequence[RawMessage]) -> IngestWindow:
        """One window, in order of reception."""
        poison: dict[int, Refused] = {}
        while True:
            try:
                return self._decode(messages, poison)
            except _PoisonError as found:  # from the start: nothing half decoded may stay
                poison[found.place] = found.refused

    def _decode(self, messages: Sequence[RawMessage], poison: Mapping[int, Refused]) -> IngestWindow:
        window = Window(self._near)
        routes = self._routes
        for place, message in enumerate(messages):
            route = routes.get(message.topic) or self._route(message.topic)
            if message.retain:
                _retained(route, message, window)
                continue
            try:
                if poison and place in poison:
                    raise poison[place]
                self._one(route, message, window)
            except Refused as refused:
                window.quarantine(message, message.payload, refused, route.named, route.profile_id)
                if refused.reason == "rate" and route.device is not None:
                    window.heard(route.device.id, message.received_us)
            except Exception as error:
                _log.exception("a message that this program cannot decode", topic=message.topic)
                raise _PoisonError(place, error) from error
        self.taken = window.paces
        return window.close(len(messages), messages[-1].received_us if messages else 0)

    def _route(self, topic: str) -> _Route:
        route = _parse_topic(topic, self._devices)
        if route.device is not None:
            self._routes[topic] = route
        return route

    def _one(self, route: _Route, message: RawMessage, window: Window) -> None:
        if route.kind == "tts":
            self._things_stack(route, message, window)
            return
        device = route.device
        if device is None:
            _stranger(route, message, window, self._most)
            return
        if self._pace is not None:
            self._pace.take(window.paces, device.id, message.received_us)
        if route.kind == "status":
            _status(device, message, window)
            return
        window.heard(device.id, message.received_us)
        check(message.payload, size=message.size, most=self._most)
        _refuse_without_profile(device)
        if route.kind == "chirpstack":
            uplink = chirpstack.read(parse(message.payload), device.id, route.event)
            _uplink(device, uplink, message, window)
        elif message.payload.lstrip()[:1] == b"[":
            _array(device, message, window)
        else:
            element = native.read(parse(message.payload), device.table)
            _take(device, element, message, window)

    def _things_stack(self, route: _Route, message: RawMessage, window: Window) -> None:
        check(message.payload, size=message.size, most=self._most)
        document = parse(message.payload)
        identity = tts.sensor_of(document, route.name)
        device = self._devices.get(identity)
        if device is None:
            window.quarantine(message, message.payload, _unknown(identity), identity, None)
            return
        try:
            if self._pace is not None:
                self._pace.take(window.paces, device.id, message.received_us)
            _refuse_without_profile(device)
            uplink = tts.read(document, route.event)
            window.heard(device.id, message.received_us)
            _uplink(device, uplink, message, window)
        except Refused as refused:
            if refused.reason != "simulated":
                window.heard(device.id, message.received_us)
            window.quarantine(message, message.payload, refused, device.id, device.profile.id)


def _parse_topic(topic: str, devices: Mapping[str, _Device]) -> _Route:
    found = NATIVE_TOPIC.fullmatch(topic)
    if found is not None:
        name = found[1].lower()
        return _Route(found[2], name, "", devices.get(name))
    found = chirpstack.TOPIC.fullmatch(topic)
    if found is not None:
        name = found[1].lower()
        return _Route("chirpstack", name, found[2], devices.get(name))
    found = tts.TOPIC.fullmatch(topic)
    if found is not None:
        return _Route("tts", found[1].lower(), found[2], None)
    return _Route("", "", "", None)


def _retained(route: _Route, message: RawMessage, window: Window) -> None:
    """A retained message is no reading; a status sets connectivity at most."""
    window.retained += 1
    if route.kind == "status" and route.device is not None:
        online = _STATUS.get(message.payload.strip().lower())
        if online is not None:
            window.statuses.append((route.device.id, online, message.received_us))


def _status(device: _Device, message: RawMessage, window: Window) -> None:
    online = _STATUS.get(message.payload.strip().lower())
    if online is None:
        text = message.payload[:32].decode("utf-8", "replace")
        raise Refused("bad_status", f"payload: expected online or offline, found {shown(text)}")
    window.statuses.append((device.id, online, message.received_us))
    window.heartbeats += 1
    if online:  # its will speaks when the sensor cannot
        window.heard(device.id, message.received_us)


def _stranger(route: _Route, message: RawMessage, window: Window, most: int) -> None:
    """A topic of nobody: kept whole, an array by its elements, so that nothing is cut off."""
    if message.topic == DAMAGED:
        raise Refused("spool_damaged", "a record of the disk spool failed its checksum; these are its bytes")
    if not route.kind:
        raise Refused("topic", f"{shown(message.topic)}: a topic nobody here reads; expected {_TOPICS}")
    refused = _unknown(route.name)
    elements: list[bytes] = []
    if route.kind == "readings" and message.payload.lstrip()[:1] == b"[":
        check(message.payload, size=message.size, most=most)
        elements = split(message.payload)
    for payload in elements or [message.payload]:
        window.quarantine(message, payload, refused, route.named, None)


def _refuse_without_profile(device: _Device) -> None:
    if device.missing is not None:
        raise Refused(
            "unknown_profile",
            f"{shown(device.missing)}: no such device profile, which {device.id} names; add its file",
        )


def _unknown(identity: str) -> Refused:
    return Refused("unknown_sensor", f"{shown(identity)}: no sensor of the fleet; add it under [[sensors]]")


def _array(device: _Device, message: RawMessage, window: Window) -> None:
    elements = split(message.payload)
    if not elements:
        window.heartbeats += 1
        return
    read: list[tuple[int, bytes, Element]] = []
    for place, payload in enumerate(elements):
        try:
            element = native.read(parse(payload), device.table)
        except Refused as refused:
            located = Refused(refused.reason, f"[{place}] {refused.detail}")
            window.quarantine(message, payload, located, device.id, device.profile.id)
            continue
        if element.unknown:
            window.unknown(device.id, element.unknown)
        if element.is_empty:
            window.heartbeats += 1
        else:
            read.append((place, payload, element))
    received_us = message.received_us
    bad = [
        (place, one.stated_us)
        for place, _, one in read
        if one.stated_us is None or not instants.is_good(one.stated_us, received_us)
    ]
    times = instants.replacements(bad, received_us, device.interval_us)
    for place, payload, element in read:
        time_us = times.get(place)
        window.items.append(_item(device, element, message, payload, time_us, place))


def _take(device: _Device, element: Element, message: RawMessage, window: Window) -> None:
    """One object that was no element of an array."""
    if element.unknown:
        window.unknown(device.id, element.unknown)
    if element.is_empty:
        window.heartbeats += 1
        return
    stated_us, received_us = element.stated_us, message.received_us
    good = stated_us is not None and instants.is_good(stated_us, received_us)
    time_us = None if good else received_us
    window.items.append(_item(device, element, message, message.payload, time_us, 0))


def _item(
    device: _Device, element: Element, message: RawMessage, raw: bytes, replaced_us: int | None, place: int
) -> Item:
    """The item of an element; ``replaced_us`` stands in for a time that is absent or wrong."""
    received_us = message.received_us
    if replaced_us is None:
        time_us = element.stated_us
        assert time_us is not None
        return Item(
            device.id, time_us, received_us, message.topic, element.values, element.profile, element.seq,
            0, None, False, 0, raw, device.profile.id,
        )  # fmt: skip
    instant = instants.without_good_time(
        element.stated_us,
        replaced_us,
        received_us,
        element.seq,
        (element.values, element.profile),
        place=place,
        dup=message.dup,
    )
    return Item(
        device.id, instant.time_us, received_us, message.topic, element.values, element.profile, element.seq,
        instant.flags, instant.key, instant.check_key, instant.key_since_us, raw, device.profile.id,
    )  # fmt: skip


def _uplink(device: _Device, uplink: Uplink, message: RawMessage, window: Window) -> None:
    """What a network server passed on, through the sensor's device profile."""
    element = _decoded(device, uplink.document)
    element.values.update(uplink.values)
    if element.stated_us is None:
        element.stated_us = instants.parse_time(uplink.time, uplink.time_name)
    if element.seq is None:
        element.seq = instants.parse_seq(uplink.seq, uplink.seq_name)
    _take(device, element, message, window)


def _decoded(device: _Device, document: Any) -> Element:
    if document is None:
        return Element({})
    if device.profile.fields:
        return mapped.read(document, device.profile)
    return native.read(document, device.table)  # the codec of the network server speaks native names
