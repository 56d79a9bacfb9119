"""The contract of the history port: the identity rules of contracts.md §2, counters, quarantine, reading back."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from store.ports import Store
from store.records import CommitResult, IngestWindow, Item, Quarantined, StoredReading, Totals

Make = Callable[..., Item]
END = 2**62


def commit(store: Store, *items: Item) -> CommitResult:
    return store.history.commit(IngestWindow(items=items, messages=len(items)))


def rows(store: Store, sensor: str = "d-1") -> list[StoredReading]:
    return store.history.readings([sensor], since_us=-END, until_us=END)


def test_a_reading_reads_back(store: Store, item: Make) -> None:
    one = item(5, values={"fog_depth_m": 0.25, "inlet_c": -3.5}, profile=(0.1, None, 1.0), seq=7, flags=1)
    result = commit(store, one)
    expected = StoredReading("d-1", 5, 6, {"fog_depth_m": 0.25, "inlet_c": -3.5}, (0.1, None, 1.0), 1, 7)
    assert result.stored == (expected,)
    assert rows(store) == [expected]
    assert store.history.last(["d-1", "nobody"]) == {"d-1": expected}
    assert store.history.first_us(["nobody", "d-1"]) == 5
    assert store.history.first_us(["nobody"]) is None


def test_the_same_again_is_a_duplicate_also_within_a_window(store: Store, item: Make) -> None:
    assert commit(store, item(), item()).duplicates == 1
    assert commit(store, item(received_us=99)).duplicates == 1
    assert len(rows(store)) == 1
    assert rows(store)[0].received_us == 1_000_001
    assert store.history.totals() == Totals(messages=3, received=3, stored=1, duplicate=2)


@pytest.mark.parametrize(
    ("value", "equal"),
    [
        (1.2 * (1 + 0.9e-9), True),
        (1.2 * (1 + 1.1e-9), False),
        (1.2 * (1 - 0.9e-9), True),
        (1.2 * (1 - 1.1e-9), False),
        (-1.2, False),
        (0.0, False),
    ],
)
def test_equality_is_one_part_in_a_thousand_million(
    store: Store, item: Make, value: float, equal: bool
) -> None:
    commit(store, item())
    result = commit(store, item(values={"surface_m": value}))
    assert (result.duplicates, len(result.quarantined)) == ((1, 0) if equal else (0, 1))
    assert rows(store)[0].values == {"surface_m": 1.2}


def test_quantities_of_one_time_complete_each_other(store: Store, item: Make) -> None:
    commit(store, item(seq=4))
    result = commit(
        store,
        item(values={"surface_m": 1.2, "inlet_c": 40.0}, received_us=70),
        item(values={"tank_c": 25.0}, profile=(1.0,), received_us=1_500_000),
    )
    assert result.duplicates == 0
    (row,) = result.stored
    assert row == rows(store)[0]
    assert row.values == {"surface_m": 1.2, "inlet_c": 40.0, "tank_c": 25.0}
    assert row.profile == (1.0,)
    # found again by what was received since: the completed row carries the latest reception
    assert (row.received_us, row.seq) == (1_500_000, 4)
    assert store.history.totals().stored == 3


def test_a_completed_row_keeps_the_latest_reception_whichever_came_last(store: Store, item: Make) -> None:
    commit(store, item(received_us=90))
    (row,) = commit(store, item(values={"inlet_c": 40.0}, received_us=70)).stored
    assert row == rows(store)[0]
    assert row.received_us == 90


def test_a_conflict_is_quarantined_whole_and_names_the_field(store: Store, item: Make) -> None:
    commit(store, item())
    raw = b'{"surface_m": 1.3, "inlet_c": 40}'
    result = commit(store, item(values={"surface_m": 1.3, "inlet_c": 40.0}, raw=raw, received_us=9))
    (bad,) = result.quarantined
    assert (bad.reason, bad.sensor, bad.payload, bad.size) == ("conflict", "d-1", raw, len(raw))
    assert bad.sha256 == sha256(raw).hexdigest()
    assert bad.detail.startswith("surface_m: 1.2 is stored for this sensor and time, 1.3 came")
    assert rows(store)[0].values == {"surface_m": 1.2}
    assert store.history.totals() == Totals(messages=2, received=2, stored=1, quarantined=1)
    assert store.history.quarantine() == [bad]


@pytest.mark.parametrize(
    ("profile", "equal"),
    [((0.1, None), True), ((0.1, 0.2), False), ((None, None), False), ((0.1,), False), ((0.2, None), False)],
)
def test_profiles_are_one_value(
    store: Store, item: Make, profile: tuple[float | None, ...], equal: bool
) -> None:
    commit(store, item(values={}, profile=(0.1, None)))
    result = commit(store, item(values={}, profile=profile))
    assert (result.duplicates, len(result.quarantined)) == ((1, 0) if equal else (0, 1))


def test_order_of_reception_decides_within_a_window(store: Store, item: Make) -> None:
    result = commit(
        store,
        item(values={"inlet_c": 1.0}),
        item(values={"inlet_c": 2.0, "tank_c": 3.0}),
        item(values={"tank_c": 4.0}),
    )
    assert [one.reason for one in result.quarantined] == ["conflict"]
    assert rows(store)[0].values == {"inlet_c": 1.0, "tank_c": 4.0}


def test_sensors_and_times_are_apart(store: Store, item: Make) -> None:
    commit(store, item(), item(2_000_000), item(sensor="d-2"))
    assert [r.time_us for r in rows(store)] == [1_000_000, 2_000_000]
    both = store.history.readings(["d-2", "d-1"], since_us=1_000_000, until_us=2_000_000)
    assert [r.sensor for r in both] == ["d-1", "d-2"]
    assert (
        store.history.readings(["d-1"], since_us=0, until_us=END, received_before_us=2_000_001)
        == rows(store)[:1]
    )
    assert store.history.readings([], since_us=0, until_us=END) == []


# ---- items without a good time of their own ----------------------------------------------------------


def keyed(item: Make, received_us: int, *, key: bytes = b"k", **fields: object) -> Item:
    return item(received_us, received_us=received_us, key=key, **{"check_key": True, **fields})


def test_a_key_seen_before_is_a_duplicate_whatever_its_time(store: Store, item: Make) -> None:
    assert commit(store, keyed(item, 10), keyed(item, 11)).duplicates == 1
    assert commit(store, keyed(item, 5_000)).duplicates == 1
    assert commit(store, keyed(item, 5_001, key=b"other")).duplicates == 0
    assert [r.time_us for r in rows(store)] == [10, 5_001]


def test_a_key_is_forgotten_and_unchecked_keys_are_new(store: Store, item: Make) -> None:
    commit(store, keyed(item, 10))
    assert commit(store, keyed(item, 100, key_since_us=11)).duplicates == 0
    assert commit(store, keyed(item, 200, check_key=False)).duplicates == 0
    # seen again at 200: known from there on
    assert commit(store, keyed(item, 300, key_since_us=200)).duplicates == 1


def test_receipt_times_that_meet_move_apart(store: Store, item: Make) -> None:
    commit(store, item(10))
    result = commit(store, *(keyed(item, 10, key=bytes([n])) for n in range(3)))
    assert [r.time_us for r in result.stored] == [11, 12, 13]
    assert result.duplicates == 0


def test_a_key_belongs_to_its_sensor(store: Store, item: Make) -> None:
    commit(store, keyed(item, 10))
    assert commit(store, keyed(item, 10, sensor="d-2")).duplicates == 0


# ---- the rest of a window ----------------------------------------------------------------------------


def bad(n: int, **fields: object) -> Quarantined:
    known = {"sensor": "d-1", "topic": "t", "received_us": n, "reason": "not_json", "detail": "d"}
    return Quarantined(**{**known, "payload": b"x" * n, "size": n, "sha256": "0" * 64, **fields})


def test_quarantine_keeps_four_kib_and_pages(store: Store) -> None:
    window = IngestWindow(quarantined=(bad(1), bad(9000), bad(3, sensor=None)), messages=3)
    kept = store.history.commit(window).quarantined
    assert [(len(q.payload), q.size) for q in kept] == [(1, 1), (4096, 9000), (3, 3)]
    assert store.history.quarantine(limit=2) == list(kept[:2])
    assert store.history.quarantine(after_id=kept[1].id) == [kept[2]]
    assert store.history.quarantine(sensor="d-1") == list(kept[:2])


def test_notes_of_a_window(store: Store) -> None:
    store.history.commit(
        IngestWindow(
            retained=2,
            heartbeats=1,
            messages=3,
            statuses=(("d-1", True, 10), ("d-1", False, 20)),
            unknown_fields=(("d-1", "colour", 2),),
            contacts=(("d-1", 20),),
        )
    )
    store.history.commit(
        IngestWindow(
            statuses=(("d-1", True, 15),), unknown_fields=(("d-1", "colour", 1),), contacts=(("d-1", 15),)
        )
    )
    assert store.history.connectivity() == {"d-1": (False, 20)}
    assert store.history.contacts() == {"d-1": 20}
    assert store.history.unknown_fields() == {("d-1", "colour"): 3}
    assert store.history.totals() == Totals(messages=3, received=3, retained=2, heartbeat=1)


def test_scan_goes_by_reception(store: Store, item: Make) -> None:
    commit(
        store,
        item(30, received_us=3),
        item(10, received_us=3),
        item(20, received_us=1),
        item(5, received_us=9),
    )
    found = [r for chunk in store.history.scan(received_since_us=2, received_before_us=9) for r in chunk]
    assert [(r.received_us, r.time_us) for r in found] == [(3, 10), (3, 30)]


def test_scan_resumes_at_a_chunk_s_end_and_loses_nothing(store: Store, item: Make) -> None:
    """One reception for all, so that chunks end among equal receptions: sensor and time go on from there."""
    sensors = [f"s{n}" for n in range(9, -1, -1)]  # numbered against their order as text
    items = [item(n, sensor=sensors[n % 10], received_us=7) for n in range(45_000)]
    store.history.commit(IngestWindow(items=tuple(items), messages=1))
    chunks = list(store.history.scan(received_since_us=7, received_before_us=8))
    found = [(r.received_us, r.sensor, r.time_us) for chunk in chunks for r in chunk]
    assert len(chunks) > 1
    assert found == sorted((7, one.sensor, one.time_us) for one in items)
    assert list(store.history.scan(received_since_us=8, received_before_us=END)) == []


def test_a_window_in_a_transaction_that_fails_leaves_nothing(store: Store, item: Make) -> None:
    def fails() -> None:
        with store.transaction():
            commit(store, item(sensor="new"))
            raise RuntimeError("after the commit")

    with pytest.raises(RuntimeError):
        fails()
    assert store.history.totals() == Totals()
    assert commit(store, item(sensor="new")).stored
    assert len(rows(store, "new")) == 1
