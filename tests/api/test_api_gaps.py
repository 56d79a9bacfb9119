"""Missing readings: found from what is stored, corrected by what comes late, the same in a replay and a new start."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from api.core import Core, Rules
from api.fleet_file import Known, parse_fleet
from api.replay import Replay
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.ports import Store

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z
MINUTE = 60_000_000
HOUR = 60 * MINUTE

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
id = "d-1"
interceptor = "luigi-gi1"
interval_s = 900

[[sensors]]
id = "d-2"
interceptor = "luigi-gi1"
interval_s = 900
"""


@pytest.fixture
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture
def opened(tmp_path: Path, rules: Rules) -> Iterator[Callable[[str], Store]]:
    stores: list[Store] = []

    def make(name: str) -> Store:
        stores.append(open_store(tmp_path / name, durable=False))
        put_fleet(
            stores[-1],
            parse_fleet(FLEET, "fleet.toml", Known(rules.ordinances, rules.profiles, lambda *_: None)),
        )
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def said(
    minutes: float, seq: int | None, *, late_min: float = 0, sensor: str = "d-1", **more: Any
) -> RawMessage:
    at_us = T0 + round(minutes * MINUTE)
    body: dict[str, Any] = {"time": at_us // 1000, "surface_mm": 1200, **more}
    if seq is not None:
        body["seq"] = seq
    received_us = at_us + round(late_min * MINUTE)
    return RawMessage(f"quarterline/v1/{sensor}/readings", json.dumps(body).encode(), received_us)


def gaps(store: Store) -> list[tuple[Any, ...]]:
    """Kind, beginning and end in minutes after T0, missing, span of the counter: those that are missing still."""
    return [
        ((g.sensor, g.kind, (g.start_us - T0) / MINUTE, (g.end_us - T0) / MINUTE, g.missing, g.first_seq, g.last_seq))
        for g in reversed(store.ledger.gaps())
        if g.missing
    ]  # fmt: skip


def run(store: Store, rules: Rules, *messages: RawMessage, until_min: float = 24 * 60) -> Core:
    core = Core(store, rules, start_us=T0 - HOUR)
    core.accept(sorted(messages, key=lambda m: m.received_us), T0 + round(until_min * MINUTE))
    return core


def test_a_counter_that_skips_names_the_missing_range(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    run(store, rules, *(said(15 * n, n) for n in range(20) if n not in (7, 12, 13)))
    assert gaps(store) == [
        ("d-1", "sequence", 90, 120, 1, 7, 7),
        ("d-1", "sequence", 165, 210, 2, 12, 13),
    ]
    lines = [one.body for one in store.ledger.journal(types=["gap"])]
    assert lines[1] == {
        "id": lines[1]["id"],
        "sensor": "d-1",
        "kind": "sequence",
        "start": "2026-09-01T09:45:00Z",
        "end": "2026-09-01T10:30:00Z",
        "missing": 2,
        "first_seq": 12,
        "last_seq": 13,
    }


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ([0, 1, 2, 0, 1, 2], []),  # a reboot
        ([65533, 65534, 65535, 0, 1], []),  # 16 bits
        ([1, 2, 2, 3], []),  # two messages of one uplink
        ([100, 1000, 1900, 2800], []),  # seconds: no counter of messages
        ([None, 5, None, 9, 10], []),
        ([1, 2, 3, 5, 9], [(1, 4, 4), (3, 6, 8)]),
    ],
)
def test_what_counters_do(
    opened: Callable[[str], Store], rules: Rules, counters: list[int | None], expected: list[tuple[int, ...]]
) -> None:
    store = opened("a")
    run(store, rules, *(said(15 * n, seq) for n, seq in enumerate(counters)))
    assert [gap[4:] for gap in gaps(store)] == expected


