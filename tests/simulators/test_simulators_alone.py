"""Each fault switched on alone: the truth tells its interval, and nobody else's bytes change."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from simulators.faults import USUAL, FaultKind, FaultPlan
from simulators.recorded import Files, simulate
from simulators.scenario import Habits, Scenario
from simulators.sensor import Principle

QUIET = Habits(levels=(0.9, 0.9), longest_days=1000.0, cores_a_month=3.0)
PAPERS = Habits(levels=(0.02, 0.05), longest_days=1000.0, paper=1.0)
OF_PAPER = {FaultKind.FALSE_MANIFEST, FaultKind.MISSING_MANIFEST}
Told = dict[str, dict[str, list[str]]]


def told(files: Files) -> Told:
    """Lines of every file by interceptor."""
    sensors = {one["id"]: one["interceptor"] for one in tomllib.loads(files.fleet.read_text())["sensors"]}
    found: Told = {"messages": defaultdict(list), "events": defaultdict(list), "truth": defaultdict(list)}
    for line in files.messages.read_text().splitlines():
        found["messages"][sensors[json.loads(line)["topic"].split("/")[2]]].append(line)
    for name in ("events", "truth"):
        for line in getattr(files, name).read_text().splitlines():
            found[name][json.loads(line)["interceptor"]].append(line)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[FaultKind | None], Told]:
    done: dict[tuple[FaultKind | None, Habits], Told] = {}

    def simulated(kind: FaultKind | None, habits: Habits = QUIET) -> Told:
        if (kind, habits) not in done:
            faults = {} if kind is None else {kind: FaultPlan(0.5, 180.0, (0.5, 2.0), USUAL[kind].size)}
            scenario = Scenario(
                seed=3,
                days=5,
                count=13,
                habits=habits,
                principles=dict.fromkeys(Principle, 1.0),
                faults=faults,
            )
            folder: Path = tmp_path_factory.mktemp("alone")
            done[kind, habits] = told(simulate(scenario, folder))
        return done[kind, habits]

    return simulated


def alone(run: Callable[..., Told], kind: FaultKind) -> None:
    habits = PAPERS if kind in OF_PAPER else QUIET
    clean, struck = run(None, habits), run(kind, habits)
    faults = [
        json.loads(line) for lines in struck["truth"].values() for line in lines if '"type":"fault"' in line
    ]
    victims = {fault["interceptor"] for fault in faults}
    assert victims
    assert {fault["kind"] for fault in faults} == {str(kind)}
    for fault in faults:
        start, end = (datetime.fromisoformat(fault[name]) for name in ("start", "end"))
        assert fault["at"] == fault["start"]
        assert 0.49 * 86400 < (end - start).total_seconds() <= 2 * 86400 + 1
    changed = set()
    for name in ("messages", "events", "truth"):
        mine = {who for who in clean["truth"] if clean[name][who] != struck[name][who]}
        assert mine <= victims, name
        changed |= mine if name != "truth" else set()
    assert changed  # a fault without an effect would be none


def test_a_closure_changes_no_byte_of_other_interceptors(run: Callable[..., Told]) -> None:
    alone(run, FaultKind.CLOSURE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.CLOSURE])
def test_every_fault_changes_no_byte_of_other_interceptors(run: Callable[..., Told], kind: FaultKind) -> None:
    alone(run, kind)


@pytest.mark.slow
def test_a_missing_manifest_leaves_the_service_and_takes_the_paper(run: Callable[..., Told]) -> None:
    clean, struck = run(None, PAPERS), run(FaultKind.MISSING_MANIFEST, PAPERS)
    kept = sum('"manifest"' in line for lines in struck["events"].values() for line in lines)
    before = sum('"manifest"' in line for lines in clean["events"].values() for line in lines)
    assert 0 < kept < before
    for who in clean["truth"]:
        services = [line for line in clean["truth"][who] if '"pump_out"' in line]
        assert [line for line in struck["truth"][who] if '"pump_out"' in line] == services
