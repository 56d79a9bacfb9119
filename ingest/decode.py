"""Whole windows of raw messages to what the history takes: every item becomes exactly one outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from ingest import instants, mapped, native
from ingest.envelope import Uplink
from ingest.formats import chirpstack, tts
from ingest.formats.memory import Memory
from ingest.formats.part import Part, Place
from ingest.formats.registry import Router
from ingest.limits import check, check_size, parse, split
from ingest.message import RawMessage
from ingest.native import Element, Table
from ingest.pace import Limits, Pace
from ingest.profile import NATIVE, DeviceProfile
from ingest.refused import Refused, shown
from ingest.route import Device, Route, parse_topic
from ingest.spoolfile import DAMAGED
from ingest.window import NearMisses, Window
from store.records import IngestWindow, Item, Sensor

_STATUS: Final = {b"online": True, b"offline": False}
_TOPICS: Final = (
    "quarterline/v1/<sensor>/readings or …/status, application/<id>/device/<DevEUI>/event/<kind> (ChirpStack), "
    "v3/<application>@<tenant>/devices/<id>/<kind> (The Things Stack), or a topic of docs/formats.md"
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
    topics
        Formats on topics of one's own: the format's name and a topic template.
    memory
        What stateful formats know; hand it on to the next decoder.
    """

    def __init__(
        self,
        sensors: Mapping[str, Sensor],
        profiles: Mapping[str, DeviceProfile],
        *,
        limits: Limits | None = None,
        pace: Pace | None = None,
        quiet: bool = False,
        topics: Sequence[tuple[str, str]] = (),
        memory: Memory | None = None,
    ) -> None:
        self.taken: dict[str, int] = {}  # by the last window, of the sensors' pace: for Pace.keep
        self._most = (limits or Limits()).message_bytes
        self._pace = pace
        tables: dict[str, Table] = {}
        self._devices: dict[str, Device] = {}
        for sensor in sensors.values():
            profile = profiles.get(sensor.profile, NATIVE)
            missing = None if sensor.profile in profiles else sensor.profile
            table = tables.setdefault(profile.id, native.table_of(profile.units))
            identity = sensor.id.lower()
            self._devices[identity] = Device(
                identity, round(sensor.interval_s * 1e6), profile, table, missing
            )
        self._routes: dict[str, Route] = {}
        self._near = NearMisses(quiet=quiet)
        self._quiet = quiet
        self._router = Router(topics)
        self._memory = memory if memory is not None else Memory()

    def decode(self, messages: Sequence[RawMessage]) -> IngestWindow:
        """One window, in order of reception."""
        poison: dict[int, Refused] = {}
        self._memory.begin()
        while True:
            try:
                window = self._decode(messages, poison)
            except _PoisonError as found:  # from the start: nothing half decoded may stay
                poison[found.place] = found.refused
                self._memory.rewind()
                continue
            if not self._quiet:
                for _, wish in self._memory.wishes:
                    _log.warning("missed messages of an edge node", wish=wish)
            return window

    def _decode(self, messages: Sequence[RawMessage], poison: Mapping[int, Refused]) -> IngestWindow:
        window = Window(self._near)
        routes = self._routes
        for place, message in enumerate(messages):
            route = routes.get(message.topic) or self._route(message.topic)
            if message.retain:
                self._retained(route, message, window)
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

    def _route(self, topic: str) -> Route:
        route = parse_topic(topic, self._devices, self._router)
        if route.device is not None:
            self._routes[topic] = route
        return route

    def _one(self, route: Route, message: RawMessage, window: Window) -> None:
        if route.kind == "tts":
            self._things_stack(route, message, window)
            return
        if route.format is not None:
            check_size(message.payload, size=message.size, most=self._most)
            for part in self._parts(route, message):
                self._part(part, message, window)
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
        if route.kind == "chirpstack":
            self._chirpstack(device, route.event, message, window)
            return
        window.heard(device.id, message.received_us)
        check(message.payload, size=message.size, most=self._most)
        _refuse_without_profile(device)
        if message.payload.lstrip()[:1] == b"[":
            _array(device, message, window)
        else:
            element = native.read(parse(message.payload), device.table)
            _take(device, element, message, window)

    def _chirpstack(self, device: Device, event: str, message: RawMessage, window: Window) -> None:
        try:
            check(message.payload, size=message.size, most=self._most)
            _refuse_without_profile(device)
            uplink = chirpstack.read(parse(message.payload), device.id, event)
        except Refused:
            window.heard(device.id, message.received_us)
            raise
        if uplink.heard:
            window.heard(device.id, message.received_us)
        _uplink(device, uplink, message, window)

    def _parts(self, route: Route, message: RawMessage) -> Sequence[Part]:
        place = Place(message.topic, route.name, route.field, route.event, message.received_us, self._memory)
        assert route.format is not None
        return route.format.read(message.payload, place)

    def _part(self, part: Part, message: RawMessage, window: Window) -> None:
        """One part of a message in one of the other formats."""
        device = self._devices.get(part.sensor)
        if device is None:
            if part.optional or not part.sensor:
                window.heartbeats += 1
            else:
                refused = part.refused or _unknown(part.sensor)
                window.quarantine(message, message.payload, refused, part.sensor, None)
            return
        try:
            if self._pace is not None:
                self._pace.take(window.paces, device.id, message.received_us)
            if part.heard:
                window.heard(device.id, message.received_us)
            if part.online is not None:
                window.statuses.append((device.id, part.online, message.received_us))
            if part.refused is not None:
                raise part.refused
            if part.uplink is None:
                window.heartbeats += 1
                return
            _refuse_without_profile(device)
            _uplink(device, part.uplink, message, window)
        except Refused as refused:
            window.quarantine(message, message.payload, refused, device.id, device.profile.id)

    def _retained(self, route: Route, message: RawMessage, window: Window) -> None:
        """A retained message is no reading; a status sets connectivity at most."""
        window.retained += 1
        if route.kind == "status" and route.device is not None:
            online = _STATUS.get(message.payload.strip().lower())
            if online is not None:
                window.statuses.append((route.device.id, online, message.received_us))
        elif route.format is not None and not message.size:
            try:
                parts = [one for one in self._parts(route, message) if one.uplink is None]
            except Refused:
                return
            window.statuses += [
                (one.sensor, one.online, message.received_us)
                for one in parts
                if one.online is not None and one.sensor in self._devices
            ]

    def _things_stack(self, route: Route, message: RawMessage, window: Window) -> None:
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
            if uplink.heard:
                window.heard(device.id, message.received_us)
            _uplink(device, uplink, message, window)
        except Refused as refused:
            if refused.reason != "simulated":
                window.heard(device.id, message.received_us)
            window.quarantine(message, message.payload, refused, device.id, device.profile.id)


