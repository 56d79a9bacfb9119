"""Retention: readings are thinned, and where that was asked for deleted, by rule; records never are.

A step is one piece of one interceptor in one transaction of the writer. Before readings are thinned they are folded
into the interceptor's kept memory, written in the same transaction, so that a restart arrives at the very state it
would have had with every reading. What was thinned up to where stands there too: a killed run goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from analysis.fold import Fleet, FleetState, initial_state, newest
from analysis.hands import step_with
from api.core import Core
from api.fleetmodel import as_batch, build_fleet
from api.hands import HandBook
from api.keptstate import fingerprint, fitting, packed
from store.records import Interceptor, KeptState

DAY_US: Final = 86_400_000_000
HOUR_US: Final = 3_600_000_000
WEEK_US: Final = 7 * DAY_US
_YEAR_US: Final = 366 * DAY_US
_DELETED_AT_ONCE: Final = 5000
_BESIDE_US: Final = DAY_US  # spared before and after what a record tells of
_EVIDENCE_US: Final = 400 * DAY_US  # spared before a decision on a frequency

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Keep:
    """How long what is kept; ``None`` is for ever. ``hold`` names sites and interceptors that are left alone."""

    raw_us: int | None
    hourly_us: int | None = None
    delete_us: int | None = None
    hold: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What retention would remove of one interceptor's readings now."""

    interceptor: str
    to_hourly: int
    to_daily: int
    deleted: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one interceptor's readings go by, at one instant; borders lie on whole weeks."""

    sensors: tuple[str, ...]
    raw_until_us: int
    daily_until_us: int | None
    delete_before_us: int | None
    spared: tuple[Span, ...]


