"""The contract of a transaction: together or not at all, nested or not, whatever fails within."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from store import open_store
from store.ports import Store, StoreError, StoreFull
from store.records import IngestWindow, Item, Sensor, Site, Totals
from store.sql import SqlStore

Make = Callable[..., Item]
SITE = Site("luigi", "Luigi's", "sierra-madre", "America/Los_Angeles")


class Undone(Exception):
    """A caller's own reason to give a transaction up."""


def window(*items: Item) -> IngestWindow:
    return IngestWindow(items=items, messages=len(items))


def test_history_registry_and_ledger_share_one_transaction(store: Store, item: Make) -> None:
    def fails() -> None:
        with store.transaction():
            store.history.commit(window(item()))
            store.registry.put_fleet(sites=[SITE])
            store.ledger.append(5, "alert", None, {})
            store.ledger.set_meta("a", "1")
            raise Undone

    with pytest.raises(Undone):
        fails()
    assert store.history.totals() == Totals()
    assert store.registry.sites() == []
    assert store.registry.version() == 0
    assert store.ledger.journal() == []
    assert store.ledger.get_meta("a") is None


def test_a_nested_transaction_that_fails_undoes_its_own_part_alone(store: Store, item: Make) -> None:
    def fails() -> None:
        with store.transaction():
            store.ledger.set_meta("inner", "1")
            store.history.commit(window(item(sensor="new")))
            raise Undone

    with store.transaction():
        store.ledger.set_meta("before", "1")
        with pytest.raises(Undone):
            fails()
        assert store.ledger.get_meta("inner") is None
        with store.transaction():
            store.ledger.set_meta("joined", "1")
        store.history.commit(window(item(sensor="other"), item(sensor="new")))
    assert [store.ledger.get_meta(name) for name in ("before", "inner", "joined")] == ["1", None, "1"]
    assert {r.sensor for r in store.history.readings(["new", "other"], since_us=0, until_us=2**62)} == {
        "new",
        "other",
    }
    assert store.history.totals().stored == 2


def test_a_nested_transaction_is_undone_with_the_outer(store: Store) -> None:
    def fails() -> None:
        with store.transaction():
            with store.transaction():
                store.ledger.set_meta("inner", "1")
            raise Undone

    with pytest.raises(Undone):
        fails()
    assert store.ledger.get_meta("inner") is None


def test_a_fleet_refused_within_a_transaction_leaves_nothing_of_itself(store: Store) -> None:
    with store.transaction():
        store.ledger.set_meta("kept", "1")
        with pytest.raises(StoreError, match="does not exist"):
            store.registry.put_fleet(sites=[SITE], sensors=[Sensor("d-1", "nowhere")])
    assert store.ledger.get_meta("kept") == "1"
    assert store.registry.sites() == []


def test_other_threads_wait_their_turn_to_write(store: Store) -> None:
    inside, order = threading.Event(), []

    def second() -> None:
        inside.wait()
        with store.transaction():
            order.append("second")
            store.ledger.set_meta("last", "second")

    other = threading.Thread(target=second)
    other.start()
    with store.transaction():
        inside.set()
        store.ledger.set_meta("last", "first")
        with store.transaction():
            order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert store.ledger.get_meta("last") == "second"


def test_a_closed_store_says_so(store: Store) -> None:
    store.ledger.get_meta("a")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.ledger.get_meta("a")
    with pytest.raises(StoreError, match="the store is closed"), store.transaction():
        pass


# ---- SQLite ------------------------------------------------------------------------------------------


@pytest.fixture
def sqlite(tmp_path: Path) -> SqlStore:
    store = open_store(tmp_path / "data")
    assert isinstance(store, SqlStore)
    return store


def test_what_the_engine_has_undone_is_not_gone_on_with(sqlite: SqlStore, item: Make) -> None:
    """On some errors SQLite rolls the whole transaction back; a caller that went on would keep half of it."""

    def goes_on() -> None:
        with sqlite.transaction():
            sqlite.ledger.set_meta("a", "1")
            sqlite.raw(sqlite.writer).execute("ROLLBACK")  # as the engine does by itself
            for write in (
                lambda: sqlite.ledger.set_meta("b", "1"),
                lambda: sqlite.history.commit(window(item())),
                lambda: sqlite.ledger.get_meta("a"),
            ):
                with pytest.raises(StoreError, match="undone by an earlier error"):
                    write()

    with pytest.raises(StoreError, match="undone by an earlier error"):
        goes_on()
    assert sqlite.ledger.get_meta("a") is None
    assert sqlite.history.totals() == Totals()
    with sqlite.transaction():
        sqlite.ledger.set_meta("a", "2")
    assert sqlite.ledger.get_meta("a") == "2"
    sqlite.close()


def test_a_full_disk_within_a_transaction_undoes_the_window_alone(sqlite: SqlStore, item: Make) -> None:
    many = [item(n, profile=(0.5,) * 100) for n in range(1, 1500)]
    with sqlite.transaction():
        raw = sqlite.raw(sqlite.writer)
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {pages + 4}")
    with sqlite.transaction():
        sqlite.ledger.set_meta("kept", "1")
        with pytest.raises(StoreFull, match="disk is full"):
            sqlite.history.commit(window(*many))
    assert sqlite.ledger.get_meta("kept") == "1"
    assert sqlite.history.totals() == Totals()
    assert sqlite.integrity() == "ok"
    sqlite.close()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="open files cannot be counted here")
def test_threads_that_come_and_go_leave_no_connection(sqlite: SqlStore) -> None:
    def read() -> None:
        assert sqlite.ledger.get_meta("a") is None

    def one_more() -> int:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        return sum(1 for _ in Path("/dev/fd").iterdir())

    first = one_more()
    assert [one_more() for _ in range(30)] == [first] * 30
    sqlite.close()


def test_a_reader_cannot_write(sqlite: SqlStore) -> None:
    with pytest.raises(StoreError, match="READONLY"), sqlite.reading() as connection:
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', '1')")
    assert sqlite.ledger.get_meta("a") is None
    sqlite.close()


def test_a_read_under_way_outlives_close(sqlite: SqlStore) -> None:
    with sqlite.transaction():
        sqlite.ledger.set_meta("a", "1")
    began, closed, seen = threading.Event(), threading.Event(), []

    def read() -> None:
        with sqlite.reading() as connection:
            began.set()
            closed.wait()
            seen.append(connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'a'").scalar())

    reader = threading.Thread(target=read)
    reader.start()
    began.wait()
    sqlite.close()
    closed.set()
    reader.join()
    assert seen == ["1"]
