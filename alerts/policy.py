"""The program's policy: everything that decides and that no ordinance prescribes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the decisions, each with its default; none of them is law.

    Durations are service time [s] or local calendar days, as the name says.

    Raises
    ------
    ValueError
        A value cannot be; the text names it.
    """

    p_raise: float = 0.9  # over_limit is raised at this P(fraction > limit) …
    p_clear: float = 0.5  # … and cleared at this, by a fresh reading only
    over_for_s: float = 3600.0  # event time it must hold before the alert fires
    over_keep_s: float = 3600.0  # event time it must stay clear before the alert resolves
    lead_days: int = 14  # how far ahead calendar and forecast orders are made
    lead_clear_days: int = 3  # a forecast must move this far beyond the lead time to clear
    approaching_for_s: float = 21_600.0
    approaching_keep_s: float = 21_600.0
    silent_intervals: float = 3.0  # contracts.md §3: silent after 3 × interval_s …
    silent_min_s: float = 3600.0  # … at least one hour
    hot_group_s: float = 86_400.0  # hot discharges closer than this are one alert
    partial_hold_days: int = 30  # how long a partial pump-out stays a question
    offer_timeout_s: float = 14_400.0  # an unanswered offer goes to the next hauler
    urgent_offer_timeout_s: float = 3600.0  # the same for an order due immediately
    match_s: float = 129_600.0  # a paper and an observation this close are one service
    verify_intervals: float = 3.0  # how long a sensor is given to see what a paper says …
    verify_min_s: float = 7200.0  # … at least
    gone_fraction: float = 0.05  # at or below it the sensor does not contradict a paper
    papers_days: int = 7  # an observed service waits this long for its manifest
    settle_s: float = 86_400.0  # after a service: no new order for an old alarm; observations may come late
    cycles_needed: int = 3  # complete cycles with both layers before a frequency is proposed
    crossing_chance: float = 0.10  # chance of crossing the limit that a frequency may carry

    def __post_init__(self) -> None:
        if not 0.0 < self.p_clear < self.p_raise < 1.0:
            raise ValueError("p_raise, p_clear: expected 0 < p_clear < p_raise < 1")
        if not 0.0 < self.crossing_chance < 0.5:
            raise ValueError("crossing_chance: expected a chance between 0 and 0.5")
        if self.cycles_needed < 2:
            raise ValueError("cycles_needed: an average needs at least 2 cycles")
        for name in ("offer_timeout_s", "urgent_offer_timeout_s", "match_s", "verify_min_s", "silent_min_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: expected more than 0 seconds")
        for name in ("lead_days", "papers_days", "partial_hold_days"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 days or more")
