"""Quarantine: listed, exported, bounded, and tried again after a profile or the fleet changed, never stored twice."""

from __future__ import annotations

import io
import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import structlog
from starlette.testclient import TestClient

from api.core import Core
from api.http.app import create_app
from api.replay import Replay
from api.retry import Chosen
from api.security import new_key
from api.serve import LiveService, load_rules, running
from api.service import Fleet
from api.settings import Limits, Mqtt, Quarantine, Settings
from api.work import put_fleet
from ingest.decode import Decoder
from ingest.message import RawMessage
from store import open_store
from store.ports import Store
from store.records import IngestWindow, Interceptor, Quarantined, Sensor, Site

T0_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SITE = Site("s", "S", "sierra-madre", "America/Los_Angeles")
TANK = Interceptor("i", "s", "gravity", 1.2, 1.2)
NATIVE = Fleet(sites=(SITE,), interceptors=(TANK,), sensors=(Sensor("d-1", "i"),))
MAPPED = """
id = "acme"
title = "Acme probe"

[units]
surface = "mm"
"""


def settings(folder: Path, **more: Any) -> Settings:
    return Settings(data_dir=folder / "data", mqtt=Mqtt(enabled=False), **more)


def said(payload: bytes, *, sensor: str = "d-1", at_us: int = T0_US) -> RawMessage:
    return RawMessage(f"quarterline/v1/{sensor}/readings", payload, at_us)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[LiveService, TestClient]]]:
    """A running service without a broker, and a manager's HTTP client of it."""
    open_ones: list[Any] = []

    def start(**more: Any) -> tuple[LiveService, TestClient]:
        context = running(settings(tmp_path, **more))
        service = context.__enter__()
        open_ones.append(context)
        record, token = new_key("m", "manager", now_us=round(time.time() * 1e6))
        service.submit(lambda commands: commands.store.ledger.put_key(record))
        client = TestClient(create_app(service), headers={"Authorization": f"Bearer {token}"})
        return service, client

    yield start
    for one in open_ones:
        one.__exit__(None, None, None)


def taken(service: LiveService, *messages: RawMessage) -> Any:
    return service.submit(lambda commands: commands.readings(messages))  # type: ignore[attr-defined]


def totals(service: LiveService) -> dict[str, int]:
    now = service.store.history.totals()
    found = {
        name: getattr(now, name) for name in ("stored", "duplicate", "quarantined", "retained", "heartbeat")
    }
    assert now.received == sum(found.values())
    return found


