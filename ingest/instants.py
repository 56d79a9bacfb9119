"""The clock rule: which instant a reading gets, and how it is known again when its own time is no good.

A time outside 2020-01-01 … receipt + 5 min is replaced by the receipt time. In an array the replaced elements
keep their own spacing and end at the receipt time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

from ingest.refused import Refused, shown
from store.records import CLOCK_REPLACED, NO_TIME

EARLIEST_US: Final = 1_577_836_800_000_000  # 2020-01-01T00:00:00Z
AHEAD_US: Final = 300_000_000  # a clock may be five minutes fast
SEQ_MEMORY_US: Final = 24 * 3_600_000_000
CONTENT_MEMORY_US: Final = 600_000_000
LONGEST_SPAN_US: Final = 31 * 86_400_000_000  # wrong times further apart come from several wrong clocks

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIX: Final = "send ISO 8601 with an offset, such as 2026-03-01T12:00:00Z, or a number of seconds since 1970"


def parse_time(value: Any, name: str = "time") -> int | None:
    """A stated time [µs since the epoch, UTC]; ``None`` where the field is absent or null.

    Numbers go by magnitude: below 1e11 seconds, 1e14 milliseconds, 1e17 microseconds, else nanoseconds.

    Raises
    ------
    Refused
        The value is neither a number nor ISO 8601 with an offset.
    """
    kind = type(value)
    if kind is int:
        return _whole(value)
    if kind is float:
        return _whole(int(value)) if value.is_integer() else _fraction(value)
    if value is None:
        return None
    if kind is str:
        return _iso(value, name)
    raise Refused("bad_time", f"{name}: expected a time, found {shown(value)}; {_FIX}")


def _whole(value: int) -> int:
    size = abs(value)
    if size < 10**11:
        return value * 1_000_000
    if size < 10**14:
        return value * 1000
    return value if size < 10**17 else value // 1000


def _fraction(value: float) -> int:
    size = abs(value)  # beyond 1e16 a float has no fraction
    if size < 1e11:
        return round(value * 1e6)
    return round(value * 1e3) if size < 1e14 else round(value)


def _iso(text: str, name: str) -> int:
    leap = 0
    if text[17:19] == "60":  # a leap second is the second after :59
        text, leap = text[:17] + "59" + text[19:], 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused("bad_time", f"{name}: cannot read {shown(text)}; {_FIX}") from None
    if moment.tzinfo is None:
        raise Refused("bad_time", f"{name}: {shown(text)} has no offset from UTC; {_FIX}")
    return (moment - _EPOCH) // _MICROSECOND + leap


def parse_seq(value: Any, name: str = "seq") -> int | None:
    """A counter of the device; ``None`` where absent or null.

    Raises
    ------
    Refused
        It is no whole number of 64 bits.
    """
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    raise Refused(
        "bad_seq", f"{name}: expected a whole number, found {shown(value)}; leave it out or count up"
    )


@dataclass(frozen=True, slots=True)
class Instant:
    """Where a reading stands in time, and how it is known again."""

    time_us: int
    flags: int = 0
    key: bytes | None = None
    check_key: bool = False
    key_since_us: int = 0


def is_good(stated_us: int, received_us: int) -> bool:
    """Whether a stated time can be right."""
    return EARLIEST_US <= stated_us <= received_us + AHEAD_US


def without_good_time(
    stated_us: int | None,
    time_us: int,
    received_us: int,
    seq: int | None,
    content: tuple[Mapping[str, float], Sequence[float | None] | None],
    *,
    place: int,
    dup: bool,
) -> Instant:
    """The instant of a reading whose time is absent or replaced by ``time_us``.

    It is known again by the time it stated, its ``seq`` and its content; without a time by ``seq`` and content
    for a day; with neither, only where the message says it may be a repetition, by content and its ``place`` in
    the message for ten minutes.
    """
    if stated_us is not None:
        key = _key("time", stated_us, seq, content)
        return Instant(time_us, CLOCK_REPLACED, key, check_key=True)
    if seq is not None:
        key = _key("seq", seq, content)
        return Instant(time_us, NO_TIME, key, check_key=True, key_since_us=received_us - SEQ_MEMORY_US)
    key = _key("content", place, content)
    return Instant(time_us, NO_TIME, key, check_key=dup, key_since_us=received_us - CONTENT_MEMORY_US)


def _key(*parts: Any) -> bytes:
    *head, (values, profile) = parts
    text = repr((head, sorted(values.items()), profile))
    return blake2b(text.encode(), digest_size=16).digest()


def replacements(
    stated: Sequence[tuple[int, int | None]], received_us: int, interval_us: int
) -> dict[int, int]:
    """Times of array elements without a good one, by their place in the array; the last is at the receipt.

    Elements that stated a time keep their own spacing. Where they have none (no time; one time for all; times
    more than 31 days apart, which no single clock gives) it is ``interval_us``, the oldest first.
    """
    with_time = [(place, time) for place, time in stated if time is not None]
    without = [place for place, time in stated if time is None]
    placed = _by_interval(without, received_us, interval_us)
    if not with_time:
        return placed
    newest = max(time for _, time in with_time)
    span = newest - min(time for _, time in with_time)
    if len(with_time) > 1 and (span == 0 or span > LONGEST_SPAN_US):
        return placed | _by_interval([place for place, _ in with_time], received_us, interval_us)
    return placed | {place: received_us - (newest - time) for place, time in with_time}


def _by_interval(places: Sequence[int], received_us: int, interval_us: int) -> dict[int, int]:
    return {place: received_us - (places[-1] - place) * interval_us for place in places}
