"""The inlet probe's lag, against closed results and a fine numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.probe import Pipes, Probes, Pulse, relax


def fahrenheit(value: float) -> float:
    return value * 1.8 + 32.0


def celsius(value: float) -> float:
    return (value - 32.0) / 1.8


def answer(base_f: float, pulse_f: float, span_s: float, tau_s: float) -> tuple[float, float]:
    """Maximum [°F] and seconds above 140 °F that one message tells of one pulse."""
    probes = Probes(np.array([tau_s]))
    probes.now_c[:] = probes._max_c[:] = celsius(base_f)
    one = np.ones(1)
    pulse = Pulse(celsius(base_f) * one, celsius(pulse_f) * one, 100.0 * one, (100.0 + span_s) * one)
    _, highest, over = probes.advance(pulse, 899.0 * one)
    return fahrenheit(float(highest[0])), float(over[0])


def test_a_slug_of_one_time_constant() -> None:
    """160 °F for τ from 110 °F peaks at 141.6 °F: 110 + 50·(1 - 1/e)."""
    assert answer(110.0, 160.0, 20.0, 20.0)[0] == pytest.approx(141.6, abs=0.05)


@pytest.mark.parametrize(("pulse_f", "needed"), [(150.0, 1.39), (160.0, 0.92), (180.0, 0.56)])
def test_the_shortest_slug_a_probe_can_see(pulse_f: float, needed: float) -> None:
    """Unaided detection needs d > -τ·ln(1 - (140 - T₀)/(T_in - T₀)), from 110 °F."""
    assert answer(110.0, pulse_f, (needed - 0.02) * 20.0, 20.0)[1] == 0.0
    assert answer(110.0, pulse_f, (needed + 0.02) * 20.0, 20.0)[1] > 0.0


@settings(max_examples=60)
@given(
    st.floats(20.0, 58.0),
    st.floats(20.0, 85.0),
    st.floats(10.0, 600.0),
    st.floats(3.0, 40.0),
    st.floats(30.0, 870.0),
)
def test_two_messages_tell_what_a_fine_integration_finds(
    pipe: float, hot: float, span: float, tau: float, spoken: float
) -> None:
    start = 120.0
    one = np.ones(1)
    probes = Probes(np.array([tau]))
    probes.now_c[:] = probes._max_c[:] = pipe
    pulse = Pulse(pipe * one, hot * one, start * one, min(start + span, 900.0) * one)
    _, max_1, over_1 = probes.advance(pulse, spoken * one)
    _, max_2, over_2 = probes.advance(Pulse(pipe * one, pipe * one, 0 * one, 0 * one), spoken * one)
    dt, now, highest, over = 0.05, pipe, pipe, 0.0
    for step in range(int((900.0 + spoken) / dt)):
        at = step * dt
        target = hot if start <= at < min(start + span, 900.0) else pipe
        now += (target - now) * (1.0 - np.exp(-dt / tau))
        highest, over = max(highest, now), over + dt * (now > 60.0)
    assert max(float(max_1[0]), float(max_2[0])) == pytest.approx(highest, abs=0.1)
    if abs(highest - 60.0) > 0.05:
        assert float(over_1[0] + over_2[0]) == pytest.approx(over, abs=2.0)


def test_each_message_tells_its_own_span_only() -> None:
    one = np.ones(1)
    probes = Probes(np.array([10.0]))
    hot = Pulse(30.0 * one, 70.0 * one, 100.0 * one, 200.0 * one)
    calm = Pulse(30.0 * one, 30.0 * one, 0 * one, 0 * one)
    assert probes.advance(hot, 50.0 * one)[2][0] == 0.0  # not yet
    assert probes.advance(calm, 50.0 * one)[2][0] > 80.0
    assert probes.advance(calm, 50.0 * one)[2][0] == 0.0  # told already


def test_relaxing_across_sixty_degrees_is_timed_exactly() -> None:
    end, over = relax(np.array([80.0]), np.array([40.0]), np.array([10.0]), np.array([30.0]))
    assert over[0] == pytest.approx(10.0 * np.log(2.0))  # (80 - 40)/(60 - 40) = 2
    assert end[0] == pytest.approx(40.0 + 40.0 * np.exp(-3.0))


def test_an_unused_pipe_cools_to_the_room() -> None:
    pipes, one = Pipes(1), np.ones(1)
    used = pipes.advance(40.0 * one, 50.0 * one, 10.0 * one, 60.0 * one)
    assert (used.pipe_c[0], used.pulse_c[0]) == (36.0, 50.0)
    for _ in range(40):
        idle = pipes.advance(40.0 * one, np.nan * one, 0 * one, 0 * one)
    assert idle.pipe_c[0] == pytest.approx(23.0, abs=0.01)
    assert idle.start_s[0] == idle.end_s[0]