def _status(device: Device, message: RawMessage, window: Window) -> None:
    online = _STATUS.get(message.payload.strip().lower())
    if online is None:
        text = message.payload[:32].decode("utf-8", "replace")
        raise Refused("bad_status", f"payload: expected online or offline, found {shown(text)}")
    window.statuses.append((device.id, online, message.received_us))
    window.heartbeats += 1
    if online:  # its will speaks when the sensor cannot
        window.heard(device.id, message.received_us)


def _stranger(route: Route, message: RawMessage, window: Window, most: int) -> None:
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


def _refuse_without_profile(device: Device) -> None:
    if device.missing is not None:
        raise Refused(
            "unknown_profile",
            f"{shown(device.missing)}: no such device profile, which {device.id} names; add its file",
        )


def _unknown(identity: str) -> Refused:
    return Refused("unknown_sensor", f"{shown(identity)}: no sensor of the fleet; add it under [[sensors]]")


def _array(device: Device, message: RawMessage, window: Window) -> None:
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


def _take(device: Device, element: Element, message: RawMessage, window: Window) -> None:
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
    device: Device, element: Element, message: RawMessage, raw: bytes, replaced_us: int | None, place: int
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


def _uplink(device: Device, uplink: Uplink, message: RawMessage, window: Window) -> None:
    """What a network server passed on, through the sensor's device profile."""
    if uplink.document is None and uplink.unread is not None:
        raise uplink.unread
    element = _decoded(device, uplink)
    element.values.update(uplink.values)
    if element.stated_us is None:
        element.stated_us = instants.parse_time(uplink.time, uplink.time_name)
    if element.seq is None:
        element.seq = instants.parse_seq(uplink.seq, uplink.seq_name)
    _take(device, element, message, window)


def _decoded(device: Device, uplink: Uplink) -> Element:
    document = uplink.document
    if document is None:
        return Element({})
    if device.profile.fields:
        return mapped.read(document, device.profile, uplink.units)
    # the codec of the network server speaks native names
    return native.read(native.with_units(document, uplink.units, device.table), device.table)
