"""To whom a clause of an ordinance speaks: facts about a site and its device, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, TypeVar

from store.records import Interceptor, Site

KINDS: Final = ("gravity", "hydromechanical", "trap")
PLACES: Final = ("in-ground", "outdoor", "indoor", "in-floor", "under-sink")


@dataclass(frozen=True, slots=True)
class Subject:
    """What ordinances ask about a device and its kitchen; None, or empty, is "not on file".

    ``volume_l`` [l], ``base_depth_m`` [m].
    """

    kind: str
    place: str | None = None
    kitchen: str = ""
    equipment: tuple[str, ...] = ()
    seats: int | None = None
    volume_l: float | None = None
    base_depth_m: float | None = None


def subject_of(interceptor: Interceptor, site: Site) -> Subject:
    """The facts that ordinances ask about one registered interceptor."""
    return Subject(
        kind=interceptor.kind,
        place=interceptor.place,
        kitchen=site.kitchen,
        equipment=site.equipment,
        seats=site.seats,
        volume_l=None if interceptor.volume_m3 is None else interceptor.volume_m3 * 1000,
        base_depth_m=interceptor.base_depth_m,
    )


@dataclass(frozen=True, slots=True)
class When:
    """The conditions of one clause; all that are given must hold. Names are those of a profile's ``when``.

    ``equipment`` holds if one of them is there. Seats and litres run from ``_from`` to below ``_below``.
    """

    kind: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    kitchen: tuple[str, ...] = ()
    equipment: tuple[str, ...] = ()
    seats_from: float | None = None
    seats_below: float | None = None
    volume_l_from: float | None = None
    volume_l_below: float | None = None

    def unknown(self, subject: Subject) -> tuple[str, ...]:
        """Facts that would decide and are not on file; empty where the conditions hold or fail for certain."""
        answers = self._answers(subject)
        if any(answer is False for _, answer in answers):
            return ()
        return tuple(fact for fact, answer in answers if answer is None)

    def holds(self, subject: Subject) -> bool | None:
        """Whether all conditions hold; None where facts that would decide are not on file."""
        answers = [answer for _, answer in self._answers(subject)]
        if any(answer is False for answer in answers):
            return False
        return None if None in answers else True

    def _answers(self, one: Subject) -> list[tuple[str, bool | None]]:
        found: list[tuple[str, bool | None]] = []
        for fact, wanted, has in (
            ("kind", self.kind, (one.kind,)),
            ("place", self.place, (one.place,) if one.place else ()),
            ("kitchen", self.kitchen, (one.kitchen,) if one.kitchen else ()),
            ("equipment", self.equipment, one.equipment),
        ):
            if wanted:
                found.append((fact, bool(set(wanted) & set(has)) if has else None))
        for fact, low, high, value in (
            ("seats", self.seats_from, self.seats_below, one.seats),
            ("volume_l", self.volume_l_from, self.volume_l_below, one.volume_l),
        ):
            if low is not None or high is not None:
                inside = (
                    value is not None and (low is None or value >= low) and (high is None or value < high)
                )
                found.append((fact, None if value is None else inside))
        return found

    @property
    def words(self) -> str:
        """The conditions as people read them."""
        parts = [
            f"{name} {' or '.join(values)}"
            for name in ("kind", "place", "kitchen", "equipment")
            if (values := getattr(self, name))
        ]
        for fact in ("seats", "volume_l"):
            low, high = getattr(self, f"{fact}_from"), getattr(self, f"{fact}_below")
            parts += [f"{fact} {low:g} or more"] if low is not None else []
            parts += [f"{fact} below {high:g}"] if high is not None else []
        return ", ".join(parts)


WHEN_KEYS: Final = tuple(one.name for one in fields(When))
LISTED: Final = ("kind", "place", "kitchen", "equipment")


class Conditional(Protocol):
    """A clause, as far as choosing among several goes."""

    @property
    def when(self) -> When | None:
        """Its conditions; None where it speaks to everybody."""


C = TypeVar("C", bound=Conditional)


def choose(
    clauses: Sequence[C], subject: Subject, strictness: Callable[[C], Any] | None
) -> tuple[C | None, tuple[str, ...]]:
    """The first clause that applies, and the facts whose absence made it an assumption.

    A clause whose facts are not on file may apply: among those and the first that does, the strictest (the
    smallest ``strictness``) is taken, so that a gap in the register never relaxes a duty.
    """
    possible: list[C] = []
    missing: list[str] = []
    for one in clauses:
        holds = True if one.when is None else one.when.holds(subject)
        if holds is False:
            continue
        possible.append(one)
        if holds:
            break
        assert one.when is not None
        missing += one.when.unknown(subject)
    if not possible:
        return None, ()
    chosen = possible[0] if strictness is None else min(possible, key=strictness)
    return chosen, tuple(dict.fromkeys(missing))
