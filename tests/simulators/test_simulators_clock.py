"""The accelerated clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.clock import AcceleratedClock, ClockError

TIMES = st.floats(0.0, 4e9)


def test_a_day_passes_in_four_seconds() -> None:
    real = [1_000_000.0]
    clock = AcceleratedClock(1_788_246_000.0, 1_000_000.0, 21600.0, real=lambda: real[0])
    assert clock() == 1_788_246_000.0
    assert clock.real_delay(1_788_246_000.0 + 86_400.0) == 4.0
    real[0] += 4.0
    assert clock() == 1_788_246_000.0 + 86_400.0
    assert clock.real_delay(1_788_246_000.0) == 0.0


@given(TIMES, TIMES, st.floats(1e-3, 1e6))
def test_a_child_process_gets_the_same_clock(sim: float, real: float, speed: float) -> None:
    clock = AcceleratedClock(sim, real, speed)
    assert AcceleratedClock.from_text(clock.as_text()) == clock


@pytest.mark.parametrize("text", ["", "1,2", "1,2,3,4", "a,b,c", "1,2,0", "1,2,-3", "1,2,nan"])
def test_a_text_that_is_no_clock_is_refused(text: str) -> None:
    with pytest.raises(ClockError, match=r"clock|speed"):
        AcceleratedClock.from_text(text)
