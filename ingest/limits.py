"""Bytes to JSON, within limits that are checked before anything is parsed.

Size and nesting come first, since both cost memory and stack. What JSON forbids (NaN, Infinity, text after the
end) the parser refuses; a key given twice, where parsers keep the last silently, is refused here.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from ingest.refused import Refused, shown

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16

_OPEN: Final = b"[{"
# a string, also one without its end, is skipped as a whole; possessive: hostile quotes cost linear time
_MARKS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_decode: Final = msgspec.json.Decoder().decode
_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def check(payload: bytes, *, size: int = 0, most: int = MAX_BYTES) -> None:
    """Refuse a payload that is larger than ``most`` bytes or nested deeper than 16 levels.

    ``size`` is that of the whole where only the head of it is here.

    Raises
    ------
    Refused
    """
    check_size(payload, size=size, most=most)
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH and _depth(payload) > MAX_DEPTH:
        raise Refused("too_deep", f"payload: nested deeper than {MAX_DEPTH} levels; send flat objects")


def check_size(payload: bytes, *, size: int = 0, most: int = MAX_BYTES) -> None:
    """The size alone, of a payload that may be no JSON.

    Raises
    ------
    Refused
    """
    size = size or len(payload)
    if size > most:
        raise Refused("too_large", f"payload: {size} bytes, at most {most} are taken; send smaller arrays")


def _depth(payload: bytes) -> int:
    depth = deepest = 0
    for found in _MARKS.finditer(payload):
        mark = found.group()
        if mark in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif mark in (b"]", b"}"):
            depth -= 1
    return deepest


def parse(payload: bytes) -> Any:
    """One JSON text, already checked for its limits.

    Raises
    ------
    Refused
        It is no JSON (RFC 8259), or a key stands twice in one object.
    """
    try:
        value = _decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _not_json(payload, error) from None
    # Each key has one colon of its own. Where no string can hide one behind an escape, the bytes have more colons
    # than the parsed value accounts for exactly when a key and its value were dropped for a later one.
    if b"\\" in payload or payload.count(b":") != _colons(value):
        _refuse_doubles(payload)
    return value


def split(payload: bytes) -> list[bytes]:
    """The elements of a JSON array, each with its own bytes.

    Raises
    ------
    Refused
        The array as a whole is no JSON.
    """
    try:
        payload.decode()  # the parser looks at an element's text only when the element is parsed
        return [bytes(element) for element in _split(payload)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _not_json(payload, error) from None


def _colons(value: Any) -> int:
    kind = type(value)
    if kind is dict:
        total = len(value)
        for name, one in value.items():
            if ":" in name:
                total += name.count(":")
            if type(one) is str:
                total += one.count(":")
            elif type(one) is dict or type(one) is list:
                total += _colons(one)
        return total
    if kind is list:  # mostly long and of numbers, which hold no colon
        return sum([_colons(one) for one in value if type(one) is not float and type(one) is not int])
    return value.count(":") if kind is str else 0


def _refuse_doubles(payload: bytes) -> None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise Refused("duplicate_key", f"{shown(double)}: given more than once; send each field once")
        return found

    json.loads(payload, object_pairs_hook=once, parse_int=str, parse_float=str)


def _not_json(payload: bytes, error: Exception) -> Refused:
    if not payload.strip():
        return Refused("not_json", "payload: empty; send a JSON object or an array of objects")
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error):
        return Refused("not_json", f"payload: not UTF-8 ({error}); send JSON in UTF-8")
    hint = "send a JSON object or an array of objects"
    if re.search(rb"\b(?:NaN|-?Infinity|nan|inf)\b", payload):
        hint = "NaN and Infinity are no JSON: send null where there is no value"
    return Refused("not_json", f"payload: no JSON: {error}; {hint}")
