"""Recorded series in CSV, by a mapping, as the native messages a device would have sent.

A mapping (TOML) says which column is which quantity in which unit, where the time stands and in which zone, and
whose the row is. Rows that cannot be read become a :class:`RowError` with file and line; reading goes on.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from analysis.units import QUANTITIES, UNITS
from ingest.message import RawMessage

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,2})?")
_EPOCH: Final = {"epoch_s": 1_000_000.0, "epoch_ms": 1000.0, "epoch_us": 1.0}

Column = int | str  # counted from 1, or by the name in the header


class SeriesError(Exception):
    """A mapping or file that cannot be used; the text names file and key."""


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that was not taken: where, and why."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class TimeColumns(_Strict, frozen=True):
    """Where a time stands: columns joined by a blank, and how to read them."""

    columns: list[Column]
    format: str = "iso"  # iso, epoch_s, epoch_ms, epoch_us, or what strptime understands
    zone: str | None = None  # of times that carry no offset


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
        raise SeriesError(f"{path}: {error}") from None
    _check(mapping, str(path))
    return mapping


def _check(mapping: SeriesMapping, name: str) -> None:
    for place, one in enumerate(mapping.fields):
        quantity = QUANTITIES.get(one.quantity)
        key = f"{name}: fields[{place}]"
        if quantity is None or quantity.dimension == "array":
            known = ", ".join(q.name for q in QUANTITIES.values() if q.dimension != "array")
            raise SeriesError(f"{key}.quantity: {one.quantity!r} is none of {known}")
        unit = UNITS.get(one.unit or quantity.unit or "")
        if unit is None or unit.dimension != quantity.dimension:
            fitting = ", ".join(
                u for u, known_unit in UNITS.items() if known_unit.dimension == quantity.dimension
            )
            raise SeriesError(
                f"{key}.unit: {one.unit!r} is no unit of {quantity.dimension}; one of {fitting}"
            )
    for key, when in (("time", mapping.time), ("received", mapping.received)):
        if when is not None:
            _check_time(when, f"{name}: {key}")
    if (mapping.sensor.id is None) == (mapping.sensor.column is None):
        raise SeriesError(f"{name}: sensor: give either id or column")
    if mapping.decimal not in {".", ","}:
        raise SeriesError(f"{name}: decimal: {mapping.decimal!r} is neither '.' nor ','")
    if len(mapping.delimiter) != 1:
        raise SeriesError(f"{name}: delimiter: expected one character, found {mapping.delimiter!r}")
    try:
        "".encode(mapping.encoding)
    except LookupError:
        raise SeriesError(f"{name}: encoding: {mapping.encoding!r} is unknown") from None


def _check_time(when: TimeColumns, key: str) -> None:
    if not when.columns:
        raise SeriesError(f"{key}.columns: name at least one column")
    if when.zone is not None:
        try:
            ZoneInfo(when.zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise SeriesError(
                f"{key}.zone: {when.zone!r} is no time zone; such as America/New_York"
            ) from None
    elif when.format not in _EPOCH and when.format != "iso" and "%z" not in when.format:
        raise SeriesError(f"{key}.zone: missing: times of this format carry no offset")


def read_series(path: Path, mapping: SeriesMapping) -> Iterator[RawMessage | RowError]:
    """The rows of a file in its own order, each as one native message or an error.

    Raises
    ------
    SeriesError
        The file cannot be read, or lacks a column that the mapping names.
    """
    try:
        with path.open(encoding=mapping.encoding, errors="strict", newline="") as file:
            yield from _rows(file, str(path), mapping)
    except OSError as error:
        raise SeriesError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SeriesError(f"{path}: is not {mapping.encoding}: {error.reason}; set encoding") from None


def _rows(lines: Iterator[str], name: str, mapping: SeriesMapping) -> Iterator[RawMessage | RowError]:
    numbered = (
        (number, line.lstrip(mapping.strip) if mapping.strip else line)
        for number, line in enumerate(lines, 1)
    )
    for _ in range(mapping.skip_lines):
        next(numbered, None)
    columns: Mapping[str, int] = {}
    if mapping.header:
        head = next(numbered, None)
        if head is None:
            return
        try:
            words = _split(head[1], mapping)
        except _BadRow as bad:
            raise SeriesError(f"{name}:{head[0]}: header: {bad}") from None
        names: dict[str, int] = {}
        for at, word in enumerate(words):
            names.setdefault(word.strip(), at)
        columns = names
    reader = _Reader(mapping, columns, name)
    for number, line in numbered:
        if line.strip():
            where = f"{name}:{number}"
            try:
                yield reader.row(_split(line, mapping))
            except _BadRow as bad:
                yield RowError(where, str(bad))
            except (OverflowError, OSError):
                yield RowError(where, "time: lies outside what a calendar holds")


def _split(line: str, mapping: SeriesMapping) -> list[str]:
    if "\x00" in line:
        raise _BadRow("line: holds NUL bytes; the line is torn")
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=mapping.delimiter))
    except csv.Error as error:
        raise _BadRow(f"line: {error}") from None


class _BadRow(Exception):
    """A row that cannot be taken."""


class _Reader:
    """Rows of one file to messages."""

    def __init__(self, mapping: SeriesMapping, columns: Mapping[str, int], name: str) -> None:
        self._mapping = mapping
        self._columns = columns
        self._name = name
        self._fields = [(self._at(f"fields[{n}].column", f.column), f) for n, f in enumerate(mapping.fields)]
        self._time = [self._at("time.columns", one) for one in mapping.time.columns]
        received = mapping.received
        self._received = (
            None if received is None else [self._at("received.columns", one) for one in received.columns]
        )
        sensor = mapping.sensor
        self._sensor = None if sensor.column is None else self._at("sensor.column", sensor.column)

    def row(self, cells: Sequence[str]) -> RawMessage:
        """One row as the message its sensor would have sent."""
        stated = _instant(self._cells(cells, self._time), self._mapping.time, "time")
        received = stated
        if self._received is not None and self._mapping.received is not None:
            received = _instant(self._cells(cells, self._received), self._mapping.received, "received")
        body: dict[str, Any] = {"time": _iso(stated)}
        for at, one in self._fields:
            value = self._value(cells, at, one)
            if value is not None:
                body[_field_name(one)] = value
        sensor = self._mapping.sensor.id
        if self._sensor is not None:
            said = self._cells(cells, [self._sensor]).strip()
            sensor = self._mapping.sensor.names.get(said, said)
        return RawMessage(f"quarterline/v1/{sensor}/readings", msgspec.json.encode(body), received)

    def _at(self, key: str, column: Column) -> int:
        if isinstance(column, int):
            if column < 1:
                raise SeriesError(f"{self._name}: {key}: columns are counted from 1")
            return column - 1
        if column not in self._columns:
            known = ", ".join(word for word in self._columns if word) or "none: header is false"
            raise SeriesError(f"{self._name}: {key}: no column {column!r}; there are {known}")
        return self._columns[column]

    def _cells(self, cells: Sequence[str], places: Sequence[int]) -> str:
        if max(places) >= len(cells):
            raise _BadRow(f"only {len(cells)} columns, column {max(places) + 1} is missing")
        return " ".join(cells[at].strip() for at in places)

    def _value(self, cells: Sequence[str], at: int, one: FieldColumn) -> float | None:
        text = self._cells(cells, [at])
        if text == "" or text in {str(sentinel) for sentinel in one.sentinels}:
            return None
        if self._mapping.decimal == ",":
            text = text.replace(",", ".")
        if not _NUMBER.fullmatch(text):
            raise _BadRow(
                f"{one.column}: {text[:60]!r} is no number; add it to sentinels if it means no value"
            )
        value = float(text)
        if any(isinstance(sentinel, (int, float)) and value == sentinel for sentinel in one.sentinels):
            return None
        return value * one.scale + one.offset


def _field_name(one: FieldColumn) -> str:
    return one.quantity if QUANTITIES[one.quantity].unit is not None else f"{one.quantity}_{one.unit}"


def _instant(text: str, when: TimeColumns, key: str) -> int:
    """A time as the mapping says [us since the epoch]."""
    scale = _EPOCH.get(when.format)
    if scale is not None:
        if not _NUMBER.fullmatch(text):
            raise _BadRow(f"{key}: {text[:60]!r} is no number")
        return round(float(text) * scale)
    try:
        moment = _moment(text, when.format)
    except ValueError:
        raise _BadRow(f"{key}: {text[:60]!r} is not of the format {when.format!r}") from None
    if moment.tzinfo is None:
        if when.zone is None:
            raise _BadRow(f"{key}: {text[:60]!r} has no offset; give the mapping's zone")
        moment = moment.replace(tzinfo=ZoneInfo(when.zone))
    return round(moment.timestamp() * 1_000_000)


def _moment(text: str, form: str) -> datetime:
    if form == "iso":
        return datetime.fromisoformat(text)
    return datetime.strptime(text, form)  # noqa: DTZ007  # its zone is given by the caller


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, tz=UTC).isoformat(timespec="microseconds")
