"""What is told to haulers and responsible parties: Standard Webhooks bodies, as items of the outbox."""

from __future__ import annotations

from alerts.calendar import iso_instant
from alerts.facts import Facts
from alerts.ids import short_id
from store.records import Hauler, Json, Order, OutboxItem

ANSWER_PATH = "/api/v1/orders/{order}/answers"
_M3_PER_US_GALLON = 0.003785411784  # exact: 231 cubic inches


def order_data(facts: Facts, order: Order) -> Json:
    """The ``data`` of every message about an order: what, where, when, and what the law asks."""
    interceptor, site = facts.situation.interceptor, facts.situation.site
    volume = interceptor.volume_m3
    return {
        "order": order.id,
        "interceptor": interceptor.id,
        "site": {"id": site.id, "name": site.name, "latitude": site.latitude, "longitude": site.longitude},
        "timezone": site.timezone,
        "kind": interceptor.kind,
        "compartments": interceptor.compartments,
        "volume_l": None if volume is None else round(volume * 1e3, 1),
        "volume_gal": None if volume is None else round(volume / _M3_PER_US_GALLON),
        "reason": order.reason,
        "state": order.state,
        "due": order.due,
        "citation": order.citation,
        "note": order.note,
        "at_service": at_service(facts),
    }


def at_service(facts: Facts) -> list[Json]:
    """What the law asks at every service, each with its section."""
    rules = facts.rules
    scope = f": {', '.join(rules.removal_scope)}" if rules.removal_scope else ""
    asked: list[Json] = [
        {
            "text": f"Complete removal{scope}. A partial one closes no order.",
            "citation": rules.removal_citation,
        }
    ]
    if rules.no_pass_through_citation is not None:
        asked.append(
            {
                "text": "No FOG may pass into a lateral, the sewer, a storm drain or a street during it.",
                "citation": rules.no_pass_through_citation,
            }
        )
    papers = facts.version.values.get("manifest_fields") or facts.version.values.get("manifest_papers")
    if papers:
        asked.append({"text": f"Papers: {', '.join(papers[0].value)}.", "citation": papers[0].citation})
    return asked


def to_hauler(facts: Facts, order: Order, hauler: Hauler, kind: str) -> OutboxItem:
    """A message about an order to a hauler: by webhook where there is one, else to the log for a person."""
    data = order_data(facts, order)
    if kind == "order.offered":
        data["answer"] = ANSWER_PATH.format(order=order.id)
        data["answer_by"] = None if order.offer_expires_us is None else iso_instant(order.offer_expires_us)
    data["hauler"] = hauler.id
    if hauler.webhook is None:
        data["email"] = hauler.email
    return _item(facts, order, "webhook" if hauler.webhook else "log", hauler.id, kind, data)


def to_party(facts: Facts, order: Order) -> OutboxItem:
    """An order as a notice to the responsible party, who has given no standing authorization."""
    site = facts.situation.site
    data = order_data(facts, order)
    data["contacts"] = [{"role": c.get("role"), "email": c.get("email")} for c in site.contacts]
    data["why"] = "no standing authorization to send a hauler is on file: arrange the service"
    return _item(facts, order, "log", f"site:{site.id}", "order.notice", data)


def _item(facts: Facts, order: Order, channel: str, target: str, kind: str, data: Json) -> OutboxItem:
    identity = short_id("msg", order.id, kind, target, order.state, order.reason, str(order.changed_us))
    return OutboxItem(
        id=identity,
        channel=channel,
        target=target,
        type=kind,
        body={"type": kind, "timestamp": iso_instant(facts.now_us), "data": data},
        created_us=facts.now_us,
        due_us=0,  # deliveries run on real time, which a decision does not know: at once
    )
