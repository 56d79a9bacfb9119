"""The deterministic core: instants, commands, restart, late data."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from api.commands import Commands, event_command
from api.core import Core, Rules
from api.fleet_file import Known, parse_fleet
from api.recording import Event, RecordingError
from api.replay import Replay
from api.serve import load_rules
from api.service import CommandError
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.ports import Store, StoreError

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z, local midnight in Los Angeles
MINUTE = 60_000_000
DAY = 1440 * MINUTE

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
frequency = "P3M"
last_pump_out = 2026-08-01

[[sensors]]
id = "D-0001"
interceptor = "luigi-gi1"
profile = "native"
interval_s = 900
min_layer_mm = 2

[[haulers]]
id = "valley"
name = "Valley Pumping"
"""


def reading(at_us: int, received_us: int | None = None, **fields: Any) -> RawMessage:
    body = {"time": at_us // 1000, "surface_mm": 1200, "fog_bottom_mm": 1100, "solids_top_mm": 80, **fields}
    return RawMessage(
        "quarterline/v1/d-0001/readings",
        json.dumps(body).encode(),
        at_us if received_us is None else received_us,
    )


@pytest.fixture
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture
def opened(tmp_path: Path, rules: Rules) -> Iterator[Callable[[str], Store]]:
    stores: list[Store] = []

    def make(name: str) -> Store:
        store = open_store(tmp_path / name, durable=False)
        fleet = parse_fleet(FLEET, "fleet.toml", Known(rules.ordinances, rules.profiles, lambda *_: None))
        put_fleet(store, fleet)
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def journal(store: Store, kind: str) -> list[dict[str, Any]]:
    return [dict(e.body, at=e.at_us) for e in store.ledger.journal(limit=100_000, types=[kind])]


def test_an_assessment_at_each_local_midnight_even_when_nothing_comes(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0 + 1)
    core.accept([reading(T0 + 15 * MINUTE)], T0 + 3 * DAY + MINUTE)
    assert [line["at"] for line in journal(store, "assessment")] == [T0 + DAY, T0 + 2 * DAY, T0 + 3 * DAY]


def test_a_message_at_an_instant_is_not_known_at_that_instant(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    early, late = opened("early"), opened("late")
    Core(early, rules, start_us=T0).accept([reading(T0 + DAY - MINUTE, T0 + DAY - 1)], T0 + DAY)
    Core(late, rules, start_us=T0).accept([reading(T0 + DAY - MINUTE, T0 + DAY)], T0 + DAY)
    (known,), (unknown,) = journal(early, "assessment"), journal(late, "assessment")
    assert known["fog_sd_mm"] < unknown["fog_sd_mm"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_windows_of_any_size_decide_the_same(opened: Callable[[str], Store], rules: Rules, size: int) -> None:
    stream = [reading(T0 + k * 15 * MINUTE, fog_bottom_mm=1100 - k / 10) for k in range(200)]
    whole, parts = opened("whole"), opened("parts")
    Core(whole, rules, start_us=T0).accept(stream, stream[-1].received_us)
    core = Core(parts, rules, start_us=T0)
    for start in range(0, len(stream), size):
        core.accept(stream[start : start + size], stream[min(start + size, len(stream)) - 1].received_us)
    for kind in ("assessment", "alert", "order"):
        assert journal(whole, kind) == journal(parts, kind)
    assert journal(whole, "assessment")


def test_late_readings_give_the_state_of_readings_in_time(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    stream = [reading(T0 + k * 15 * MINUTE, fog_bottom_mm=1100 - k / 5) for k in range(300)]
    late = [
        reading(T0 + k * 15 * MINUTE, m.received_us + 5 * 60 * MINUTE, fog_bottom_mm=1100 - k / 5)
        if k % 7 == 3
        else m
        for k, m in enumerate(stream)
    ]
    late.sort(key=lambda m: m.received_us)
    end = T0 + 5 * DAY
    one, other = opened("in-time"), opened("late")
    Core(one, rules, start_us=T0).accept(stream, end)
    Core(other, rules, start_us=T0).accept(late, end)
    assert journal(one, "assessment")[-1] == journal(other, "assessment")[-1]


def test_a_restart_goes_on_where_it_stopped(opened: Callable[[str], Store], rules: Rules) -> None:
    stream = [reading(T0 + k * 15 * MINUTE, fog_bottom_mm=1100 - k / 5) for k in range(300)]
    one, other = opened("through"), opened("restarted")
    end = T0 + 4 * DAY
    Core(one, rules, start_us=T0).accept(stream, end)
    Core(other, rules, start_us=T0).accept(stream[:133], stream[132].received_us)
    Core(other, rules, start_us=T0 + 99 * DAY).accept(stream[133:], end)
    for kind in ("assessment", "alert", "order"):
        assert journal(one, kind) == journal(other, kind)


def test_two_messages_that_complete_one_reading_are_one_reading_to_the_estimate(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    whole = [reading(T0 + k * 15 * MINUTE, fog_bottom_mm=1100 - k / 10) for k in range(100)]
    halves = []
    for one in whole:
        body = json.loads(one.payload)
        first = {name: body[name] for name in ("time", "surface_mm")}
        second = {name: body[name] for name in ("time", "fog_bottom_mm", "solids_top_mm")}
        for part, later in ((first, 0), (second, MINUTE)):
            halves.append(RawMessage(one.topic, json.dumps(part).encode(), one.received_us + later))
    one_piece, in_parts = opened("whole"), opened("parts")
    Core(one_piece, rules, start_us=T0).accept(whole, T0 + 2 * DAY)
    Core(in_parts, rules, start_us=T0).accept([halves[0]], halves[0].received_us)
    core = Core(in_parts, rules, start_us=T0)
    for one in halves[1:]:  # a commit each: the parts come in windows of their own
        core.accept([one], one.received_us)
    core.advance(T0 + 2 * DAY)
    assert journal(one_piece, "assessment")
    assert journal(in_parts, "assessment")[-1] == journal(one_piece, "assessment")[-1]


def test_a_situation_is_the_same_after_a_restart(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)
    core.accept([reading(T0 + MINUTE)], T0 + 4 * DAY)
    with core.desk.transaction():
        for n, hours in (("M-2", 30), ("M-1", 50), ("M-3", 10)):
            event = manifest_event(T0 + 4 * DAY, number=n, pumped_at=f"2026-09-0{1 + hours // 24}T12:00:00Z")
            event_command(event)(Commands(core, T0 + 4 * DAY))
    again = Core(store, rules, start_us=T0)
    before, after = core.situation("luigi-gi1"), again.situation("luigi-gi1")
    assert len(before.alerts) + len(before.orders) + len(before.manifests) >= 4
    for part in ("alerts", "order", "orders", "manifests", "pump_outs", "proposals", "contacts"):
        assert getattr(before, part) == getattr(after, part), part


def test_a_restart_decides_by_the_assessment_that_stood_before_it(
    opened: Callable[[str], Store], rules: Rules
) -> None:
    store = opened("a")
    more = FLEET.replace("luigi-gi1", "luigi-gi2").replace("D-0001", "D-0002")
    put_fleet(store, parse_fleet(more, "more.toml", Known(rules.ordinances, rules.profiles, lambda *_: None)))
    core = Core(store, rules, start_us=T0)
    other = replace(reading(T0 + DAY + 31 * MINUTE), topic="quarterline/v1/d-0002/readings")
    core.accept([reading(T0 + DAY + 16 * MINUTE), other], T0 + DAY + 50 * MINUTE)
    again = Core(store, rules, start_us=T0)
    for interceptor, minutes in (("luigi-gi1", 30), ("luigi-gi2", 45)):  # when each was last looked at
        before = core.situation(interceptor).assessment
        assert before is not None
        assert before.time_s * 1e6 == T0 + DAY + minutes * MINUTE
        assert again.situation(interceptor).assessment == before


def test_a_failed_command_leaves_nothing(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)

    def both(commands: Commands) -> None:
        event_command(manifest_event(T0))(commands)
        raise RuntimeError("after it was filed")

    with pytest.raises(RuntimeError), core.desk.transaction():
        both(Commands(core, T0))
    assert store.ledger.manifests() == []
    assert core.situation("luigi-gi1").manifests == ()


def manifest_event(at_us: int, **fields: Any) -> Event:
    body = {
        "interceptor": "luigi-gi1",
        "number": "M-1",
        "pumped_at": "2026-08-31T12:00:00Z",
        "complete": True,
    }
    return Event(at_us, "manifest", {**body, **fields}, "events.jsonl:1")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (manifest_event(T0, interceptor="nobody"), "interceptor: 'nobody' is not in the fleet"),
        (manifest_event(T0, hauler="nobody"), "hauler: 'nobody' is not in the fleet"),
        (manifest_event(T0, complete="yes"), "complete: expected true or false, found 'yes'"),
        (manifest_event(T0, volume_l=True), "volume_l: expected a number, found True"),
        (manifest_event(T0, pumped_at="2026-08-31"), "pumped_at: '2026-08-31' has no offset"),
        (manifest_event(T0, volume=3), "volume: no field of manifest"),
        (Event(T0, "party", {}, "events.jsonl:1"), "type: 'party' is none of"),
        (
            Event(
                T0,
                "frequency_decision",
                {"interceptor": "luigi-gi1", "decision": "approved", "frequency": "P7M"},
                "events.jsonl:1",
            ),
            "frequency: P7M",
        ),
        (
            Event(T0, "order_answer", {"hauler": "valley", "answer": "accepted"}, "events.jsonl:1"),
            "order: missing",
        ),
    ],
)
def test_a_wrong_event_is_named_by_line_and_field(
    opened: Callable[[str], Store], rules: Rules, event: Event, said: str
) -> None:
    with pytest.raises(RecordingError) as caught:
        Replay(opened("a"), rules, io.BytesIO()).run([event])
    assert str(caught.value).startswith(f"events.jsonl:1: {said}")


def test_a_replay_ends_with_the_counts_of_every_item(opened: Callable[[str], Store], rules: Rules) -> None:
    out = io.BytesIO()
    stream = [
        reading(T0 + MINUTE),
        reading(T0 + MINUTE, T0 + 2 * MINUTE),
        reading(T0 + MINUTE, T0 + 3 * MINUTE, surface_mm=1190),
        RawMessage("quarterline/v1/d-0002/readings", b'{"surface_mm": 1}', T0 + 4 * MINUTE),
        RawMessage("quarterline/v1/d-0001/readings", b'{"surface_mm": 1}', T0 + 5 * MINUTE, retain=True),
        RawMessage("quarterline/v1/d-0001/status", b"online", T0 + 6 * MINUTE),
        RawMessage("quarterline/v1/d-0001/readings", b"[{}, {}]", T0 + 7 * MINUTE),
    ]
    Replay(opened("a"), rules, out).run(stream)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[-1] == {
        "at": "2026-09-01T07:07:00Z",
        "type": "summary",
        "interceptor": None,
        "received": 8,
        "stored": 1,
        "duplicate": 1,
        "quarantined": 2,
        "retained": 1,
        "heartbeat": 3,
        "messages": 7,
    }
    assert [one["reason"] for one in lines if one["type"] == "quarantine"] == ["conflict", "unknown_sensor"]


def test_the_desk_forgets_what_a_full_store_refused(opened: Callable[[str], Store], rules: Rules) -> None:
    store = opened("a")
    core = Core(store, rules, start_us=T0)

    def refused() -> None:
        with core.desk.transaction():
            event_command(manifest_event(T0))(Commands(core, T0))
            raise StoreError("no")

    with pytest.raises(StoreError):
        refused()
    with core.desk.transaction():
        event_command(manifest_event(T0))(Commands(core, T0))
    assert [m.number for m in core.situation("luigi-gi1").manifests] == ["M-1"]


def test_an_unknown_interceptor_is_a_command_error(opened: Callable[[str], Store], rules: Rules) -> None:
    core = Core(opened("a"), rules, start_us=T0)
    with pytest.raises(CommandError, match="is not in the fleet"), core.desk.transaction():
        event_command(manifest_event(T0, interceptor="x"))(Commands(core, T0))
