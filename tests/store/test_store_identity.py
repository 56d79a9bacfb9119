"""The identity rules against a plain model of them: any items, any windows, any redelivery."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import open_store
from store.ports import Store
from store.records import IngestWindow, Item, Quarantined, StoredReading, Totals

END = 2**62
NUMBER = itertools.count()  # an example's sensors are its own: one store serves them all


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = open_store(tmp_path_factory.mktemp("identity"), durable=False)
    yield store
    store.close()


@dataclass
class Model:
    """contracts.md §2, one item after the other, with none of the store's short cuts."""

    rows: dict[tuple[str, int], dict[str, object]] = field(default_factory=dict)
    keys: dict[tuple[str, bytes], int] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        time_us = item.time_us
        if item.key is not None:
            seen = self.keys.get((item.sensor, item.key))
            if item.check_key and seen is not None and seen >= item.key_since_us:
                self.outcomes.append("duplicate")
                return
            while (item.sensor, time_us) in self.rows:
                time_us += 1
            self.keys[item.sensor, item.key] = item.received_us
        said: dict[str, object] = dict(item.values)
        if item.profile is not None:
            said["profile"] = item.profile
        there = self.rows.get((item.sensor, time_us), {})
        if any(name in there and not _equal(there[name], value) for name, value in said.items()):
            self.outcomes.append("conflict")
        elif said.keys() <= there.keys():
            self.outcomes.append("duplicate")
        else:
            self.rows[item.sensor, time_us] = {**said, **there}
            self.outcomes.append("stored")


