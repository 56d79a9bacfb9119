"""Each fault of a device, alone: whom it strikes, when, by how much, and that it strikes nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest

from simulators.devices import Devices
from simulators.faults import Fault, FaultKind, Schedule
from simulators.interceptor import Depths
from simulators.plan import draw_plan
from simulators.probe import Probes, Pulse
from simulators.sensor import Principle
from simulators.trouble import OF_DEVICES, outdoors_c

START_S = 1_788_246_000.0  # 2026-09-01 07:00 UTC
COUNT, STRUCK = 4, 2
DAY_S = 86400.0
STEPS = 130
Body = dict[str, Any]
Told = dict[str, list[Body]]  # messages by topic


@cache
def speak(principle: Principle, *faults: Fault, seed: int = 4, steps: int = STEPS) -> Told:
    """What four devices of one principle say of layers that do not move, 100 mm of grease and 120 of solids."""
    plan = draw_plan(np.random.default_rng(1), COUNT, START_S, {principle: 1.0})
    schedule = Schedule(faults, COUNT) if faults else None
    devices = Devices(plan, np.random.default_rng(np.random.SeedSequence(seed)), schedule)
    level = np.array([item.base_depth_mm for item in plan.interceptors]) / 1e3
    flat, two = np.ones(COUNT), np.ones((COUNT, 2))
    layers = Depths(0.10 * two, 0.12 * two, level, 0.0 * flat, 27.0 * flat, 0.25 * two)
    calm = Pulse(31.0 * flat, 31.0 * flat, 0.0 * flat, 0.0 * flat)
    told: Told = {f"quarterline/v1/{sensor.id}/readings": [] for sensor in plan.sensors}
    for step in range(steps):
        spoken = devices.speak(START_S + 900.0 * step, layers, layers, calm, set(), step / 96)
        for topic, payload in zip(spoken.topics, spoken.payloads, strict=True):
            told[topic].append(json.loads(payload))
    return told


def fault(kind: FaultKind, size: float, age_days: float = 0.0, first: int = 0, last: int = STEPS) -> Fault:
    """One fault of the third interceptor, in force in steps ``first`` … ``last``, begun some days before."""
    start = START_S + first * 900.0 - age_days * DAY_S
    return Fault(kind, STRUCK, start, START_S + last * 900.0, size)


def pair(principle: Principle, one: Fault) -> tuple[list[Body], list[Body]]:
    """Messages of the struck device without and with the fault; nobody else's may change."""
    plain, struck = speak(principle), speak(principle, one)
    topics = list(plain)
    for number, topic in enumerate(topics):
        if number != STRUCK:
            assert plain[topic] == struck[topic]
    assert plain[topics[STRUCK]] != struck[topics[STRUCK]]
    return plain[topics[STRUCK]], struck[topics[STRUCK]]


def change(bodies: tuple[list[Body], list[Body]], name: str) -> np.ndarray:
    """How much the fault changes a field, message by message."""
    plain, struck = bodies
    return np.array([after[name] - before[name] for before, after in zip(plain, struck, strict=True)])


def same_but(bodies: tuple[list[Body], list[Body]], *names: str) -> bool:
    """Whether nothing but these fields differs."""
    kept = [[{k: v for k, v in body.items() if k not in names} for body in side] for side in bodies]
    return kept[0] == kept[1]


def test_without_faults_an_empty_schedule_gives_the_same_bytes() -> None:
    elsewhere = Fault(FaultKind.DRIFT, 0, START_S + 400 * DAY_S, START_S + 500 * DAY_S, 0.05)
    closed = Fault(FaultKind.CLOSURE, 0, START_S, START_S + DAY_S, 1.0)
    plain = speak(Principle.ECHO, steps=30)
    assert plain == speak(Principle.ECHO, elsewhere, steps=30) == speak(Principle.ECHO, closed, steps=30)


@pytest.mark.parametrize("kind", [FaultKind.FOAM, FaultKind.MOVED, FaultKind.FALSE_ECHO, FaultKind.STUCK])
def test_a_fault_acts_from_its_start_until_its_end(kind: FaultKind) -> None:
    plain, struck = pair(Principle.OPTICAL, fault(kind, 0.1, first=50, last=120))
    differs = [before != after for before, after in zip(plain, struck, strict=True)]
    assert differs[:50] == [False] * 50
    assert differs[120:] == [False] * (STEPS - 120)
    assert sum(differs[50:120]) > 15


