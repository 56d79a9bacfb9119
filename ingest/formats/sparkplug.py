"""Sparkplug B: ``spBv1.0/<group>/<type>/<node>[/<device>]``; the sensor is ``group:node`` or ``group:node:device``.

A birth names every metric and may give it an alias; later messages may carry the alias alone. A node's messages count
0…255 and on from 0: where one is missing, a birth may be too, so one rebirth is wished for, at most once a minute. A
death counts only where its ``bdSeq`` is that of the birth. Rules after the Sparkplug specification 3.0.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from ingest.envelope import Uplink
from ingest.formats.part import Format, Part, Place
from ingest.formats.tahu import Payload
from ingest.refused import Refused, shown

_KINDS: Final = ("NBIRTH", "NDATA", "NDEATH", "NCMD", "DBIRTH", "DDATA", "DDEATH", "DCMD")
_SIGNED: Final = {1: 8, 2: 16, 3: 32, 4: 64}
_CONTROL: Final = ("bdSeq", "Node Control/", "Device Control/", "Node Info/", "Properties/")
_MINUTE_US: Final = 60_000_000
_METRICS: Final = 10_000
_UNITS: Final = {"°c": "c", "degc": "c", "°f": "f", "degf": "f", "%": "pct", "percent": "pct", "hpa": "mbar"}

#: name, data type and stated unit of a metric
Known = tuple[str, int, str | None]


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of an edge node since its birth."""

    session: int | None = None  # its bdSeq
    seq: int | None = None  # of its last message
    alive: bool = False
    # by device ("" is the node itself): its metrics by alias and by name; an alias given twice is nobody's
    metrics: Mapping[str, Mapping[int | str, Known | None]] = field(default_factory=dict)
    wished_us: int = -(2**62)  # when a rebirth was last wished for


def read(payload: bytes, place: Place) -> list[Part]:
    """One message of a node or device.

    Raises
    ------
    Refused
        The topic or the bytes are no Sparkplug B, or a metric is named by an alias of no birth.
    """
    levels = place.topic.split("/")
    if len(levels) == 3 and levels[1] == "STATE":  # a host application, in text or JSON
        return [Part("", heard=False, optional=True)]
    device = levels[4] if len(levels) == 5 else ""
    if len(levels) not in (4, 5) or levels[2] not in _KINDS or (levels[2][0] == "D") != bool(device):
        raise Refused("topic", f"{shown(place.topic)}: expected spBv1.0/<group>/<type>/<node>[/<device>]")
    if any(not one or ":" in one for one in (levels[1], *levels[3:])):
        raise Refused(
            "topic", f"{shown(place.topic)}: a name is empty or has a colon, which joins names here"
        )
    kind, group, name = levels[2], levels[1], levels[3]
    if kind.endswith("CMD"):
        return [Part("", heard=False, optional=True)]
    message = _parse(payload)
    key = f"spb/{group}/{name}"
    node: Node = place.memory.get(key) or Node()
    if kind == "NDEATH":
        return _node_died(message, node, key, f"{group}:{name}", place)
    node = _counted(message, node, key, kind, place)
    sensor = ":".join((group, name, *levels[4:])).lower()
    if kind == "DDEATH":
        place.memory.put(key, replace(node, metrics={d: m for d, m in node.metrics.items() if d != device}))
        return [Part(sensor, online=False, heard=False, optional=True)]
    born = kind.endswith("BIRTH")
    if born:
        node = replace(node, metrics={**node.metrics, device: _birth(message)})
    place.memory.put(key, node)
    return _readings(message, node.metrics.get(device, {}), sensor, born=born)


def _parse(payload: bytes) -> Any:
    try:
        message = Payload.FromString(payload)
    except (DecodeError, ValueError, RecursionError):
        raise Refused("sparkplug", "payload: no Sparkplug B payload (protobuf)") from None
    if len(message.metrics) > _METRICS:
        raise Refused("sparkplug", f"payload: {len(message.metrics)} metrics, at most {_METRICS} are taken")
    return message


def _session(message: Any) -> int | None:
    return next((one.long_value or one.int_value for one in message.metrics if one.name == "bdSeq"), None)


