"""Findings about what stands in an interceptor: over the limit, by estimate or by hand; the limit ahead."""

from __future__ import annotations

from datetime import timedelta
from statistics import NormalDist

from alerts.calendar import local_date, spoken
from alerts.facts import ESTIMATE, POLICY_CITATION, Facts
from alerts.machine import Finding
from analysis.model import Assessment
from store.records import Alert, CoreSample

OVER_LIMIT = "over_limit"
APPROACHING = "approaching_limit"


def level_findings(facts: Facts) -> list[Finding]:
    """Over the limit by estimate and by core sample stay apart; the forecast stands beside them."""
    found = [over_by_estimate(facts), over_by_sample(facts), approaching(facts)]
    return [one for one in found if one is not None]


def percent(fraction: float) -> str:
    """A fraction as people read it, with one decimal where it matters at the limit."""
    return f"{100 * fraction:.1f} %"


def over_by_estimate(facts: Facts) -> Finding | None:
    """P(fraction > limit) against the policy's thresholds, by fresh readings only; otherwise it holds.

    A pending alert whose sensor falls silent ripens by the clock: silence may be what full looks like.
    """
    one = facts.situation.assessment
    if one is None or one.p_over_limit is None or one.fraction is None or not facts.rules.fill_binding:
        return None
    policy = facts.policy
    if facts.fresh_us is None:
        if _open(facts, OVER_LIMIT, "estimate", "pending") is None:
            return None
        return _estimate_finding(facts, one, facts.now_us, raised=True, cleared=False)
    raised = one.p_over_limit >= policy.p_raise
    if not raised and facts.standing(OVER_LIMIT) is None:
        return None
    cleared = one.p_over_limit <= policy.p_clear
    return _estimate_finding(facts, one, facts.fresh_us, raised=raised, cleared=cleared)


def _estimate_finding(
    facts: Facts, one: Assessment, clock_us: int, *, raised: bool, cleared: bool
) -> Finding:
    assert one.fraction is not None
    assert one.p_over_limit is not None
    rules = facts.rules
    several = " (the fullest of the monitored compartments, as the program reads it)"
    where = f"compartment {one.compartment}" + (several if len(one.compartments) > 1 else "")
    reason = (
        f"FOG and solids are estimated at {percent(one.fraction)} of the {rules.fill_base} in {where}; "
        f"the chance of being above {percent(rules.fill_limit)} is {100 * one.p_over_limit:.0f} %. {ESTIMATE}"
    )
    return Finding(
        kind=OVER_LIMIT,
        basis="estimate",
        since_us=clock_us,
        clock_us=clock_us,
        raised=raised,
        cleared=cleared,
        severity="critical",
        reason=reason,
        clear_reason=f"the estimate is {percent(one.fraction)}, no longer likely above the limit",
        citation=rules.exceed_citation,
        for_us=int(facts.policy.over_for_s * 1e6),
        keep_us=int(facts.policy.over_keep_s * 1e6),
        evidence={
            "fraction": one.fraction,
            "fraction_sd": one.fraction_sd,
            "p_over_limit": one.p_over_limit,
            "compartment": one.compartment,
        },
    )


def over_by_sample(facts: Facts) -> Finding | None:
    """The newest core sample of each compartment since the last complete removal, against the limit."""
    samples = facts.situation.core_samples
    if not samples or not facts.rules.fill_binding:
        return None
    removed = facts.removed_us
    newest: dict[int, CoreSample] = {}
    for sample in sorted(samples, key=lambda s: (s.sampled_us, s.received_us, s.id)):
        if removed is None or sample.sampled_us > removed:
            newest[sample.compartment] = sample
    base = facts.situation.interceptor.base_depth_m
    rules = facts.rules
    held = {s.id: rules.counted(s.fog_m, s.solids_m, base) for s in newest.values()}
    over = [s for s in newest.values() if rules.over_limit(held[s.id])]
    if not over:
        return Finding(
            kind=OVER_LIMIT,
            basis="core_sample",
            since_us=facts.now_us,
            clock_us=facts.now_us,
            cleared=True,
            clear_reason="a complete removal or a newer core sample below the limit is on file",
        )
    worst = max(over, key=lambda s: (held[s.id], -s.compartment))
    first = min(s.sampled_us for s in over)
    fraction = held[worst.id]
    measured = "FOG" if rules.fill_counts == "fog" else "FOG and solids"
    reason = (
        f"A core sample of {spoken(worst.sampled_us, facts.timezone)} measured {measured} at "
        f"{percent(fraction)} of the {rules.fill_base} in compartment {worst.compartment}, "
        f"{'at or above' if rules.fill_reaches else 'above'} {percent(rules.fill_limit)}. "
        "A measurement on file, not a determination of violation."
    )
    return Finding(
        kind=OVER_LIMIT,
        basis="core_sample",
        since_us=first,
        clock_us=facts.now_us,
        raised=True,
        severity="critical",
        reason=reason,
        citation=facts.rules.exceed_citation,
        evidence={"sample": worst.id, "fraction": fraction, "compartment": worst.compartment},
    )


