"""Opening a store: places, other processes, disks that are full, schemas that are not ours."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from store import open_store, sql
from store.ports import StoreError
from store.records import IngestWindow, Item
from store.sql import FILE_NAME

Make = Callable[..., Item]


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("sqlite:///{}/a", f"a/{FILE_NAME}"),
        ("sqlite:///{}/b.sqlite3", "b.sqlite3"),
        ("{}/c/d/e", f"c/d/e/{FILE_NAME}"),
        ("{}/50% grease?#é", f"50% grease?#é/{FILE_NAME}"),
    ],
)
def test_a_store_stands_where_it_was_asked_for(tmp_path: Path, given: str, file: str) -> None:
    store = open_store(given.format(tmp_path))
    with store.transaction():
        store.ledger.set_meta("a", "1")
    store.close()
    again = open_store(tmp_path / file)
    assert again.ledger.get_meta("a") == "1"
    again.close()
    assert {path.name for path in (tmp_path / file).parent.iterdir()} == {(tmp_path / file).name}


@pytest.mark.parametrize(
    "given", ["postgresql://db/quarterline", "sqlite://", "sqlite:///", "sqlite://host/file"]
)
def test_another_kind_of_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"no store of this kind; give a directory, a file, or sqlite:///"):
        open_store(given)
    assert list(tmp_path.iterdir()) == []


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")  # passes for ours
        raw.execute("CREATE TABLE sites (other TEXT)")
    raw.close()
    with pytest.raises(StoreError, match="table sites already exists"):
        open_store(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        tables = raw.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
        assert tables == [("alembic_version",), ("sites",)]
        assert raw.execute("SELECT * FROM alembic_version").fetchall() == []
    raw.close()


def test_another_process_that_writes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: Make
) -> None:
    monkeypatch.setattr(sql, "_BUSY_S", 0.01)
    store = open_store(tmp_path)
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process is writing to this store"):
        store.history.commit(IngestWindow(items=(item(),), messages=1))
    assert store.history.totals().received == 0  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert len(store.history.commit(IngestWindow(items=(item(),), messages=1)).stored) == 1
    store.close()


def test_a_fleet_larger_than_the_engine_takes_arguments(tmp_path: Path, item: Make) -> None:
    store = open_store(tmp_path)
    store.history.commit(IngestWindow(items=(item(5, sensor="s7"), item(6, sensor="s7")), messages=1))
    fleet = [f"s{n}" for n in range(40_000)]
    assert [r.time_us for r in store.history.readings(fleet, since_us=0, until_us=2**62)] == [5, 6]
    assert {s: r.time_us for s, r in store.history.last(fleet).items()} == {"s7": 6}
    assert store.history.first_us(fleet) == 5
    store.close()


_WRITER = """
import sys
from store import open_store
from store.records import IngestWindow, Item
sys.stdin.readline()
store = open_store(sys.argv[1])
for n in range(40):
    items = tuple(Item("d-1", n * 10 + k, 1, "t", {"surface_m": 1.0}) for k in range(10))
    store.history.commit(IngestWindow(items=items, messages=10))
store.close()
"""


def test_two_processes_make_and_fill_one_store(tmp_path: Path) -> None:
    """As the service and an import beside it: whoever comes second finds duplicates, and nothing is lost."""
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdin=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    store = open_store(tmp_path)
    totals = store.history.totals()
    assert (totals.received, totals.stored, totals.duplicate) == (800, 400, 400)
    assert len(store.history.readings(["d-1"], since_us=0, until_us=2**62)) == 400
    assert store.integrity() == "ok"
    store.close()


_FULL = """
import os, resource, sys
from store import open_store
from store.ports import StoreFull
from store.records import IngestWindow, Item

def window(n):
    items = tuple(Item("d-1", n * 50 + k, 1, "t", {}, profile=(0.5,) * 64) for k in range(50))
    return IngestWindow(items=items, messages=50)

store = open_store(sys.argv[1])
store.history.commit(window(0))
log = sys.argv[1] + "/quarterline.sqlite3-wal"
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(log) + 200_000, hard))
n = 1
try:
    while True:
        store.history.commit(window(n))
        n += 1
except StoreFull as error:
    print(error)
assert store.history.totals().stored == n * 50, "readable, and as it was before the window"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.history.commit(window(n))
print(n + 1, store.history.totals().stored, store.integrity())
store.close()
"""


def test_a_log_that_can_grow_no_further_is_a_full_disk(tmp_path: Path) -> None:
    """The write itself fails, as on a disk without room, and the store goes on where there is room again."""
    pytest.importorskip("resource", reason="file sizes cannot be limited here")
    run = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True)
    assert run.stderr == ""
    said, last = run.stdout.splitlines()
    assert "make room" in said
    windows, stored, integrity = last.split()
    assert int(windows) > 1
    assert (int(stored), integrity) == (int(windows) * 50, "ok")
