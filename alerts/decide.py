"""The decision about one interceptor at one instant: pure, and at rest once taken."""

from __future__ import annotations

from dataclasses import replace

from alerts.devices import device_findings
from alerts.duties import duty_findings
from alerts.facts import Facts
from alerts.frequency import proposals
from alerts.levels import level_findings
from alerts.machine import run
from alerts.orders import advance_orders
from alerts.policy import Policy
from alerts.situation import OVER, Decision, Situation

__all__ = ["Decision", "Situation", "after", "decide"]

_ROUNDS = 12  # a decision comes to rest in two or three; more would be a cycle of rules


def decide(situation: Situation, now_us: int, policy: Policy) -> Decision:
    """What is to be written and sent about one interceptor now [us].

    Deciding again with the decision applied (:func:`after`) at the same instant changes nothing.

    Raises
    ------
    RuntimeError
        The rules do not come to rest: a fault of this package.
    """
    total = Decision()
    for _ in range(_ROUNDS):
        one = _round(situation, now_us, policy)
        if not (one.alerts or one.orders or one.proposals or one.outbox):
            return total
        total = Decision(
            alerts=total.alerts + one.alerts,
            orders=total.orders + one.orders,
            proposals=total.proposals + one.proposals,
            outbox=total.outbox + one.outbox,
        )
        situation = after(situation, one)
    raise RuntimeError(f"decision about {situation.interceptor.id} at {now_us} does not come to rest")


def _round(situation: Situation, now_us: int, policy: Policy) -> Decision:
    facts = Facts(situation, now_us, policy)
    findings = [*device_findings(facts), *level_findings(facts), *duty_findings(facts)]
    changed, standing = run(situation.interceptor.id, findings, situation.alerts, now_us)
    orders = advance_orders(facts, standing)
    return Decision(
        alerts=changed,
        orders=orders.orders,
        proposals=proposals(facts, standing),
        outbox=orders.outbox,
    )


def after(situation: Situation, decision: Decision) -> Situation:
    """The situation with a decision applied to it."""
    alerts = {alert.id: alert for alert in situation.alerts}
    for alert in decision.alerts:
        if alert.state == "resolved":
            alerts.pop(alert.id, None)
        else:
            alerts[alert.id] = alert
    orders = {order.id: order for order in situation.orders}
    if situation.order is not None:
        orders[situation.order.id] = situation.order
    for order in decision.orders:
        orders[order.id] = order
    proposed = {one.id: one for one in (*situation.proposals, *decision.proposals)}
    return replace(
        situation,
        alerts=tuple(alerts.values()),
        orders=tuple(orders.values()),
        order=next((o for o in orders.values() if o.state not in OVER), None),
        proposals=tuple(proposed.values()),
    )
