"""From filed papers and core samples to the hands that the fold takes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.hands import Hand
from api.desk import Desk
from store.records import CoreSample, Interceptor, Manifest

_EVER: Final = 2**62


class HandBook:
    """What was measured by hand in each interceptor, by what is on the desk."""

    def __init__(self, desk: Desk, interceptors: Iterable[Interceptor]) -> None:
        self._desk = desk
        self._compartments = {one.id: one.compartments for one in interceptors}

    def of(
        self, interceptor: str, received_before_us: int, received_since_us: int = -_EVER
    ) -> Iterator[Hand]:
        """One interceptor's, as far as they were filed in a span of time."""
        folder = self._desk.folder(interceptor)
        for sample in folder.core_samples.values():
            if received_since_us <= sample.received_us < received_before_us:
                yield _sampled(sample)
        for paper in folder.manifests.values():
            if received_since_us <= paper.received_us < received_before_us:
                yield from _stated(paper, self._compartments.get(interceptor, 0))

    def all(self, received_before_us: int) -> list[Hand]:
        """Everybody's, by time."""
        return sorted(hand for one in self._compartments for hand in self.of(one, received_before_us))

    def waiting(self, received_since_us: int, among: Iterable[str] | None = None) -> dict[str, float]:
        """Whoever has something filed at or after an instant: the oldest time it speaks of [s]."""
        found = {
            one: min((hand.time_s for hand in self.of(one, _EVER, received_since_us)), default=None)
            for one in (self._compartments if among is None else among)
        }
        return {one: time_s for one, time_s in found.items() if time_s is not None}


def _time_s(stated_us: int, received_us: int) -> float:
    """A date ahead of its own filing is a slip of the pen."""
    return min(stated_us, received_us) / 1e6


def _sampled(sample: CoreSample) -> Hand:
    return Hand(
        time_s=_time_s(sample.sampled_us, sample.received_us),
        compartment=sample.compartment,
        id=sample.id,
        interceptor=sample.interceptor,
        fog_m=sample.fog_m,
        solids_m=sample.solids_m,
    )


def _stated(paper: Manifest, compartments: int) -> Iterator[Hand]:
    """The levels before pumping, held to be the first compartment's; a complete pump-out empties every one."""
    for compartment in range(1, compartments + 1):
        levels = (paper.fog_m, paper.solids_m) if compartment == 1 else (None, None)
        if paper.complete or levels != (None, None):
            yield Hand(
                time_s=_time_s(paper.pumped_us, paper.received_us),
                compartment=compartment,
                id=paper.id,
                interceptor=paper.interceptor,
                fog_m=levels[0],
                solids_m=levels[1],
                paper=True,
                emptied=paper.complete,
            )