def test_a_silence_of_three_intervals_and_an_hour_is_a_gap(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    run(store, rules, *(said(m, None) for m in (0, 15, 75, 90, 151, 166)))
    assert gaps(store) == [("d-1", "cadence", 90, 151, 3, None, None)]  # 60 min are no gap, 61 are


def test_a_counter_that_goes_on_says_that_a_silence_lost_nothing_by_number(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    run(store, rules, said(0, 1), said(15, 2), said(200, 3))
    assert [gap[1] for gap in gaps(store)] == ["cadence"]


def test_late_readings_close_a_gap_or_move_it(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    early = [said(15 * n, n) for n in range(20) if n not in (7, 8, 12)]
    late = [said(15 * 7, 7, late_min=600), said(15 * 12, 12, late_min=600)]
    core = run(store, rules, *early, until_min=500)
    assert [gap[4:] for gap in gaps(store)] == [(2, 7, 8), (1, 12, 12)]
    core.accept(late, T0 + 24 * HOUR)
    assert gaps(store) == [("d-1", "sequence", 105, 135, 1, 8, 8)]
    lines = [(one.body["start"], one.body["missing"]) for one in store.ledger.journal(types=["gap"])]
    assert lines == [
        ("2026-09-01T08:30:00Z", 2),
        ("2026-09-01T09:45:00Z", 1),
        ("2026-09-01T08:30:00Z", 0),  # corrected: nothing is missing there any more …
        ("2026-09-01T08:45:00Z", 1),  # … and what is still missing begins later
        ("2026-09-01T09:45:00Z", 0),
    ]


def test_sensors_do_not_mix(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    one = [said(15 * n, n) for n in range(10) if n != 5]
    two = [said(15 * n + 1, 1000 + n, sensor="d-2") for n in range(10) if n != 6]
    run(store, rules, *one, *two)
    assert [(gap[0], gap[5]) for gap in gaps(store)] == [("d-1", 5), ("d-2", 1006)]


def test_a_replay_and_a_service_started_anew_find_the_same(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    chance = random.Random(7)
    stream = []
    for n in range(400):
        if chance.random() < 0.15:
            continue
        late = chance.choice([0, 0, 0, 0, 0.4, 20, 300])
        stream.append(said(15 * n, n, late_min=late))
        if chance.random() < 0.1:
            stream.append(said(15 * n + 2, None, sensor="d-2", late_min=late))
    stream.sort(key=lambda m: m.received_us)
    once, again, replayed = opened("once"), opened("again"), opened("replayed")
    run(once, rules, *stream, until_min=7000)
    at = 0
    while at < len(stream):  # a new core every few messages, as after a kill
        upto = min(at + chance.randint(1, 40), len(stream))
        core = Core(again, rules, start_us=T0 - HOUR)
        core.accept(stream[at:upto], stream[upto - 1].received_us)
        at = upto
    Core(again, rules, start_us=T0 - HOUR).accept([], T0 + 7000 * MINUTE)
    out = io.BytesIO()
    Replay(replayed, rules, out).run(stream, until_us=T0 + 7000 * MINUTE)
    assert len(gaps(once)) > 30
    assert gaps(again) == gaps(once)
    assert gaps(replayed) == gaps(once)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    lines = [
        (one.at_us, one.body["id"], one.body["missing"])
        for one in once.ledger.journal(types=["gap"], limit=9999)
    ]
    assert len([one for one in told if one["type"] == "gap"]) == len(lines)
    # every gap is one between neighbours that are stored; all but those before the counter had shown that it counts
    rows = once.history.readings(["d-1"], since_us=0, until_us=2**62)
    truth = [
        (a.time_us, b.time_us, b.seq - a.seq - 1)
        for a, b in pairwise(rows)
        if a.seq is not None and b.seq is not None and b.seq > a.seq + 1
    ]
    found = [(g.start_us, g.end_us, g.missing) for g in reversed(once.ledger.gaps(sensor="d-1")) if g.missing]
    assert set(found) <= set(truth)
    assert len(truth) - len(found) <= 3
