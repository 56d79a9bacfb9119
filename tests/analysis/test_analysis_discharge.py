"""Hot discharges: strictly above 60 °C (140 °F), a guard band of 0.6 K, hysteresis in elapsed time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from analysis.discharge import inversion_gain
from analysis.model import HotDischarge, SensorModel
from simulators.probe import relax

T0 = 1_788_246_000.0


def episodes(bench: Any) -> list[HotDischarge]:
    return [h for found in bench.found for h in found.hot_discharges]


def maxima(*values: float, inlet: float = 35.0, step: float = 900.0) -> list[Any]:
    return [(T0 + step * i, {"inlet_c": inlet, "inlet_max_c": v}) for i, v in enumerate(values)]


def test_the_limit_itself_is_not_above_it(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed(maxima(40.0, 60.0, 59.9, 40.0))
    assert episodes(b) == []


@pytest.mark.parametrize(
    ("peak", "status"), [(60.1, "possible"), (60.6, "possible"), (60.7, "confirmed"), (71.0, "confirmed")]
)
def test_the_guard_band_divides_possible_from_confirmed(
    bench: Callable[..., Any], peak: float, status: str
) -> None:
    b = bench()
    b.feed(maxima(40.0, peak, 40.0, 40.0))
    rise, end = episodes(b)
    assert rise.status == end.status == status
    assert rise.end_s is None
    assert rise.start_s == end.start_s
    assert end.peak_c == pytest.approx(peak)
    assert T0 <= end.start_s <= T0 + 900
    assert end.end_s == pytest.approx(T0 + 900)


def test_a_rising_status_is_told_again(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed(maxima(40.0, 60.3, 66.0, 40.0, 40.0))
    assert [(h.status, h.end_s is None) for h in episodes(b)] == [
        ("possible", True), ("confirmed", True), ("confirmed", False),
    ]  # fmt: skip


def test_between_135_and_140_fahrenheit_an_episode_goes_on(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed(maxima(40.0, 66.0, 58.0, 59.0, 57.5, 62.0, 40.0))
    assert len({h.start_s for h in episodes(b)}) == 1
    assert episodes(b)[-1].end_s == pytest.approx(T0 + 5 * 900)


def test_it_ends_only_after_the_off_delay(bench: Callable[..., Any]) -> None:
    b = bench()
    rows = [(T0 + 60.0 * i, {"inlet_c": v}) for i, v in enumerate([50.0, 66.0, 66.0, 50.0, 50.0, 65.0, 50.0])]
    b.feed(rows)
    assert [h.end_s for h in episodes(b)] == [None]  # two minutes of cooler water do not end it
    b.feed([(T0 + 60.0 * i, {"inlet_c": 45.0}) for i in range(7, 14)])
    assert episodes(b)[-1].end_s == pytest.approx(T0 + 300.0)


def test_the_peak_is_corrected_for_the_probes_lag_where_the_cadence_permits(
    bench: Callable[..., Any],
) -> None:
    # a probe of τ = 20 s read every 10 s: T_in = T + τ dT/dt = 58 + 20 · 0.6 = 70 °C
    rows = [(T0 + 10.0 * i, {"inlet_c": v}) for i, v in enumerate([46.0, 52.0, 58.0])]
    quick = bench([SensorModel("s", "gi", 1, interval_s=10.0, tau_s=20.0)])
    quick.feed(rows)
    assert episodes(quick)[-1].peak_c == pytest.approx(70.0)
    plain = bench([SensorModel("s", "gi", 1, interval_s=10.0)])
    plain.feed(rows)
    assert episodes(plain) == []


def test_a_slow_cadence_cannot_undo_the_lag(bench: Callable[..., Any]) -> None:
    b = bench([SensorModel("s", "gi", 1, tau_s=20.0)])
    b.feed([(T0 + 900.0 * i, {"inlet_c": v}) for i, v in enumerate([30.0, 59.0, 30.0])])
    assert episodes(b) == []


def test_seconds_above_are_the_duration(bench: Callable[..., Any]) -> None:
    b = bench()
    rows = maxima(40.0, 70.0, 40.0, 40.0)
    rows[1][1]["inlet_over_s"] = 145.0
    b.feed(rows)
    assert episodes(b)[-1].duration_s == pytest.approx(145.0)


def test_a_device_that_only_counts_seconds_makes_a_possible_one(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed(
        [(T0 + 900.0 * i, {"inlet_c": 40.0, "inlet_over_s": s}) for i, s in enumerate([0.0, 30.0, 0.0, 0.0])]
    )
    assert {h.status for h in episodes(b)} == {"possible"}


def test_a_tank_probe_never_makes_one(bench: Callable[..., Any]) -> None:
    b = bench()
    b.feed([(T0 + 900.0 * i, {"tank_c": 75.0, "air_c": 80.0}) for i in range(10)])
    assert episodes(b) == []


def test_an_episode_is_the_same_in_one_call_or_many(bench: Callable[..., Any]) -> None:
    rows = maxima(40.0, 60.3, 66.0, 40.0, 40.0, 61.0, 61.0, 40.0)
    once, many = bench(), bench()
    once.feed(rows)
    for row in rows:
        many.feed([row])
    assert episodes(once) == episodes(many)


def test_a_probe_that_is_hot_from_the_start_and_only_cools_saw_no_discharge(
    bench: Callable[..., Any],
) -> None:
    cooling = [(T0 + 60.0 * i, {"inlet_c": 68.0 - 0.5 * i}) for i in range(60)]
    b = bench()
    b.feed(cooling)
    assert episodes(b) == []
    # once it has been cool it is believed, and what the device itself counted is believed at once
    b.feed([(T0 + 7200.0, {"inlet_c": 68.0})])
    assert [one.status for one in episodes(b)] == ["confirmed"]
    b = bench()
    b.feed(maxima(68.0, 40.0))
    assert episodes(b)[0].status == "confirmed"


def celsius(fahrenheit: float) -> float:
    return (fahrenheit - 32) / 1.8


def slug_peak_c(inlet_f: float, taus: float, start_f: float = 110.0) -> float:
    """What a first-order probe of 10 s shows at most of a slug of so many time constants."""
    one = np.ones(1)
    end, _ = relax(celsius(start_f) * one, celsius(inlet_f) * one, 10.0 * one, 10.0 * taus * one)
    return float(end[0])


def test_a_slug_of_160_fahrenheit_and_one_time_constant_peaks_at_141_6() -> None:
    assert slug_peak_c(160.0, 1.0) * 1.8 + 32 == pytest.approx(141.6, abs=0.05)


@pytest.mark.parametrize(("inlet_f", "taus"), [(150.0, 1.39), (160.0, 0.92), (180.0, 0.56)])
def test_a_slug_shorter_than_physics_allows_is_not_seen(
    bench: Callable[..., Any], inlet_f: float, taus: float
) -> None:
    # d = -tau ln(1 - (140 - 110) / (T_in - 110)), by the device's own maximum
    for part, seen in ((0.97, False), (1.03, True)):
        b = bench([SensorModel("s", "gi", 1, tau_s=10.0)])
        b.feed(maxima(40.0, slug_peak_c(inlet_f, part * taus), 40.0, 40.0))
        assert bool(episodes(b)) is seen


@pytest.mark.parametrize(("step_s", "gain"), [(1.0, 14.9), (5.0, 3.6)])
def test_undoing_a_lag_of_10_s_multiplies_the_noise(step_s: float, gain: float) -> None:
    assert float(inversion_gain(np.array(10.0 / step_s))) == pytest.approx(gain, abs=0.05)


@pytest.mark.parametrize("width_s", [90.0, 450.0, 1800.0])
def test_without_maxima_a_slug_is_caught_as_often_as_it_is_wide(
    bench: Callable[..., Any], width_s: float
) -> None:
    # min(1, width / step) over all phases of a step of 900 s, with a probe much faster than that
    caught = 0
    for phase in range(0, 900, 45):
        b = bench()
        at = 1800.0 + phase
        b.feed(
            [(T0 + t, {"inlet_c": 70.0 if at <= t < at + width_s else 30.0}) for t in 900.0 * np.arange(8)]
        )
        caught += bool(episodes(b))
    assert caught / 20 == pytest.approx(min(1.0, width_s / 900.0), abs=0.051)
