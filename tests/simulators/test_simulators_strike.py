"""Which faults strike which interceptor, and how the truth tells them."""

from __future__ import annotations

import numpy as np
import pytest

from simulators.faults import Fault, FaultKind, FaultPlan
from simulators.plan import CityPlan, draw_plan
from simulators.sensor import Principle
from simulators.strike import can_have, fault_lines, strike

START_S = 1_788_246_000.0
OFTEN = FaultPlan(share=1.0, times_a_year=24.0)


@pytest.fixture(scope="module")
def plan() -> CityPlan:
    return draw_plan(np.random.default_rng(1), 26, START_S, dict.fromkeys(Principle, 1.0))


def test_only_devices_that_can_have_a_fault_have_it(plan: CityPlan) -> None:
    kinds = (FaultKind.DEAD_ELECTRODE, FaultKind.FALSE_ECHO, FaultKind.FOAM, FaultKind.CLOSURE)
    found = strike(plan, dict.fromkeys(kinds, OFTEN), START_S, 365.0, 4)
    principles = {sensor.interceptor: str(sensor.principle) for sensor in plan.sensors}
    struck = {
        kind: {principles[one.interceptor] for one in found.faults if one.kind is kind} for kind in kinds
    }
    assert struck[FaultKind.DEAD_ELECTRODE] == {"rod", "capacitance", "thermistor"}
    assert struck[FaultKind.FALSE_ECHO] == {
        "interfaces", "depths", "echo", "sonar_up", "sonar_down", "air_gap", "optical", "radar",
    }  # fmt: skip
    assert {"pressure", "sonar_up", "sonar_down"}.isdisjoint(struck[FaultKind.FOAM])
    assert struck[FaultKind.CLOSURE] == set(principles.values())


def test_an_interceptor_without_a_sensor_has_people_only() -> None:
    assert can_have(FaultKind.SKIM, None)
    assert not can_have(FaultKind.DRIFT, None)
    assert not can_have(FaultKind.SILENCE, None)


def test_a_line_of_truth_names_kind_place_interval_and_size(plan: CityPlan) -> None:
    fault = Fault(FaultKind.DRIFT, 2, START_S + 60.0, START_S + 86460.0, 0.0123456789)
    assert fault_lines(plan, (fault,)) == [
        {
            "at": "2026-09-01T07:01:00.000Z",
            "type": "fault",
            "kind": "drift",
            "interceptor": plan.interceptors[2].id,
            "sensor": "gi-1003",
            "start": "2026-09-01T07:01:00.000Z",
            "end": "2026-09-02T07:01:00.000Z",
            "size": 0.012346,
        }
    ]


def test_kitchens_follow_their_weights() -> None:
    plan = draw_plan(np.random.default_rng(1), 80, START_S, None, {"bakery": 3.0, "cafe": 1.0})
    kinds = [site.kitchen for site in plan.sites]
    assert set(kinds) == {"bakery", "cafe"}
    assert kinds.count("bakery") / len(kinds) == pytest.approx(0.75, abs=0.12)
