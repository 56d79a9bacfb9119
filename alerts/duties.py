"""Findings of the calendar and of the papers: due, overdue, no record, a paper the sensor denies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from alerts.calendar import add_duration, in_words, local_date, local_midnight_us, spoken
from alerts.facts import ESTIMATE, JUDGED_WITHIN_US, ON_FILE, UNVERIFIED, Facts
from alerts.levels import percent
from alerts.machine import Finding
from alerts.services import Service

DUE = "calendar_due"
OVERDUE = "overdue"
PARTIAL = "pump_out_partial"
NO_RECORD = "no-record"


def duty_findings(facts: Facts) -> list[Finding]:
    """Calendar first, then papers."""
    return [*calendar_findings(facts), *unverified_findings(facts), *partial_findings(facts)]


# ---- calendar ----------------------------------------------------------------------------------------


def lead_days(facts: Facts, last: date, due: date) -> int:
    """How many days before the due date an order is made: the policy's lead, at most half of the interval."""
    return min(facts.policy.lead_days, (due - last).days // 2)


def calendar_findings(facts: Facts) -> list[Finding]:
    """Due, overdue and no record. Overdue rests on records of pump-outs, never on a sensor's silence."""
    if facts.frequency is None and facts.rules.max_interval is None:
        return []
    found = [_stale(facts, kind, anchor) for kind, anchor in _standing(facts)]
    last = facts.last_complete_us
    if last is None:
        return [*found, _no_record(facts)]
    assert facts.due is not None
    found += _due(facts, local_date(last, facts.timezone), facts.due)
    found += _overdue(facts, last, facts.due)
    return found


def _standing(facts: Facts) -> list[tuple[str, str]]:
    """Open calendar alerts of another due date, or of a record that was missing and is there now."""
    anchor = NO_RECORD if facts.due is None else facts.due.isoformat()
    found = []
    for alert in facts.situation.alerts:
        mine = str(alert.evidence.get("anchor", ""))
        if alert.kind in {DUE, OVERDUE} and mine != anchor:
            found.append((alert.kind, mine))
    return found


def _stale(facts: Facts, kind: str, anchor: str) -> Finding:
    why = "a complete pump-out is on record"
    if facts.due is not None:
        why = f"the next complete pump-out is due on {facts.due}"
    return Finding(
        kind=kind,
        basis="calendar",
        anchor=anchor,
        since_us=facts.now_us,
        clock_us=facts.now_us,
        cleared=True,
        clear_reason=why,
    )


def _no_record(facts: Facts) -> Finding:
    return Finding(
        kind=OVERDUE,
        basis="calendar",
        anchor=NO_RECORD,
        since_us=local_midnight_us(facts.today, facts.timezone),
        clock_us=facts.now_us,
        raised=True,
        severity="warning",
        reason=f"No record of a complete pump-out: ask for the manifest. {ON_FILE}",
        citation=calendar_citation(facts),
    )


def calendar_citation(facts: Facts) -> str | None:
    """The section that sets the due date: the default, the approval of the frequency, or the maximum."""
    rules, last = facts.rules, facts.last_complete_us
    if last is not None and rules.max_interval is not None:
        longest = add_duration(local_date(last, facts.timezone), rules.max_interval)
        if facts.due == longest:
            return rules.max_citation
    if facts.frequency == rules.default_interval:
        return rules.default_citation
    return rules.approver_citation


def interval_words(facts: Facts) -> str:
    """The interval that binds, in words."""
    if facts.frequency is None:
        assert facts.rules.max_interval is not None
        return f"the maximum of {in_words(facts.rules.max_interval)}"
    return f"every {in_words(facts.frequency)}"


def _due(facts: Facts, last: date, due: date) -> Iterator[Finding]:
    first = due - timedelta(days=lead_days(facts, last, due))
    raised = first <= facts.today <= due
    if not raised and facts.standing(DUE, due.isoformat()) is None:
        return
    yield Finding(
        kind=DUE,
        basis="calendar",
        anchor=due.isoformat(),
        since_us=local_midnight_us(first, facts.timezone),
        clock_us=facts.now_us,
        raised=raised,
        cleared=not raised,
        severity="info",
        reason=f"The next complete pump-out is due on {due} ({interval_words(facts)}, last on {last}).",
        clear_reason=f"the due date {due} has passed" if facts.today > due else f"due only on {due}",
        citation=calendar_citation(facts),
        evidence={"due": due.isoformat()},
    )


def _overdue(facts: Facts, last_us: int, due: date) -> Iterator[Finding]:
    if facts.today <= due and facts.standing(OVERDUE, due.isoformat()) is None:
        return
    last = local_date(last_us, facts.timezone)
    sources = [
        name
        for name, at in (("documented", facts.documented_us), ("observed", facts.observed_us))
        if at is not None and local_date(at, facts.timezone) == last
    ]
    yield Finding(
        kind=OVERDUE,
        basis="calendar",
        anchor=due.isoformat(),
        since_us=local_midnight_us(due + timedelta(days=1), facts.timezone),
        clock_us=facts.now_us,
        raised=facts.today > due,
        cleared=facts.today <= due,
        severity="critical",
        reason=(
            f"The pump-out due on {due} ({interval_words(facts)}) is neither documented nor observed; the "
            f"last complete one on record is of {last} ({' and '.join(sources)}). {ON_FILE}"
        ),
        clear_reason=f"the next complete pump-out is due on {due}",
        citation=calendar_citation(facts),
        evidence={"due": due.isoformat(), "last": last.isoformat()},
    )


# ---- papers ------------------------------------------------------------------------------------------


def what_the_sensor_saw(facts: Facts, service: Service) -> str:
    """Why the sensor does not confirm a paper, in plain words."""
    assert service.manifest is not None
    paper = service.manifest
    stated = f"The manifest {paper.number or paper.id} states a complete pump-out"
    when = f"at {spoken(paper.pumped_us, facts.timezone)}"
    if service.observed is not None and not service.observed.complete:
        return f"{stated} {when}; the sensor saw only a partial one, material was left behind."
    one = facts.situation.assessment
    if one is None or one.fraction is None or one.last_reading_s is None:
        return f"{stated} {when}; the sensor does not confirm it."
    last = spoken(round(one.last_reading_s * 1e6), facts.timezone)
    saw = f"the sensor still reads {percent(one.fraction)} at {last}, and no drawdown was seen"
    return f"{stated} {when}; {saw}."


def unverified_findings(facts: Facts) -> list[Finding]:
    """Papers of a complete pump-out that the sensor should have seen and did not, one finding a paper."""
    found: list[Finding] = []
    latest = max((max(m.pumped_us, m.received_us) for m in facts.situation.manifests), default=None)
    if latest is None:
        return found
    if facts.now_us > latest + facts.window_us + JUDGED_WITHIN_US and facts.standing(UNVERIFIED) is None:
        return found
    papers = {s.manifest.id: s for s in facts.services if s.manifest is not None}
    for identity, service in papers.items():
        standing = facts.standing(UNVERIFIED, identity) is not None
        if not service.stated_complete or (service.seen_complete and not standing):
            continue
        verdict = facts.verdict(service)
        answered = _answered(facts, service)
        soon = facts.now_us <= verdict.deadline_us + JUDGED_WITHIN_US
        raised = verdict.word == "unseen" and not answered and (standing or soon)
        if not (raised or standing):
            continue
        found.append(
            Finding(
                kind=UNVERIFIED,
                basis="device",
                anchor=identity,
                since_us=verdict.deadline_us,
                clock_us=facts.now_us,
                raised=raised,
                cleared=not raised,
                severity="warning",
                reason=f"{what_the_sensor_saw(facts, service)} A question to hauler and manager. {ESTIMATE}",
                clear_reason="the sensor saw a complete pump-out"
                if answered
                else "the sensor no longer contradicts the paper",
                citation=facts.rules.removal_citation,
                evidence={
                    "manifest": identity,
                    "hauler": service.manifest.hauler if service.manifest else None,
                },
            )
        )
    return found


def _answered(facts: Facts, service: Service) -> bool:
    """Whether a complete pump-out was seen with this paper or after it."""
    return service.seen_complete or any(s.seen_complete and s.at_us > service.at_us for s in facts.services)


def partial_findings(facts: Facts) -> list[Finding]:
    """Partial pump-outs: allowed as extra work, a question where a paper says complete; the clock runs on."""
    found: list[Finding] = []
    hold = facts.policy.partial_hold_days * 86_400_000_000
    partial = [p for p in facts.situation.pump_outs if not p.complete and facts.now_us < p.end_us + hold]
    if not partial and facts.standing(PARTIAL) is None:
        return found
    last = facts.last_complete_us
    for service in facts.services:
        one = service.observed
        if one is None or one.complete:
            continue
        standing = facts.standing(PARTIAL, one.id) is not None
        contradicted = service.stated_complete
        later = _answered(facts, service) or (last is not None and last > one.end_us)
        current = facts.now_us < one.end_us + hold
        raised = current and not later
        if not (raised or standing):
            continue
        told = what_the_sensor_saw(facts, service) if contradicted else "The sensor saw a partial pump-out."
        found.append(
            Finding(
                kind=PARTIAL,
                basis="device",
                anchor=one.id,
                since_us=one.start_us,
                clock_us=facts.now_us,
                raised=raised,
                cleared=not raised,
                severity="warning" if contradicted else "info",
                reason=f"{told} A partial pump-out does not reset the clock. {ESTIMATE}",
                clear_reason="a complete pump-out followed" if later else "no longer of concern",
                citation=facts.rules.removal_citation,
                evidence={"pump_out": one.id},
            )
        )
    return found
