"""What became of one message, field by field: for whoever makes or installs a sensor.

The verdicts are those of :class:`ingest.decode.Decoder` itself; each field is read alone once more, to tell which
quantity it is, in which unit, and what it is in SI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from analysis.units import QUANTITIES
from ingest import mapped, native
from ingest.decode import Decoder
from ingest.envelope import Uplink
from ingest.formats import chirpstack, tts
from ingest.formats import part as formatpart
from ingest.formats.registry import Router
from ingest.limits import parse, split
from ingest.message import RawMessage
from ingest.native import RESERVED, Element, Table, near_miss
from ingest.profile import NATIVE, DeviceProfile
from ingest.refused import Refused
from ingest.route import NATIVE_TOPIC
from store.records import IngestWindow, Item, Json, Quarantined, Sensor

READING: Final = "reading"
HEARTBEAT: Final = "heartbeat"
STATUS: Final = "status"
RETAINED: Final = "retained"
REFUSED: Final = "refused"
_BY_COLUMN: Final = {one.column: one for one in QUANTITIES.values()}
_ROUTER: Final = Router()
_MOST_FIELDS: Final = 200  # of one part; a message of thousands is nothing to read


@dataclass(frozen=True, slots=True)
class Field:
    """One field as it came, and what it was read as; ``note`` says why nothing, or what else it is."""

    source: str
    raw: Any
    quantity: str | None = None
    unit: str | None = None
    column: str | None = None  # the SI column: quantity and unit
    value: Any = None  # in SI
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One item of a message: a reading, a refusal, or what else it was."""

    kind: str
    fields: tuple[Field, ...] = ()
    reason: str = ""
    detail: str = ""
    place: int | None = None  # in the array, None where the message is no array
    item: Item | None = None  # what went to the history


def sensor_of(message: RawMessage) -> str | None:
    """Under whose id a message came, whether the fleet knows it or not."""
    found = NATIVE_TOPIC.fullmatch(message.topic) or chirpstack.TOPIC.fullmatch(message.topic)
    if found is not None:
        return found[1].lower()
    found = tts.TOPIC.fullmatch(message.topic)
    if found is None:
        return _sensor_of_other(message)
    try:
        return tts.sensor_of(_document(message.payload), found[1].lower())
    except Refused:
        return found[1].lower()


def _sensor_of_other(message: RawMessage) -> str | None:
    try:
        return next((one.sensor for one in _other_parts(message) if one.sensor), None)
    except Refused:
        return None


def explain(
    message: RawMessage, sensor: Sensor | None, profiles: Mapping[str, DeviceProfile]
) -> tuple[Part, ...]:
    """The parts of one message, in the order they stood in it; ``sensor`` is the one it came from, if it is known."""
    sensors = {} if sensor is None else {sensor.id: sensor}
    decoder = Decoder(sensors, profiles, quiet=True)
    window = decoder.decode([message])
    if window.retained:
        return (Part(RETAINED, detail="a retained message is no reading; a status sets connectivity"),)
    if window.statuses:
        return (Part(STATUS, detail="online" if window.statuses[0][1] else "offline"),)
    profile = NATIVE if sensor is None else profiles.get(sensor.profile, NATIVE)
    elements = _elements(message)
    if elements is None:
        return (_alone(message, profile, window),)
    table = native.table_of(profile.units)
    return _array(elements, table, window)


def _elements(message: RawMessage) -> list[bytes] | None:
    """The elements of a native array; None where the message is none, or cannot be read as one."""
    if not message.topic.startswith("quarterline/") or message.payload.lstrip()[:1] != b"[":
        return None
    try:
        return split(message.payload) or None
    except Refused:
        return None


def _array(elements: list[bytes], table: Table, window: IngestWindow) -> tuple[Part, ...]:
    items, refusals = iter(window.items), list(window.quarantined)
    read = window.items or window.heartbeats or any(one.detail.startswith("[") for one in refusals)
    if not read and len(refusals) == 1:
        return (_refused(refusals[0], ()),)  # the message as a whole
    parts = []
    for place, payload in enumerate(elements):
        element = _read(payload, table) if read else None
        fields = _native_fields(_document(payload), table)
        if element is None:
            parts.append(replace(_refused(refusals.pop(0), fields), place=place))
        elif element.is_empty:
            parts.append(Part(HEARTBEAT, fields, place=place))
        else:
            parts.append(Part(READING, fields, place=place, item=next(items)))
    return tuple(parts)


def _read(payload: bytes, table: Table) -> Element | None:
    try:
        return native.read(parse(payload), table)
    except Refused:
        return None


