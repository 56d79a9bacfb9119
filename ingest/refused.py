"""Why something could not become a reading: one short word, and a sentence that names the field and the fix."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 60


class Refused(Exception):
    """A message or an element of one cannot be taken; it goes into quarantine under ``reason``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def shown(value: object) -> str:
    """A received value as JSON would write it, cut short, for a sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and abs(value) > 10**_SHOWN:
        return "a whole number of more than 60 digits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
