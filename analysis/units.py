"""Quantities, their SI columns, and the conversion of every unit a device may send.

Inside everything is SI: metres, degrees Celsius, pascal, seconds. Conversion happens once, at the rim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Dimension = Literal["length", "temperature", "pressure", "time", "voltage", "ratio", "power", "array"]

INCH_M: Final = 0.0254  # exact, international inch
FOOT_M: Final = 0.3048  # exact
PSI_PA: Final = 6894.757293168361  # lbf/in², from 0.45359237 kg, 9.80665 m/s² and 0.0254 m
INH2O_PA: Final = 249.08891  # conventional inch of water: 9.80665 m/s² · 1000 kg/m³ · 0.0254 m
MH2O_PA: Final = 9806.65  # conventional metre of water


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: ``si = value * scale + offset``."""

    dimension: Dimension
    scale: float
    offset: float = 0.0


UNITS: Final[dict[str, Unit]] = {
    "mm": Unit("length", 1e-3),
    "cm": Unit("length", 1e-2),
    "m": Unit("length", 1.0),
    "in": Unit("length", INCH_M),
    "ft": Unit("length", FOOT_M),
    "c": Unit("temperature", 1.0),
    "f": Unit("temperature", 1 / 1.8, -32 / 1.8),
    "k": Unit("temperature", 1.0, -273.15),
    "pa": Unit("pressure", 1.0),
    "kpa": Unit("pressure", 1e3),
    "mbar": Unit("pressure", 1e2),
    "bar": Unit("pressure", 1e5),
    "psi": Unit("pressure", PSI_PA),
    "mh2o": Unit("pressure", MH2O_PA),
    "inh2o": Unit("pressure", INH2O_PA),
    "us": Unit("time", 1e-6),
    "ms": Unit("time", 1e-3),
    "s": Unit("time", 1.0),
    "v": Unit("voltage", 1.0),
    "mv": Unit("voltage", 1e-3),
    "pct": Unit("ratio", 1.0),
    "dbm": Unit("power", 1.0),
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing a sensor can say: its public name, SI column, and the range of a possible value [SI]."""

    name: str
    column: str
    dimension: Dimension
    low: float
    high: float
    unit: str | None = None  # set where the public name itself carries the unit (``echo_fog_us``)


def _length(name: str, low: float = -1.0, high: float = 20.0) -> Quantity:
    return Quantity(name, f"{name}_m", "length", low, high)


def _celsius(name: str) -> Quantity:
    return Quantity(name, f"{name}_c", "temperature", -60.0, 200.0)


#: Every quantity of contracts.md §2 by its public name.
QUANTITIES: Final[dict[str, Quantity]] = {
    q.name: q
    for q in (
        _length("surface"),
        _length("distance", low=0.0, high=100.0),
        _length("fog_bottom"),
        _length("solids_top"),
        _length("fog_depth", low=0.0),
        _length("solids_depth", low=0.0),
        Quantity("pressure", "pressure_pa", "pressure", -1e5, 1e6),
        Quantity("profile", "profile", "array", -1e9, 1e9),
        Quantity("echo_fog_us", "echo_fog_s", "time", 0.0, 1.0, unit="us"),
        Quantity("echo_solids_us", "echo_solids_s", "time", 0.0, 1.0, unit="us"),
        _celsius("inlet"),
        _celsius("inlet_max"),
        Quantity("inlet_over_s", "inlet_over_s", "time", 0.0, 1e8, unit="s"),
        _celsius("tank"),
        _celsius("air"),
        Quantity("battery_v", "battery_v", "voltage", -1.0, 1000.0, unit="v"),
        Quantity("battery_pct", "battery_pct", "ratio", 0.0, 100.0, unit="pct"),
        Quantity("rssi_dbm", "rssi_dbm", "power", -300.0, 100.0, unit="dbm"),
    )
}

#: Scalar SI columns, in the order in which the store and every batch keep them.
COLUMNS: Final[tuple[str, ...]] = tuple(q.column for q in QUANTITIES.values() if q.dimension != "array")


def to_si(value: float, unit: str) -> float:
    """Convert a value [unit] to SI.

    Raises
    ------
    KeyError
        The unit is not one of :data:`UNITS`.
    """
    known = UNITS[unit]
    return value * known.scale + known.offset


def from_si(value: float, unit: str) -> float:
    """Convert a value [SI] to ``unit``; the inverse of :func:`to_si`.

    Raises
    ------
    KeyError
        The unit is not one of :data:`UNITS`.
    """
    known = UNITS[unit]
    return (value - known.offset) / known.scale


def field(name: str) -> tuple[Quantity, str | None] | None:
    """Split a public field name into its quantity and unit; ``None`` where it names no quantity.

    ``"fog_bottom_mm"`` gives the quantity ``fog_bottom`` and ``"mm"``; ``"surface"`` gives no unit;
    ``"echo_fog_us"`` is a quantity of its own and carries ``"us"``.
    """
    exact = QUANTITIES.get(name)
    if exact is not None:
        return exact, exact.unit
    stem, _, suffix = name.rpartition("_")
    quantity = QUANTITIES.get(stem)
    unit = UNITS.get(suffix)
    if quantity is None or unit is None or quantity.unit is not None or unit.dimension != quantity.dimension:
        return None
    return quantity, suffix
