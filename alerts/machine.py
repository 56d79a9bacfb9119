"""The state machine of an alert: ok, pending, firing, recovering, resolved.

Raise and clear are separate conditions; what is neither holds. Durations run in the finding's own clock:
event time for levels, so that silence neither confirms nor clears one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from alerts.ids import short_id
from store.records import Alert, Json

_SEVERITY = {"info": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule finds for one slot, where it can tell; no finding means that an open alert holds.

    ``since_us`` is the event time the condition began; ``clock_us`` the newest evidence; ``anchor`` tells
    episodes of one slot apart. ``raised_us`` and ``cleared_us`` say which of both is the newer.
    """

    kind: str
    basis: str
    since_us: int
    clock_us: int
    raised: bool = False
    cleared: bool = False
    severity: str = "warning"
    reason: str = ""
    clear_reason: str = "no longer so"
    citation: str | None = None
    sensor: str | None = None
    flag: str | None = None
    anchor: str = ""
    for_us: int = 0
    keep_us: int = 0
    raised_us: int | None = None
    cleared_us: int | None = None
    evidence: Json = field(default_factory=dict)

    @property
    def slot(self) -> tuple[str, str, str | None, str | None, str]:
        """What makes two findings the same alert."""
        return self.kind, self.basis, self.sensor, self.flag, self.anchor


def slot_of(alert: Alert) -> tuple[str, str, str | None, str | None, str]:
    """The slot an alert stands in."""
    return alert.kind, alert.basis, alert.sensor, alert.flag, str(alert.evidence.get("anchor", ""))


def run(
    interceptor: str, findings: Iterable[Finding], open_alerts: Sequence[Alert], now_us: int
) -> tuple[tuple[Alert, ...], tuple[Alert, ...]]:
    """Hold findings against the open alerts.

    Returns
    -------
    The transitions in order, and the alerts open afterwards.
    """
    slots = {slot_of(alert): alert for alert in open_alerts}
    changed: list[Alert] = []
    for finding in findings:
        standing = slots.get(finding.slot)
        while (after := _next(interceptor, finding, standing, now_us)) is not None:
            changed.append(after)
            standing = None if after.state == "resolved" else after
            if after.state == "resolved":
                slots.pop(finding.slot, None)
                break
            slots[finding.slot] = after
    return tuple(changed), tuple(slots.values())


def _next(interceptor: str, finding: Finding, standing: Alert | None, now_us: int) -> Alert | None:
    """The next transition of one slot, None when it stands as it should."""
    if standing is None:
        return _begin(interceptor, finding, now_us) if finding.raised else None
    if standing.state == "pending":
        return _pending(finding, standing, now_us)
    if standing.state == "recovering":
        return _recovering(finding, standing, now_us)
    return _firing(finding, standing, now_us)


def _begin(interceptor: str, finding: Finding, now_us: int) -> Alert:
    parts = (
        interceptor,
        finding.kind,
        finding.basis,
        finding.sensor or "",
        finding.flag or "",
        finding.anchor,
    )
    return Alert(
        id=short_id("al", *parts, str(finding.since_us)),
        interceptor=interceptor,
        kind=finding.kind,
        state="pending" if finding.for_us else "firing",
        severity=finding.severity,
        reason=finding.reason,
        citation=finding.citation,
        basis=finding.basis,
        sensor=finding.sensor,
        flag=finding.flag,
        since_us=finding.since_us,
        changed_us=now_us,
        evidence={**finding.evidence, "anchor": finding.anchor},
    )


def _restate(finding: Finding, standing: Alert, state: str, now_us: int) -> Alert:
    return replace(
        standing,
        state=state,
        severity=finding.severity,
        reason=finding.reason,
        citation=finding.citation,
        changed_us=now_us,
        evidence={**finding.evidence, "anchor": finding.anchor},
    )


def _resolve(standing: Alert, why: str, now_us: int) -> Alert:
    return replace(standing, state="resolved", reason=why, changed_us=now_us)


def _pending(finding: Finding, standing: Alert, now_us: int) -> Alert | None:
    if finding.cleared and not finding.raised:
        return _resolve(standing, f"did not last: {finding.clear_reason}", now_us)
    if finding.raised and finding.clock_us - standing.since_us >= finding.for_us:
        return _restate(finding, standing, "firing", now_us)
    return None


def _firing(finding: Finding, standing: Alert, now_us: int) -> Alert | None:
    if finding.cleared and _newer(finding.cleared_us, finding.raised_us):
        if finding.keep_us == 0:
            return _resolve(standing, finding.clear_reason, now_us)
        begun = finding.clock_us if finding.cleared_us is None else finding.cleared_us
        evidence = {**standing.evidence, "recovering_us": begun}
        return replace(standing, state="recovering", changed_us=now_us, evidence=evidence)
    if finding.raised and _SEVERITY[finding.severity] > _SEVERITY[standing.severity]:
        return _restate(finding, standing, "firing", now_us)
    return None


def _recovering(finding: Finding, standing: Alert, now_us: int) -> Alert | None:
    begun = int(standing.evidence.get("recovering_us", standing.changed_us))
    if finding.raised and (finding.raised_us is None or finding.raised_us > begun):
        return _restate(finding, standing, "firing", now_us)
    if finding.cleared and finding.clock_us - begun >= finding.keep_us:
        return _resolve(standing, finding.clear_reason, now_us)
    return None


def _newer(cleared_us: int | None, raised_us: int | None) -> bool:
    return cleared_us is None or raised_us is None or cleared_us >= raised_us
