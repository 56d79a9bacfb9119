"""One situation at one instant, with everything that several decisions ask worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import cached_property

from alerts.calendar import due_date, local_date, local_noon_us
from alerts.conditions import subject_of
from alerts.policy import Policy
from alerts.rules import Rules, Version
from alerts.services import Service, Verdict, judge, match_services
from alerts.situation import Situation
from store.records import Alert, Sensor

ESTIMATE = "This is an instrument estimate, not a determination of violation."
ON_FILE = "From the records on file; not a determination of violation."
UNVERIFIED = "pump_out_unverified"
JUDGED_WITHIN_US = 3 * 86_400_000_000
POLICY_CITATION = "program policy (no duty of the ordinance below its limit)"


class Facts:
    """A situation, the clock, the policy, and what follows from them without any choice.

    Everything is worked out when it is first asked for, once: most decisions ask for little. Treat it as frozen.
    """

    def __init__(self, situation: Situation, now_us: int, policy: Policy) -> None:
        self.situation = situation
        self.now_us = now_us
        self.policy = policy
        self.timezone = situation.site.timezone
        self.today: date = local_date(now_us, self.timezone)
        self.version: Version = situation.ordinance.at(self.today)
        self.rules: Rules = self.version.rules_for(subject_of(situation.interceptor, situation.site))
        self.fresh_us = _fresh_us(situation, now_us, policy)

    @cached_property
    def services(self) -> tuple[Service, ...]:
        """Pump-outs as paper and sensor know them, ordered by time."""
        within = int(self.policy.match_s * 1e6)
        return match_services(self.situation.pump_outs, self.situation.manifests, within_us=within)

    @cached_property
    def stated_us(self) -> int | None:
        """The last complete pump-out of the fleet file, at local noon [us]."""
        day = self.situation.interceptor.last_pump_out
        return None if day is None else local_noon_us(date.fromisoformat(day), self.timezone)

    @cached_property
    def documented_us(self) -> int | None:
        """The last complete pump-out by paper or fleet file [us]."""
        stated = [m.pumped_us for m in self.situation.manifests if m.complete]
        if self.stated_us is not None:
            stated.append(self.stated_us)
        return max((at for at in stated if at <= self.now_us), default=None)

    @cached_property
    def observed_us(self) -> int | None:
        """The last complete pump-out the sensor saw [us]; kept apart from what papers say."""
        seen = [p.start_us for p in self.situation.pump_outs if p.complete and p.confidence > 0]
        return max((at for at in seen if at <= self.now_us), default=None)

    @cached_property
    def last_complete_us(self) -> int | None:
        """The last complete pump-out, documented or observed [us]."""
        return max((at for at in (self.documented_us, self.observed_us) if at is not None), default=None)

    @cached_property
    def frequency(self) -> str | None:
        """The approved frequency, else the ordinance's default; None where neither is."""
        approved = frequency_in_force(self.situation, self.rules, self.today)
        return approved or self.rules.default_interval

    @cached_property
    def due(self) -> date | None:
        """The local date of the next complete pump-out; None where no record or no rule gives one."""
        if self.last_complete_us is None:
            return None
        last = local_date(self.last_complete_us, self.timezone)
        return due_date(last, self.frequency, self.rules.max_interval)

    @property
    def window_us(self) -> int:
        """How long the sensors are given to see what a paper says [us]."""
        return window_us(self.situation.sensors, self.policy)

    def standing(self, kind: str, anchor: str | None = None) -> Alert | None:
        """The open alert of a kind, and of an anchor where one is given."""
        for alert in self.situation.alerts:
            if alert.kind == kind and (anchor is None or alert.evidence.get("anchor") == anchor):
                return alert
        return None

    def verdict(self, service: Service) -> Verdict:
        """Hold a documented complete pump-out against the sensor.

        A denial stands while its alert or its order is open, and can only begin soon after the service: weeks
        later the layers have grown again and say nothing about it.
        """
        paper = service.manifest
        if paper is not None and service.observed is None:
            if any(o.manifest == paper.id and o.state == "closed" for o in self.situation.orders):
                return Verdict("settled", paper.received_us)
            if any(
                a.kind == UNVERIFIED and a.evidence.get("anchor") == paper.id for a in self.situation.alerts
            ):
                return Verdict("unseen", paper.received_us)
        found = self._judged(service)
        held = paper is not None and any(o.manifest == paper.id for o in self.situation.orders)
        if found.word == "unseen" and not held and self.now_us > found.deadline_us + JUDGED_WITHIN_US:
            return Verdict("settled", found.deadline_us)
        return found

    def _judged(self, service: Service) -> Verdict:
        return judge(
            service,
            self.situation.sensors,
            self.situation.assessment,
            self.now_us,
            window_us=self.window_us,
            gone_fraction=self.policy.gone_fraction,
        )

    @cached_property
    def removed_us(self) -> int | None:
        """The last complete removal: seen, or documented and not denied by the sensor [us]."""
        accepted = {"paper", "gone", "unheard", "settled"}
        found = [
            one.at_us
            for one in self.services
            if one.seen_complete or (one.stated_complete and self.verdict(one).word in accepted)
        ]
        if self.stated_us is not None:
            found.append(self.stated_us)
        return max((at for at in found if at <= self.now_us), default=None)


def window_us(sensors: Iterable[Sensor], policy: Policy) -> int:
    """How long these sensors are given to see what a paper says [us]."""
    slowest = max((s.interval_s for s in sensors), default=0.0)
    return int(max(policy.verify_intervals * slowest, policy.verify_min_s) * 1e6)


def silent_after_us(interval_s: float, policy: Policy) -> int:
    """After how long without a word a sensor is silent [us] (contracts.md §3)."""
    return int(max(policy.silent_intervals * interval_s, policy.silent_min_s) * 1e6)


def frequency_in_force(situation: Situation, rules: Rules, today: date) -> str | None:
    """The approved frequency: the last decision in effect, else the fleet's; None where none was approved.

    A decision without an effective date counts from its own day, except where the ordinance asks for notice
    before a change: there it waits for the date that a recorded notice allows.
    """
    frequency = situation.interceptor.frequency
    if not situation.decisions:
        return frequency
    timezone = situation.site.timezone
    for one in sorted(situation.decisions, key=lambda d: (d.decided_us, d.id)):
        if one.decision == "denied" or one.frequency is None:
            continue
        if one.effective is None and rules.notice_days is not None:
            continue
        starts = date.fromisoformat(one.effective) if one.effective else local_date(one.decided_us, timezone)
        if starts <= today:
            frequency = one.frequency
    return frequency


def _fresh_us(situation: Situation, now_us: int, policy: Policy) -> int | None:
    one = situation.assessment
    if one is None or one.last_reading_s is None or not situation.sensors:
        return None
    last_us = round(one.last_reading_s * 1e6)
    slowest = max(s.interval_s for s in situation.sensors)
    return last_us if now_us - last_us <= silent_after_us(slowest, policy) else None
