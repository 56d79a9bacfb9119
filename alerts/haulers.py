"""Which hauler an order is offered to next: the preferred one first, licensed as the ordinance asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from alerts.rules import Rules
from store.records import Hauler, Json


@dataclass(frozen=True, slots=True)
class Choice:
    """The hauler to ask, if any, and why others before it were passed over."""

    hauler: Hauler | None
    passed_over: tuple[str, ...]


def next_hauler(
    haulers: Sequence[Hauler], preferred: str | None, asked: Collection[str], rules: Rules, today: date
) -> Choice:
    """The first hauler not yet asked whose licences hold today: the preferred one, then by id."""
    ordered = sorted(haulers, key=lambda h: (h.id != preferred, h.id))
    passed: list[str] = []
    for hauler in ordered:
        if hauler.id in asked:
            continue
        lack = licence_lack(hauler, rules, today)
        if lack is None:
            return Choice(hauler, tuple(passed))
        passed.append(f"{hauler.name}: {lack}")
    return Choice(None, tuple(passed))


def licence_lack(hauler: Hauler, rules: Rules, today: date) -> str | None:
    """Why a hauler may not be offered an order today; None where it may.

    Every licence the ordinance names must be on file and run today (the day it expires included). Where the
    ordinance names none but points to other laws, a transport licence that is on file must not have run out.
    """
    for kind in rules.licences:
        lack = _lack(hauler, kind, today, required=True)
        if lack is not None:
            return f"{lack} ({rules.licence_citation})"
    if not rules.licences:
        return _lack(hauler, "transport", today, required=False)
    return None


def _lack(hauler: Hauler, kind: str, today: date, *, required: bool) -> str | None:
    mine = [one for one in hauler.licenses if one.get("kind") == kind]
    if not mine:
        return f"no {kind} licence on file" if required else None
    ends = [_expires(one) for one in mine]
    if any(end is not None and end >= today for end in ends):
        return None
    known = [end for end in ends if end is not None]
    if not known:
        return f"the {kind} licence on file has no expiry date"
    return f"the {kind} licence ran out on {max(known)}"


def _expires(licence: Json) -> date | None:
    value = licence.get("expires")
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    return date.fromisoformat(value[:10]) if isinstance(value, str) and value else None