def approaching(facts: Facts) -> Finding | None:
    """The p10 crossing comes before the next pump-out by the calendar and within the lead time."""
    one = facts.situation.assessment
    if one is None or one.crossing_s is None or facts.fresh_us is None or not facts.rules.fill_binding:
        return None
    p10, p50 = one.crossing_s[1], one.crossing_s[2]
    policy = facts.policy
    clear_from = facts.today + timedelta(days=policy.lead_days + policy.lead_clear_days)
    crossing = None if p10 is None else local_date(round(p10 * 1e6), facts.timezone)
    ahead = p50 is None or p50 * 1e6 > facts.now_us
    planned = facts.due
    before_planned = crossing is not None and (planned is None or crossing < planned)
    near = crossing is not None and crossing <= facts.today + timedelta(days=policy.lead_days)
    over = _open(facts, OVER_LIMIT, "estimate", "firing") is not None
    advised = _chance_past_advice(facts, one)
    by_advice = advised >= policy.p_raise
    raised = ((one.own_evidence and ahead and near and before_planned) or by_advice) and not over
    if not raised and facts.standing(APPROACHING) is None:
        return None
    far = crossing is None or crossing > clear_from
    when = "later than six months ahead" if crossing is None else f"{crossing}"
    planned_text = (
        f"the next planned pump-out is {planned}" if planned is not None else "no pump-out is planned"
    )
    return Finding(
        kind=APPROACHING,
        basis="estimate",
        since_us=facts.fresh_us,
        clock_us=facts.fresh_us,
        raised=raised,
        cleared=(far or (crossing is not None and not before_planned)) and advised <= policy.p_clear,
        severity="warning",
        reason=(
            _past_advice(facts, one)
            if by_advice
            else f"With a chance of 10 % the limit of {percent(facts.rules.fill_limit)} is crossed by {when}, "
            f"and {planned_text}. {ESTIMATE}"
        ),
        clear_reason=f"the 10 % crossing date is now {when}; {planned_text}",
        citation=facts.rules.advice_citation if by_advice else POLICY_CITATION,
        for_us=int(policy.approaching_for_s * 1e6),
        keep_us=int(policy.approaching_keep_s * 1e6),
        evidence={
            "crossing_p10": None if crossing is None else crossing.isoformat(),
            "fraction": one.fraction,
        },
    )


def _chance_past_advice(facts: Facts, one: Assessment) -> float:
    """P(fraction > the point at which the ordinance recommends cleaning); 0 where it recommends none."""
    advice = facts.rules.fill_advice
    if advice is None or one.fraction is None or not one.fraction_sd:
        return 0.0
    return 1.0 - NormalDist(one.fraction, one.fraction_sd).cdf(advice)


def _past_advice(facts: Facts, one: Assessment) -> str:
    assert one.fraction is not None
    assert facts.rules.fill_advice is not None
    return (
        f"FOG and solids are estimated at {percent(one.fraction)} of the {facts.rules.fill_base}, past the "
        f"{percent(facts.rules.fill_advice)} at which cleaning is recommended; the limit is "
        f"{percent(facts.rules.fill_limit)}. {ESTIMATE}"
    )


def _open(facts: Facts, kind: str, basis: str, state: str) -> Alert | None:
    for alert in facts.situation.alerts:
        if (alert.kind, alert.basis, alert.state) == (kind, basis, state):
            return alert
    return None