class Retention:
    """Thins the history of one core. Used in the writer's thread, each step inside a transaction."""

    def __init__(self, core: Core, keep: Keep) -> None:
        self._core = core
        self._keep = keep
        self._store = core.store

    def interceptors(self) -> list[str]:
        """Those whose readings are thinned, in order."""
        if self._keep.raw_us is None:
            return []
        return [i for i, record in sorted(self._core.interceptors.items()) if not self._held(record)]

    def step(self, interceptor: str, now_us: int) -> bool:
        """One piece of work; False when nothing is due, or what is due waits for the next decision."""
        record = self._core.interceptors.get(interceptor)
        if record is None or self._keep.raw_us is None or self._held(record):
            return False
        rules = self._rules(record, now_us)
        if not rules.sensors:
            return False
        single = self._single(record)
        stored = self._store.keeping.kept_state(interceptor)
        state = fitting(single, stored)
        kept = stored if state is not None else None
        if (kept is None or kept.time_us < rules.raw_until_us) and self._thin_hourly(
            single, rules, kept, state
        ):
            return True
        if kept is None:
            return False
        daily_us = min(rules.daily_until_us or -(2**62), kept.time_us)
        if kept.daily_us < daily_us:
            self._thin_daily(rules, kept, daily_us)
            return True
        if rules.delete_before_us is None:
            return False
        before_us = min(rules.delete_before_us, kept.time_us)
        return self._store.keeping.delete(rules.sensors, before_us, rules.spared, _DELETED_AT_ONCE) > 0

    def outlook(self, now_us: int) -> Iterator[Outlook]:
        """What would go now, interceptor by interceptor."""
        keeping = self._store.keeping
        for record in sorted(self._core.interceptors.values(), key=lambda i: i.id):
            if self._keep.raw_us is None or self._held(record):
                yield Outlook(record.id, 0, 0, 0, held=self._keep.raw_us is not None)
                continue
            rules = self._rules(record, now_us)
            gone = rules.delete_before_us if rules.delete_before_us is not None else -(2**62)
            daily = max(rules.daily_until_us if rules.daily_until_us is not None else gone, gone)
            raw = max(rules.raw_until_us, daily)
            yield Outlook(
                record.id,
                keeping.thinnable(rules.sensors, daily, raw, HOUR_US, rules.spared),
                keeping.thinnable(rules.sensors, gone, daily, DAY_US, rules.spared),
                keeping.deletable(rules.sensors, gone, rules.spared),
            )

    # ---- one interceptor -----------------------------------------------------------------------------

    def _thin_hourly(
        self, single: Fleet, rules: _Rules, kept: KeptState | None, state: FleetState | None
    ) -> bool:
        since_us = -(2**62) if kept is None or kept.newest_us is None else kept.newest_us + 1
        start_us = self._store.keeping.next_us(rules.sensors, since_us)
        if start_us is None:  # nothing new: the border stays where it is
            return False
        day_us = start_us // DAY_US * DAY_US  # a day at once: the writer has other work
        begin_us = day_us if kept is None else max(kept.time_us, day_us)
        end_us = min(begin_us + DAY_US, rules.raw_until_us)
        if end_us <= begin_us:
            return False
        heard_us = self._store.keeping.newest_reception_us(rules.sensors, since_us, end_us)
        if heard_us is not None and heard_us >= self._core.last_instant_us:
            return False  # not decided yet
        rows = self._store.history.readings(rules.sensors, since_us=since_us, until_us=end_us)
        state = state if state is not None else initial_state(single)
        book = HandBook(self._core.desk, [self._core.interceptors[single.interceptors[0].id]])
        hands = [one for one in book.all(self._core.last_instant_us) if one.time_s < end_us / 1e6]
        state, _ = step_with(single, state, as_batch(rows, single.sensor_index), hands)
        newest_s = float(newest(single, state)[0])
        self._store.keeping.put_kept_state(
            KeptState(
                interceptor=single.interceptors[0].id,
                time_us=end_us,
                newest_us=round(newest_s * 1e6) if np.isfinite(newest_s) else None,
                daily_us=begin_us if kept is None else kept.daily_us,
                fingerprint=fingerprint(single.interceptors[0], single.sensors),
                state=packed(state),
            )
        )
        self._store.keeping.thin(rules.sensors, min(start_us, begin_us), end_us, HOUR_US, rules.spared)
        return True

    def _thin_daily(self, rules: _Rules, kept: KeptState, until_us: int) -> None:
        begin_us = self._store.keeping.next_us(rules.sensors, kept.daily_us)
        start_us = until_us if begin_us is None else max(kept.daily_us, _week(begin_us))
        end_us = min(start_us + 4 * WEEK_US, until_us)
        if start_us < end_us:
            self._store.keeping.thin(rules.sensors, start_us, end_us, DAY_US, rules.spared)
        self._store.keeping.put_kept_state(replace(kept, daily_us=end_us))

    def _rules(self, record: Interceptor, now_us: int) -> _Rules:
        keep = self._keep
        assert keep.raw_us is not None
        raw_until_us = _week(now_us - keep.raw_us)
        daily = None if keep.hourly_us is None else min(_week(now_us - keep.hourly_us), raw_until_us)
        gone = None
        if keep.delete_us is not None:
            gone = min(_week(now_us - max(keep.delete_us, self._record_us(record, now_us))), raw_until_us)
        sensors = tuple(sorted(s.id for s in self._core.sensors.values() if s.interceptor == record.id))
        return _Rules(sensors, raw_until_us, daily, gone, self._spared(record.id))

    def _record_us(self, record: Interceptor, now_us: int) -> int:
        """How long the ordinance has records of level monitoring kept [us]."""
        ordinance = self._core.rules.ordinances[self._core.sites[record.site].ordinance]
        version = ordinance.at(datetime.fromtimestamp(now_us / 1e6, tz=UTC).date())
        return round(
            max((one.value for one in version.values.get("retention_min", ())), default=0) * _YEAR_US
        )

    def _spared(self, interceptor: str) -> tuple[Span, ...]:
        """Readings behind a record stay as they are: about services, alerts, papers, samples and decisions."""
        ledger = self._store.ledger
        spans = [(one.start_us, one.end_us) for one in ledger.pump_outs(interceptor=interceptor)]
        spans += [
            (one.start_us, one.end_us or one.start_us)
            for one in ledger.hot_discharges(interceptor=interceptor)
        ]
        alerts = ledger.alerts(interceptor=interceptor)
        instants = [one.since_us for one in alerts] + [one.changed_us for one in alerts]
        instants += [one.pumped_us for one in ledger.manifests(interceptor=interceptor)]
        instants += [one.sampled_us for one in ledger.core_samples(interceptor=interceptor)]
        spans += [(at_us, at_us) for at_us in instants]
        spans += [
            (one.decided_us - _EVIDENCE_US, one.decided_us)
            for one in ledger.frequency_decisions(interceptor=interceptor)
        ]
        return _joined([(first - _BESIDE_US, last + _BESIDE_US) for first, last in spans])

    def _held(self, record: Interceptor) -> bool:
        return not self._keep.hold.isdisjoint((record.id, record.site))

    def _single(self, record: Interceptor) -> Fleet:
        core = self._core
        return build_fleet(
            [record],
            [s for s in core.sensors.values() if s.interceptor == record.id],
            core.sites,
            core.rules.ordinances,
            core.rules.profiles,
            day=datetime.fromtimestamp(core.last_instant_us / 1e6, tz=UTC).date(),
        )


def _week(at_us: int) -> int:
    return at_us // WEEK_US * WEEK_US


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    out: list[Span] = []
    for first, last in sorted(spans):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)
