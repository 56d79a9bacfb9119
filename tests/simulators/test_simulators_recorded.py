"""A scenario written down: four files, the same bytes for the same seed, ready for replay."""

from __future__ import annotations

import json
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from simulators.people import Habits
from simulators.recorded import Files, Scenario, simulate

EVENT_KEYS = {
    "manifest": {
        "interceptor",
        "number",
        "pumped_at",
        "hauler",
        "complete",
        "volume_l",
        "fog_mm",
        "solids_mm",
    },
    "core_sample": {"interceptor", "compartment", "sampled_at", "fog_mm", "solids_mm", "by"},
}
BUSY = Habits(levels=(0.02, 0.10), partial=0.3, cores_a_month=6.0)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return simulate(Scenario(seed=2, days=6, count=8, habits=BUSY), tmp_path_factory.mktemp("a"))


def test_the_same_scenario_gives_the_same_bytes(written: Files, tmp_path: Path) -> None:
    parts: list[float] = []
    again = simulate(Scenario(seed=2, days=6, count=8, habits=BUSY), tmp_path / "new", parts.append)
    for name in ("fleet", "messages", "events", "truth"):
        assert getattr(again, name).read_bytes() == getattr(written, name).read_bytes(), name
    assert parts == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])


def test_messages_are_those_of_the_contract_in_order(written: Files) -> None:
    found = lines(written.messages)
    sensors = {sensor["id"] for sensor in tomllib.loads(written.fleet.read_text())["sensors"]}
    assert {frozenset(line) for line in found} == {frozenset({"received_at", "topic", "payload"})}
    assert {line["topic"] for line in found} == {f"quarterline/v1/{name}/readings" for name in sensors}
    received = [datetime.fromisoformat(line["received_at"]) for line in found]
    assert received == sorted(received)
    assert received[0].utcoffset() is not None
    assert 0.97 < len(found) / (8 * 6 * 96) < 1.05


def test_events_are_those_of_the_contract_in_order(written: Files) -> None:
    found = lines(written.events)
    assert {line["type"] for line in found} == {"manifest", "core_sample"}
    for line in found:
        assert line.keys() - {"at", "type"} == EVENT_KEYS[line["type"]]
    times = [datetime.fromisoformat(line["at"]) for line in found]
    assert times == sorted(times)


def test_every_manifest_has_a_true_pump_out(written: Files) -> None:
    services = {
        (line["interceptor"], line["start"]): line
        for line in lines(written.truth)
        if line["type"] == "pump_out"
    }
    papers = [line for line in lines(written.events) if line["type"] == "manifest"]
    assert len(papers) >= 4
    for paper in papers:
        true = services[paper["interceptor"], paper["pumped_at"]]
        assert paper["complete"] == true["complete"]
        assert paper["volume_l"] == pytest.approx(true["volume_l"], rel=0.15)
        assert paper["fog_mm"] == pytest.approx(true["before"][0]["fog_mm"], abs=50.0)
        assert paper["at"] > true["end"]
    assert {true["complete"] for true in services.values()} == {True, False}


def test_the_truth_has_every_local_midnight(written: Files) -> None:
    found = [line for line in lines(written.truth) if line["type"] == "depths"]
    assert len(found) == 6 * 8
    assert {line["at"][11:] for line in found} == {"07:00:00.000Z"}  # midnight in Los Angeles, summer time
    for line in found:
        first = line["compartments"][0]
        assert (first["fog_mm"], first["solids_mm"]) == (line["fog_mm"], line["solids_mm"])
        assert line["fraction"] > 0.0