def _alone(message: RawMessage, profile: DeviceProfile, window: IngestWindow) -> Part:
    fields = _fields(message, profile)
    if window.items:
        return Part(READING, fields, item=window.items[0])
    if window.quarantined:
        return _refused(window.quarantined[0], fields)
    return Part(HEARTBEAT, fields)


def _refused(one: Quarantined, fields: tuple[Field, ...]) -> Part:
    return Part(REFUSED, fields, reason=one.reason, detail=one.detail)


# ---- fields ------------------------------------------------------------------------------------------


def _fields(message: RawMessage, profile: DeviceProfile) -> tuple[Field, ...]:
    document = _document(message.payload)
    table = native.table_of(profile.units)
    if message.topic.startswith("quarterline/"):
        return _native_fields(document, table)
    event = message.topic.rpartition("/")[2]
    try:
        other = _uplink_of(message)
        if other is not None:
            uplink = other
        elif tts.TOPIC.fullmatch(message.topic):
            uplink = tts.read(document, event)
        else:
            found = chirpstack.TOPIC.fullmatch(message.topic)
            uplink = chirpstack.read(document, found[1].lower() if found else "", event)
    except Refused:
        return ()
    inner = uplink.document
    fields = _mapped_fields(inner, profile) if profile.fields else _native_fields(inner, table)
    return (*fields, *(_of_server(column, value) for column, value in uplink.values.items()))


def _uplink_of(message: RawMessage) -> Uplink | None:
    """The first reading of a message in one of the other formats; None where it is none."""
    parts = _other_parts(message)
    return next((one.uplink for one in parts if one.uplink is not None), None)


def _other_parts(message: RawMessage) -> Sequence[formatpart.Part]:
    if any(one.fullmatch(message.topic) for one in (NATIVE_TOPIC, chirpstack.TOPIC, tts.TOPIC)):
        return ()
    found = _ROUTER.find(message.topic)
    if found is None:
        return ()
    one, names = found
    place = formatpart.Place(
        message.topic, (names.get("sensor") or "").lower(), names.get("field") or "", names.get("event") or "",
        message.received_us,
    )  # fmt: skip
    return one.read(message.payload, place)


def _of_server(column: str, value: float) -> Field:
    quantity = _BY_COLUMN[column]
    return Field("(network server)", value, quantity.name, quantity.unit, column, value)


def _native_fields(document: Any, table: Table) -> tuple[Field, ...]:
    if type(document) is not dict:
        return ()
    return tuple(_native_field(name, raw, table) for name, raw in list(document.items())[:_MOST_FIELDS])


def _native_field(name: str, raw: Any, table: Table) -> Field:
    try:
        element = native.read({name: raw}, table)
    except Refused as refused:
        return Field(name, raw, note=refused.detail)
    if element.unknown:
        meant = near_miss(name)
        return Field(name, raw, note="ignored" + (f": did you mean {meant}?" if meant else ""))
    if name in RESERVED:
        return Field(name, raw, note="the device's own" if raw is not None else "no value")
    return _taken(name, raw, element, _unit(name, table))


def _unit(name: str, table: Table) -> str | None:
    known = table.get(name)
    quantity = _BY_COLUMN.get(known[0]) if known is not None else None
    if quantity is None or name == quantity.name:
        return None if quantity is None else quantity.unit
    return name.removeprefix(quantity.name + "_")


def _mapped_fields(document: Any, profile: DeviceProfile) -> tuple[Field, ...]:
    if type(document) is not dict:
        return ()
    found = []
    for field in profile.fields:
        try:
            element = mapped.read(document, replace(profile, fields=(field,)))
        except Refused as refused:
            found.append(Field(field.name, mapped.raw_of(document, field), note=refused.detail))
            continue
        found.append(_taken(field.name, mapped.raw_of(document, field), element, field.unit))
    known = {field.path[0] for field in profile.fields}
    ignored = [name for name in document if name not in known]
    found += [Field(name, document[name], note="ignored: not in the device profile") for name in ignored]
    return tuple(found[:_MOST_FIELDS])


def _taken(name: str, raw: Any, element: Element, unit: str | None) -> Field:
    if element.profile is not None:
        return Field(name, raw, "profile", None, "profile", list(element.profile))
    for column, value in element.values.items():
        return Field(name, raw, _BY_COLUMN[column].name, unit, column, value)
    return Field(name, raw, note="no value")


def _document(payload: bytes) -> Json | Any:
    try:
        return parse(payload)
    except Refused:
        return None
