"""What a refold after a restart finds again is not told again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.core import Core, Rules
from api.fleet_file import Known, parse_fleet
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.ports import Store

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z, local midnight in Los Angeles
QUARTER = 900_000_000
DAY = 96 * QUARTER
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

[[sensors]]
id = "D-0001"
interceptor = "luigi-gi1"
profile = "native"
interval_s = 900
min_layer_mm = 2
"""
COMPARED = ("pump_out", "hot_discharge", "alert", "order")


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


def _message(step: int, received_us: int | None = None, **fields: float) -> RawMessage:
    at_us = T0 + step * QUARTER
    body = {"time": at_us // 1000, "surface_mm": 1200, "fog_bottom_mm": 1000, "solids_top_mm": 80, **fields}
    return RawMessage("quarterline/v1/d-0001/readings", json.dumps(body).encode(), received_us or at_us)


def _stream() -> list[RawMessage]:
    """Three days: hot water on the first afternoon, a complete pump-out that night, one reading a day late."""
    inlet = {60: 64.0, 61: 66.0}
    drawn = {
        100: {"surface_mm": 700.0, "fog_bottom_mm": 500.0},
        101: {"surface_mm": 20.0, "fog_bottom_mm": 20.0, "solids_top_mm": 5.0},
    }
    clean = {"fog_bottom_mm": 1198.0, "solids_top_mm": 2.0}
    messages = []
    for step in range(3 * 96):
        fields = drawn.get(step, clean if step > 101 else {})
        messages.append(_message(step, inlet_max_c=inlet.get(step, 30.0), **fields))
    late = messages.pop(40)
    messages.append(RawMessage(late.topic, late.payload, T0 + int(2.5 * DAY) + 1))
    return sorted(messages, key=lambda message: message.received_us)


def _told(store: Store) -> list[tuple[str, object]]:
    return [(entry.type, entry.body) for entry in store.ledger.journal(limit=10_000, types=COMPARED)]


def test_a_late_reading_after_a_restart_tells_nothing_twice(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    stream, end = _stream(), T0 + 3 * DAY
    through, restarted = opened("through"), opened("restarted")
    Core(through, rules, start_us=T0).accept(stream, end)
    cut = 2 * 96  # after all that is to be found, before the late reading
    Core(restarted, rules, start_us=T0).accept(stream[:cut], stream[cut - 1].received_us)
    Core(restarted, rules, start_us=T0).accept(stream[cut:], end)

    found = [kind for kind, _ in _told(through)]
    assert found.count("hot_discharge") == 1
    assert found.count("pump_out") >= 1
    assert _told(restarted) == _told(through)
