"""Recorded series in CSV, by a mapping, as the native messages a device would have sent.

A mapping (TOML) says which column is which quantity in which unit, where the time stands and in which zone, and
whose the row is. Rows that cannot be read become a :class:`RowError` with file and line; reading goes on.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from analysis.units import QUANTITIES, UNITS
from ingest.localtime import NoSuchTime, Order, candidates, instant_us, iso, nearest
from ingest.message import RawMessage
from ingest.seriesmap import (
    EPOCH,
    SENSOR_ID,
    Column,
    FieldColumn,
    SeriesError,
    SeriesMapping,
    TimeColumns,
    load_mapping,
)

__all__ = [
    "RowError",
    "SeriesError",
    "SeriesMapping",
    "load_mapping",
    "numbered_series",
    "object_row",
    "read_series",
]

_TELL: Final = 500  # lines between two words about how far the reading is
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that was not taken: where, and why."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def read_series(path: Path, mapping: SeriesMapping) -> Iterator[RawMessage | RowError]:
    """The rows of a file in its own order, each as one native message or an error.

    Raises
    ------
    SeriesError
        The file cannot be read, or lacks a column that the mapping names.
    """
    return (row for _, row in numbered_series(path, mapping))


def numbered_series(
    path: Path, mapping: SeriesMapping, at: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[int, RawMessage | RowError]]:
    """Like :func:`read_series`, each row with its line; ``at`` is told now and then how many bytes were read.

    Raises
    ------
    SeriesError
    """
    try:
        with path.open(encoding=mapping.encoding, errors="strict", newline="") as file:
            for number, row in _rows(file, str(path), mapping):
                if number % _TELL == 0:
                    at(os.lseek(file.fileno(), 0, os.SEEK_CUR))
                yield number, row
    except OSError as error:
        raise SeriesError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SeriesError(f"{path}: is not {mapping.encoding}: {error.reason}; set encoding") from None


def object_row(
    mapping: SeriesMapping, name: str
) -> Callable[[int, Mapping[str, Any]], RawMessage | RowError]:
    """A reader of JSON objects by the same mapping: its columns are the objects' keys, null is an empty cell.

    Raises
    ------
    SeriesError
        The mapping counts columns, or has another decimal sign than JSON's.
    """
    keys = mapping.columns()
    numbered = [key for key in keys if isinstance(key, int)]
    if numbered:
        raise SeriesError(f"{name}: column {numbered[0]}: objects have keys; name the column in the mapping")
    if mapping.decimal != ".":
        raise SeriesError(f"{name}: decimal: {mapping.decimal!r}: JSON writes numbers with a point")
    places = {str(key): place for place, key in enumerate(keys)}
    reader = _Reader(mapping, places, name)

    def read(number: int, document: Mapping[str, Any]) -> RawMessage | RowError:
        return _taken(reader, f"{name}:{number}", lambda: [_cell(key, document.get(key)) for key in places])

    return read


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise _BadRow(f"{key}: expected text, a number or null, found {type(value).__name__}")


def _rows(
    lines: Iterator[str], name: str, mapping: SeriesMapping
) -> Iterator[tuple[int, RawMessage | RowError]]:
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
            yield number, _taken(reader, f"{name}:{number}", partial(_split, line, mapping))


def _taken(reader: _Reader, where: str, cells: Callable[[], Sequence[str]]) -> RawMessage | RowError:
    try:
        return reader.row(cells())
    except _BadRow as bad:
        return RowError(where, str(bad))
    except (OverflowError, OSError):
        return RowError(where, "time: lies outside what a calendar holds")


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
        self._order = Order()
        self._earliest_us = mapping.time.earliest_us()

    def row(self, cells: Sequence[str]) -> RawMessage:
        """One row as the message its sensor would have sent."""
        sensor = self._whose(cells)
        stated = _instants(self._cells(cells, self._time), self._mapping.time, "time")
        if self._received is not None and self._mapping.received is not None:
            found = _instants(self._cells(cells, self._received), self._mapping.received, "received")
            received = self._order.choose(sensor, found, tuple(cells))
            time = nearest(stated, received)
        else:
            time = received = self._order.choose(sensor, stated, tuple(cells))
            self._not_before(time)
        body: dict[str, Any] = {"time": iso(time)}
        for at, one in self._fields:
            value = self._value(cells, at, one)
            if value is not None:
                body[_field_name(one)] = value
        return RawMessage(f"quarterline/v1/{sensor}/readings", msgspec.json.encode(body), received)

    def _not_before(self, time_us: int) -> None:
        """Nothing but its own clock says when such a row was: one that is not set yet would put it far back."""
        if time_us < self._earliest_us:
            raise _BadRow(
                f"time: {iso(time_us)[:19]}Z lies before {iso(self._earliest_us)[:10]}: a clock that was not set, or "
                "counts from its start (time.start); where the series is as old as that, give time.earliest"
            )

    def _whose(self, cells: Sequence[str]) -> str:
        if self._sensor is None:
            return self._mapping.sensor.id or ""
        said = self._cells(cells, [self._sensor])
        sensor = self._mapping.sensor.names.get(said, said)
        if not SENSOR_ID.fullmatch(sensor):
            raise _BadRow(
                f"sensor: {sensor[:60]!r} is no sensor id (letters, digits and . _ : -); give it one in sensor.names"
            )
        return sensor

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
        number = text
        if self._mapping.decimal == ",":  # a point there would be a thousands separator
            number = text.replace(".", " ").replace(",", ".")
        if not _NUMBER.fullmatch(number):
            raise _BadRow(
                f"{one.column}: {text[:60]!r} is no number; add it to sentinels if it means no value"
            )
        value = float(number)
        if any(isinstance(sentinel, (int, float)) and value == sentinel for sentinel in one.sentinels):
            return None
        return (value * one.scale + one.offset) * _own_unit(one)


def _own_unit(one: FieldColumn) -> float:
    """From the mapping's unit to the one that the quantity's name carries; 1 where the name takes any unit."""
    own = QUANTITIES[one.quantity].unit
    return 1.0 if own is None or one.unit in (None, own) else UNITS[one.unit].scale / UNITS[own].scale


def _field_name(one: FieldColumn) -> str:
    return one.quantity if QUANTITIES[one.quantity].unit is not None else f"{one.quantity}_{one.unit}"


def _instants(text: str, when: TimeColumns, key: str) -> tuple[int, ...]:
    """The instants [us since the epoch] that a time may mean: two in the hour that comes twice."""
    scale = EPOCH.get(when.format)
    if scale is not None:
        if not _NUMBER.fullmatch(text):
            raise _BadRow(f"{key}: {text[:60]!r} is no number")
        return (when.start_us() + round(float(text) * scale),)
    try:
        moment = _moment(text, when.format)
    except ValueError:
        raise _BadRow(f"{key}: {text[:60]!r} is not of the format {when.format!r}") from None
    if moment.tzinfo is not None:
        return (instant_us(moment),)
    if when.zone is None:
        raise _BadRow(f"{key}: {text[:60]!r} has no offset; give the mapping's zone")
    try:
        return candidates(moment, ZoneInfo(when.zone))
    except NoSuchTime:
        raise _BadRow(
            f"{key}: {text[:60]!r} never was in {when.zone}: clocks were put forward over it; if this one never is, "
            "give a zone of one offset, such as Etc/GMT+5 (five hours behind UTC)"
        ) from None


def _moment(text: str, form: str) -> datetime:
    if form == "iso":
        return datetime.fromisoformat(text)
    return datetime.strptime(text, form)  # noqa: DTZ007  # its zone is given by the caller
