"""Pump-outs as paper and sensor know them: which belong together, and whether both agree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.model import Assessment
from store.records import Manifest, PumpOutRecord, Sensor


@dataclass(frozen=True, slots=True)
class Service:
    """One pump-out: observed by the sensor, documented by a manifest, or both."""

    observed: PumpOutRecord | None
    manifest: Manifest | None

    @property
    def at_us(self) -> int:
        """When it was: as observed, else as the paper says [us]."""
        if self.observed is not None:
            return self.observed.start_us
        assert self.manifest is not None
        return self.manifest.pumped_us

    @property
    def seen_complete(self) -> bool:
        """The sensor saw a complete removal."""
        return self.observed is not None and self.observed.complete

    @property
    def stated_complete(self) -> bool:
        """A paper states a complete removal."""
        return self.manifest is not None and self.manifest.complete

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its records."""
        return tuple(one.id for one in (self.observed, self.manifest) if one is not None)


def match_services(
    pump_outs: Sequence[PumpOutRecord], manifests: Sequence[Manifest], *, within_us: int
) -> tuple[Service, ...]:
    """Pair each manifest with the nearest observation within ``within_us``, nearest pairs first; by time.

    A complete observation is preferred to a partial one: a skim before the service is no part of its paper.
    A pump-out that was withdrawn (confidence 0) counts for nothing.
    """
    seen = [one for one in pump_outs if one.confidence > 0]
    papers = sorted(range(len(manifests)), key=lambda j: manifests[j].pumped_us)
    times = [manifests[j].pumped_us for j in papers]
    pairs = []
    for i, one in enumerate(seen):
        first = bisect_left(times, one.start_us - within_us)
        for j in papers[first : bisect_right(times, one.end_us + within_us)]:
            paper = manifests[j]
            pairs.append((not one.complete, _apart(one, paper), one.start_us, paper.id, one.id, i, j))
    pairs.sort()
    of_seen: dict[int, int] = {}
    taken: set[int] = set()
    for *_, i, j in pairs:
        if i not in of_seen and j not in taken:
            of_seen[i] = j
            taken.add(j)
    found = [Service(one, manifests[of_seen[i]] if i in of_seen else None) for i, one in enumerate(seen)]
    found += [Service(None, paper) for j, paper in enumerate(manifests) if j not in taken]
    return tuple(sorted(found, key=lambda one: (one.at_us, one.ids)))


def _apart(one: PumpOutRecord, paper: Manifest) -> int:
    if paper.pumped_us < one.start_us:
        return one.start_us - paper.pumped_us
    return max(0, paper.pumped_us - one.end_us)


# ---- does the sensor agree with the paper? -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the sensor says about a paper: a word, and what it saw.

    ``paper``: no sensor could see it. ``waiting``: it still has time. ``unheard``: it has not reported since,
    or cannot see both layers. ``gone``: no drawdown seen, but the layers are not there either. ``unseen``:
    the layers are still there and no drawdown was seen. ``partial``: it saw a partial pump-out. ``agrees``:
    it saw a complete one. ``settled``: too long ago to be judged, or accepted by a closed order.
    """

    word: str
    deadline_us: int


def judge(
    service: Service,
    sensors: Sequence[Sensor],
    assessment: Assessment | None,
    now_us: int,
    *,
    window_us: int,
    gone_fraction: float,
) -> Verdict:
    """Hold a documented complete pump-out against the sensor."""
    paper = service.manifest
    if paper is None or not paper.complete:
        raise ValueError("only a manifest of a complete pump-out can be judged")
    deadline = max(paper.pumped_us, paper.received_us) + window_us
    if service.observed is not None:
        return Verdict("agrees" if service.observed.complete else "partial", deadline)
    if not sensors:
        return Verdict("paper", deadline)
    if now_us < deadline:
        return Verdict("waiting", deadline)
    last = assessment.last_reading_s if assessment is not None else None
    if assessment is None or last is None or assessment.fraction is None or _unwell(assessment):
        return Verdict("unheard", deadline)
    if round(last * 1e6) < paper.pumped_us + window_us:
        return Verdict("unheard", deadline)
    return Verdict("gone" if assessment.fraction <= gone_fraction else "unseen", deadline)


_UNWELL = frozenset({"stuck", "out_of_range", "moved", "cover_open", "unobservable"})


def _unwell(assessment: Assessment) -> bool:
    """Whether the sensor's word on the layers cannot be held against a paper."""
    return any(
        one.flag in {"stuck", "out_of_range", "moved", "cover_open", "unobservable"}
        for one in assessment.health
    )
