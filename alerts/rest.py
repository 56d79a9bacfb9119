"""Where a decision would change nothing: told from little, so that most readings cost little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from alerts.duties import DUE, NO_RECORD, OVERDUE
from alerts.facts import JUDGED_WITHIN_US
from alerts.levels import APPROACHING, OVER_LIMIT
from alerts.policy import Policy
from store.records import Alert, Manifest, Order

_STEADY: Final = frozenset({OVER_LIMIT, APPROACHING, DUE, OVERDUE})
_WAITING: Final = frozenset({"proposed", "accepted", "scheduled"})


def at_rest(
    alerts: Iterable[Alert],
    order: Order | None,
    manifests: Iterable[Manifest],
    p_least: float,
    p_most: float,
    now_us: int,
    window_us: int,
    policy: Policy,
) -> bool:
    """Whether readings without a health flag or a record of their own leave everything as it is.

    Between two hourly looks only what readings can change matters: an estimate that passes a threshold, an
    alert that ripens or recovers, a paper or a service that waits for what the sensor sees. The answer "no" is
    always safe. ``p_least`` and ``p_most`` [1] bound the chance of being over the limit, NaN unknown;
    ``window_us`` is how long the sensors are given to see what a paper says.
    """
    standing = None
    for alert in alerts:
        if alert.state != "firing" or alert.kind not in _STEADY:
            return False
        if alert.evidence.get("anchor") == NO_RECORD:
            continue
        if order is None or not _served_by(order, alert):
            return False
        if alert.kind == OVER_LIMIT and alert.basis == "estimate":
            standing = alert
    if order is not None and order.state not in _WAITING:
        return False
    if any(max(m.pumped_us, m.received_us) + window_us + JUDGED_WITHIN_US >= now_us for m in manifests):
        return False
    if standing is None:
        return not p_most >= policy.p_raise
    return not p_least <= policy.p_clear


def _served_by(order: Order, alert: Alert) -> bool:
    """Whether the open order already answers the alert, so that it cannot be upgraded by it."""
    if order.reason == "exceedance":
        return True
    return alert.kind in {DUE, OVERDUE} or (alert.kind == APPROACHING and order.reason == "forecast")
