"""Frequency proposals: an exceedance shortens, completed cycles support an interval, a person decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alerts.frequency import Cycle, days_to_limit, next_shorter, workable
from store.records import FrequencyDecision

Make = Callable[..., Any]
DAY_US = 86_400_000_000


def _cycles(w: Any, fraction: float, months: tuple[int, ...]) -> None:
    """Observed complete pump-outs on the first of these months of 2026, each with ``fraction`` before it."""
    fog = fraction * 1.22 * 2 / 3
    layers = ({"compartment": 1, "fog_m": fog, "solids_m": fog / 2},)
    for month in months:
        w.seen(f"2026-{month:02d}-01T09:00:00-07:00", before=layers)


def test_an_exceedance_proposes_the_next_shorter_interval_once(world: Make) -> None:
    w = world().level(0.27, 0.95)
    w.decide()
    w.later(1).level(0.27, 0.95).decide()
    w.later(1).level(0.28, 0.97).decide()
    made = [p for one in w.decided for p in one.proposals]
    assert [(p.current, p.proposed, p.citation) for p in made] == [("P3M", "P10W", "IMC 10-223(4)(d)")]
    assert made[0].effective is None
    assert made[0].evidence["last_complete"] == "2026-05-01"
    assert "45 days after the permittee is informed (IMC 10-222(3))" in made[0].evidence["effective"]


def test_sierra_madre_states_no_notice(world: Make) -> None:
    w = world(ordinance="sierra-madre").sample(0.3, 0.1)
    made = w.decide().proposals
    assert made[0].citation == "SMMC 13.14.150.E.5"
    assert made[0].evidence["effective"].startswith("the text states no notice")


def test_three_complete_cycles_support_a_longer_interval(world: Make) -> None:
    w = world(last_pump_out=None).at("2026-09-01T00:00:00-07:00").level(0.01, 0.0)
    _cycles(w, 0.10, (1, 3, 5))
    assert w.decide().proposals == ()  # two cycles are no average yet
    _cycles(w, 0.10, (7,))
    assert w.later(1).level(0.01, 0.0).decide().proposals == ()  # looked at once a day
    made = w.later(23).level(0.01, 0.0).decide().proposals
    assert [(p.current, p.proposed, p.citation) for p in made] == [("P3M", "P4M", "IMC 10-223(4)(c)")]
    assert [c["days"] for c in made[0].evidence["cycles"]] == [59.0, 61.0, 61.0]
    assert "3 complete cycles support a longer interval: 4 months instead of 3 months" in made[0].reason
    w.later(24).level(0.02, 0.0)
    assert w.decide().proposals == ()  # proposed once


def test_a_denied_proposal_may_come_again_with_new_evidence_only(world: Make) -> None:
    w = world(last_pump_out=None).at("2026-09-01T00:00:00-07:00").level(0.01, 0.0)
    _cycles(w, 0.10, (1, 3, 5, 7))
    w.decide()
    denied = FrequencyDecision(
        "fd-1", "gi1", "denied", None, None, w.now_us + 1, "manager", "not in compliance"
    )
    w.later(24).level(0.02, 0.0).change(decisions=(denied,))
    assert w.decide().proposals == ()
    w.at("2026-09-10T00:00:00-07:00").level(0.01, 0.0)
    _cycles(w, 0.10, (9,))
    assert len(w.decide().proposals) == 1


def test_a_layer_that_was_not_seen_makes_no_evidence(world: Make) -> None:
    w = world(last_pump_out=None).at("2026-09-01T00:00:00-07:00").level(0.01, 0.0)
    for month in (1, 3, 5, 7):
        unseen = ({"compartment": 1, "fog_m": None, "solids_m": 0.1},)
        w.seen(f"2026-{month:02d}-01T09:00:00-07:00", before=unseen)
    assert w.decide().proposals == ()


def test_days_to_the_limit_leave_a_tenth_of_chance() -> None:
    steady = [Cycle("a", 0, 50 * DAY_US, 0.105, 0.005)] * 3
    # 0.1 in 50 days, no spread: (0.25 - 0.005) / 0.002 = 122.5 days
    assert days_to_limit(steady, 0.25, 0.10) == pytest.approx(122.5)
    uneven = [Cycle("a", 0, 50 * DAY_US, 0.005 + 50 * r, 0.005) for r in (0.001, 0.002, 0.004)]
    # log rates have mean ln 0.002 and sd ln 2; t(2 df, 0.9) = 1.8856; times sqrt(4/3): a factor 4.523
    assert days_to_limit(uneven, 0.25, 0.10) == pytest.approx(122.5 / 4.523, rel=1e-3)


@pytest.mark.parametrize(
    ("days", "rhythm"),
    [(3.0, "P1W"), (21.0, "P3W"), (31.0, "P1M"), (61.9, "P6W"), (62.0, "P2M"), (93.0, "P3M"), (900.0, "P6M")],
)
def test_intervals_are_rounded_down_to_a_workable_rhythm(days: float, rhythm: str) -> None:
    assert workable(days, "P6M") == rhythm


@pytest.mark.parametrize(
    ("frequency", "shorter"),
    [("P3M", "P10W"), ("P6M", "P5M"), ("P30D", "P3W"), ("P1W", None), ("P5D", None)],
)
def test_the_next_shorter_rhythm(frequency: str, shorter: str | None) -> None:
    assert next_shorter(frequency) == shorter


def test_traps_have_no_frequency_to_propose(world: Make) -> None:
    w = world(kind="trap", last_pump_out=None).sample(0.5, 0.3)
    assert w.decide().proposals == ()
