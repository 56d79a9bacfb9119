"""Local times without an offset: the hour that comes twice, and the one that never comes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class NoSuchTime(ValueError):
    """The clocks of the zone were put forward over this time."""


def instant_us(moment: datetime) -> int:
    """A time with an offset [us since the epoch], exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def iso(us: int) -> str:
    """An instant [us since the epoch] as ISO 8601 in UTC."""
    return (_EPOCH + us * _MICROSECOND).isoformat(timespec="microseconds")


def candidates(moment: datetime, zone: ZoneInfo) -> tuple[int, ...]:
    """The instants [us] that a local time may mean: one, or two where the clocks were put back, in order.

    Raises
    ------
    NoSuchTime
    """
    early, late = (moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if early.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0) != moment.replace(fold=0):
        raise NoSuchTime
    first, second = instant_us(early), instant_us(late)
    return (first,) if first == second else (first, second)


@dataclass(slots=True)
class _Last:
    us: int
    row: Hashable
    forward: bool


class Order:
    """Chooses between two candidates by what came before them, for each of several interleaved series.

    A series goes on in small steps, and in one direction: of two instants the one nearer to the last row is meant;
    where both are as near, the one that does not turn back. The same local time again is the second hour, unless
    the whole row is the same: then it is a double.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, _Last] = {}

    def choose(self, series: Hashable, found: tuple[int, ...], row: Hashable) -> int:
        """The instant of ``row``, which is then the last of its series."""
        last = self._last.get(series)
        if last is None:
            self._last[series] = _Last(found[0], row, True)
            return found[0]
        before = last.us
        fresh = [us for us in found if us != before or row == last.row]
        chosen = min(
            fresh or found,
            key=lambda us: (abs(us - before), us != before and (us > before) is not last.forward),
        )
        if chosen != before:
            last.forward = chosen > before
        last.us, last.row = chosen, row
        return chosen


def nearest(found: tuple[int, ...], to_us: int) -> int:
    """The candidate that lies nearest to another instant, such as the receipt."""
    return min(found, key=lambda us: abs(us - to_us))
