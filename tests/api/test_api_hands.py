"""Papers and core samples reach the estimate, at their own time, once, however late and however restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.commands import Commands, event_command
from api.core import Core, Rules
from api.fleet_file import Known, parse_fleet
from api.recording import Event, instant_text
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from store import open_store
from store.ports import Store

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z, local midnight in Los Angeles
DAY = 86_400_000_000
FLEET = """
[[sites]]
id = "luigi"
name = "Luigi's"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"

[[interceptors]]
id = "luigi-gi1"
site = "luigi"
kind = "gravity"
base_depth_mm = 1200
last_pump_out = 2026-09-01
"""


@pytest.fixture
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture
def opened(tmp_path: Path, rules: Rules) -> Iterator[Callable[[str], Store]]:
    stores: list[Store] = []

    def make(name: str) -> Store:
        store = open_store(tmp_path / name, durable=False)
        put_fleet(store, parse_fleet(FLEET, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def _tell(core: Core, day: float, type_: str, **fields: Any) -> None:
    at_us = T0 + round(day * DAY)
    core.advance(at_us)
    with core.desk.transaction():
        event_command(Event(at_us, type_, {"interceptor": "luigi-gi1", **fields}, "f:1"))(
            Commands(core, at_us)
        )


def _sample(core: Core, day: float, sampled: float, fog_mm: float) -> None:
    _tell(
        core,
        day,
        "core_sample",
        sampled_at=instant_text(T0 + round(sampled * DAY)),
        fog_mm=fog_mm,
        solids_mm=40,
    )


def _assessments(store: Store) -> list[Any]:
    return [entry.body for entry in store.ledger.journal(limit=10_000, types=("assessment",))]


def test_without_a_sensor_a_core_sample_is_the_estimate(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)
    _sample(core, 20.4, 20.3, 80)
    core.advance(T0 + 40 * DAY)
    rows = _assessments(store)
    assert rows[19]["fraction"] is None
    assert rows[20]["fog_mm"] == pytest.approx(81, abs=4)
    assert rows[20]["fraction_sd"] < rows[30]["fraction_sd"] < rows[39]["fraction_sd"]
    assert rows[39]["crossing"]["p50"] is not None


def test_late_again_and_after_a_restart_it_is_the_same(opened: Callable[[str], Store], rules: Rules) -> None:
    in_order, late, restarted = opened("in-order"), opened("late"), opened("restarted")
    one = Core(in_order, rules, start_us=T0)
    _sample(one, 10.1, 10, 30)
    _sample(one, 30.1, 20, 70)
    one.advance(T0 + 40 * DAY)

    two = Core(late, rules, start_us=T0)
    _sample(two, 25.1, 20, 70)
    _sample(two, 30.1, 10, 30)  # filed after a younger one
    _sample(two, 31.1, 10, 30)  # and again
    two.advance(T0 + 40 * DAY)

    _sample(Core(restarted, rules, start_us=T0), 10.1, 10, 30)
    _sample(Core(restarted, rules, start_us=T0), 30.1, 20, 70)
    Core(restarted, rules, start_us=T0).advance(T0 + 40 * DAY)

    assert _assessments(late)[32:] == _assessments(in_order)[32:]
    assert _assessments(restarted)[32:] == _assessments(in_order)[32:]
    assert len(late.ledger.core_samples()) == 2


def test_a_sample_over_the_limit_still_raises_its_alarm(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)
    _sample(core, 5.1, 5, 290)
    core.advance(T0 + 6 * DAY)
    assert ("over_limit", "core_sample") in {(a.kind, a.basis) for a in store.ledger.alerts(open_only=True)}


def test_a_paper_dated_ahead_of_its_filing_counts_at_its_filing(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)
    ahead = instant_text(T0 + 300 * DAY)
    _tell(core, 20, "manifest", pumped_at=ahead, complete=True, fog_mm=100, solids_mm=60, number="7")
    core.advance(T0 + 22 * DAY)
    row = _assessments(store)[-1]
    assert row["fraction"] < 0.05
    assert row["rate_mm_per_day"] == pytest.approx(160 / 20, rel=0.3)
