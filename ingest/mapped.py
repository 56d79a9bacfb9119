"""A decoded LoRaWAN object through the fields of its device profile."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from analysis.units import UNITS
from ingest.native import Element, as_si, entry, not_a_number, read_profile
from ingest.profile import DeviceProfile, Field
from ingest.refused import Refused, shown

# strict on purpose: float() also takes "1_000", "nan" and digits of other scripts
_NUMBER_UNIT: Final = re.compile(
    r"\s*([+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?)\s*([^\s0-9]*)\s*"
)
_UNIT_WORDS: Final = {
    "°c": "c", "℃": "c", "celsius": "c", "°f": "f", "℉": "f", "%": "pct", "inch": "in", "feet": "ft",
    "meter": "m", "metre": "m", "volt": "v", "µs": "us", "mh₂o": "mh2o",
}  # fmt: skip
_MISSING: Final = object()


def read(document: Any, profile: DeviceProfile, units: Mapping[str, str] | None = None) -> Element:
    """The values of one decoded object; ``units`` are those the message itself states, by field.

    Raises
    ------
    Refused
        A field of the profile is there and cannot be taken; the whole object goes with it.
    """
    if type(document) is not dict:
        raise Refused("not_an_object", f"decoded object: expected a JSON object, found {shown(document)}")
    element = Element({})
    for field in profile.fields:
        raw = _at(document, field.path)
        if raw is _MISSING or raw is None or _is_sentinel(raw, field.sentinels):
            continue
        if field.quantity.dimension == "array":
            element.profile = read_profile(
                field.name, _without_sentinels(raw, field), field.scale, field.offset
            )
            continue
        stated = units.get(field.name) if units else None
        value = _value(field if stated is None else _stated(field, stated), raw)
        column = field.quantity.column
        if column in element.values and not math.isclose(element.values[column], value, rel_tol=1e-9):
            raise Refused(
                "contradiction", f"{field.name}: another field of the profile gives {column} otherwise"
            )
        element.values[column] = value
    known = {field.path[0] for field in profile.fields}
    element.unknown.extend(name for name in document if name not in known)
    return element


def _stated(field: Field, word: str) -> Field:
    """The field in the unit its message states, which wins over the profile's."""
    unit = _UNIT_WORDS.get(word.lower(), word.lower())
    if unit not in UNITS or UNITS[unit].dimension != field.quantity.dimension:
        raise Refused("no_unit", f"{field.name}: {shown(word)} is no unit of {field.quantity.name}")
    return replace(field, unit=unit)


def raw_of(document: Any, field: Field) -> Any:
    """What stands where a field of the profile points; None where nothing does."""
    found = _at(document, field.path)
    return None if found is _MISSING else found


def _at(document: Any, path: Sequence[str]) -> Any:
    here = document
    for step in path:
        if type(here) is dict and step in here:
            here = here[step]
        elif type(here) is list and step.isascii() and step.isdigit() and int(step[:6]) < len(here):
            here = here[int(step[:6])]
        else:
            return _MISSING
    return here


def _is_sentinel(raw: Any, sentinels: Sequence[float | str]) -> bool:
    return type(raw) in (int, float, str) and raw in sentinels


def _without_sentinels(raw: Any, field: Field) -> Any:
    if type(raw) is not list:
        return raw
    return [None if _is_sentinel(one, field.sentinels) else one for one in raw]


def _value(field: Field, raw: Any) -> float:
    unit = field.unit
    if type(raw) is str and field.text:
        raw, unit = _from_text(field, raw)
    if type(raw) is not int and type(raw) is not float:
        raise not_a_number(field.name, raw)
    assert unit is not None  # a scalar quantity of a profile always has one
    known = entry(field.quantity, unit)
    if field.scale == 1.0 and field.offset == 0.0:
        return as_si(field.name, raw, known)
    column, scale, offset, low, high = known
    return as_si(field.name, raw, (column, field.scale * scale, field.offset * scale + offset, low, high))


def _from_text(field: Field, text: str) -> tuple[float, str | None]:
    found = _NUMBER_UNIT.fullmatch(text)
    if found is None:
        raise Refused(
            "not_a_number",
            f"{field.name}: cannot read {shown(text)} as a number with a unit; "
            "list it under sentinels in the device profile if it means: no value",
        )
    number, word = float(found[1]), found[2].lower()
    if not word:
        return number, field.unit
    unit = _UNIT_WORDS.get(word, word)
    if unit not in UNITS or UNITS[unit].dimension != field.quantity.dimension:
        raise Refused(
            "no_unit", f"{field.name}: {shown(text)} has a unit that is none of {field.quantity.name}"
        )
    return number, unit  # what the message itself says wins over the profile
