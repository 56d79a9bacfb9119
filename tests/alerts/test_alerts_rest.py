"""Properties of decisions over any history: at rest once taken, one open order, pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts.decide import decide
from alerts.orders import AnswerError
from alerts.situation import OVER

Make = Callable[..., Any]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("level"), st.floats(0.0, 0.5), st.floats(0.0, 1.0), st.floats(-5.0, 40.0)),
        st.tuples(st.just("stale"), st.floats(0.0, 0.5), st.floats(0.0, 1.0), st.floats(0.0, 60.0)),
        st.tuples(st.just("seen"), st.booleans(), st.floats(0.0, 50.0), st.none()),
        st.tuples(st.just("paper"), st.booleans(), st.floats(0.0, 90.0), st.none()),
        st.tuples(st.just("sample"), st.floats(0.0, 0.4), st.floats(0.0, 0.4), st.none()),
        st.tuples(st.just("hot"), st.booleans(), st.floats(0.0, 30.0), st.none()),
        st.tuples(
            st.just("answer"),
            st.sampled_from(["able", "valley"]),
            st.sampled_from(["accepted", "declined"]),
            st.none(),
        ),
    ),
    max_size=12,
)
GAPS = st.lists(st.sampled_from([0.0, 0.25, 1.0, 5.0, 30.0, 200.0, 900.0]), min_size=12, max_size=12)


def _apply(w: Any, number: int, step: tuple[Any, ...]) -> None:
    word, a, b, c = step

    def ago(hours: float) -> str:
        return (datetime.fromtimestamp(w.now_us / 1e6, tz=UTC) - timedelta(hours=hours)).isoformat()

    if word == "level":
        w.level(a, b, p10_days=c)
    elif word == "stale":
        w.level(a, b, age_h=c)
    elif word == "seen":
        w.seen(ago(b), complete=a)
    elif word == "paper":
        w.paper(ago(b), complete=a, number=f"M-{number}")
    elif word == "sample":
        w.sample(a, b)
    elif word == "hot":
        w.hot(ago(b), ago(0) if a else None)
    elif w.situation.order is not None:
        with suppress(AnswerError):  # refusals are fine here: they must leave everything as it was
            w.answer(a, b)


@pytest.mark.parametrize("sensored", [True, False])
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, gaps=GAPS)
def test_any_history_comes_to_rest_with_one_open_order(
    world: Make, sensored: bool, steps: list[tuple[Any, ...]], gaps: list[float]
) -> None:
    w = world(sensored=sensored)
    for number, (step, gap) in enumerate(zip(steps, gaps, strict=False)):
        w.later(gap)
        _apply(w, number, step)
        before = w.situation
        first = decide(before, w.now_us, w.policy)
        assert decide(before, w.now_us, w.policy) == first  # pure
        w.decide()  # decides again itself, and wants nothing
        open_orders = [o for o in w.situation.orders if o.state not in OVER]
        assert len(open_orders) <= 1
        slots = [(a.kind, a.basis, a.sensor, a.flag, a.evidence.get("anchor")) for a in w.situation.alerts]
        assert len(slots) == len(set(slots))
        for order in first.orders:
            if order.state == "verified":
                assert order.pump_out is not None
                assert order.manifest is not None
            if order.state == "closed":
                assert order.pump_out is not None or order.manifest is not None
        ids = [item.id for one in w.decided for item in one.outbox]
        assert len(ids) == len(set(ids))