# ---- the values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principle", "field", "shift"),
    [
        (Principle.AIR_GAP, "distance_cm", -5.0),
        (Principle.OPTICAL, "distance_mm", -50.0),
        (Principle.ECHO, "distance_mm", -50.0),
        (Principle.INTERFACES, "surface_mm", 50.0),
        (Principle.DEPTHS, "fog_depth_in", 50.0 / 25.4),
        (Principle.PRESSURE_SURFACE, "surface_cm", 5.0),
        (Principle.RADAR, "surface_m", 0.015),
    ],
)
def test_foam_is_taken_for_the_surface(principle: Principle, field: str, shift: float) -> None:
    """50 mm of foam on average; a radar sees through most of it."""
    bodies = pair(principle, fault(FaultKind.FOAM, 0.05))
    assert change(bodies, field).mean() == pytest.approx(shift, rel=0.06)
    untouched = {"fog_bottom_mm", "solids_top_mm", "echo_fog_us", "pressure_mbar", "fog_bottom_m"}
    for name in untouched & bodies[0][0].keys():
        assert change(bodies, name).tolist() == [0.0] * STEPS


@pytest.mark.parametrize(
    ("principle", "shifts"),
    [
        (Principle.INTERFACES, {"surface_mm": 40.0, "fog_bottom_mm": 40.0, "solids_top_mm": 40.0}),
        (Principle.RADAR, {"surface_m": 0.04, "fog_bottom_m": 0.04}),
        (Principle.AIR_GAP, {"distance_cm": -4.0}),
        (Principle.ECHO, {"distance_mm": -40.0, "echo_fog_us": 0.0}),
        (Principle.DEPTHS, {"surface_in": 40.0 / 25.4, "fog_depth_in": 0.0}),
        (Principle.PRESSURE, {"pressure_mbar": 3.91}),  # 996.5 kg/m³ · 9.80665 m/s² · 0.04 m
    ],
)
def test_a_slipped_mount_shifts_all_heights_alike(principle: Principle, shifts: dict[str, float]) -> None:
    bodies = pair(principle, fault(FaultKind.MOVED, 0.04))
    for name, shift in shifts.items():
        assert change(bodies, name).mean() == pytest.approx(shift, rel=0.02, abs=1e-6), name


@pytest.mark.parametrize(
    ("principle", "field", "shift"),
    [
        (Principle.INTERFACES, "fog_bottom_mm", -30.0),
        (Principle.DEPTHS, "fog_depth_in", 30.0 / 25.4),
        (Principle.AIR_GAP, "distance_cm", -3.0),
        (Principle.PRESSURE, "pressure_mbar", 2.94),  # 1000 kg/m³ · 9.80665 m/s² · 0.030 m
        (Principle.ECHO, "echo_fog_us", 2e6 * 0.030 / 1426.0),  # oil at 27 °C
        (Principle.SONAR_DOWN, "echo_solids_us", -2e6 * 0.030 / 1502.0),  # water at 27 °C
    ],
)
def test_drift_goes_on_by_its_size_a_month(principle: Principle, field: str, shift: float) -> None:
    """60 mm in 30 days; the middle of what is watched is its 15th day: 30 mm."""
    told = pair(principle, fault(FaultKind.DRIFT, 0.06, age_days=15.0 - STEPS / 192))
    plain, struck = ([body for body in side if body[field] is not None] for side in told)
    moved = change((plain, struck), field)
    assert moved.mean() == pytest.approx(shift, rel=0.02)
    assert abs(moved[-20:].mean()) > abs(moved[:20].mean())


def test_a_film_pulls_towards_grease_and_grows() -> None:
    """0.5 · (1 - 1/e) after 10 days, of 60 mm: the lower face seems 19.0 mm lower; before, less."""
    old = change(pair(Principle.INTERFACES, fault(FaultKind.COATING, 0.5, age_days=10.0)), "fog_bottom_mm")
    young = change(pair(Principle.INTERFACES, fault(FaultKind.COATING, 0.5, age_days=1.0)), "fog_bottom_mm")
    assert old[:10].mean() == pytest.approx(-18.96, abs=1.0)
    assert young[:10].mean() == pytest.approx(-2.85, abs=1.0)
    level = change(pair(Principle.AIR_GAP, fault(FaultKind.COATING, 0.5, age_days=10.0)), "distance_cm")
    assert level[:10].mean() == pytest.approx(-1.9, abs=0.15)


