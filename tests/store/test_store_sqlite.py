"""What is SQLite's own: pragmas, schema, migrations, full disk, crashes, threads."""

from __future__ import annotations

import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from store import open_store, schema
from store.ports import StoreError, StoreFull
from store.records import IngestWindow, Item
from store.sql import FILE_NAME, SqlStore

Make = Callable[..., Item]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqlStore]:
    store = open_store(tmp_path / "data")
    assert isinstance(store, SqlStore)
    yield store
    store.close()


def window(*items: Item) -> IngestWindow:
    return IngestWindow(items=items, messages=len(items))


def test_the_pragmas_are_in_force_and_the_file_is_private(sqlite: SqlStore) -> None:
    with sqlite.transaction():
        raw = sqlite.raw(sqlite.writer)
        values = {
            name: raw.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
        }
        kept = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'readings'").fetchone()[0]
    assert values == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "wal_autocheckpoint": 16000}
    assert "WITHOUT ROWID" in kept
    assert stat.S_IMODE(sqlite.file.stat().st_mode) == 0o600
    assert sqlite.integrity() == "ok"


def test_the_migrations_make_the_schema(sqlite: SqlStore) -> None:
    engine = sa.create_engine(f"sqlite:///{sqlite.file}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    engine.dispose()


def test_opening_again_keeps_everything(tmp_path: Path, item: Make) -> None:
    for _ in range(2):
        store = open_store(tmp_path / "data")
        store.history.commit(window(item()))
        store.close()
    store = open_store(tmp_path / "data" / FILE_NAME)
    assert (store.history.totals().stored, store.history.totals().duplicate) == (1, 1)
    store.close()


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    with pytest.raises(StoreError, match="newer version"):
        open_store(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database, and longer than a header " * 10)
    with pytest.raises(StoreError, match="not a database"):
        open_store(tmp_path)


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "photos.db"
    with sqlite3.connect(file) as raw:
        raw.execute("CREATE TABLE photos (name TEXT)")
    raw.close()
    with pytest.raises(StoreError, match=r"photos\.db: a database of another program .*'photos'"):
        open_store(file)
    with sqlite3.connect(file) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("photos",)]
    raw.close()


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        open_store(tmp_path / "file" / "data")


def test_a_full_disk_is_said_and_survived(sqlite: SqlStore, item: Make) -> None:
    with sqlite.transaction():
        raw = sqlite.raw(sqlite.writer)
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {pages + 2}")
    many = [item(n, topic="t", profile=(0.5,) * 100) for n in range(1, 2000)]
    with pytest.raises(StoreFull, match="disk is full"):
        sqlite.history.commit(window(*many))
    assert sqlite.history.totals().received == 0
    raw.execute("PRAGMA max_page_count = 1000000")
    assert len(sqlite.history.commit(window(*many)).stored) == 1999
    assert sqlite.integrity() == "ok"


def test_a_write_outside_a_transaction_is_a_fault(sqlite: SqlStore) -> None:
    with pytest.raises(RuntimeError, match="outside a transaction"):
        sqlite.ledger.set_meta("a", "b")


def test_readers_see_the_last_commit_and_the_writer_its_own(sqlite: SqlStore) -> None:
    seen: list[str | None] = []

    def look() -> None:
        seen.append(sqlite.ledger.get_meta("a"))

    with sqlite.transaction():
        sqlite.ledger.set_meta("a", "1")
        other = threading.Thread(target=look)
        other.start()
        other.join()
        look()
    look()
    assert seen == [None, "1", "1"]


def test_readers_beside_a_writer(sqlite: SqlStore, item: Make) -> None:
    stop, faults = threading.Event(), []
    reads: list[list[int]] = [[], []]

    def read(seen: list[int]) -> None:
        while not (stop.is_set() and seen):
            try:
                rows = sqlite.history.readings(["d-1"], since_us=0, until_us=2**62)
                totals = sqlite.history.totals()
            except StoreError as error:
                faults.append(error)
                return
            seen.append(len(rows))
            if totals.received != totals.stored or len(rows) > totals.stored or len(rows) % 20:
                faults.append((len(rows), totals))

    readers = [threading.Thread(target=read, args=(seen,)) for seen in reads]
    for reader in readers:
        reader.start()
    for n in range(60):
        sqlite.history.commit(window(*(item(n * 20 + k) for k in range(20))))
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults
    assert all(seen and seen == sorted(seen) for seen in reads)  # whole windows, never fewer than before
    assert sqlite.history.totals().stored == 1200


_COMMITS = """
import sys
from store import open_store
from store.records import IngestWindow, Item
store = open_store(sys.argv[1])
n = 0
while True:
    items = tuple(Item("d-1", n * 50 + k, 1, "t", {"surface_m": 1.0}) for k in range(50))
    store.history.commit(IngestWindow(items=items, messages=50))
    n += 1
    print(n, flush=True)
"""


def test_kill_9_keeps_every_commit_that_was_reported(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _COMMITS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    reported = 0
    for line in child.stdout:
        reported = int(line)
        if reported == 40:
            child.send_signal(signal.SIGKILL)
    child.stdout.close()
    child.wait()
    store = open_store(tmp_path)
    totals = store.history.totals()
    rows = store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert store.integrity() == "ok"
    store.close()
    assert reported >= 40
    assert totals.stored == len(rows)
    assert totals.stored >= reported * 50
    assert totals.stored % 50 == 0
