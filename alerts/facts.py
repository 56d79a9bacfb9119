"""One situation at one instant, with everything that several decisions ask worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from alerts.calendar import due_date, local_date, local_noon_us
from alerts.policy import Policy
from alerts.rules import Rules, Version
from alerts.services import Service, Verdict, judge, match_services
from alerts.situation import Situation

ESTIMATE = "This is an instrument estimate, not a determination of violation."
ON_FILE = "From the records on file; not a determination of violation."
UNVERIFIED = "pump_out_unverified"
JUDGED_WITHIN_US = 3 * 86_400_000_000
POLICY_CITATION = "program policy (no duty of the ordinance below its limit)"


@dataclass(frozen=True, slots=True)
class Facts:
    """A situation, the clock, the policy, and what follows from them without any choice.

    Services are ordered by time. ``documented_us`` and ``observed_us`` are the last complete pump-outs by
    paper and by sensor, kept apart. ``fresh_us`` is the newest reading's event time, None when it is stale.
    """

    situation: Situation
    now_us: int
    policy: Policy
    version: Version
    rules: Rules
    today: date
    services: tuple[Service, ...]
    documented_us: int | None
    observed_us: int | None
    frequency: str | None
    due: date | None
    fresh_us: int | None

    @classmethod
    def of(cls, situation: Situation, now_us: int, policy: Policy) -> Facts:
        """Work the facts out."""
        timezone = situation.site.timezone
        today = local_date(now_us, timezone)
        version = situation.ordinance.at(today)
        rules = version.rules_for(situation.interceptor.kind)
        services = match_services(
            situation.pump_outs, situation.manifests, within_us=int(policy.match_s * 1e6)
        )
        documented, observed = _last_complete(situation, services, now_us)
        frequency = frequency_in_force(situation, today) or rules.default_interval
        last = max((at for at in (documented, observed) if at is not None), default=None)
        due = None
        if last is not None:
            due = due_date(local_date(last, timezone), frequency, rules.max_interval)
        return cls(
            situation=situation,
            now_us=now_us,
            policy=policy,
            version=version,
            rules=rules,
            today=today,
            services=services,
            documented_us=documented,
            observed_us=observed,
            frequency=frequency,
            due=due,
            fresh_us=_fresh_us(situation, now_us, policy),
        )

    @property
    def timezone(self) -> str:
        """The site's time zone."""
        return self.situation.site.timezone

    @property
    def last_complete_us(self) -> int | None:
        """The last complete pump-out, documented or observed [us]."""
        return max((at for at in (self.documented_us, self.observed_us) if at is not None), default=None)

    @property
    def window_us(self) -> int:
        """How long the sensors are given to see what a paper says [us]."""
        slowest = max((s.interval_s for s in self.situation.sensors), default=0.0)
        return int(max(self.policy.verify_intervals * slowest, self.policy.verify_min_s) * 1e6)

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

    @property
    def removed_us(self) -> int | None:
        """The last complete removal: seen, or documented and not denied by the sensor [us]."""
        accepted = {"paper", "gone", "unheard", "settled"}
        found = [
            one.at_us
            for one in self.services
            if one.seen_complete or (one.stated_complete and self.verdict(one).word in accepted)
        ]
        known = self.situation.interceptor.last_pump_out
        if known is not None:
            found.append(local_noon_us(date.fromisoformat(known), self.timezone))
        return max((at for at in found if at <= self.now_us), default=None)


def silent_after_us(interval_s: float, policy: Policy) -> int:
    """After how long without a word a sensor is silent [us] (contracts.md §3)."""
    return int(max(policy.silent_intervals * interval_s, policy.silent_min_s) * 1e6)


def frequency_in_force(situation: Situation, today: date) -> str | None:
    """The approved frequency: the last decision in effect, else the fleet's; None where none was approved."""
    timezone = situation.site.timezone
    frequency = situation.interceptor.frequency
    for one in sorted(situation.decisions, key=lambda d: (d.decided_us, d.id)):
        if one.decision == "denied" or one.frequency is None:
            continue
        starts = date.fromisoformat(one.effective) if one.effective else local_date(one.decided_us, timezone)
        if starts <= today:
            frequency = one.frequency
    return frequency


def _last_complete(
    situation: Situation, services: tuple[Service, ...], now_us: int
) -> tuple[int | None, int | None]:
    stated = [s.manifest.pumped_us for s in services if s.manifest is not None and s.manifest.complete]
    if situation.interceptor.last_pump_out is not None:
        day = date.fromisoformat(situation.interceptor.last_pump_out)
        stated.append(local_noon_us(day, situation.site.timezone))
    seen = [s.observed.start_us for s in services if s.observed is not None and s.observed.complete]
    documented = max((at for at in stated if at <= now_us), default=None)
    return documented, max((at for at in seen if at <= now_us), default=None)


def _fresh_us(situation: Situation, now_us: int, policy: Policy) -> int | None:
    one = situation.assessment
    if one is None or one.last_reading_s is None or not situation.sensors:
        return None
    last_us = round(one.last_reading_s * 1e6)
    slowest = max(s.interval_s for s in situation.sensors)
    return last_us if now_us - last_us <= silent_after_us(slowest, policy) else None
