"""The benchmarks of estimate and replay run to their end and answer their fields; how fast is no test's business."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.fold import initial_state
from api import bench_peers
from api.bench_fleet import bench_fleet, rounds
from api.bench_fold import fold_rounds, timed
from api.cli import app


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def test_fold_measures_itself_beside_peers_and_a_copy() -> None:
    found = run("fold", "--interceptors", "30", "--readings", "12", "--repeats", "2", "--json")
    assert (found["interceptors"], found["readings"], found["repeats"]) == (30, 12, 2)
    filter_, live, whole = (
        found["figures"][name]
        for name in ("filter step alone", "fold, a reading of each at a time", "fold, a history at once")
    )
    assert (filter_["goal_per_s"], live["goal_per_s"], whole["goal_per_s"]) == (5e6, 1.5e6, 1.5e6)
    for one in (filter_, live, whole):
        assert one["unit"] == "readings"
        assert len(one["per_s"]) == 2
        assert min(one["per_s"]) <= one["median_per_s"] <= max(one["per_s"])
        assert one["by_copy"] > 0
    assert filter_["peers"].keys() == {"filterpy"}
    # 20 of 30 devices through filterpy and all 30 through pandas, 12 readings each
    assert live["peers"]["filterpy"]["note"] == "a filter object a device and layer; 240 readings measured"
    assert live["peers"]["pandas"]["note"] == "groupby-apply over 12 readings a device; 360 readings measured"
    assert live["peers"]["pandas"]["ratio"] == live["median_per_s"] / live["peers"]["pandas"]["per_s"]


def test_a_missing_peer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_peers, "_module", lambda name: None)
    found = run("fold", "--interceptors", "5", "--readings", "2", "--repeats", "1", "--json")
    peers = found["figures"]["fold, a reading of each at a time"]["peers"]
    for name in ("filterpy", "pandas"):
        assert peers[name] == {
            "per_s": None,
            "ratio": None,
            "note": "not installed: pip install 'quarterline[dev]'",
        }
    told = CliRunner().invoke(
        app, ["bench", "fold", "--interceptors", "5", "--readings", "2", "--repeats", "1"]
    )
    assert "pandas: not installed" in told.stdout


def test_curves_go_up_to_the_size_asked_for() -> None:
    found = run("fold", "--curves", "--interceptors", "1000", "--repeats", "1")
    assert found["us_per_reading_by_fleet"].keys() == {"1000"}
    assert list(found["us_per_reading_by_history"]) == ["x1", "x2", "x4", "x8", "x16"]
    found = run("assess", "--curves", "--interceptors", "1000", "--repeats", "1")
    assert found["us_per_interceptor_by_fleet"].keys() == {"1000"}


def test_assess_tells_time_memory_and_quantiles() -> None:
    # more than the thousand whose models are written out
    found = run("assess", "--interceptors", "1500", "--readings", "2", "--repeats", "1", "--json")
    assert (found["interceptors"], found["readings"]) == (1500, 2)
    judged = found["figures"]["stepped and judged"]
    assert judged["goal_per_s"] == 1e6
    assert found["million_s"] == 1e6 / judged["median_per_s"]
    assert found["figures"]["crossing quantiles"]["goal_per_s"] == 1e5
    assert found["state_bytes_per_interceptor"] > 100
    assert found["peak_resident_mb"] is None or found["peak_resident_mb"] > 10


def test_replay_sends_every_message_through_the_command_itself() -> None:
    found = run("replay", "--interceptors", "7", "--readings", "3", "--repeats", "1", "--json")
    assert (found["interceptors"], found["readings"]) == (7, 3)
    replayed = found["figures"]["replay"]
    assert (replayed["unit"], replayed["goal_per_s"]) == ("messages", 4e4)
    assert replayed["peers"]["parse only"]["per_s"] > 0


def test_every_repeat_folds_the_same_readings_into_the_same_state() -> None:
    fleet, batches = bench_fleet(20), rounds(20, 3)
    state = fold_rounds(fleet, initial_state(fleet), batches[:1])
    assert len(timed(fleet, state, batches[1:], 3)) == 3
    assert (
        state.interceptor.newest_s.tolist() == batches[0].time_s.tolist()
    )  # what is used up is a copy each time


def test_a_repeated_fleet_has_every_array_in_its_full_size() -> None:
    fleet = bench_fleet(1003)
    arrays = {f.name: getattr(fleet, f.name) for f in dataclasses.fields(fleet)}
    sizes = {name: len(array) for name, array in arrays.items() if isinstance(array, np.ndarray)}
    assert set(sizes.values()) == {1003}
    assert fleet.tracks_of[1002].tolist() == fleet.sensors_of[1002].tolist() == [1002]
    assert fleet.last_pump_out_s[1002] == fleet.last_pump_out_s[2]
