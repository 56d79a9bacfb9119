"""The mapping of a recorded series: which column is which quantity, when a row was, and whose it is (TOML)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from analysis.units import QUANTITIES, UNITS
from ingest.instants import EARLIEST_US
from ingest.localtime import instant_us

SENSOR_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
EPOCH: Final = {"epoch_s": 1_000_000.0, "epoch_ms": 1000.0, "epoch_us": 1.0}  # format: microseconds a unit
_UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")

Column = int | str  # counted from 1, or by the name in the header


class SeriesError(Exception):
    """A mapping or file that cannot be used; the text names file and key."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class TimeColumns(_Strict, frozen=True):
    """Where a time stands: columns joined by a blank, and how to read them."""

    columns: list[Column]
    format: str = "iso"  # iso, epoch_s, epoch_ms, epoch_us, or what strptime understands
    zone: str | None = None  # of times that carry no offset
    start: datetime | None = None  # what an epoch_… format counts from where that is not 1970
    earliest: date | None = (
        None  # no row is older, UTC; default 2020-01-01: a clock not set yet says 1970 or 2000
    )

    def earliest_us(self) -> int:
        """The first instant that this clock can mean [us since the epoch]."""
        day = self.earliest
        return EARLIEST_US if day is None else instant_us(datetime(day.year, day.month, day.day, tzinfo=UTC))

    def start_us(self) -> int:
        """The instant from which an epoch format counts [us since the epoch]."""
        return 0 if self.start is None else instant_us(self.start)


class SensorColumn(_Strict, frozen=True):
    """Whose a row is: one sensor for the whole file, or a column, perhaps renamed."""

    id: str | None = None
    column: Column | None = None
    names: dict[str, str] = {}


class FieldColumn(_Strict, frozen=True):
    """One column: ``raw * scale + offset`` is the quantity in ``unit``; sentinels mean "no value"."""

    column: Column
    quantity: str
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    sentinels: list[str | int | float] = []


class SeriesMapping(_Strict, frozen=True):
    """How one kind of file is read."""

    time: TimeColumns
    sensor: SensorColumn
    fields: list[FieldColumn]
    received: TimeColumns | None = None  # when the row reached a server; default: its own time
    delimiter: str = ","
    encoding: str = "utf-8-sig"
    decimal: str = "."
    header: bool = True
    skip_lines: int = 0
    strip: str = ""  # characters dropped at a line's start

    def columns(self) -> list[Column]:
        """Every column that is read, once."""
        received = () if self.received is None else self.received.columns
        sensor = () if self.sensor.column is None else (self.sensor.column,)
        named = (*self.time.columns, *received, *sensor, *(one.column for one in self.fields))
        return list(dict.fromkeys(named))


_PARTS: Final = (TimeColumns, SensorColumn, FieldColumn)


def load_mapping(path: Path) -> SeriesMapping:
    """Read a mapping file.

    Raises
    ------
    SeriesError
        It cannot be read, or a key is wrong; the text names file and key.
    """
    try:
        mapping = msgspec.toml.decode(path.read_bytes(), type=SeriesMapping)
    except OSError as error:
        raise SeriesError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SeriesError(f"{path}: {error}{_nearest_key(str(error))}") from None
    _check(mapping, str(path))
    return mapping


def _nearest_key(error: str) -> str:
    found = _UNKNOWN.search(error)
    if found is None:
        return ""
    keys = [key for part in (SeriesMapping, *_PARTS) for key in part.__struct_fields__]
    close = get_close_matches(found[1], keys, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(dict.fromkeys(keys))}"


def _check(mapping: SeriesMapping, name: str) -> None:
    for place, one in enumerate(mapping.fields):
        _check_field(one, f"{name}: fields[{place}]")
    for key, when in (("time", mapping.time), ("received", mapping.received)):
        if when is not None:
            _check_time(when, f"{name}: {key}")
    if mapping.skip_lines < 0:
        raise SeriesError(f"{name}: skip_lines: {mapping.skip_lines} is less than none")
    if mapping.sensor.id is not None and not SENSOR_ID.fullmatch(mapping.sensor.id):
        raise SeriesError(f"{name}: sensor.id: {mapping.sensor.id!r} is none: letters, digits and . _ : -")
    if (mapping.sensor.id is None) == (mapping.sensor.column is None):
        raise SeriesError(f"{name}: sensor: give either id or column")
    if mapping.decimal not in {".", ","}:
        raise SeriesError(f"{name}: decimal: {mapping.decimal!r} is neither '.' nor ','")
    if len(mapping.delimiter) != 1 or mapping.delimiter in '"\r\n':
        raise SeriesError(f"{name}: delimiter: expected one character, found {mapping.delimiter!r}")
    try:
        "".encode(mapping.encoding)
    except (LookupError, ValueError):
        raise SeriesError(f"{name}: encoding: {mapping.encoding!r} is unknown") from None


def _check_field(one: FieldColumn, key: str) -> None:
    quantity = QUANTITIES.get(one.quantity)
    if quantity is None or quantity.dimension == "array":
        known = ", ".join(q.name for q in QUANTITIES.values() if q.dimension != "array")
        raise SeriesError(f"{key}.quantity: {one.quantity!r} is none of {known}")
    unit = UNITS.get(one.unit or quantity.unit or "")
    if unit is None or unit.dimension != quantity.dimension:
        fitting = ", ".join(
            u for u, known_unit in UNITS.items() if known_unit.dimension == quantity.dimension
        )
        raise SeriesError(f"{key}.unit: {one.unit!r} is no unit of {quantity.dimension}; one of {fitting}")
    if not (isfinite(one.scale) and isfinite(one.offset)):
        raise SeriesError(f"{key}: scale and offset are finite numbers")


def _check_time(when: TimeColumns, key: str) -> None:
    if not when.columns:
        raise SeriesError(f"{key}.columns: name at least one column")
    if when.format not in EPOCH and when.format != "iso":
        try:
            datetime.strptime("", when.format).astimezone()
        except ValueError as error:
            if "does not match" not in str(error):
                raise SeriesError(f"{key}.format: {when.format!r}: {error}") from None
    if when.start is not None and when.start.tzinfo is None:
        raise SeriesError(f"{key}.start: has no offset from UTC; such as 2026-01-01T08:00:00-08:00")
    if when.start is not None and when.format not in EPOCH:
        raise SeriesError(f"{key}.start: only a format of {', '.join(EPOCH)} counts from somewhere")
    if when.zone is not None:
        try:
            ZoneInfo(when.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SeriesError(
                f"{key}.zone: {when.zone!r} is no time zone; such as America/New_York"
            ) from None
    elif when.format not in EPOCH and when.format != "iso" and "%z" not in when.format:
        raise SeriesError(f"{key}.zone: missing: times of this format carry no offset")
