"""Deterministic ids: the same facts give the same id, live and in a replay."""

from __future__ import annotations

import base64
import hashlib


def short_id(prefix: str, *parts: str) -> str:
    """``prefix-`` and twelve characters (60 bits) of the parts' SHA-256, in lower case base32.

    The parts are joined by the unit separator, so that ("ab", "c") and ("a", "bc") differ.
    """
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return f"{prefix}-{base64.b32encode(digest).decode().lower()[:12]}"
