"""Service orders: what asks for one, how it goes from proposed to closed, and what a hauler may answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from alerts.calendar import local_date, spoken
from alerts.closing import close_papers, serve, service_of, settle
from alerts.duties import DUE, NO_RECORD, OVERDUE
from alerts.facts import POLICY_CITATION, Facts
from alerts.haulers import next_hauler
from alerts.ids import short_id
from alerts.levels import APPROACHING, OVER_LIMIT
from alerts.payload import to_hauler, to_party
from alerts.policy import Policy
from alerts.situation import OVER, Decision, Situation
from store.records import Alert, Hauler, Order, OutboxItem

IMMEDIATELY = "immediately"
_BEFORE_SERVICE = frozenset({"proposed", "offered", "accepted", "scheduled"})


class AnswerError(ValueError):
    """An answer that cannot be taken; the text says why and what would do."""


@dataclass(frozen=True, slots=True)
class Need:
    """Why an interceptor needs a pump-out, and by when (local ISO date, or ``immediately``)."""

    reason: str
    due: str
    citation: str | None
    why: str


# ---- what asks for an order --------------------------------------------------------------------------


def needed(facts: Facts, alerts: Sequence[Alert]) -> Need | None:
    """The most pressing need the firing alerts state: exceedance first, then the earlier due date."""
    found = [one for alert in alerts if alert.state == "firing" and (one := _need(facts, alert))]
    return min(found, key=lambda n: (n.reason != "exceedance", n.due, n.reason), default=None)


def _need(facts: Facts, alert: Alert) -> Need | None:
    if alert.kind == OVER_LIMIT:
        return Need("exceedance", IMMEDIATELY, alert.citation, alert.reason) if _unmet(facts, alert) else None
    if alert.kind == APPROACHING and _unmet(facts, alert):
        crossing = str(alert.evidence.get("crossing_p10") or facts.today.isoformat())
        return Need("forecast", max(crossing, facts.today.isoformat()), POLICY_CITATION, alert.reason)
    if alert.kind in {DUE, OVERDUE} and alert.evidence.get("anchor") != NO_RECORD:
        return Need("calendar", str(alert.evidence["due"]), alert.citation, alert.reason)
    return None


def _unmet(facts: Facts, alert: Alert) -> bool:
    """Whether what an alert saw still stands after the last complete removal.

    An estimate takes its time to come down after a service; only fresh readings a while later ask again.
    """
    removed = facts.removed_us
    if removed is None or alert.since_us > removed:
        return True
    if alert.basis != "estimate" or facts.fresh_us is None:
        return False
    return facts.fresh_us > removed + facts.policy.settle_s * 1e6


# ---- the way of an order -----------------------------------------------------------------------------


def advance_orders(facts: Facts, alerts: Sequence[Alert]) -> Decision:
    """Every transition due at this instant, in order, and what is to be sent about them."""
    need = needed(facts, alerts)
    order = facts.situation.order
    changed: list[Order] = []
    if order is None and need is not None:
        order = _propose(facts, need)
        changed.append(order)
    if order is not None:
        changed += _chain(facts, alerts, order, need)
    changed += close_papers(facts)
    return Decision(orders=tuple(changed), outbox=tuple(_messages(facts, changed)))


def _chain(facts: Facts, alerts: Sequence[Alert], order: Order, need: Need | None) -> Iterator[Order]:
    while order.state not in {"closed", "cancelled"}:
        after = _step(facts, alerts, order, need)
        if after is None:
            return
        yield after
        order = after


def _propose(facts: Facts, need: Need) -> Order:
    interceptor = facts.situation.interceptor
    return Order(
        id=short_id("or", interceptor.id, need.reason, str(facts.now_us)),
        interceptor=interceptor.id,
        reason=need.reason,
        state="proposed",
        due=need.due,
        opened_us=facts.now_us,
        changed_us=facts.now_us,
        citation=need.citation,
        note=need.why,
    )


def _step(facts: Facts, alerts: Sequence[Alert], order: Order, need: Need | None) -> Order | None:
    """The next transition of an open order; None where it waits."""
    if order.state in _BEFORE_SERVICE:
        service = service_of(facts, alerts, order)
        if service is not None:
            return serve(facts, order, service)
        return _withdraw(facts, order, need) or _upgrade(facts, order, need) or _offering(facts, order)
    if order.state == "declined":
        return _offer(facts, order)
    return settle(facts, alerts, order)


def _withdraw(facts: Facts, order: Order, need: Need | None) -> Order | None:
    """A calendar order that nobody has accepted lapses when the calendar no longer asks for it."""
    if order.reason != "calendar" or order.state not in {"proposed", "offered"} or need is not None:
        return None
    if facts.due is None or facts.due.isoformat() <= order.due:
        return None
    note = f"withdrawn: the records now on file make the next pump-out due on {facts.due}"
    return replace(order, state="cancelled", changed_us=facts.now_us, note=note)


def _upgrade(facts: Facts, order: Order, need: Need | None) -> Order | None:
    """A more pressing need changes reason and due of the open order; there is never a second one."""
    if need is None or order.reason == "exceedance":
        return None
    sooner = need.reason == "forecast" and order.reason == "calendar" and need.due < order.due
    if need.reason != "exceedance" and not sooner:
        return None
    declined = () if order.state == "proposed" else order.declined
    return replace(
        order,
        reason=need.reason,
        due=need.due,
        citation=need.citation,
        note=need.why,
        declined=declined,
        changed_us=facts.now_us,
    )


def _offering(facts: Facts, order: Order) -> Order | None:
    if order.state == "proposed":
        return _offer(facts, order) if facts.situation.interceptor.dispatch == "authorized" else None
    if (
        order.state == "offered"
        and order.offer_expires_us is not None
        and facts.now_us >= order.offer_expires_us
    ):
        by = spoken(order.offer_expires_us, facts.timezone)
        return declined(order, facts.now_us, f"no answer from {order.hauler} by {by}")
    return None


def declined(order: Order, now_us: int, why: str) -> Order:
    """The offer is over; who was asked is remembered."""
    tried = (*order.declined, order.hauler) if order.hauler is not None else order.declined
    return replace(
        order,
        state="declined",
        declined=tried,
        offered_us=None,
        offer_expires_us=None,
        changed_us=now_us,
        note=why,
    )


def _offer(facts: Facts, order: Order) -> Order | None:
    """Offer to the next licensed hauler; with none left the order stays proposed and says why."""
    situation, policy = facts.situation, facts.policy
    choice = next_hauler(
        situation.haulers, situation.interceptor.hauler, order.declined, facts.rules, facts.today
    )
    passed = f" Passed over: {'; '.join(choice.passed_over)}." if choice.passed_over else ""
    if choice.hauler is None:
        asked = f" Asked: {', '.join(order.declined)}." if order.declined else ""
        note = f"No hauler can be offered this order; a person must find one.{asked}{passed}"
        if order.state == "proposed" and order.note == note:
            return None
        return replace(order, state="proposed", hauler=None, changed_us=facts.now_us, note=note)
    timeout = policy.urgent_offer_timeout_s if order.due == IMMEDIATELY else policy.offer_timeout_s
    before = f" Before: {order.note}." if order.state == "declined" else ""
    return replace(
        order,
        state="offered",
        hauler=choice.hauler.id,
        offered_us=facts.now_us,
        offer_expires_us=facts.now_us + int(timeout * 1e6),
        changed_us=facts.now_us,
        note=f"Offered to {choice.hauler.name}.{before}{passed}",
    )


# ---- messages ----------------------------------------------------------------------------------------


def _messages(facts: Facts, changed: Sequence[Order]) -> Iterator[OutboxItem]:
    situation = facts.situation
    before = {order.id: order for order in situation.orders}
    if situation.order is not None:
        before[situation.order.id] = situation.order
    for order in changed:
        earlier = before.get(order.id)
        before[order.id] = order
        notice = situation.interceptor.dispatch != "authorized" and order.state == "proposed"
        if notice and (earlier is None or earlier.reason != order.reason):
            yield to_party(facts, order)
        hauler = _hauler(situation, order.hauler)
        kind = _told(earlier, order)
        if hauler is not None and kind is not None:
            yield to_hauler(facts, order, hauler, kind)


def _told(earlier: Order | None, order: Order) -> str | None:
    """What the hauler of an order is told about a transition."""
    was = earlier.state if earlier is not None else ""
    if order.state == "offered":
        return "order.offered" if was != "offered" else "order.updated"
    if order.state == "declined":
        return "order.withdrawn" if was == "offered" and order.note.startswith("no answer") else None
    if order.state == "cancelled":
        return "order.cancelled"
    if order.state in {"accepted", "scheduled"} and earlier is not None and earlier.reason != order.reason:
        return "order.updated"
    if order.state == "serviced" and was == "serviced":
        return "order.unverified"
    return None


def _hauler(situation: Situation, identity: str | None) -> Hauler | None:
    return next((h for h in situation.haulers if h.id == identity), None)


# ---- answers -----------------------------------------------------------------------------------------


def answer(
    situation: Situation | None,
    order: Order | None,
    hauler: str,
    word: str,
    scheduled_us: int | None,
    now_us: int,
    policy: Policy,
) -> Decision:
    """Take a hauler's answer (``accepted`` or ``declined``) to an offer; the same again changes nothing.

    Raises
    ------
    AnswerError
        There is no such order, it is not offered to this hauler, or it was already answered otherwise.
    """
    if order is None or situation is None:
        raise AnswerError("order: there is no such order")
    _may_answer(order, hauler, word, scheduled_us, now_us, situation.site.timezone)
    facts = Facts(replace(situation, order=order), now_us, policy)
    if word == "accepted":
        changed = list(_accept(order, scheduled_us, now_us, situation))
    else:
        changed = [declined(order, now_us, f"declined by {hauler}")]
        changed += _chain(facts, situation.alerts, changed[0], needed(facts, situation.alerts))
    return Decision(orders=tuple(changed), outbox=tuple(_messages(facts, changed)))


def _may_answer(
    order: Order, hauler: str, word: str, scheduled_us: int | None, now_us: int, timezone: str
) -> None:
    if word not in {"accepted", "declined"}:
        raise AnswerError(f"answer: {word!r} is neither accepted nor declined")
    if hauler in order.declined:
        raise AnswerError(
            f"order: {order.id} is no longer offered to {hauler}: declined, or no answer in time"
        )
    if order.hauler != hauler:
        raise AnswerError(f"order: {order.id} is not offered to {hauler}")
    if order.state in OVER or order.state in {"serviced", "verified"}:
        raise AnswerError(f"order: {order.id} is already {order.state}")
    if word == "declined" and order.state != "offered":
        raise AnswerError(f"answer: {order.id} was already {order.state}; call the program to withdraw")
    expires = order.offer_expires_us
    if order.state == "offered" and expires is not None and now_us >= expires:
        raise AnswerError(f"order: the offer of {order.id} ran out at {spoken(expires, timezone)}")
    if scheduled_us is not None and scheduled_us < order.opened_us:
        raise AnswerError(
            f"scheduled_at: {local_date(scheduled_us, timezone)} lies before the order was opened"
        )


def _accept(order: Order, scheduled_us: int | None, now_us: int, situation: Situation) -> Iterator[Order]:
    if order.state == "offered":
        order = replace(order, state="accepted", changed_us=now_us, note=f"Accepted by {order.hauler}.")
        yield order
    if scheduled_us is not None and order.scheduled_us != scheduled_us:
        when = spoken(scheduled_us, situation.site.timezone)
        yield replace(
            order,
            state="scheduled",
            scheduled_us=scheduled_us,
            changed_us=now_us,
            note=f"{order.hauler} comes at {when}.",
        )