def _equal(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    return one is None and other is None


def _as_model(rows: Sequence[StoredReading]) -> dict[tuple[str, int], dict[str, object]]:
    return {
        (r.sensor, r.time_us): dict(r.values) | ({} if r.profile is None else {"profile": r.profile})
        for r in rows
    }


NUMBERS = st.sampled_from([0.0, 1.0, 1.0 + 5e-10, 1.0 + 2e-9, -1.0, 300.0])
PROFILES = st.none() | st.lists(st.none() | NUMBERS, max_size=3).map(tuple)
VALUES = st.dictionaries(
    st.sampled_from(["surface_m", "inlet_c", "rssi_dbm", "fog_depth_m"]), NUMBERS, max_size=3
)


@st.composite
def item_lists(draw: st.DrawFn) -> list[Item]:
    items = []
    for _ in range(draw(st.integers(1, 14))):
        values, profile = draw(VALUES), draw(PROFILES)
        if not values and profile is None:
            values = {"tank_c": 20.0}
        items.append(
            Item(
                sensor=draw(st.sampled_from(["a", "b"])),
                time_us=draw(st.integers(1, 4)),
                received_us=draw(st.integers(1, 50)),
                topic="t",
                values=values,
                profile=profile,
                key=draw(st.none() | st.sampled_from([b"k", b"l"])),
                check_key=draw(st.booleans()),
                key_since_us=draw(st.sampled_from([0, 25])),
            )
        )
    return items


def _own(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    number = next(NUMBER)
    own = [msgspec.structs.replace(one, sensor=f"{one.sensor}{number}") for one in items]
    return own, [f"a{number}", f"b{number}"]


def _redelivered(one: Item) -> Item:
    """As a redelivery comes: what has a key is looked for by it."""
    return msgspec.structs.replace(one, check_key=True, key_since_us=0)


def _commit(store: Store, items: Sequence[Item], size: int) -> Totals:
    before = store.history.totals()
    for start in range(0, len(items), size):
        part = tuple(items[start : start + size])
        store.history.commit(IngestWindow(items=part, messages=len(part)))
    return _since(store.history.totals(), before)


def _since(now: Totals, then: Totals) -> Totals:
    return Totals(*(a - b for a, b in zip(astuple(now), astuple(then), strict=True)))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(item_lists(), st.integers(1, 14))
def test_the_history_does_what_the_rules_say(shared: Store, items: list[Item], size: int) -> None:
    own, sensors = _own(items)
    model = Model()
    for one in own:
        model.take(one)
    counted = _commit(shared, own, size)
    rows = shared.history.readings(sensors, since_us=0, until_us=END)
    assert _as_model(rows) == model.rows
    outcomes = [model.outcomes.count(word) for word in ("stored", "duplicate", "conflict")]
    assert [counted.stored, counted.duplicate, counted.quarantined] == outcomes
    assert counted.received == len(own)
    assert [(r.time_us, r.sensor) for r in rows] == sorted((r.time_us, r.sensor) for r in rows)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(item_lists(), st.data())
def test_any_redelivery_among_the_deliveries_changes_nothing(
    shared: Store, items: list[Item], data: st.DataObject
) -> None:
    """A broker sends again what it sent before, at any moment after; first deliveries keep their order."""
    once, sensors = _own(items)
    again, sensors_again = _own(items)
    stream: list[Item] = []
    for n, one in enumerate(again):
        stream.append(one)
        stream += [_redelivered(again[k]) for k in data.draw(st.lists(st.integers(0, n), max_size=3))]
    first = _commit(shared, once, len(once))
    second = _commit(shared, stream, data.draw(st.integers(1, 10)))
    assert [
        (r.time_us, r.values, r.profile) for r in shared.history.readings(sensors, since_us=0, until_us=END)
    ] == [
        (r.time_us, r.values, r.profile)
        for r in shared.history.readings(sensors_again, since_us=0, until_us=END)
    ]
    assert second.stored == first.stored
    assert second.received == len(stream)
    assert second.received == second.stored + second.duplicate + second.quarantined


@st.composite
def windows(draw: st.DrawFn) -> list[IngestWindow]:
    def refused(n: int) -> Quarantined:
        return Quarantined("a", "t", n, "not_json", "d", b"{", 1, "0" * 64)

    some = st.integers(0, 3)
    return [
        IngestWindow(
            items=tuple(draw(item_lists())) if draw(st.booleans()) else (),
            quarantined=tuple(refused(n) for n in range(draw(some))),
            retained=draw(some),
            heartbeats=draw(some),
            messages=draw(some),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=120)
@given(windows())
def test_everything_received_is_counted_once(shared: Store, drawn: list[IngestWindow]) -> None:
    """contracts.md §2: received = stored + duplicate + quarantined + retained + heartbeat, after every window."""
    start, number = shared.history.totals(), next(NUMBER)
    received = retained = heartbeats = messages = 0
    for one in drawn:
        own = tuple(msgspec.structs.replace(i, sensor=f"{i.sensor}{number}") for i in one.items)
        result = shared.history.commit(replace(one, items=own))
        received += len(own) + len(one.quarantined) + one.retained + one.heartbeats
        retained, heartbeats = retained + one.retained, heartbeats + one.heartbeats
        messages += one.messages
        now = _since(shared.history.totals(), start)
        assert (now.received, now.retained, now.heartbeat, now.messages) == (
            received, retained, heartbeats, messages,
        )  # fmt: skip
        assert now.received == now.stored + now.duplicate + now.quarantined + now.retained + now.heartbeat
        assert len(result.quarantined) >= len(one.quarantined)


def test_a_window_of_every_kind_at_once(store: Store) -> None:
    """Parts of several statements, in which some rows stand already, some share an instant and some move."""

    def item(n: int, received_us: int, **fields: object) -> Item:
        known = {"sensor": f"s{n % 7}", "time_us": n, "received_us": received_us, "topic": "t"}
        return Item(**{**known, "values": {"surface_m": float(n)}, **fields})

    old = [item(n, 1) for n in range(0, 900, 3)]
    store.history.commit(IngestWindow(items=tuple(old), messages=len(old)))
    window = (
        *(item(n, 2) for n in range(900)),  # a third of them is there
        *(item(n, 3, values={"inlet_c": 40.0}, profile=(1.0, None)) for n in range(0, 900, 9)),  # completes
        *(item(n, 4, values={"surface_m": -1.0, "tank_c": 3.0}) for n in range(0, 90, 10)),  # contradicts
        item(8, 5, key=b"k"),  # its instant is taken: moves on
        item(8, 5, key=b"k", check_key=True),  # and is known
    )
    result = store.history.commit(IngestWindow(items=window, messages=1))
    assert (result.duplicates, len(result.quarantined)) == (300 + 1, 9)
    # 600 new, 100 completed, 1 moved; a new row completed in the same window is returned once, as it now stands
    assert store.history.totals().stored == 300 + 600 + 100 + 1
    assert len({(r.sensor, r.time_us) for r in result.stored}) == len(result.stored)
    rows = {
        (r.sensor, r.time_us): r
        for r in store.history.readings([f"s{k}" for k in range(7)], since_us=0, until_us=END)
    }
    assert len(rows) == 901
    assert all(rows[r.sensor, r.time_us] == r for r in result.stored)
    moved = rows["s1", 9]
    assert (moved.values, moved.received_us) == ({"surface_m": 8.0}, 5)


def test_the_columns_of_a_reading_are_those_of_units(store: Store) -> None:
    item = Item("d-1", 1, 1, "t", {"surface_m": 1.0, "grease; DROP TABLE readings": 1.0})
    with pytest.raises(ValueError, match="no column of readings: grease"):
        store.history.commit(IngestWindow(items=(item,), messages=1))
    assert store.history.totals() == Totals()
