"""`quarterline backup` and `restore`: whole or not at all, looked at before use, never over what is there."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.backing import BackupError, Made, back_up, newest, restore
from api.datadir import held
from api.service import Fleet
from api.settings import Files, Mqtt, Settings
from api.work import put_fleet
from store import open_store
from store.ports import Store, StoreError
from store.records import IngestWindow, Interceptor, Item, Manifest, Sensor, Site
from store.sql import FILE_NAME

NOW = datetime(2026, 12, 1, 3, 30, tzinfo=UTC)
T0_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def window(first: int, count: int) -> IngestWindow:
    items = tuple(
        Item("d-1", T0_US + n * 1_000_000, T0_US + n * 1_000_000, "t", {"tank_c": float(n)})
        for n in range(first, first + count)
    )
    return IngestWindow(items=items, messages=count)


def fill(store: Store) -> None:
    put_fleet(
        store,
        Fleet(
            sites=(Site("s", "S", "sierra-madre", "America/Los_Angeles"),),
            interceptors=(Interceptor("i", "s", "gravity", 1.2, 1.2),),
            sensors=(Sensor("d-1", "i"),),
        ),
    )
    store.history.commit(window(0, 500))
    with store.transaction():
        store.ledger.put_manifest(Manifest("m-1", "i", T0_US, T0_US, True, number="77"))
        store.ledger.append(T0_US, "alert", "i", {"id": "a"})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "own.toml").write_text('id = "own"\n')
    config = Settings(
        data_dir=tmp_path / "data",
        mqtt=Mqtt(password_file=tmp_path / "password"),
        profiles=Files(paths=(tmp_path / "profiles",)),
    )
    store = open_store(config.data_dir)
    fill(store)
    store.close()
    return config


@pytest.fixture
def backup(tmp_path: Path, settings: Settings) -> Callable[..., Made]:
    config = tmp_path / "quarterline.toml"
    config.write_text('data_dir = "data"\n')

    def make(minutes: int = 0, **more: int) -> Made:
        return back_up(settings, config, tmp_path / "backups", NOW + timedelta(minutes=minutes), **more)

    return make


def test_what_was_backed_up_comes_back(
    tmp_path: Path, settings: Settings, backup: Callable[..., Made]
) -> None:
    (settings.data_dir / "spool").mkdir()
    (settings.data_dir / "spool" / "1.spool").write_bytes(b"waiting")
    (settings.data_dir / ".dry-run-x").mkdir()
    (settings.data_dir / ".dry-run-x" / FILE_NAME).write_bytes(b"thrown away")
    made = backup()
    assert made.place == tmp_path / "backups" / "quarterline-20261201T033000Z"
    assert made.manifest.counters["stored"] == 500
    assert (made.manifest.rows["readings"], made.manifest.rows["manifests"]) == (500, 1)
    assert sorted(made.manifest.files) == [
        "configuration/password",
        "configuration/profiles/own.toml",
        "configuration/quarterline.toml",
        f"data/{FILE_NAME}",
        "data/spool/1.spool",
    ]
    assert {oct(p.stat().st_mode & 0o077) for p in (made.place, made.place / "data" / FILE_NAME)} == {"0o0"}
    target = tmp_path / "elsewhere"
    assert restore(newest(tmp_path / "backups"), target) == made.manifest
    assert sorted(p.name for p in target.iterdir()) == [".lock", FILE_NAME, "spool"]
    assert (target / "spool" / "1.spool").read_bytes() == b"waiting"
    store = open_store(target)
    try:
        assert store.history.totals().stored == 500
        assert [m.number for m in store.ledger.manifests()] == ["77"]
        assert [e.body for e in store.ledger.journal()] == [{"id": "a"}]
        assert [s.id for s in store.registry.sensors()] == ["d-1"]
        rows = store.history.readings(["d-1"], since_us=0, until_us=2**62)
        assert [r.values["tank_c"] for r in rows] == [float(n) for n in range(500)]
        assert (store.history.commit(window(0, 500)).duplicates, store.integrity()) == (500, "ok")
    finally:
        store.close()


def test_a_backup_holds_one_instant_of_a_store_that_is_written_to(
    settings: Settings, backup: Callable[..., Made]
) -> None:
    """Every commit is of ten items and one journal line: the copy holds as many tens as lines, and the counters."""
    store = open_store(settings.data_dir)
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            with store.transaction():
                store.history.commit(window(1000 + n * 10, 10))
                store.ledger.append(T0_US + n, "tick", None, {})
            n += 1
            if n == 20:
                wrote.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert wrote.wait(60)
        made = backup()
    finally:
        stop.set()
        thread.join()
        stored = store.history.totals().stored
        store.close()
    rows = made.manifest.rows
    assert 700 <= rows["readings"] <= stored
    assert rows["readings"] == 500 + 10 * (rows["journal"] - 1) == made.manifest.counters["stored"]


def test_only_the_newest_are_kept_and_what_is_unfinished_goes(
    tmp_path: Path, backup: Callable[..., Made]
) -> None:
    (tmp_path / "backups" / ".unfinished-old").mkdir(parents=True)
    places = [backup(minute, keep=2).place for minute in (0, 1, 1, 2)]
    assert places[2].name == "quarterline-20261201T033100Z-2"
    assert sorted(p for p in (tmp_path / "backups").iterdir() if p.is_dir()) == sorted(places[2:])
    assert newest(tmp_path / "backups") == places[3]


def test_restoring_refuses_a_directory_that_holds_something(
    tmp_path: Path, settings: Settings, backup: Callable[..., Made]
) -> None:
    made = backup()
    with pytest.raises(BackupError, match=r"data: is not empty \(there is quarterline.sqlite3\)"):
        restore(made.place, settings.data_dir)
    other = tmp_path / "other"
    other.mkdir()
    with held(other), pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
        restore(made.place, other)


def test_a_restore_that_did_not_end_is_begun_again(tmp_path: Path, backup: Callable[..., Made]) -> None:
    made = backup()
    target = tmp_path / "target"
    (target / ".restoring").mkdir(parents=True)
    (target / ".restoring" / FILE_NAME).write_bytes(b"half")
    (target / "spool").mkdir()
    restore(made.place, target)
    assert sorted(p.name for p in target.iterdir()) == [".lock", FILE_NAME]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda place: (place / "data" / FILE_NAME).unlink(), r"quarterline.sqlite3: is missing"),
        (lambda place: _flip(place / "data" / FILE_NAME), r"quarterline.sqlite3: is not what was backed up"),
        (lambda place: (place / "backup.json").write_text("{"), r"backup.json: cannot be used"),
        (lambda place: (place / "backup.json").unlink(), r"holds no backup"),
        (lambda place: _in_manifest(place, format=2), r"format 2: made by a newer version"),
        (lambda place: _in_manifest(place, rows={}), r"does not hold what its backup.json says"),
        (
            lambda place: _in_manifest(place, files={"../x": {"bytes": 1, "sha256": ""}}),
            r"leads out of the backup",
        ),
        (lambda place: _in_manifest(place, files={}), r"names no store"),
    ],
)
def test_a_damaged_backup_is_refused_and_leaves_nothing(
    tmp_path: Path, backup: Callable[..., Made], damage: Callable[[Path], object], said: str
) -> None:
    made = backup()
    damage(made.place)
    with pytest.raises(BackupError, match=said):
        restore(newest(made.place), tmp_path / "target")
    assert [p.name for p in (tmp_path / "target").glob("*") if p.name != ".lock"] == []


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _in_manifest(place: Path, **change: object) -> None:
    document = json.loads((place / "backup.json").read_text())
    (place / "backup.json").write_text(json.dumps({**document, **change}))


def test_a_backup_of_a_newer_program_is_refused(
    tmp_path: Path, settings: Settings, backup: Callable[..., Made]
) -> None:
    raw = sqlite3.connect(settings.data_dir / FILE_NAME)
    raw.execute("UPDATE alembic_version SET version_num = '9999_future'")
    raw.commit()
    raw.close()
    made = backup()
    with pytest.raises(StoreError, match="made by a newer version of this program"):
        restore(made.place, tmp_path / "target")
    assert [p.name for p in (tmp_path / "target").iterdir()] == [".lock"]


def test_a_damaged_store_makes_no_backup(
    tmp_path: Path, settings: Settings, backup: Callable[..., Made]
) -> None:
    file = settings.data_dir / FILE_NAME
    data = bytearray(file.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = os.urandom(4096)
    file.write_bytes(data)
    with pytest.raises((BackupError, StoreError), match=r"damaged|malformed"):
        backup()
    assert [p for p in (tmp_path / "backups").iterdir() if p.is_dir()] == []


def test_nothing_to_back_up_and_a_folder_inside_are_refused(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(BackupError, match="there is no store to back up"):
        back_up(Settings(data_dir=tmp_path / "none"), None, tmp_path / "b", NOW)
    with pytest.raises(BackupError, match="lies in the data directory"):
        back_up(settings, None, settings.data_dir / "backups", NOW)