def test_a_film_on_a_rod_fades_away_from_the_grease() -> None:
    plain, struck = pair(Principle.ROD, fault(FaultKind.COATING, 0.7, age_days=40.0))
    before, after = (np.array([body["profile"] for body in side]).mean(axis=0) for side in (plain, struck))
    pulled = before - after
    wet = np.flatnonzero(before > 0.9)
    assert pulled[wet[-1]] > 0.3  # just below the grease: towards 0.25
    assert pulled[wet[-3]] == pytest.approx(0.5 * pulled[wet[-2]], abs=0.15)
    assert pulled[wet[0]] < 0.01
    in_grease = int(np.abs(before - 0.25).argmin())
    assert after[in_grease] == pytest.approx(before[in_grease], abs=0.02)


def test_a_coated_window_swallows_the_beam_at_times() -> None:
    """0.7 · (1 - e^-4) = 0.69 of the readings are lost."""
    told = speak(Principle.OPTICAL, fault(FaultKind.COATING, 0.7, age_days=40.0))
    struck = list(told.values())[STRUCK]
    assert np.mean([body["distance_mm"] is None for body in struck]) == pytest.approx(0.69, abs=0.1)


def test_a_coated_inlet_probe_is_slower() -> None:
    hot = Pulse(np.array([30.0]), np.array([80.0]), np.array([100.0]), np.array([120.0]))
    clean, coated = Probes(np.array([20.0])), Probes(np.array([20.0]))
    coated.slow(2.0)
    for probes in (clean, coated):
        probes.now_c[:] = 30.0
    peaks = [float(probes.advance(hot, np.array([899.0]))[1][0]) for probes in (clean, coated)]
    assert peaks == pytest.approx([61.6, 49.7], abs=0.1)  # 30 + 50 · (1 - e^-1), 30 + 50 · (1 - e^-½)


def test_a_false_echo_gives_one_wrong_distance_now_and_then() -> None:
    """30 % of readings say 0.25 m of blanking and 0.2 m."""
    plain, struck = pair(Principle.OPTICAL, fault(FaultKind.FALSE_ECHO, 0.2))
    wrong = [body["distance_mm"] for body, good in zip(struck, plain, strict=True) if body != good]
    assert set(wrong) == {450.0}
    assert len(wrong) / STEPS == pytest.approx(0.3, abs=0.1)
    sonar = pair(Principle.ECHO, fault(FaultKind.FALSE_ECHO, 0.2))[1]
    assert sum(body["echo_solids_us"] == pytest.approx(2e5 * 2 / 1502.2, abs=0.2) for body in sonar) > 20


def test_dead_electrodes_say_nothing_or_zero() -> None:
    plain, struck = pair(Principle.ROD, fault(FaultKind.DEAD_ELECTRODE, 2.0))
    assert all(body["profile"][3] is None and body["profile"][10] == 0.0 for body in struck)
    for body, good in zip(struck, plain, strict=True):
        others = [k for k in range(len(good["profile"])) if k not in (3, 10)]
        assert [body["profile"][k] for k in others] == [good["profile"][k] for k in others]


def test_a_stuck_device_repeats_its_levels_while_time_and_temperatures_go_on() -> None:
    bodies = pair(Principle.ROD, fault(FaultKind.STUCK, 1.0, first=20, last=80))
    plain, struck = bodies
    assert all(body["profile"] == plain[19]["profile"] for body in struck[20:80])
    assert same_but(bodies, "profile")
    assert struck[80:] == plain[80:]
    gap = pair(Principle.AIR_GAP, fault(FaultKind.STUCK, 1.0))
    assert same_but(gap, "distance_cm")


def test_spikes_are_single_and_go_both_ways() -> None:
    bodies = pair(Principle.INTERFACES, fault(FaultKind.SPIKES, 0.09))
    moved = change(bodies, "fog_bottom_mm")
    assert {-90.0, 90.0} <= {round(one / 5) * 5.0 for one in moved} <= {-90.0, 90.0, 0.0}
    assert (np.abs(moved) > 1).mean() == pytest.approx(0.04, abs=0.04)
    assert same_but(bodies, "fog_bottom_mm")
    profiles = zip(*pair(Principle.ROD, fault(FaultKind.SPIKES, 0.3)), strict=True)
    counts = [
        sum(x != y for x, y in zip(before["profile"], after["profile"], strict=True))
        for before, after in profiles
    ]
    assert set(counts) == {0, 1}


