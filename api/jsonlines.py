"""Recorded readings as JSON lines: native items that name their sensor, messages of a replay, or mapped objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from api.recording import RecordingError, parse_message
from ingest.instants import parse_time
from ingest.message import RawMessage
from ingest.refused import Refused
from ingest.series import RowError, SeriesError, SeriesMapping, object_row
from ingest.seriesmap import SENSOR_ID

_TELL: Final = 500  # lines between two words about how far the reading is

Row = RawMessage | RowError


def is_json_lines(path: Path) -> bool:
    """Whether a file is read as JSON lines: by its name, or because it begins like an object.

    Raises
    ------
    SeriesError
        The file cannot be read.
    """
    if path.suffix.lower() in {".jsonl", ".ndjson"}:
        return True
    try:
        with path.open("rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    except OSError as error:
        raise SeriesError(f"{path}: cannot be read: {error.strerror}") from None


def numbered_json_lines(
    path: Path, mapping: SeriesMapping | None, at: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[int, Row]]:
    """The lines of a file in its own order, each with its number; ``at`` is told how many bytes were read.

    Raises
    ------
    SeriesError
        The file cannot be read, or the mapping cannot be used for objects.
    """
    by_mapping = None if mapping is None else object_row(mapping, str(path))
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number % _TELL == 0:
                    at(file.tell())
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield number, _row(line, number, f"{path}:{number}", by_mapping)
    except OSError as error:
        raise SeriesError(f"{path}: cannot be read: {error.strerror}") from None


def _row(
    line: bytes, number: int, where: str, by_mapping: Callable[[int, dict[str, Any]], Row] | None
) -> Row:
    try:
        document = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return RowError(where, f"line: no JSON ({error}); the line may be torn")
    if not isinstance(document, dict):
        return RowError(where, "line: expected a JSON object")
    if by_mapping is not None:
        return by_mapping(number, document)
    if "topic" in document:
        try:
            return parse_message(line, where)
        except RecordingError as error:
            return RowError(where, str(error).removeprefix(f"{where}: "))
    return _native(document, where)


def _native(document: dict[str, Any], where: str) -> Row:
    """An item that says whose it is; it reached nobody before, so its reception is its own time."""
    sensor = document.pop("sensor", None)
    if not isinstance(sensor, str) or not SENSOR_ID.fullmatch(sensor):
        return RowError(where, f"sensor: {str(sensor)[:60]!r} is no sensor id; name the sensor of every item")
    try:
        time_us = parse_time(document.get("time"))
    except Refused as refused:
        return RowError(where, refused.detail)
    if time_us is None:
        return RowError(where, "time: missing; a recorded item says when it was, as ISO 8601 with an offset")
    return RawMessage(f"quarterline/v1/{sensor}/readings", msgspec.json.encode(document), time_us)
