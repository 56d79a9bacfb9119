"""Clocks of reports: hours, days, working days, the 15th of the next month, a day of the next year."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from alerts.calendar import DurationError
from alerts.reporting import due_us, last_day, parse_clock

ZONE = "America/Chicago"


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


@pytest.mark.parametrize(
    ("clock", "event", "expected"),
    [
        ("P7D", "2026-12-28", "2027-01-04"),
        ("P1M", "2027-01-31", "2027-02-28"),
        ("7 working days", "2026-12-07", "2026-12-16"),  # a Monday; the day itself does not count
        ("7 working days", "2026-12-11", "2026-12-22"),  # a Friday
        ("7 working days", "2026-12-12", "2026-12-22"),  # a Saturday
        ("1 working days", "2026-12-24", "2026-12-28"),  # Christmas is a Friday, then a weekend
        ("day 15 of the next month", "2026-12-31", "2027-01-15"),
        ("day 15 of the next month", "2027-01-01", "2027-02-15"),
        ("01-31 of the next year", "2026-01-01", "2027-01-31"),
    ],
)
def test_the_last_day(clock: str, event: str, expected: str) -> None:
    holidays = (date(2026, 12, 25),)
    assert last_day(parse_clock(clock), date.fromisoformat(event), holidays) == date.fromisoformat(expected)


def test_hours_run_by_the_clock_and_days_to_their_local_end() -> None:
    # 8 November 2026 02:00 CDT -> CST happens on 1 November; 24 hours are 24 hours over it
    event = _us("2026-10-31T12:00:00-05:00")
    assert due_us(parse_clock("PT24H"), event, ZONE) == _us("2026-11-01T11:00:00-06:00")
    assert due_us(parse_clock("P1D"), event, ZONE) == _us("2026-11-02T00:00:00-06:00") - 1
    assert datetime.fromtimestamp(due_us(parse_clock("P7D"), event, ZONE) / 1e6, tz=UTC).date() == date(
        2026, 11, 8
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soon", "'soon' is not a clock such as PT24H"),
        ("PT0H", "no time at all"),
        ("0 working days", "no time at all"),
        ("day 31 of the next month", "a day from 1 to 28"),
        ("02-29 of the next year", "no such day in every year"),
    ],
)
def test_what_is_no_clock(text: str, message: str) -> None:
    with pytest.raises(DurationError, match=message):
        parse_clock(text)


def test_a_clock_of_hours_has_no_date() -> None:
    with pytest.raises(ValueError, match="counts hours"):
        last_day(parse_clock("PT24H"), date(2026, 1, 1))
