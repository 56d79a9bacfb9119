"""From serviced to closed: which service fulfils an order, whether paper and sensor agree, what is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from alerts.calendar import spoken
from alerts.duties import what_the_sensor_saw
from alerts.facts import Facts
from alerts.levels import OVER_LIMIT, percent
from alerts.services import Service
from store.records import Alert, Order

NOT_VERIFIED = "Not verified: "
_EVIDENCE_SLACK_US = 3 * 3_600_000_000  # an exceedance is noticed this much after the fact, at most
_DAY_US = 86_400_000_000


def service_of(facts: Facts, alerts: Sequence[Alert], order: Order) -> Service | None:
    """The complete service that fulfils an order: one that paper and sensor agree on, else seen, else stated.

    It is not older than what the order was opened for, and no other order has been closed by it.
    """
    since = _not_before(facts, alerts, order)
    used = {
        identity
        for other in facts.situation.orders
        if other.id != order.id
        for identity in (other.pump_out, other.manifest)
        if identity is not None
    }
    fits = [
        one
        for one in facts.services
        if (one.seen_complete or one.stated_complete)
        and since <= one.at_us <= facts.now_us
        and not used.intersection(one.ids)
    ]
    return min(
        fits,
        key=lambda s: (not (s.seen_complete and s.stated_complete), not s.seen_complete, s.at_us, s.ids),
        default=None,
    )


def _not_before(facts: Facts, alerts: Sequence[Alert], order: Order) -> int:
    if order.reason != "exceedance":
        return order.opened_us - int(facts.policy.match_s * 1e6)
    since = order.opened_us - _EVIDENCE_SLACK_US - int(facts.policy.over_for_s * 1e6)
    sampled = [a.since_us for a in alerts if a.kind == OVER_LIMIT and a.basis == "core_sample"]
    return max([since, *sampled])


def serve(facts: Facts, order: Order, service: Service) -> Order:
    """The order was carried out, as a paper states or the sensor saw."""
    when = spoken(service.at_us, facts.timezone)
    if service.seen_complete:
        note = f"The sensor saw a complete pump-out at {when}."
    else:
        assert service.manifest is not None
        paper = service.manifest.number or service.manifest.id
        note = f"The manifest {paper} states a complete pump-out at {when}."
    return replace(_with(facts, order, service), state="serviced", changed_us=facts.now_us, note=note)


def _with(facts: Facts, order: Order, service: Service) -> Order:
    stated = service.manifest if service.stated_complete else None
    due = "due" if facts.rules.manifest_required else "none"
    return replace(
        order,
        hauler=order.hauler or (stated.hauler if stated is not None else None),
        pump_out=service.observed.id if service.observed is not None and service.seen_complete else None,
        manifest=stated.id if stated is not None else None,
        papers="complete" if stated is not None else due,
    )


def settle(facts: Facts, alerts: Sequence[Alert], order: Order) -> Order | None:
    """The next transition of a serviced or verified order; None where it waits."""
    if order.state == "verified":
        note = "Closed: paper and sensor agree on a complete pump-out."
        return replace(order, state="closed", changed_us=facts.now_us, note=note)
    service = service_of(facts, alerts, order)
    if service is None:  # the observation was withdrawn: back to who was to do it, or to the beginning
        note = "What was taken for a pump-out was withdrawn by later readings; no service is on record."
        back = "scheduled" if order.scheduled_us is not None else "accepted" if order.hauler else "proposed"
        return replace(
            order, state=back, pump_out=None, manifest=None, papers="none", changed_us=facts.now_us, note=note
        )
    if service.seen_complete and service.stated_complete:
        note = "Verified: paper and sensor agree on a complete pump-out."
        return replace(_with(facts, order, service), state="verified", changed_us=facts.now_us, note=note)
    if service.seen_complete:
        return _seen_only(facts, order, service)
    return _stated_only(facts, order, service)


def _seen_only(facts: Facts, order: Order, service: Service) -> Order | None:
    assert service.observed is not None
    order = _with(facts, order, service)
    if order.papers == "none":
        note = "Closed: the sensor saw a complete pump-out; the ordinance asks for no paper."
        return replace(order, state="closed", changed_us=facts.now_us, note=note)
    if facts.now_us < service.observed.end_us + facts.policy.papers_days * _DAY_US:
        return None
    note = (
        f"Closed: the sensor saw a complete pump-out at {spoken(service.at_us, facts.timezone)}; its "
        f"manifest has not come within {facts.policy.papers_days} days and stays due."
    )
    return replace(order, state="closed", changed_us=facts.now_us, note=note)


def _stated_only(facts: Facts, order: Order, service: Service) -> Order | None:
    verdict = facts.verdict(service)
    closed = replace(_with(facts, order, service), state="closed", changed_us=facts.now_us)
    if verdict.word in {"paper", "settled"}:
        return replace(closed, note="Closed by the manifest; no sensor could see the service.")
    if verdict.word == "gone":
        if facts.now_us < verdict.deadline_us + facts.policy.settle_s * 1e6:
            return None  # what emptied it may yet be found: observations come late
        one = facts.situation.assessment
        assert one is not None
        assert one.fraction is not None
        saw = f"the sensor saw no drawdown, but reads only {percent(one.fraction)} and does not contradict it"
        return replace(closed, note=f"Closed by the manifest; {saw}.")
    if verdict.word == "unheard":
        if facts.now_us < verdict.deadline_us + facts.policy.papers_days * _DAY_US:
            return None
        return replace(
            closed, note="Closed by the manifest; the sensor could not tell, and does not contradict it."
        )
    if verdict.word in {"unseen", "partial"} and not order.note.startswith(NOT_VERIFIED):
        note = f"{NOT_VERIFIED}{what_the_sensor_saw(facts, service)}"
        return replace(_with(facts, order, service), state="serviced", changed_us=facts.now_us, note=note)
    return None


def close_papers(facts: Facts) -> Iterator[Order]:
    """Closed orders whose manifest has come after all."""
    for order in facts.situation.orders:
        if order.state != "closed" or order.papers != "due" or order.pump_out is None:
            continue
        for service in facts.services:
            paper = service.manifest
            if paper is not None and paper.complete and order.pump_out in service.ids:
                yield replace(
                    order,
                    papers="complete",
                    manifest=paper.id,
                    changed_us=facts.now_us,
                    note=f"The manifest {paper.number or paper.id} came after the order was closed.",
                )
