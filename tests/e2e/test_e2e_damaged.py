"""Field report L73: four KiB in the middle of the store are gone. The service comes up, says so, and goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from processes import Publisher, Service, until

from api.backing import BackupError, back_up
from api.damaged import set_aside_if_damaged
from api.settings import Settings
from ingest.broker import EmbeddedBroker
from store import open_store
from store.records import IngestWindow, Item, Manifest
from store.salvage import damage, salvage
from store.sql import FILE_NAME

T0_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def destroy_the_middle(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as raw:
        raw.seek(size // 2 // 4096 * 4096)
        raw.write(os.urandom(4096))


def test_a_damaged_store_is_set_aside_and_the_service_goes_on(
    tmp_path: Path,
    embedded: EmbeddedBroker,
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:
    service = make_service(embedded.port)
    file = service.data / FILE_NAME
    with closing(open_store(service.data)) as store:
        items = tuple(
            Item("d-1", T0_US + n * 1_000_000, T0_US + n * 1_000_000, "t", {"tank_c": 20.0, "air_c": 3.0})
            for n in range(20_000)
        )
        store.history.commit(IngestWindow(items=items, messages=len(items)))
        with store.transaction():
            store.ledger.put_manifest(Manifest("m-1", "i", T0_US, T0_US, True, number="77"))
    destroy_the_middle(file)
    broken = file.read_bytes()
    assert damage(file) is not None
    with pytest.raises(BackupError, match="damaged"):
        back_up(Settings(data_dir=service.data), None, tmp_path / "b", datetime.now(tz=UTC))

    service.start()
    until(service.ready, "ready")
    publisher(embedded.port).send(b'{"tank_c": 21}', b'{"tank_c": 22}')
    until(lambda: service.counters()["stored"] == 2, "new readings in the fresh store")
    service.end(signal.SIGTERM)

    (aside,) = service.data.glob("damaged-*")
    assert (aside / FILE_NAME).read_bytes()[4096:] == broken[4096:]
    assert damage(file) is None
    with closing(open_store(service.data)) as store:
        assert [s.id for s in store.registry.sensors()] == ["d-1"]
        assert [m.number for m in store.ledger.manifests()] == ["77"]
        (alert,) = [a for a in store.ledger.alerts(open_only=True) if a.kind == "store_damaged"]
        assert alert.severity == "critical"
        assert str(aside) in alert.reason
        assert "docs/deploy.md" in alert.reason
        assert store.ledger.journal(types=["alert"])[0].body["kind"] == "store_damaged"
        assert store.history.totals().stored == 2
    service.start()  # a second start finds nothing wrong
    until(service.ready, "ready again")
    assert len(list(service.data.glob("damaged-*"))) == 1


def test_a_start_that_is_killed_while_it_sets_a_store_aside_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(tmp_path)) as store:
        items = tuple(Item("d-1", T0_US + n, T0_US + n, "t", {"tank_c": 20.0}) for n in range(20_000))
        store.history.commit(IngestWindow(items=items, messages=len(items)))
        with store.transaction():
            store.ledger.put_manifest(Manifest("m-1", "i", T0_US, T0_US, True, number="77"))
    destroy_the_middle(tmp_path / FILE_NAME)

    def killed(damaged: Path, fresh: Path) -> tuple[dict[str, int], list[str]]:
        salvage(damaged, fresh)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("api.damaged.salvage", killed)
        with pytest.raises(KeyboardInterrupt):
            set_aside_if_damaged(tmp_path, T0_US)
    assert damage(tmp_path / FILE_NAME) is not None  # still there, so that the next start sees it
    found = set_aside_if_damaged(tmp_path, T0_US)
    assert found is not None
    assert list(tmp_path.glob("damaged-*")) == [found.folder]

    (found.folder / "fresh").mkdir()  # killed between the last two names
    (tmp_path / FILE_NAME).rename(found.folder / "fresh" / FILE_NAME)
    assert set_aside_if_damaged(tmp_path, T0_US) is None
    assert [one.name for one in found.folder.iterdir()] == [FILE_NAME]
    with closing(open_store(tmp_path)) as store:
        assert [m.number for m in store.ledger.manifests()] == ["77"]
        assert [a.kind for a in store.ledger.alerts(open_only=True)] == ["store_damaged"]


def test_a_file_that_is_none_and_a_sound_one(tmp_path: Path) -> None:
    assert damage(tmp_path / "none") is None
    (tmp_path / FILE_NAME).write_bytes(b"no database at all" * 500)
    assert damage(tmp_path / FILE_NAME) == "file is not a database"
    open_store(tmp_path / "sound").close()
    assert damage(tmp_path / "sound" / FILE_NAME) is None
