"""The drill: a backup under load, the data directory gone, restored, and everything there again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from processes import Publisher, Service, until

from ingest.broker import EmbeddedBroker
from store import open_store

T0_S = 1_767_225_600  # 2026-01-01T00:00:00Z


def quarterline(folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "api", *words, "--config", str(folder / "quarterline.toml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored(data: Path) -> set[int]:
    with closing(open_store(data)) as store:
        rows = store.history.readings(["d-1"], since_us=0, until_us=2**62)
    return {round(row.values["tank_c"] * 1000) for row in rows}


class Load:
    """A sensor that goes on sending, reading n at second n, whatever becomes of the service."""

    def __init__(self, publisher: Publisher) -> None:
        self.sent = 0
        self._publisher = publisher
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            numbers = range(self.sent, self.sent + 20)
            self._publisher.send(*[f'{{"time": {T0_S + n}, "tank_c": {n / 1000}}}'.encode() for n in numbers])
            self.sent += 20

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.slow
def test_the_data_directory_is_lost_and_restored(
    tmp_path: Path,
    embedded: EmbeddedBroker,
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUARTERLINE_RECORD", str(tmp_path / "record.jsonl"))
    service = make_service(embedded.port)
    service.start()
    until(service.ready, "ready")
    load = Load(publisher(embedded.port))
    try:
        until(lambda: service.counters()["stored"] >= 1000, "a thousand readings")
        made = json.loads(quarterline(tmp_path, "backup", str(tmp_path / "backups"), "--json"))
        at_backup = made["manifest"]["counters"]["stored"]
        until(lambda: service.counters()["stored"] > at_backup, "a reading after the backup")
        assert "in use by process" in quarterline(tmp_path, "restore", made["backup"], status=1)
        service.end(signal.SIGKILL)
        shutil.rmtree(service.data)
        sent = load.sent
        until(lambda: load.sent > sent + 100, "a hundred readings for the broker to keep")

        quarterline(tmp_path, "restore", str(tmp_path / "backups"))
        found = stored(service.data)
        assert found == set(range(len(found)))
        assert len(found) == at_backup >= 1000

        service.start()
        until(service.ready, "ready again")
    finally:
        load.end()
    # the broker still had what was not acknowledged; what was acknowledged after the backup is in the record
    until(lambda: load.sent - 1 in stored(service.data), "the last reading")
    quarterline(tmp_path, "import", str(tmp_path / "record.jsonl"))
    assert stored(service.data) == set(range(load.sent))
    counters = service.counters()
    assert (counters["stored"], counters["quarantined"]) == (load.sent, 0)
    assert service.ready()


def test_a_second_service_and_a_restore_keep_off_a_running_one(
    tmp_path: Path,
    embedded: EmbeddedBroker,
    make_service: Callable[..., Service],
    free_port: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = make_service(embedded.port)
    service.start()
    monkeypatch.setenv("QUARTERLINE_HTTP__PORT", str(free_port()))
    assert service.child is not None
    assert f"in use by process {service.child.pid}" in quarterline(tmp_path, "serve", status=1)
    assert service.alive()


@pytest.mark.slow
def test_history_comes_in_beside_a_running_service(
    tmp_path: Path,
    embedded: EmbeddedBroker,
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:
    service = make_service(embedded.port)
    service.start()
    until(service.ready, "ready")
    load = Load(publisher(embedded.port))
    history = tmp_path / "history.jsonl"
    with history.open("w") as file:
        for n in range(1, 5001):
            line = {"sensor": "d-1", "time": T0_S - n, "tank_c": 5, "fog_depth_mm": 20, "solids_depth_mm": 30}
            file.write(json.dumps(line) + "\n")
    try:
        until(lambda: service.counters()["stored"] > 0, "a live reading")
        before = service.counters()["stored"]
        quarterline(tmp_path, "import", str(history), "--dry-run")
        quarterline(tmp_path, "import", str(history))
        until(lambda: service.counters()["stored"] > before + 5000, "live readings beside the import")
    finally:
        load.end()
    until(lambda: service.counters()["stored"] == load.sent + 5000, "everything")
    assert service.counters()["duplicate"] == 0
    assert service.ready()
    quarterline(tmp_path, "import", str(history))
    assert service.counters()["duplicate"] == 5000
