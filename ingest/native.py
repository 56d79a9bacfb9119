"""The native object of contracts.md section 2: field names carry quantity and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from analysis.units import QUANTITIES, UNITS, Quantity
from ingest.instants import parse_seq, parse_time
from ingest.refused import Refused, shown

MAX_ELECTRODES: Final = 256
RESERVED: Final = ("time", "seq", "interval_s")

#: field name -> SI column, scale, offset, lowest and highest possible value [SI]
Table = dict[str, tuple[str, float, float, float, float]]
Profile = tuple[float | None, ...]


@dataclass(slots=True)
class Element:
    """What one object says: SI values by column, and when it was, as stated [µs]."""

    values: dict[str, float]
    profile: Profile | None = None
    stated_us: int | None = None
    seq: int | None = None
    unknown: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it carries no quantity: a heartbeat."""
        return not self.values and self.profile is None


def table_of(units: Mapping[str, str]) -> Table:
    """Every name a native object may use, with ``units`` for quantities that come without one."""
    table: Table = {}
    for quantity in QUANTITIES.values():
        if quantity.dimension == "array":
            continue
        if quantity.unit is not None:
            table[quantity.name] = entry(quantity, quantity.unit)
            continue
        for suffix, unit in UNITS.items():
            if unit.dimension == quantity.dimension:
                table[f"{quantity.name}_{suffix}"] = entry(quantity, suffix)
        given = units.get(quantity.name)
        if given is not None:
            table[quantity.name] = entry(quantity, given)
    return table


def entry(quantity: Quantity, unit: str) -> tuple[str, float, float, float, float]:
    """How a value of ``quantity`` in ``unit`` becomes SI, and between what it must then lie."""
    known = UNITS[unit]
    return quantity.column, known.scale, known.offset, quantity.low, quantity.high


def read(document: Any, table: Table) -> Element:
    """One native object.

    Raises
    ------
    Refused
        It is no object, or one of its fields cannot be taken; the whole object goes with it.
    """
    if type(document) is not dict:
        raise Refused("not_an_object", f"payload: expected a JSON object, found {shown(document)}")
    element = Element({})
    values = element.values
    for name, raw in document.items():
        known = table.get(name)
        if known is None:
            _other(name, raw, element)
            continue
        kind = type(raw)
        if kind is float or kind is int:
            column, scale, offset, low, high = known
            if column in values:
                _same_twice(name, column, values, as_si(name, raw, known))
            # the bounds of the raw value keep huge integers away from the multiplication
            elif -1e15 < raw < 1e15 and low <= (value := raw * scale + offset) <= high:
                values[column] = value
            else:
                raise out_of_range(name, raw, known)
        elif raw is not None:
            raise not_a_number(name, raw)
    return element


def with_units(document: Any, units: Mapping[str, str], table: Table) -> Any:
    """``document`` with the units its message states beside the values put into the names, as native ones have them."""
    if not units or type(document) is not dict:
        return document
    named = {}
    for name, raw in document.items():
        full = f"{name}_{units[name]}" if name in units else name
        named[full if full in table else name] = raw
    return named


def as_si(name: str, raw: float, known: tuple[str, float, float, float, float]) -> float:
    """One number in SI, refused where it lies outside what its quantity can be."""
    _, scale, offset, low, high = known
    if -1e15 < raw < 1e15 and low <= (value := raw * scale + offset) <= high:
        return value
    raise out_of_range(name, raw, known)


def out_of_range(name: str, raw: object, known: tuple[str, float, float, float, float]) -> Refused:
    """The refusal of an impossible value."""
    column, scale, offset, low, high = known
    bounds = [round((bound - offset) / scale, 6) for bound in (low, high)]
    return Refused(
        "out_of_range",
        f"{name}: {shown(raw)} is not between {bounds[0]:g} and {bounds[1]:g}; "
        f"check the unit in the name, and send null where there is no {column.rpartition('_')[0]}",
    )


def not_a_number(name: str, raw: object) -> Refused:
    """The refusal of text, true, false, an array or an object in place of a number."""
    return Refused(
        "not_a_number", f"{name}: expected a number or null, found {shown(raw)}; send it as a JSON number"
    )


def read_profile(name: str, raw: Any, scale: float = 1.0, offset: float = 0.0) -> Profile | None:
    """Electrode values from the floor up; ``None`` where there are none.

    Raises
    ------
    Refused
    """
    if raw is None:
        return None
    if type(raw) is not list:
        raise Refused(
            "not_an_array", f"{name}: expected an array of numbers from the floor up, found {shown(raw)}"
        )
    if len(raw) > MAX_ELECTRODES:
        raise Refused("out_of_range", f"{name}: {len(raw)} electrodes, at most {MAX_ELECTRODES} are taken")
    quantity = QUANTITIES["profile"]
    known = (quantity.column, scale, offset, quantity.low, quantity.high)
    values: list[float | None] = []
    for place, one in enumerate(raw):
        if one is None:
            values.append(None)
        elif type(one) is int or type(one) is float:
            values.append(float(as_si(f"{name}[{place}]", one, known)))
        else:
            raise not_a_number(f"{name}[{place}]", one)
    return tuple(values) if values else None


def _other(name: str, raw: Any, element: Element) -> None:
    """A field that is no scalar quantity with a unit."""
    if name == "time":
        element.stated_us = parse_time(raw)
    elif name == "seq":
        element.seq = parse_seq(raw)
    elif name == "profile":
        element.profile = read_profile(name, raw)
    elif name in QUANTITIES and raw is not None:
        raise Refused(
            "no_unit",
            f"{name}: has no unit; name it {_with_units(QUANTITIES[name])}, or give the unit in the device profile",
        )
    elif name not in RESERVED and name not in QUANTITIES:
        element.unknown.append(name)


def _with_units(quantity: Quantity) -> str:
    names = [f"{quantity.name}_{u}" for u, unit in UNITS.items() if unit.dimension == quantity.dimension]
    return " or ".join(names)


def _same_twice(name: str, column: str, values: Mapping[str, float], value: float) -> None:
    if abs(values[column] - value) > 1e-9 * max(abs(value), abs(values[column])):
        raise Refused(
            "contradiction",
            f"{name}: the same quantity is there in another unit with another value; send it once",
        )


@lru_cache(maxsize=4096)
def near_miss(name: str) -> str | None:
    """The known name that an unknown one most likely means; ``None`` where none is near."""
    if len(name) > 64:
        return None
    names = (*_NAMES, *RESERVED)
    plain = name.lower().replace("-", "_").replace(" ", "_")
    close = get_close_matches(plain, names, n=1, cutoff=0.8)
    return close[0] if close else None


_NAMES: Final = (*table_of({}), *QUANTITIES)