def _counted(message: Any, node: Node, key: str, kind: str, place: Place) -> Node:
    """The node after one more message of it; a gap wishes for a rebirth."""
    seq = message.seq if message.HasField("seq") else None
    if kind == "NBIRTH":
        return Node(_session(message), seq or 0, True, {}, node.wished_us)
    missing = node.seq is None or (seq is not None and seq != (node.seq + 1) % 256)
    if missing and place.received_us - node.wished_us >= _MINUTE_US:
        why = "its birth was not seen" if node.seq is None else f"after {node.seq} came {seq}"
        place.memory.wish(key, f"a rebirth of {key.removeprefix('spb/')}: {why}")
        node = replace(node, wished_us=place.received_us)
    return node if seq is None or node.seq is None else replace(node, seq=seq % 256)


def _node_died(message: Any, node: Node, key: str, sensor: str, place: Place) -> list[Part]:
    """All of a node's devices went with it; a death of another session says nothing."""
    session = _session(message)
    if not node.alive or (session is not None and session != node.session):
        return [Part("", heard=False, optional=True)]
    place.memory.put(key, Node(node.session, None, False, {}, node.wished_us))
    devices = [one for one in node.metrics if one]
    names = [sensor, *(f"{sensor}:{one}" for one in devices)]
    return [Part(one.lower(), online=False, heard=False, optional=True) for one in names]


def _birth(message: Any) -> dict[int | str, Known | None]:
    known: dict[int | str, Known | None] = {}
    for one in message.metrics:
        entry = (one.name, one.datatype, _unit(one))
        known[one.name] = entry
        if one.HasField("alias"):
            known[one.alias] = None if one.alias in known else entry
    return known


def _unit(metric: Any) -> str | None:
    """The engineering unit a birth states."""
    for name, value in zip(metric.properties.keys, metric.properties.values, strict=False):
        if name.lower() in ("engunit", "engineering unit", "unit", "units") and value.string_value:
            word = str(value.string_value).strip().lower()
            return _UNITS.get(word, word)
    return None


def _readings(
    message: Any, known: Mapping[int | str, Known | None], sensor: str, *, born: bool
) -> list[Part]:
    """The values by the time each was measured."""
    found: dict[int | None, tuple[dict[str, Any], dict[str, str]]] = {}
    stated = message.timestamp if message.HasField("timestamp") else None
    for one in message.metrics:
        name, datatype, unit = _named(one, known)
        if name.startswith(_CONTROL):
            continue
        time = one.timestamp if one.HasField("timestamp") else stated
        values, units = found.setdefault(time, ({}, {}))
        if name in values:
            raise Refused("contradiction", f"{shown(name)}: given twice for one time; send each metric once")
        values[name] = _value(one, one.datatype or datatype)
        if unit is not None:
            units[name] = unit
    online = True if born else None
    if not found:
        return [Part(sensor, online=online, optional=True)]
    return [
        Part(
            sensor,
            Uplink(document=values, time=time, time_name="timestamp", units=units),
            online=online if place == 0 else None,
            optional=born and all(value is None for value in values.values()),
        )
        for place, (time, (values, units)) in enumerate(found.items())
    ]


def _named(metric: Any, known: Mapping[int | str, Known | None]) -> Known:
    if metric.name:
        return known.get(metric.name) or (metric.name, 0, None)
    found = known.get(metric.alias) if metric.HasField("alias") else None
    if found is None:
        why = (
            "given twice in its birth"
            if metric.alias in known
            else "its birth was not seen; ask for a rebirth"
        )
        raise Refused("alias", f"metric alias {metric.alias}: {why}")
    return found


def _value(metric: Any, datatype: int) -> Any:
    if metric.is_null:
        return None
    if metric.HasField("double_value") or metric.HasField("float_value"):
        value = metric.double_value if metric.HasField("double_value") else metric.float_value
        return value if math.isfinite(value) else None
    if metric.HasField("boolean_value"):
        return bool(metric.boolean_value)
    if metric.HasField("string_value"):
        return str(metric.string_value)
    if not metric.HasField("int_value") and not metric.HasField("long_value"):
        return None
    value = metric.long_value if metric.HasField("long_value") else metric.int_value
    bits = _SIGNED.get(datatype)
    if bits is None:
        return value
    value &= (1 << bits) - 1  # signed numbers ride in unsigned fields
    return value - (1 << bits) if value >> (bits - 1) else value


FORMAT: Final = Format("sparkplug", "Sparkplug B", ("spBv1.0/#",), read)