def test_what_an_unknown_sensor_said_is_stored_once_it_is_in_the_fleet(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    body = b'{"time": "2026-01-01T00:00:00Z", "surface_mm": 1000}'
    taken(service, said(body), said(b'[{"surface_mm": 1500, "time": 1767225700}, {"surface_mm": "x"}]'))
    assert totals(service)["quarantined"] == 3
    still = client.post("/api/v1/quarantine/retry", json={}).json()
    assert still["counts"] == {"stored": 0, "duplicate": 0, "heartbeat": 0, "quarantined": 3, "cut": 0}
    assert totals(service)["quarantined"] == 3  # tried in vain, an item is not counted again
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    done = client.post("/api/v1/quarantine/retry", json={"sensor": "D-1"}).json()
    assert [one["outcome"] for one in done["items"]] == ["stored", "stored", "quarantined"]
    assert (done["items"][2]["reason"], done["more"]) == ("not_a_number", False)
    assert totals(service) == {"stored": 2, "duplicate": 0, "quarantined": 3, "retained": 0, "heartbeat": 0}
    rows = service.store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert [(row.time_us, row.values) for row in rows] == [
        (T0_US, {"surface_m": 1.0}),
        (T0_US + 100_000_000, {"surface_m": 1.5}),
    ]
    again = client.post("/api/v1/quarantine/retry", json={}).json()
    assert [one["id"] for one in again["items"]] == [3]
    assert totals(service)["stored"] == 2
    listed = client.get("/api/v1/quarantine").json()["items"]
    assert [one["outcome"] for one in listed] == ["stored", "stored", None]
    assert [one["id"] for one in client.get("/api/v1/quarantine?waiting=true").json()["items"]] == [3]
    told = [one.body for one in service.store.ledger.journal(types=["quarantine_retried"])]
    assert [(one["id"], one["outcome"]) for one in told] == [(1, "stored"), (2, "stored")]


def test_a_time_that_is_missing_is_that_of_the_first_reception(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    taken(service, said(b'{"surface_mm": 1000}'))
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    assert client.post("/api/v1/quarantine/retry", json={"ids": [1]}).json()["counts"]["stored"] == 1
    (row,) = service.store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert row.time_us == T0_US
    assert row.received_us > T0_US  # late data: it is folded as such
    assert service.store.history.contacts()["d-1"] == T0_US  # and no sign of life of today


def test_what_the_device_sent_again_meanwhile_is_a_duplicate(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    body = b'{"time": "2026-01-01T00:00:00Z", "surface_mm": 1000}'
    taken(service, said(body))
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    taken(service, said(body))
    assert client.post("/api/v1/quarantine/retry", json={}).json()["counts"]["duplicate"] == 1
    assert totals(service) == {"stored": 1, "duplicate": 1, "quarantined": 1, "retained": 0, "heartbeat": 0}


def test_a_conflict_stays_one_however_often_it_is_tried(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    taken(service, said(b'{"time": 1767225600, "surface_mm": 1000}'))
    taken(service, said(b'{"time": 1767225600, "surface_mm": 1100}'))
    for _ in range(3):
        (one,) = client.post("/api/v1/quarantine/retry", json={}).json()["items"]
        assert (one["outcome"], one["reason"]) == ("quarantined", "conflict")
    assert totals(service) == {"stored": 1, "duplicate": 0, "quarantined": 1, "retained": 0, "heartbeat": 0}
    assert len(service.store.history.quarantine()) == 1


def test_of_a_long_payload_the_head_and_the_hash_of_all_are_kept_and_it_is_not_tried(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    long = b'{"surface_mm": 1000, "x": "' + b"y" * 5000 + b'"}'
    taken(service, said(long))
    (one,) = client.get("/api/v1/quarantine").json()["items"]
    assert bytes.fromhex(one["payload_hex"]) == long[:4096]
    assert (one["size"], one["sha256"]) == (len(long), sha256(long).hexdigest())
    (tried,) = client.post("/api/v1/quarantine/retry", json={}).json()["items"]
    assert tried["outcome"] == "cut"
    assert tried["detail"] == f"of {len(long)} bytes only the first 4096 were kept: it cannot be tried again"


def test_over_the_limit_is_quarantined_and_can_be_tried_again_later(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started(limits=Limits(sensor_per_s=0.001, sensor_burst=5))
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    messages = [
        said(b'{"time": %d, "surface_mm": 1000}' % (1_767_225_600 + n), at_us=T0_US + n * 1000)
        for n in range(8)
    ]
    taken(service, *messages)
    assert totals(service) == {"stored": 5, "duplicate": 0, "quarantined": 3, "retained": 0, "heartbeat": 0}
    rows = client.get("/api/v1/quarantine?reason=rate").json()["items"]
    assert len(rows) == 3
    assert client.post("/api/v1/quarantine/retry", json={"reason": "rate"}).json()["counts"]["stored"] == 3


def test_the_oldest_beyond_the_bounds_are_dropped_and_counted(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started(quarantine=Quarantine(keep=200, keep_of_one_sensor=100))
    for n in range(3):
        taken(service, *(said(b"%d %d" % (n, k), sensor="loud") for k in range(60)))
    taken(service, *(said(b"calm %d" % k, sensor=f"calm-{k}") for k in range(110)))
    rows = service.store.history.quarantine(limit=1000)
    assert len(rows) == 200 - 0
    assert [one.id for one in rows] == list(range(91, 291))
    assert sum(one.sensor == "loud" for one in rows) == 90
    text = client.get("/metrics").text
    assert "quarterline_quarantine_dropped_total 90" in text
    assert totals(service)["quarantined"] == 290  # counted over all time


def test_the_export_is_json_lines_with_why_and_what(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    taken(service, said(b"not json"), said(b"\xff\xfe", sensor="d-2"))
    answer = client.get("/api/v1/quarantine/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [one.get("payload", one.get("payload_hex")) for one in lines] == ["not json", "fffe"]
    assert {"reason": "unknown_sensor", "sensor": "d-2", "size": 2, "whole": True}.items() <= lines[1].items()
    assert len(client.get("/api/v1/quarantine/export?sensor=d-2").text.splitlines()) == 1


def test_a_retry_goes_on_after_the_last_item_of_the_one_before(
    started: Callable[..., tuple[LiveService, TestClient]],
) -> None:
    service, client = started()
    taken(service, *(said(b'{"surface_mm": 1}', sensor=f"d-{n}") for n in range(4)))
    rest = client.post("/api/v1/quarantine/retry?after=2", json={}).json()
    assert ([one["id"] for one in rest["items"]], rest["after"]) == ([3, 4], 4)
    some = client.post("/api/v1/quarantine/retry?after=1", json={"ids": [1, 2, 4]}).json()
    assert [one["id"] for one in some["items"]] == [2, 4]
    none = client.post("/api/v1/quarantine/retry?after=4", json={"ids": [1]}).json()
    assert (none["items"], none["after"]) == ([], 4)
    (first,) = Chosen().items(service.store, after_id=3)
    assert first.id == 4


def test_who_may_do_what(started: Callable[..., tuple[LiveService, TestClient]]) -> None:
    service, client = started()
    record, token = new_key("r", "read-only", now_us=0)
    service.submit(lambda commands: commands.store.ledger.put_key(record))
    reader = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v1/quarantine", headers=reader).status_code == 200
    assert client.post("/api/v1/quarantine/retry", json={}, headers=reader).status_code == 403
    assert client.post("/api/v1/quarantine/retry", json={"sensors": "x"}).status_code == 422
    assert client.get("/api/v1/gaps", headers=reader).json() == {"items": [], "next": None}


def test_the_pace_of_a_sensor_is_judged_alike_live_after_restarts_and_in_a_replay(tmp_path: Path) -> None:
    chance = random.Random(3)
    rules = load_rules(Settings(limits=Limits(sensor_per_s=0.02, sensor_burst=10)))
    at_us, stream = T0_US, []
    for n in range(300):
        at_us += chance.choice([0, 0, 1000, 5_000_000, 40_000_000, 100_000_000])
        stream.append(said(b'{"time": %d, "surface_mm": 1000}' % (1_767_225_600 + n), at_us=at_us))
    stores = [open_store(tmp_path / name, durable=False) for name in ("once", "again", "replayed")]
    for store in stores:
        put_fleet(store, NATIVE)
    Core(stores[0], rules, start_us=T0_US).accept(stream, at_us)
    start = 0
    while start < len(stream):
        end = start + chance.randint(1, 30)
        Core(stores[1], rules, start_us=T0_US).accept(
            stream[start:end], stream[min(end, 300) - 1].received_us
        )
        start = end
    Replay(stores[2], rules, io.BytesIO()).run(stream)
    verdicts = [[(q.received_us, q.reason) for q in one.history.quarantine(limit=1000)] for one in stores]
    assert {reason for _, reason in verdicts[0]} == {"rate"}
    assert 20 < len(verdicts[0]) < 280
    assert verdicts[1] == verdicts[0]
    assert verdicts[2] == verdicts[0]
    for store in stores:
        store.close()


# ---- the command line --------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Run]:
    from api.cli import main

    handlers = logging.getLogger().handlers[:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.toml").write_text('data_dir = "data"\n[profiles]\npaths = ["profiles"]\n')
    (tmp_path / "profiles").mkdir()

    def go(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quarterline", *words, "--config", "q.toml"])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfdbinary.readouterr()
        status = ended.value.code
        return (status if isinstance(status, int) else 0), out.decode(), err.decode()

    yield go
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


def filled(folder: Path, *messages: RawMessage) -> None:
    store = open_store(folder / "data")
    sensors = Fleet(sites=(SITE,), interceptors=(TANK,), sensors=(Sensor("d-1", "i", profile="acme"),))
    put_fleet(store, sensors)
    decoder = Decoder({one.id: one for one in store.registry.sensors()}, load_rules(Settings()).profiles)
    store.history.commit(decoder.decode(messages))
    store.close()


def test_a_device_profile_that_was_missing_makes_readings_of_what_waited(run: Run, tmp_path: Path) -> None:
    filled(
        tmp_path, said(b'{"surface": 1000, "time": 1767225600}'), said(b"[]"), said(b'{"surface": 1, "x":')
    )
    status, out, _ = run("quarantine", "list")
    assert status == 0
    assert next(line.split("  ")[2:4] for line in out.splitlines()) == [
        "d-1",
        'unknown_profile: "acme": no such device profile, which d-1 names; add its file',
    ]
    (tmp_path / "profiles" / "acme.toml").write_text(MAPPED)
    status, out, _ = run("quarantine", "retry", "--json")
    assert (status, json.loads(out)["counts"]) == (
        0,
        {"stored": 1, "duplicate": 0, "heartbeat": 1, "quarantined": 1, "cut": 0},
    )
    status, out, _ = run("quarantine", "retry")
    assert (
        out.splitlines()[-1]
        == "1 tried: 0 stored, 0 known already, 0 without a value, 1 as before, 0 cut short"
    )
    status, out, _ = run("quarantine", "list", "--json", "--waiting")
    assert [(one["id"], one["reason"]) for one in json.loads(out)] == [(3, "not_json")]
    store = open_store(tmp_path / "data")
    (row,) = store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert row.values == {"surface_m": 1.0}
    assert store.ledger.get_meta("history_version") == "1"  # a running service folds anew
    store.close()


def test_the_export_can_be_replayed(run: Run, tmp_path: Path) -> None:
    filled(tmp_path, said(b'{"surface": 1000, "time": 1767225600}'), said(b"\xff"), said(b"x" * 5000))
    status, _, err = run("quarantine", "export", "--messages", "--out", "kept.jsonl")
    assert (status, err) == (0, "2 items; 1 of which only the first 4 KiB are kept were left out\n")
    fleet = (
        '[[sites]]\nid = "s"\nname = "S"\nordinance = "inglewood"\ntimezone = "America/Los_Angeles"\n'
        '[[interceptors]]\nid = "i"\nsite = "s"\nkind = "gravity"\nbase_depth_mm = 1200\n'
        '[[sensors]]\nid = "d-1"\ninterceptor = "i"\nprofile = "acme"\n'
    )
    (tmp_path / "fleet.toml").write_text(fleet)
    (tmp_path / "profiles" / "acme.toml").write_text(MAPPED)
    status, out, err = run("replay", "--fleet", "fleet.toml", "--messages", "kept.jsonl", "--out", "-")
    assert status == 0, err
    summary = json.loads(out.splitlines()[-1])
    assert (summary["stored"], summary["quarantined"]) == (1, 1)


# ---- the store ---------------------------------------------------------------------------------------


def test_a_running_service_takes_in_what_was_tried_beside_it(
    started: Callable[..., tuple[LiveService, TestClient]], tmp_path: Path
) -> None:
    service, _ = started()
    service.submit(lambda commands: commands.put_fleet(NATIVE))
    store: Store = open_store(tmp_path / "data")
    bad = Quarantined("d-1", "quarterline/v1/d-1/readings", T0_US, "unknown_sensor", "x",
                      b'{"time": 1767225600, "surface_mm": 1000}', 40, "0" * 64)  # fmt: skip
    store.history.commit(IngestWindow(quarantined=(bad,), messages=1))
    store.close()
    from api.quarantined import retry

    config = tmp_path / "q.toml"
    config.write_text('data_dir = "data"\n')
    assert [one.outcome for one in retry(Chosen(), config)] == ["stored"]
    core = service._engine.core
    end = time.monotonic() + 20
    while not core._new and time.monotonic() < end:
        time.sleep(0.05)  # between two looks
    assert list(core._new) == [("d-1", T0_US)]
