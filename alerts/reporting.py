"""Clocks that an ordinance starts: hours, calendar spans, working days, the 15th of the next month."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from alerts.calendar import DurationError, add_duration, local_date, local_midnight_us, parse_duration

_HOURS: Final = re.compile(r"PT(\d{1,4})H", re.ASCII)
_WORKING: Final = re.compile(r"(\d{1,3}) working days", re.ASCII)
_MONTH: Final = re.compile(r"day (\d{1,2}) of the next month", re.ASCII)
_YEAR: Final = re.compile(r"(\d{2})-(\d{2}) of the next year", re.ASCII)
_HOUR_US: Final = 3_600_000_000
EXPECTED: Final = (
    "a clock such as PT24H, P7D, P1M, '7 working days', 'day 15 of the next month' or "
    "'01-31 of the next year'"
)


@dataclass(frozen=True, slots=True)
class Clock:
    """When something must have been done, counted from an event. Exactly one of the fields is set."""

    text: str
    hours: int | None = None
    span: str | None = None
    working_days: int | None = None
    month_day: int | None = None
    year_day: tuple[int, int] | None = None


def parse_clock(text: str) -> Clock:
    """Read a clock.

    Raises
    ------
    DurationError
        The text is none; the error says what was expected.
    """
    if found := _HOURS.fullmatch(text):
        return Clock(text, hours=_some(text, int(found[1])))
    if found := _WORKING.fullmatch(text):
        return Clock(text, working_days=_some(text, int(found[1])))
    if found := _MONTH.fullmatch(text):
        day = int(found[1])
        if not 1 <= day <= 28:
            raise DurationError(f"{text!r}: expected a day from 1 to 28, which every month has")
        return Clock(text, month_day=day)
    if found := _YEAR.fullmatch(text):
        month, day = int(found[1]), int(found[2])
        try:
            date(2027, month, day)
        except ValueError:
            raise DurationError(f"{text!r}: there is no such day in every year") from None
        return Clock(text, year_day=(month, day))
    try:
        parse_duration(text)
    except DurationError:
        raise DurationError(f"{text!r} is not {EXPECTED}") from None
    return Clock(text, span=text)


def _some(text: str, count: int) -> int:
    if count == 0:
        raise DurationError(f"{text!r} is no time at all")
    return count


def due_us(clock: Clock, event_us: int, timezone: str, holidays: Collection[date] = ()) -> int:
    """The last instant [us] at which it is in time; a date's clock ends with that local day.

    Working days are Monday to Friday but the given ``holidays`` of the jurisdiction; the day of the event
    does not count.
    """
    if clock.hours is not None:
        return event_us + clock.hours * _HOUR_US
    day = last_day(clock, local_date(event_us, timezone), holidays)
    return local_midnight_us(day + timedelta(days=1), timezone) - 1


def last_day(clock: Clock, event: date, holidays: Collection[date] = ()) -> date:
    """The last local date at which it is in time.

    Raises
    ------
    ValueError
        A clock of hours has no date of its own.
    """
    if clock.span is not None:
        return add_duration(event, clock.span)
    if clock.working_days is not None:
        return _working_day(event, clock.working_days, holidays)
    if clock.month_day is not None:
        following = add_duration(event.replace(day=1), "P1M")
        return following.replace(day=clock.month_day)
    if clock.year_day is not None:
        return date(event.year + 1, *clock.year_day)
    raise ValueError(f"{clock.text} counts hours, not days")


def _working_day(event: date, count: int, holidays: Collection[date]) -> date:
    day = event
    while count:
        day += timedelta(days=1)
        if day.weekday() < 5 and day not in holidays:
            count -= 1
    return day