# ---- the device ---------------------------------------------------------------------------------------


def test_under_an_open_cover_temperatures_follow_the_air_and_levels_mean_nothing() -> None:
    bodies = pair(Principle.INTERFACES, fault(FaultKind.COVER_OPEN, 1.0))
    plain, struck = bodies
    outside = np.array([outdoors_c(START_S + 900.0 * step) for step in range(STEPS)])
    inlet = np.array([body["inlet_c"] for body in struck])
    assert inlet == pytest.approx(outside, abs=0.3)
    tank = np.array([body["tank_c"] for body in struck])
    assert np.corrcoef(tank[20:], outside[20:])[0, 1] > 0.95  # behind its own lag
    spread = [np.std([body["surface_mm"] for body in side]) for side in (plain, struck)]
    assert spread[0] < 5.0 < 100.0 < spread[1]
    assert {body["inlet_over_s"] for body in struck} == {0.0}


def test_the_air_outdoors_has_its_day_and_its_year() -> None:
    noon = datetime(2026, 8, 6, 22, tzinfo=UTC).timestamp()
    assert outdoors_c(noon) == pytest.approx(28.5, abs=0.1)
    assert outdoors_c(noon - 12 * 3600) == pytest.approx(16.5, abs=0.1)
    assert outdoors_c(noon + 183 * DAY_S) == pytest.approx(19.5, abs=0.1)  # 18.0 - 4.5 + 6.0


def test_a_failing_battery_loses_volts_and_then_messages() -> None:
    """0.9 V lost in the end: 3.62 - 0.9 = 2.72 V; (3.2 - 2.72) / 0.8 = 0.6 of the messages fail."""
    one = fault(FaultKind.LOW_BATTERY, 0.9, age_days=60.0)
    plain, struck = speak(Principle.ROD), speak(Principle.ROD, one)
    mine = list(plain)[STRUCK]
    assert all(plain[topic] == struck[topic] for topic in plain if topic != mine)
    before = {body["seq"]: body for body in plain[mine]}
    assert 1 - len(struck[mine]) / STEPS == pytest.approx(0.6, abs=0.13)
    for body in struck[mine]:
        good = before[body["seq"]]
        assert body["battery_v"] == pytest.approx(good["battery_v"] - 0.9, abs=0.002)
        assert {**body, "battery_v": 0} == {**good, "battery_v": 0}


def test_a_reset_clock_starts_again_and_counts_from_the_first() -> None:
    plain, struck = pair(Principle.INTERFACES, fault(FaultKind.CLOCK_RESET, 1.0, first=40, last=90))
    assert same_but((plain, struck), "time", "seq")
    assert struck[40]["time"].startswith("1970-01-02T00:")
    assert struck[44]["time"].startswith("1970-01-02T01:")
    assert [body["seq"] for body in struck[40:]] == list(range(1, STEPS - 39))
    assert [body["time"] for body in struck[90:]] == [body["time"] for body in plain[90:]]


def test_a_clock_may_start_again_from_another_day() -> None:
    """Day 20,454 is 2026-01-01."""
    body = pair(Principle.ROD, fault(FaultKind.CLOCK_RESET, 20454.0))[1][0]
    assert body["time"].startswith("2026-01-01T00:")


# ---- all of them --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every_principle() -> Callable[[FaultKind], dict[Principle, Told]]:
    def run(kind: FaultKind) -> dict[Principle, Told]:
        size = {FaultKind.COATING: 0.7, FaultKind.DEAD_ELECTRODE: 2.0, FaultKind.CLOCK_RESET: 1.0}
        one = fault(kind, size.get(kind, 0.3), age_days=20.0)
        return {principle: speak(principle, one, steps=12) for principle in Principle}

    return run


@pytest.mark.parametrize("kind", OF_DEVICES)
def test_every_principle_goes_on_speaking_under_every_fault(
    kind: FaultKind, every_principle: Callable[[FaultKind], dict[Principle, Told]]
) -> None:
    for principle, told in every_principle(kind).items():
        for topic, bodies in told.items():
            assert kind is FaultKind.LOW_BATTERY or len(bodies) == 12, (principle, topic)
            assert all({"time", "seq", "battery_v"} <= body.keys() for body in bodies)
