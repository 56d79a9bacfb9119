"""Calendar months with clipping, local dates, and the refusal of a frequency beyond the maximum."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.calendar import (
    DurationError,
    FrequencyError,
    add_duration,
    check_frequency,
    due_date,
    in_words,
    iso_instant,
    local_date,
    local_midnight_us,
    local_noon_us,
    parse_duration,
)

DATES = st.dates(date(1990, 1, 1), date(2100, 1, 1))


@pytest.mark.parametrize(
    ("start", "duration", "end"),
    [
        ("2026-08-31", "P6M", "2027-02-28"),
        ("2027-08-31", "P6M", "2028-02-29"),
        ("2026-09-01", "P6M", "2027-03-01"),
        ("2026-11-30", "P3M", "2027-02-28"),
        ("2026-12-15", "P1M", "2027-01-15"),
        ("2028-02-29", "P1Y", "2029-02-28"),
        ("2026-06-01", "P2W", "2026-06-15"),
        ("2026-06-01", "P30D", "2026-07-01"),
        ("2026-01-31", "P1M1D", "2026-03-01"),  # months first, clipped to 28 February, then the day
    ],
)
def test_durations_follow_the_calendar(start: str, duration: str, end: str) -> None:
    assert add_duration(date.fromisoformat(start), duration) == date.fromisoformat(end)


@pytest.mark.parametrize("text", ["", "P", "P0D", "3M", "P3", "PT6H", "P1.5M", "P-1M", "p3m", "P3M ", "P３M"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match=r"is not an ISO 8601 duration|is no time at all"):
        parse_duration(text)


def test_a_duration_beyond_the_calendar_is_a_clear_error() -> None:
    with pytest.raises(DurationError, match="leads beyond the calendar"):
        add_duration(date(2026, 1, 1), "P9999Y")


@given(DATES, st.integers(1, 36))
def test_months_keep_the_day_or_clip_to_the_end(day: date, months: int) -> None:
    end = add_duration(day, f"P{months}M")
    assert (end.year * 12 + end.month) - (day.year * 12 + day.month) == months
    assert end.day == day.day or (end.day < day.day and (end + timedelta(days=1)).day == 1)


@given(DATES, st.integers(1, 400))
def test_days_and_weeks_are_exact(day: date, days: int) -> None:
    assert add_duration(day, f"P{days}D") == day + timedelta(days=days)
    assert add_duration(day, f"P{days}W") == day + timedelta(days=7 * days)


@given(DATES, st.sampled_from(["P1W", "P30D", "P1M", "P3M", "P6M", "P9M", "P2Y"]))
def test_no_due_date_lies_beyond_the_maximum(day: date, frequency: str) -> None:
    due = due_date(day, frequency, "P6M")
    assert due is not None
    assert day < due <= add_duration(day, "P6M")


@pytest.mark.parametrize("frequency", ["P6M", "P3M", "P181D", "P25W", "P1W"])
def test_frequencies_up_to_the_maximum_pass(frequency: str) -> None:
    assert check_frequency(frequency, "P6M", "IMC 10-223(4)(b)").text == frequency


@pytest.mark.parametrize("frequency", ["P7M", "P182D", "P26W", "P1Y", "P6M1D"])
def test_a_frequency_that_can_outlast_the_maximum_is_refused(frequency: str) -> None:
    with pytest.raises(
        FrequencyError, match=r"longer than .* 6 months \(IMC 10-223\(4\)\(b\)\).*give P6M or less"
    ):
        check_frequency(frequency, "P6M", "IMC 10-223(4)(b)")


def test_without_a_maximum_every_frequency_passes() -> None:
    assert check_frequency("P2Y", None, "").months == 24


@pytest.mark.parametrize(
    ("text", "words"),
    [("P3M", "3 months"), ("P1W", "1 week"), ("P30D", "30 days"), ("P1Y6M", "1 year and 6 months")],
)
def test_intervals_are_told_in_words(text: str, words: str) -> None:
    assert in_words(text) == words


def test_local_dates_follow_the_sites_zone_over_the_clock_change() -> None:
    los_angeles = "America/Los_Angeles"
    # 2026-03-08: clocks go from 02:00 PST to 03:00 PDT; midnight is 08:00 UTC before and 07:00 UTC after
    assert iso_instant(local_midnight_us(date(2026, 3, 8), los_angeles)) == "2026-03-08T08:00:00Z"
    assert iso_instant(local_midnight_us(date(2026, 3, 9), los_angeles)) == "2026-03-09T07:00:00Z"
    assert iso_instant(local_noon_us(date(2026, 3, 8), los_angeles)) == "2026-03-08T19:00:00Z"
    assert local_date(local_midnight_us(date(2026, 3, 9), los_angeles) - 1, los_angeles) == date(2026, 3, 8)


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_780_272_000_000_000, "2026-06-01T00:00:00Z"),
        (1_780_272_000_250_000, "2026-06-01T00:00:00.25Z"),
    ],
)
def test_instants_are_written_in_utc(at_us: int, text: str) -> None:
    assert iso_instant(at_us) == text
