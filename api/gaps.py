"""Readings that are missing: where a sensor's counter skips, or nothing came for three intervals and an hour.

What is found rests on stored readings alone, in order of their times, so that a replay finds the same. Late
readings that close a gap, or move its end, correct it under its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from alerts.ids import short_id
from analysis.health import GAP_INTERVALS, GAP_LEAST_S
from api.desk import Desk
from api.recording import instant_text
from store.ports import Store
from store.records import Gap, Json, Sensor, StoredReading

#: A counter counts messages where one of the last so many readings followed its forerunner by one; else it may count
#: seconds, or something else of the device's own.
_PROOF: Final = 16
_END: Final = 2**62

#: The last reading of a sensor: time [us], counter, readings since one followed its forerunner by one.
_Last = tuple[int, int | None, int]


class GapBook:
    """Looks at the new readings of each instant."""

    def __init__(self, store: Store, desk: Desk) -> None:
        self._store = store
        self._desk = desk
        self._sensors: Mapping[str, Sensor] = {}
        self._last: dict[str, _Last] = {}
        self._bound_us = 0

    def begin(self, sensors: Mapping[str, Sensor]) -> None:
        """The fleet, or the history beside the service, has changed."""
        self._sensors = sensors
        self._last.clear()

    def look(self, new: Sequence[StoredReading], instant_us: int) -> None:
        """Find the gaps that these readings end, open or close; in the transaction under way."""
        # where a recorded stream ends, what was received at that very instant counts
        self._bound_us = max([instant_us, *(one.received_us + 1 for one in new)])
        seen: dict[str, _Last | None] = {}
        for sensor, readings in _by_sensor(new).items():
            known = self._sensors.get(sensor)
            if known is None:
                continue
            last = self._last.get(sensor)
            if last is not None and readings[0].time_us > last[0]:
                seen[sensor] = self._in_order(known, last, readings, instant_us)
            else:
                seen[sensor] = self._among(known, readings, instant_us)
        self._desk.after_commit(lambda: self._remember(seen))

    def _remember(self, seen: Mapping[str, _Last | None]) -> None:
        for sensor, last in seen.items():
            if last is None:
                self._last.pop(sensor, None)  # read from the store when it is needed again
            else:
                self._last[sensor] = last

    def _in_order(
        self, sensor: Sensor, last: _Last, readings: Sequence[StoredReading], instant_us: int
    ) -> _Last:
        for one in readings:
            gap = self._between(sensor, last, one, instant_us)
            if gap is not None:
                self._put(gap, instant_us)
            last = _step(last, one)
        return last

    def _among(self, sensor: Sensor, readings: Sequence[StoredReading], instant_us: int) -> _Last | None:
        """Readings that come late, or the first after a start: with what is stored about them."""
        history = self._store.history
        first_us, last_us = readings[0].time_us, readings[-1].time_us
        bound_us = self._bound_us
        before = history.before(sensor.id, first_us, limit=_PROOF + 1, received_before_us=bound_us)
        after = history.after(sensor.id, last_us, received_before_us=bound_us)
        inside = readings
        if len(before) or after is not None:
            inside = history.readings(
                [sensor.id], since_us=first_us, until_us=last_us + 1, received_before_us=bound_us
            )
        row = [*reversed(before), *inside, *([after] if after is not None else [])]
        from_us = before[0].time_us if before else first_us
        found: dict[tuple[str, int], Gap] = {}
        last: _Last = (row[0].time_us, row[0].seq, _PROOF)
        for _, one in pairwise(row):
            gap = self._between(sensor, last, one, instant_us) if last[0] >= from_us else None
            if gap is not None:
                found[gap.kind, gap.start_us] = gap
            last = _step(last, one)
        self._correct(sensor.id, from_us, row[-1].time_us, found, instant_us)
        return last if after is None else None

    def _correct(
        self, sensor: str, from_us: int, until_us: int, found: dict[tuple[str, int], Gap], instant_us: int
    ) -> None:
        told = self._store.ledger.gaps(sensor=sensor, since_us=from_us, until_us=until_us, limit=_END)
        for old in sorted(told, key=lambda gap: (gap.start_us, gap.id)):
            now = found.pop((old.kind, old.start_us), None)
            if now is None and old.missing:
                self._put(replace(old, missing=0), instant_us)
            elif now is not None and (now.end_us, now.missing) != (old.end_us, old.missing):
                self._put(replace(now, noticed_us=old.noticed_us), instant_us)
        for gap in found.values():
            self._put(gap, instant_us)

    def _between(self, sensor: Sensor, last: _Last, one: StoredReading, instant_us: int) -> Gap | None:
        time_us, seq, since_proof = last
        skipped = 0
        if seq is not None and one.seq is not None and since_proof < _PROOF:
            skipped = one.seq - seq - 1  # a counter that goes back was reset: what it skipped is not known
        silence_s = (one.time_us - time_us) / 1e6
        span: tuple[int | None, int | None] = (None, None)
        if skipped > 0 and seq is not None:
            kind, missing, span = "sequence", skipped, (seq + 1, seq + skipped)
        elif silence_s > max(GAP_INTERVALS * sensor.interval_s, GAP_LEAST_S):
            kind, missing = "cadence", max(round(silence_s / sensor.interval_s) - 1, 1)
        else:
            return None
        identity = short_id("gap", sensor.id, kind, str(time_us))
        return Gap(
            identity, sensor.id, sensor.interceptor, kind, time_us, one.time_us, missing, *span, instant_us
        )

    def _put(self, gap: Gap, instant_us: int) -> None:
        self._store.ledger.put_gap(gap)
        self._desk.journal(instant_us, "gap", gap.interceptor, gap_line(gap))


def gap_line(gap: Gap) -> Json:
    """A gap as a line of the journal."""
    return {
        "id": gap.id,
        "sensor": gap.sensor,
        "kind": gap.kind,
        "start": instant_text(gap.start_us),
        "end": instant_text(gap.end_us),
        "missing": gap.missing,
        "first_seq": gap.first_seq,
        "last_seq": gap.last_seq,
    }


def _step(last: _Last, one: StoredReading) -> _Last:
    counts = last[1] is not None and one.seq == last[1] + 1
    return one.time_us, one.seq, 0 if counts else last[2] + 1


def _by_sensor(new: Sequence[StoredReading]) -> dict[str, list[StoredReading]]:
    """In order of sensor and time, however they came."""
    found: dict[str, list[StoredReading]] = {}
    for one in sorted(new, key=lambda reading: (reading.sensor, reading.time_us)):
        found.setdefault(one.sensor, []).append(one)
    return found
