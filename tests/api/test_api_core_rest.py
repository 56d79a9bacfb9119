"""What is passed over between two hourly looks would have changed nothing: a season decided both ways."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from api.core import Core
from api.recording import merged, read_events, read_messages
from api.replay import Replay
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet, read_fleet
from simulators.recorded import Files, simulate
from simulators.scenario import Scenario
from store import open_store


def replayed(files: Files, folder: Path) -> list[dict[str, Any]]:
    rules = load_rules(Settings())
    store = open_store(folder, durable=False)
    put_fleet(store, read_fleet(files.fleet, rules, store))
    out = io.BytesIO()
    with files.messages.open("rb") as messages, files.events.open("rb") as events:
        known = read_events(events, "events")
        Replay(store, rules, out).run(merged(read_messages(messages, "messages"), known))
    store.close()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def by_readings(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but what follows from the forecast, which is asked for hourly only."""
    forecast = {one["interceptor"] for one in lines if one["type"] == "order" and one["reason"] == "forecast"}
    return [
        one
        for one in lines
        if one.get("kind") != "approaching_limit"
        and not (one["type"] == "order" and one["interceptor"] in forecast)
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_passing_over_what_rests_changes_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = simulate(Scenario(seed=5, count=4, days=40), tmp_path / "city")
    quick = replayed(files, tmp_path / "quick")

    def everybody(self: Core, due: Sequence[str], surely: set[str], instant_us: int) -> list[str]:
        return list(due)

    monkeypatch.setattr(Core, "_loud", everybody)
    whole = replayed(files, tmp_path / "whole")
    assert by_readings(quick) == by_readings(whole)
    kinds = {one["kind"] for one in by_readings(whole) if one["type"] == "alert"}
    assert {"over_limit", "hot_discharge"} <= kinds
    assert [one for one in by_readings(whole) if one["type"] == "order"]
