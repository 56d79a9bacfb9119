"""Where local dates begin, on a grid of instants."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo


def new_date(zone: ZoneInfo, instant_us: int, every_us: int) -> bool:
    """Whether an instant is the first of a grid in its local date."""
    here = datetime.fromtimestamp(instant_us / 1e6, tz=zone).date()
    return here != datetime.fromtimestamp((instant_us - every_us) / 1e6, tz=zone).date()


def offset_s(zone: ZoneInfo, at_us: int) -> float:
    """The zone's offset from UTC [s]."""
    offset = datetime.fromtimestamp(at_us / 1e6, tz=zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
