"""Parts that several codecs share: strict JSON, numbers as text, online and offline, bytes in base64 or hex."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from ingest.limits import check, parse
from ingest.refused import Refused, shown

# strict on purpose: float() also takes "1_000", "nan" and digits of other scripts
NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?")
_NOTHING: Final = ("", "nan", "none", "null", "unknown", "unavailable", "inf", "-inf")
_ONLINE: Final = {"online": True, "offline": False, "connected": True, "disconnected": False}


def document(payload: bytes, most: int = 1 << 20) -> Any:
    """One JSON text within the limit of depth.

    Raises
    ------
    Refused
    """
    check(payload, most=most)
    return parse(payload)


def plain(payload: bytes) -> float | str | None:
    """A bare value as text: a number, text that is none, or None where it means: no value.

    Raises
    ------
    Refused
        It is no short text in UTF-8.
    """
    try:
        text = payload.decode().strip()
    except UnicodeDecodeError as error:
        raise Refused("not_text", f"payload: not UTF-8 ({error}); send a number as text") from None
    if len(text) > 256:
        raise Refused("not_text", f"payload: {len(text)} characters where one number was expected")
    if text.lower() in _NOTHING:
        return None
    return float(text) if NUMBER.fullmatch(text) else text


def connectivity(word: Any, name: str = "payload") -> bool:
    """Whether a word says online; capitals do not matter.

    Raises
    ------
    Refused
    """
    online = _ONLINE.get(word.strip().lower()) if type(word) is str else None
    if online is None:
        raise Refused("bad_status", f"{name}: expected online or offline, found {shown(word)}")
    return online


def status(payload: bytes) -> bool:
    """The same of a whole payload: bare text.

    Raises
    ------
    Refused
    """
    return connectivity(payload[:64].decode("utf-8", "replace"))


def from_base64(value: Any, name: str) -> bytes | None:
    """Bytes in base64; None where there are none.

    Raises
    ------
    Refused
    """
    if value is None or value == "":
        return None
    try:
        return base64.b64decode(value, validate=True) if type(value) is str else _no_bytes(name, value)
    except (binascii.Error, ValueError):
        return _no_bytes(name, value)


def from_hex(value: Any, name: str) -> bytes | None:
    """Bytes in hexadecimal digits; None where there are none.

    Raises
    ------
    Refused
    """
    if value is None or value == "":
        return None
    if type(value) is not str or not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", value):
        return _no_bytes(name, value)
    return bytes.fromhex(value)


def _no_bytes(name: str, value: Any) -> bytes:
    raise Refused("envelope", f"{name}: expected bytes as text, found {shown(value)}")


def port(value: Any, name: str) -> int | None:
    """A LoRaWAN port; None where it is absent.

    Raises
    ------
    Refused
    """
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= 255:
        raise Refused("envelope", f"{name}: expected a port of 0 to 255, found {shown(value)}")
    return value
