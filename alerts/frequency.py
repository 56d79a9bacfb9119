"""Frequency proposals: the evidence of completed cycles, held against the limit; a person decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Final

from scipy.special import stdtrit

from alerts.calendar import beyond, in_words, local_date, local_noon_us, parse_duration
from alerts.facts import ESTIMATE, Facts
from alerts.ids import short_id
from alerts.levels import OVER_LIMIT, percent
from store.records import Alert, FrequencyProposal, Json, PumpOutRecord

#: Intervals a person can plan by, shortest first.
RHYTHMS: Final = ("P1W", "P2W", "P3W", "P1M", "P6W", "P2M", "P10W", "P3M", "P4M", "P5M", "P6M")
_LONGEST_MONTH = 31
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_MIN_CYCLE_DAYS = 21.0  # a shorter cycle says little about an average
_CLEAN = 0.005  # fraction taken to be left by a clean pump-out where nothing was measured


@dataclass(frozen=True, slots=True)
class Cycle:
    """One completed cycle: from a complete pump-out to an observed complete one, both layers known."""

    pump_out: str
    start_us: int
    end_us: int
    fraction: float
    left: float

    @property
    def days(self) -> float:
        """Its length [days]."""
        return (self.end_us - self.start_us) / _DAY_US

    @property
    def rate(self) -> float:
        """Growth of the fraction [1/day]."""
        return (self.fraction - self.left) / self.days


def proposals(facts: Facts, alerts: Sequence[Alert]) -> tuple[FrequencyProposal, ...]:
    """What the evidence proposes now and has not proposed before; at most one for each cause."""
    if facts.rules.frequency_citation is None or facts.frequency is None:
        return ()
    known = {one.id for one in facts.situation.proposals}
    found = [after_exceedance(facts, alerts), from_cycles(facts)]
    return tuple(one for one in found if one is not None and one.id not in known)


# ---- after an exceedance -----------------------------------------------------------------------------


def after_exceedance(facts: Facts, alerts: Sequence[Alert]) -> FrequencyProposal | None:
    """An exceedance proposes the next shorter interval, once; the ordinance lets the city shorten it."""
    alert = next((a for a in alerts if a.kind == OVER_LIMIT and a.state == "firing"), None)
    if alert is None or facts.frequency is None or facts.rules.shorten_citation is None:
        return None
    shorter = next_shorter(facts.frequency)
    if shorter is None or _pending(facts, shorter):
        return None
    last = facts.removed_us
    evidence: Json = {
        "alert": alert.id,
        "basis": alert.basis,
        "fraction": alert.evidence.get("fraction"),
        "over_since": local_date(alert.since_us, facts.timezone).isoformat(),
        "last_complete": None if last is None else local_date(last, facts.timezone).isoformat(),
        "days_since": None if last is None else round((alert.since_us - last) / _DAY_US, 1),
        "requested_by": "program",
        "effective": effective_words(facts),
    }
    return FrequencyProposal(
        id=short_id("fp", facts.situation.interceptor.id, "exceedance", alert.id),
        interceptor=facts.situation.interceptor.id,
        current=facts.frequency,
        proposed=shorter,
        reason=(
            f"The limit of {percent(facts.rules.fill_limit)} was exceeded before the interval of "
            f"{in_words(facts.frequency)} ran out; propose {in_words(shorter)}. {ESTIMATE}"
        ),
        citation=facts.rules.shorten_citation,
        evidence=evidence,
        effective=None,
        at_us=facts.now_us,
    )


def next_shorter(frequency: str) -> str | None:
    """The longest workable rhythm that is shorter than a frequency on every day; None below the shortest."""
    shorter = [
        one for one in RHYTHMS if beyond(one, frequency) is None and beyond(frequency, one) is not None
    ]
    return shorter[-1] if shorter else None


# ---- from completed cycles ---------------------------------------------------------------------------


def completed_cycles(facts: Facts) -> list[Cycle]:
    """Cycles that ended with an observed complete pump-out, with the layers before it."""
    marks: list[tuple[int, PumpOutRecord | None]] = [
        (s.at_us, s.observed if s.seen_complete else None)
        for s in facts.services
        if s.seen_complete or s.stated_complete
    ]
    known = facts.situation.interceptor.last_pump_out
    if known is not None:
        marks.append((local_noon_us(date.fromisoformat(known), facts.timezone), None))
    marks.sort(key=lambda mark: mark[0])
    base = facts.situation.interceptor.base_depth_m
    found = []
    for (start, first), (end, last) in pairwise(marks):
        if last is None or (end - start) / _DAY_US < _MIN_CYCLE_DAYS:
            continue
        fraction = _fraction(last.before, base)
        left = _fraction(first.after, base) if first is not None else None
        if fraction is not None and fraction > (left or _CLEAN):
            found.append(Cycle(last.id, start, end, fraction, _CLEAN if left is None else left))
    return found


def _fraction(layers: Sequence[Json], base_depth_m: float) -> float | None:
    """The largest (FOG + solids) / base depth; None where a layer of a compartment was not seen."""
    depths = []
    for one in layers:
        if one["fog_m"] is None or one["solids_m"] is None:
            return None
        depths.append(one["fog_m"] + one["solids_m"])
    return max(depths) / base_depth_m if depths else None


def days_to_limit(cycles: Sequence[Cycle], limit: float, chance: float) -> float:
    """Days after a complete pump-out at which the chance of being above the limit reaches ``chance``.

    The rates of the cycles are taken as log-normal with unknown mean and spread; the next cycle's rate is
    then Student-t on the log scale with n - 1 degrees of freedom, spread by sqrt(1 + 1/n) (predictive
    distribution of a normal sample; Gelman et al., Bayesian Data Analysis, §3.2).
    """
    logs = [math.log(one.rate) for one in cycles]
    n = len(logs)
    mean = sum(logs) / n
    sd = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
    left = sum(one.left for one in cycles) / n
    high = mean + float(stdtrit(n - 1, 1 - chance)) * sd * math.sqrt(1 + 1 / n)
    return (limit - left) / math.exp(high)


def workable(days: float, maximum: str | None) -> str:
    """The longest rhythm not longer than ``days`` nor the maximum, at least a week."""
    best = RHYTHMS[0]
    for rhythm in RHYTHMS:
        span = parse_duration(rhythm)
        longest = span.days + span.months * _LONGEST_MONTH
        if longest <= days and (maximum is None or beyond(rhythm, maximum) is None):
            best = rhythm
    return best


def from_cycles(facts: Facts) -> FrequencyProposal | None:
    """An average frequency, once enough complete cycles have been seen; none where it is the present one.

    Looked at in the first hour of a local day: an average does not change from reading to reading.
    """
    policy, rules = facts.policy, facts.rules
    if local_date(facts.now_us - _HOUR_US, facts.timezone) == facts.today:
        return None
    complete = sum(1 for p in facts.situation.pump_outs if p.complete)
    if complete < policy.cycles_needed or facts.frequency is None:
        return None
    cycles = completed_cycles(facts)
    if len(cycles) < policy.cycles_needed or rules.frequency_citation is None:
        return None
    days = days_to_limit(cycles, rules.fill_limit, policy.crossing_chance)
    proposed = workable(days, rules.max_interval)
    same = beyond(proposed, facts.frequency) is None and beyond(facts.frequency, proposed) is None
    if same or _pending(facts, proposed):
        return None
    rates = sorted(one.rate for one in cycles)
    evidence: Json = {
        "cycles": [_told(facts, one) for one in cycles],
        "rate_per_day": {"mean": sum(rates) / len(rates), "least": rates[0], "most": rates[-1]},
        "days_to_limit": round(days, 1),
        "crossing_chance": policy.crossing_chance,
        "crossing_chance_is": "the program's policy, not law",
        "requested_by": "program",
        "effective": effective_words(facts),
    }
    word = "longer" if beyond(proposed, facts.frequency) is not None else "shorter"
    return FrequencyProposal(
        id=short_id("fp", facts.situation.interceptor.id, "cycles", cycles[-1].pump_out),
        interceptor=facts.situation.interceptor.id,
        current=facts.frequency,
        proposed=proposed,
        reason=(
            f"{len(cycles)} complete cycles support a {word} interval: {in_words(proposed)} instead of "
            f"{in_words(facts.frequency)} keeps the chance of crossing {percent(rules.fill_limit)} at or "
            f"below {100 * policy.crossing_chance:.0f} %. A person decides."
        ),
        citation=rules.frequency_citation,
        evidence=evidence,
        effective=None,
        at_us=facts.now_us,
    )


def _told(facts: Facts, one: Cycle) -> Json:
    return {
        "pump_out": one.pump_out,
        "from": local_date(one.start_us, facts.timezone).isoformat(),
        "to": local_date(one.end_us, facts.timezone).isoformat(),
        "days": round(one.days, 1),
        "fraction": round(one.fraction, 4),
        "left": round(one.left, 4),
    }


def _pending(facts: Facts, proposed: str) -> bool:
    """Whether the same interval was proposed and nobody has decided since."""
    decided = max((d.decided_us for d in facts.situation.decisions), default=-1)
    return any(p.proposed == proposed and p.at_us > decided for p in facts.situation.proposals)


def effective_words(facts: Facts) -> str:
    """From when a change could bind: where notice is asked for, from a recorded mailing or service."""
    rules = facts.rules
    if rules.notice_days is None:
        return "the text states no notice; from the day of the decision"
    return (
        f"not before {rules.notice_days} days after the permittee is informed ({rules.notice_citation}), "
        "with a reasonable time to comply; no mailing or service date is on record yet"
    )
