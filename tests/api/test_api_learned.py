"""The fleet's prior, learned at UTC midnight: kept with the instant, the same after a restart and a refold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.core import Core, Rules
from api.fleet_file import Known, parse_fleet
from api.learned import FLEET_PRIOR
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.ports import Store

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z, local midnight in Los Angeles
HOUR = 3_600_000_000
DAY = 24 * HOUR
SITE = """
[[sites]]
id = "{site}"
name = "{site}"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
kitchen = "wok"

[[interceptors]]
id = "{site}-gi1"
site = "{site}"
kind = "gravity"
base_depth_mm = 1200
last_pump_out = 2026-08-31

[[sensors]]
id = "{site}"
interceptor = "{site}-gi1"
profile = "native"
interval_s = 3600
"""


@pytest.fixture
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture
def opened(tmp_path: Path, rules: Rules) -> Iterator[Callable[[str], Store]]:
    stores: list[Store] = []

    def make(name: str) -> Store:
        store = open_store(tmp_path / name, durable=False)
        fleet = SITE.format(site="old") + SITE.format(site="new")
        put_fleet(store, parse_fleet(fleet, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def _stream(days: int) -> list[RawMessage]:
    """One site of the kitchen grows by 9 mm a day, the other is silent."""
    messages = []
    for hour in range(days * 24):
        at_us = T0 + hour * HOUR
        grown = 9.0 * hour / 24
        body = {"time": at_us // 1000, "surface_mm": 1200, "fog_bottom_mm": 1195 - 0.7 * grown}
        body |= {"solids_top_mm": 5 + 0.3 * grown}
        messages.append(RawMessage("quarterline/v1/old/readings", json.dumps(body).encode(), at_us))
    return messages


def _assessments(store: Store) -> list[str]:
    return [json.dumps([e.at_us, e.interceptor, e.body]) for e in store.ledger.journal(types=["assessment"])]


def test_a_silent_site_is_expected_to_grow_as_its_kitchen_was_seen_to(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0 - DAY)
    core.accept(_stream(16), T0 + 16 * DAY)
    told = [e for e in store.ledger.journal(types=["assessment"]) if e.interceptor == "new-gi1"]
    # 0.2 %/day and more: the start's mean is 0.3194 % of 1.2 m, 3.83 mm a day
    assert told[0].body["rate_mm_per_day"] == pytest.approx(3.833, abs=0.001)
    assert told[-1].body["rate_mm_per_day"] > 4.3
    assert told[-1].body["rate_own_share"] == 0.0
    kept = json.loads(store.ledger.get_meta(FLEET_PRIOR) or "{}")
    assert kept["kitchens"]["wok"]["median"] > kept["fleet"]["median"] > 0.0025


@pytest.mark.parametrize("pause", [9, 25])  # hours after the tenth midnight: before and after a refresh
def test_a_restart_tells_what_would_have_been_told(
    opened: Callable[[str], Store], rules: Rules, pause: int
) -> None:
    messages, end_us = _stream(14), T0 + 14 * DAY
    whole, parts = opened("whole"), opened("parts")
    Core(whole, rules, start_us=T0 - DAY).accept(messages, end_us)
    border = 10 * 24 + pause
    Core(parts, rules, start_us=T0 - DAY).accept(messages[:border], messages[border].received_us)
    Core(parts, rules, start_us=T0 - DAY).accept(messages[border:], end_us)
    assert _assessments(parts) == _assessments(whole)
    assert parts.ledger.get_meta(FLEET_PRIOR) == whole.ledger.get_meta(FLEET_PRIOR)


def test_a_prior_of_another_version_is_passed_over(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    with store.transaction():
        store.ledger.set_meta(FLEET_PRIOR, '{"fleet": "none of ours"}')
    core = Core(store, rules, start_us=T0 - DAY)
    core.advance(T0 + HOUR)
    assert len(_assessments(store)) == 2  # one midnight of two interceptors
