"""The schedule of faults: bounded, repeatable, and each kind independent of the others."""

from __future__ import annotations

import numpy as np

from simulators.faults import DAY_S, Fault, FaultKind, FaultPlan, Schedule, draw_faults

PLAN = FaultPlan(share=0.5, times_a_year=12.0, days=(1.0, 3.0), size=(0.02, 0.05))


def drawn(*kinds: FaultKind) -> tuple[Fault, ...]:
    return draw_faults(dict.fromkeys(kinds, PLAN), 40, 1000.0, 365.25, np.random.SeedSequence(7))


def test_faults_keep_to_their_plan() -> None:
    faults = drawn(FaultKind.DRIFT)
    assert 0.3 < len({one.interceptor for one in faults}) / 40 < 0.7
    assert 9.0 < len(faults) / len({one.interceptor for one in faults}) < 15.0
    for one in faults:
        assert 1000.0 <= one.start_s < 1000.0 + 365.25 * DAY_S
        assert 1.0 * DAY_S <= one.end_s - one.start_s <= 3.0 * DAY_S + 1e-3
        assert 0.02 <= one.size <= 0.05


def test_a_kind_is_the_same_alone_and_in_company() -> None:
    both = drawn(FaultKind.FOAM, FaultKind.DRIFT)
    assert tuple(one for one in both if one.kind is FaultKind.DRIFT) == drawn(FaultKind.DRIFT)


def test_the_schedule_tells_size_and_age_only_within_the_interval() -> None:
    schedule = Schedule((Fault(FaultKind.FOAM, 1, 100.0, 200.0, 0.03),), 3)
    assert np.isnan(schedule.sizes(FaultKind.FOAM, 99.9)).all()
    assert np.array_equal(schedule.sizes(FaultKind.FOAM, 100.0), [np.nan, 0.03, np.nan], equal_nan=True)
    assert np.array_equal(schedule.ages(FaultKind.FOAM, 150.0), [np.nan, 50.0, np.nan], equal_nan=True)
    assert np.isnan(schedule.sizes(FaultKind.FOAM, 200.0)).all()
    assert np.isnan(schedule.sizes(FaultKind.DRIFT, 150.0)).all()
