"""SenML in JSON and CBOR (RFC 8428), resolved: base name, time, unit, value, and times relative to the receipt.

Where the topic names the sensor, a record's own name is the field, and all records are of one base name. On a topic
without ``{sensor}`` the base name is the device: its ``urn:dev:…`` identity (RFC 9039) or the name itself.
"""

from __future__ import annotations

import io
import math
from typing import Any, Final

import cbor2

from ingest.envelope import Uplink
from ingest.formats import words
from ingest.formats.part import Format, Part, Place
from ingest.refused import Refused, shown

_LABELS: Final = {
    -6: "bs", -5: "bv", -4: "bu", -3: "bt", -2: "bn", -1: "bver",
    0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd",
}  # fmt: skip
_UNITS: Final = {
    "m": "m", "mm": "mm", "cm": "cm", "Cel": "c", "K": "k", "Pa": "pa", "kPa": "kpa", "hPa": "mbar", "V": "v",
    "mV": "mv", "s": "s", "ms": "ms", "%EL": "pct", "%": "pct", "dBm": "dbm",
}  # fmt: skip
_RELATIVE: Final = 2**28  # section 4.5.3
_VERSION: Final = 10
_RECORDS: Final = 10_000
_SCHEMES: Final = ("urn:dev:mac:", "urn:dev:ow:", "urn:dev:org:", "urn:dev:os:", "urn:dev:ops:", "urn:imei:")


def read(payload: bytes, place: Place) -> list[Part]:
    """One pack: a reading for each device and time in it.

    Raises
    ------
    Refused
        It is no SenML, of a newer version, uses a label that must be understood, or names another device.
    """
    found: dict[tuple[str, float | None], tuple[dict[str, Any], dict[str, str]]] = {}
    base: dict[str, Any] = {"bn": "", "bt": 0, "bu": None, "bv": None}
    devices = set()
    for record in _records(payload):
        _bases(record, base)
        if not any(label in record for label in ("v", "vs", "vb", "vd", "s")) and base["bv"] is None:
            continue
        device = _device(base["bn"], record.get("n", ""))
        devices.add(device)
        field = record.get("n", "") or place.field or "value"
        unit = record.get("u", base["bu"])
        values, units = found.setdefault((device, _time(record, base)), ({}, {}))
        if not record.get("n") and unit is not None and unit not in _UNITS:
            field = unit  # records without a name are told apart by their unit (section 5.1.3)
        if field in values:
            raise Refused("contradiction", f"{field}: given twice for one time; send each value once")
        values[field] = _value(record, base["bv"])
        if unit is not None:
            units[field] = _UNITS.get(unit, unit)
    if place.sensor and len(devices) > 1:
        raise Refused(
            "sensor_mismatch", "bn: names several devices on a topic that names one; send a pack each"
        )
    parts = [
        Part(
            place.sensor or device,
            Uplink(document=values, time=_stated(time, place.received_us), units=units),
        )
        for (device, time), (values, units) in found.items()
    ]
    return parts or [Part(place.sensor)]


def _records(payload: bytes) -> list[dict[str, Any]]:
    document = words.document(payload) if payload.lstrip()[:1] in (b"[", b"{", b"") else _cbor(payload)
    if type(document) is not list or not all(type(one) is dict for one in document):
        raise Refused("senml", f"payload: expected an array of records (RFC 8428), found {shown(document)}")
    if len(document) > _RECORDS:
        raise Refused("senml", f"payload: {len(document)} records, at most {_RECORDS} are taken")
    for record in document:
        for label in record:
            if type(label) is str and label.endswith("_"):
                raise Refused("senml", f"{label}: a label that must be understood, and is not known here")
    return document


def _cbor(payload: bytes) -> Any:
    if any(byte & 0xE0 == 0xC0 for byte in payload[:1]):
        raise Refused("senml", "payload: tagged CBOR; send a plain array of records")
    stream = io.BytesIO(payload)
    try:
        document = cbor2.CBORDecoder(stream, tag_hook=_no_tag).decode()
    except (Exception, RecursionError) as error:  # the library raises what it meets
        raise Refused("senml", f"payload: neither JSON nor CBOR: {type(error).__name__}") from None
    if stream.tell() != len(payload) and stream.read(1):
        raise Refused("senml", "payload: more bytes after the CBOR array; send one array")
    if type(document) is not list:
        return document
    return [_named(one) if type(one) is dict else one for one in document]


def _no_tag(*_: Any) -> Any:
    raise ValueError("a tag")


def _named(record: dict[Any, Any]) -> dict[str, Any]:
    named = {
        _LABELS.get(label, str(label)) if type(label) is int else label: one for label, one in record.items()
    }
    if len(named) != len(record) or not all(type(label) is str for label in named):
        raise Refused("senml", "payload: a record whose labels are no SenML")
    return named


def _bases(record: dict[str, Any], base: dict[str, Any]) -> None:
    version = record.get("bver", _VERSION)
    if type(version) is not int or not 0 < version <= _VERSION:
        raise Refused("senml", f"bver: {shown(version)}; versions up to {_VERSION} are understood")
    for label in ("bn", "n", "bu", "u", "vs"):
        if record.get(label) is not None and type(record[label]) is not str:
            raise Refused("senml", f"{label}: expected text, found {shown(record[label])}")
    for label in ("bt", "t", "bv", "v"):
        if label in record:
            _number(label, record[label])
    base.update({label: record[label] for label in base if record.get(label) is not None})


def _number(label: str, found: Any) -> None:
    if (type(found) is not int and type(found) is not float) or not math.isfinite(found) or abs(found) > 1e15:
        raise Refused("senml", f"{label}: expected a number, found {shown(found)}")


def _value(record: dict[str, Any], base: float | None) -> Any:
    if "v" in record or (base is not None and "vs" not in record and "vb" not in record):
        return record.get("v", 0) + (base or 0)
    return record.get("vs", record.get("vb"))


def _time(record: dict[str, Any], base: dict[str, Any]) -> float | None:
    time: float = base["bt"] + record.get("t", 0)
    return time or None


def _stated(time: float | None, received_us: int) -> int | None:
    """The instant [us]; none where the record says: now."""
    if time is None:
        return None
    return round(time * 1e6) if abs(time) >= _RELATIVE else received_us + round(time * 1e6)


def _device(base: str, name: str) -> str:
    whole = base or name
    for scheme in _SCHEMES:
        if whole.startswith(scheme):
            whole = whole.removeprefix(scheme)
            break
    return whole.rstrip(":/_-").lower()


FORMAT: Final = Format("senml", "SenML, JSON and CBOR", ("senml/{sensor}", "senml/{sensor}/+"), read)
