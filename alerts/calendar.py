"""Calendar arithmetic of an ordinance: ISO 8601 durations, local dates of a site, and due dates."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_DURATION = re.compile(r"P(?:(\d{1,4})Y)?(?:(\d{1,4})M)?(?:(\d{1,4})W)?(?:(\d{1,5})D)?", re.ASCII)
_PROBE = date(2027, 3, 1)  # four years from here hold every length of month, a leap day among them
_PROBE_DAYS = 1461


class DurationError(ValueError):
    """Not a duration that a calendar can follow; the text says what was expected."""


class FrequencyError(ValueError):
    """A frequency that the ordinance does not allow; the text cites the section."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Calendar months and days of an ISO 8601 duration, as ``text`` states it."""

    text: str
    months: int
    days: int


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> Duration:
    """Read a duration of years, months, weeks and days, such as ``P3M``, ``P30D`` or ``P2W``.

    Raises
    ------
    DurationError
        The text is no such duration, or is no time at all.
    """
    found = _DURATION.fullmatch(text)
    if found is None or text == "P":
        raise DurationError(
            f"{text!r} is not an ISO 8601 duration of whole days or more, such as P3M, P30D or P2W"
        )
    years, months, weeks, days = (int(part or 0) for part in found.groups())
    if years + months + weeks + days == 0:
        raise DurationError(f"{text!r} is no time at all; expected at least P1D")
    return Duration(text, 12 * years + months, 7 * weeks + days)


def add_duration(day: date, duration: str | Duration) -> date:
    """The date one duration later: calendar months first, clipped to the month's last day, then days.

    31 August and six months is 28 or 29 February.

    Raises
    ------
    DurationError
        The duration cannot be read, or leads beyond the calendar.
    """
    span = parse_duration(duration) if isinstance(duration, str) else duration
    month = day.year * 12 + day.month - 1 + span.months
    year, month = divmod(month, 12)
    try:
        clipped = date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
        return clipped + timedelta(days=span.days)
    except (ValueError, OverflowError):
        raise DurationError(f"{span.text!r} from {day} leads beyond the calendar") from None


def length_days(duration: str) -> float:
    """About how many days a duration has, to order durations by: a month is a twelfth of 365.25 days."""
    span = parse_duration(duration)
    return span.months * 365.25 / 12 + span.days


def in_words(duration: str) -> str:
    """A duration as people read it: ``P3M`` is "3 months"."""
    span = parse_duration(duration)
    years, months = divmod(span.months, 12)
    weeks, days = divmod(span.days, 7) if span.days % 7 == 0 else (0, span.days)
    parts = [(years, "year"), (months, "month"), (weeks, "week"), (days, "day")]
    return " and ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in parts if n)


@lru_cache(maxsize=1024)
def beyond(frequency: str, maximum: str) -> date | None:
    """The first day of the probe years from which ``frequency`` outlasts ``maximum``, if there is one."""
    mine, most = parse_duration(frequency), parse_duration(maximum)
    for ahead in range(_PROBE_DAYS):
        start = _PROBE + timedelta(days=ahead)
        if add_duration(start, mine) > add_duration(start, most):
            return start
    return None


def check_frequency(frequency: str, maximum: str | None, citation: str) -> Duration:
    """Refuse a frequency longer than the ordinance's maximum, for whatever day it starts from.

    Raises
    ------
    DurationError
        The frequency cannot be read.
    FrequencyError
        From some day on it would run beyond the maximum.
    """
    span = parse_duration(frequency)
    start = beyond(frequency, maximum) if maximum is not None else None
    if start is None:
        return span
    assert maximum is not None
    raise FrequencyError(
        f"{frequency} ({in_words(frequency)}) is longer than the ordinance's maximum of {in_words(maximum)}"
        f" ({citation}): from {start} it runs to {add_duration(start, span)}, the maximum to"
        f" {add_duration(start, maximum)}; give {maximum} or less"
    )


def due_date(last_complete: date, frequency: str | None, maximum: str | None) -> date | None:
    """When the next complete pump-out is due: the earlier of both; None where neither binds."""
    ends = [add_duration(last_complete, one) for one in (frequency, maximum) if one is not None]
    return min(ends, default=None)


# ---- local dates -------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name.

    Raises
    ------
    ZoneInfoNotFoundError
        There is no such zone.
    """
    return ZoneInfo(name)


def local_date(at_us: int, timezone: str) -> date:
    """The site's date at an instant [us]."""
    return datetime.fromtimestamp(at_us // 1_000_000, tz=zone(timezone)).date()


def local_noon_us(day: date, timezone: str) -> int:
    """The instant of local noon [us]: where only the date of a pump-out is known."""
    return round(datetime.combine(day, time(12), zone(timezone)).timestamp()) * 1_000_000


def local_midnight_us(day: date, timezone: str) -> int:
    """The first instant of a local date [us]."""
    return round(datetime.combine(day, time(0), zone(timezone)).timestamp()) * 1_000_000


def iso_instant(at_us: int) -> str:
    """An instant [us] as ISO 8601 in UTC with ``Z``; a fraction of a second only where there is one."""
    whole, rest = divmod(at_us, 1_000_000)
    text = datetime.fromtimestamp(whole, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:06d}".rstrip("0") + "Z" if rest else f"{text}Z"


def spoken(at_us: int, timezone: str) -> str:
    """An instant [us] as people at the site read it: ``2026-11-30 14:05``."""
    return datetime.fromtimestamp(at_us // 1_000_000, tz=zone(timezone)).strftime("%Y-%m-%d %H:%M")
