"""People: what they write of a pump-out, true, false or not at all, and how well they read a stick."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulators.city import City
from simulators.faults import FaultKind, FaultPlan
from simulators.people import STICK_FOG_M, STICK_SOLIDS_M, Crew, Habits
from simulators.recorded import simulate
from simulators.scenario import Scenario
from simulators.truth import seconds

HOUR = 3600.0
BUSY = Habits(levels=(0.02, 0.06), paper=1.0, partial=0.4, cores_a_month=0.0)


def events(scenario: Scenario, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events and truth."""
    files = simulate(scenario, folder)
    return tuple(  # type: ignore[return-value]
        [json.loads(line) for line in path.read_text().splitlines()] for path in (files.events, files.truth)
    )


def test_true_papers_tell_of_a_pump_out_hours_after_it(tmp_path: Path) -> None:
    told, truth = events(Scenario(seed=6, days=9, count=6, habits=BUSY), tmp_path)
    services = {(line["interceptor"], line["start"]): line for line in truth if line["type"] == "pump_out"}
    papers = [line for line in told if line["type"] == "manifest"]
    assert len(papers) >= 5
    assert len({paper["number"] for paper in papers}) == len(papers)
    for paper in papers:
        service = services[paper["interceptor"], paper["pumped_at"]]
        late = seconds(paper["at"]) - seconds(service["end"])
        assert 0.5 * HOUR <= late <= 30 * HOUR
        assert paper["fog_mm"] == pytest.approx(service["before"][0]["fog_mm"], abs=5 * 12.0)
        assert paper["complete"] == service["complete"]


def test_a_false_paper_tells_of_a_complete_pump_out_that_never_was(tmp_path: Path) -> None:
    lies = FaultPlan(share=1.0, times_a_year=120.0, days=(1.0, 1.0))
    nobody = Habits(levels=(0.9, 0.9), longest_days=1000.0, cores_a_month=0.0)
    scenario = Scenario(seed=6, days=9, count=6, habits=nobody, faults={FaultKind.FALSE_MANIFEST: lies})
    told, truth = events(scenario, tmp_path)
    assert not [line for line in truth if line["type"] == "pump_out"]
    faults = {(line["interceptor"], line["start"]) for line in truth if line["type"] == "fault"}
    assert len(told) > 8
    for paper in told:
        assert paper["type"] == "manifest"
        assert (paper["interceptor"], paper["pumped_at"]) in faults
        assert paper["complete"] is True
        assert 1.5 * HOUR <= seconds(paper["at"]) - seconds(paper["pumped_at"]) <= 31 * HOUR
        assert paper["volume_l"] > 600


def test_cores_miss_the_truth_by_a_stick_s_error(small_city: Callable[..., City]) -> None:
    """12 mm in grease and 16 mm in solids, standard deviation, to whole millimetres and never below zero."""
    city = small_city(seed=5, count=40)
    crew = Crew(city, Habits(levels=(0.9, 0.9), cores_a_month=30.0), np.random.default_rng(1))
    for _ in range(15):
        crew.plan_day(city.now_s, np.zeros(40))
    samples = crew.events_until(city.now_s + 86400.0)
    assert len(samples) == 15 * 40
    layers = city.layers()
    for field, depth, sd in (
        ("fog_mm", layers.fog, STICK_FOG_M),
        ("solids_mm", layers.solids, STICK_SOLIDS_M),
    ):
        true = {plan.id: 1e3 * depth[row, 0] for row, plan in enumerate(city.plan.interceptors)}
        off = [one[field] - true[one["interceptor"]] for one in samples if true[one["interceptor"]] > 80.0]
        assert len(off) > 100
        assert np.std(off) == pytest.approx(1e3 * sd, rel=0.12)
        assert abs(np.mean(off)) < 4 * 1e3 * sd / len(off) ** 0.5
        assert min(one[field] for one in samples) >= 0


def test_an_interceptor_is_served_once_it_is_full_enough_or_old_enough(
    small_city: Callable[..., City],
) -> None:
    city = small_city(seed=5, count=4)
    crew = Crew(city, Habits(levels=(0.2, 0.2), longest_days=4.0), np.random.default_rng(1))
    crew.plan_day(city.now_s, np.array([0.1, 0.21, 0.19, 0.5]))
    crew.plan_day(city.now_s, np.array([0.1, 0.21, 0.19, 0.5]))  # asked for already
    done = [job for _ in range(96) for job in city.step().done]
    assert sorted(job.interceptor for job in done) == [1, 3]
    crew.services_done(done)
    while city.now_s <= city.start_s + 4.5 * 86400.0:
        city.step()
    crew.plan_day(city.now_s, np.zeros(4))
    assert sorted(job.interceptor for _ in range(96) for job in city.step().done) == [0, 2]
