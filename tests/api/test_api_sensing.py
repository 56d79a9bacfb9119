"""Readings by HTTP, passwords, and what a sensor's messages became: at a running service over a real store."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from api.credentials import authenticate_sensor, issue, username_of
from api.http.app import create_app
from api.recent import KEPT, Recent
from api.recording import merged, read_messages
from api.replay import Replay
from api.security import new_key
from api.serve import LiveService, load_rules, running
from api.service import Fleet
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.records import Interceptor, Sensor, Site, Totals

PASSWORD = "correcthorsebatterystap2"
FLEET = Fleet(
    sites=(Site("s", "S", "sierra-madre", "America/Los_Angeles"),),
    interceptors=(Interceptor("i", "s", "gravity", 1.22, 1.22),),
    sensors=(Sensor("d-1", "i"), Sensor("d-2", "i"), Sensor("aa:bb", "i")),
)


@dataclass
class Running:
    """A service without MQTT, its address, and an operator's key."""

    service: LiveService
    url: str
    key: str
    settings: Settings
    clients: list[httpx.Client] = field(default_factory=list)

    def device(self, name: str = "d-1", password: str = PASSWORD) -> httpx.Client:
        self.clients.append(httpx.Client(base_url=self.url, auth=(name, password), timeout=30))
        return self.clients[-1]

    def operator(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        self.clients.append(httpx.Client(base_url=self.url, headers=headers, timeout=30))
        return self.clients[-1]

    def totals(self) -> Totals:
        return self.service.store.history.totals()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Running]:
    settings = Settings(
        data_dir=tmp_path / "data", record=tmp_path / "recorded.jsonl", mqtt={"enabled": False}
    )
    store = open_store(settings.data_dir)
    record, key = new_key("boss", "admin", now_us=1)
    with store.transaction():
        put_fleet(store, FLEET)
        store.ledger.put_key(record)
        for one in FLEET.sensors:
            issue(store.ledger, one.id, password=PASSWORD, now_us=1)
    store.close()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    with running(settings) as service:
        config = uvicorn.Config(create_app(service), log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            thread.join(0.01)
        assert server.started
        made = Running(service, f"http://127.0.0.1:{listener.getsockname()[1]}", key, settings)
        yield made
        for one in made.clients:
            one.close()
        service.subscribe().close()
        server.should_exit = True
        thread.join(20)
    listener.close()


def outcomes(answer: httpx.Response) -> list[tuple[Any, str, Any]]:
    assert answer.status_code == 201, answer.text
    return [(one["place"], one["outcome"], one["reason"]) for one in answer.json()["items"]]


# ---- readings by HTTP --------------------------------------------------------------------------------


def test_every_item_is_answered_for_after_it_is_committed(live: Running) -> None:
    device = live.device()
    at = "2026-11-30T00:00:00Z"
    body = [
        {"time": at, "surface_mm": 1220},
        {"time": at, "surface_mm": 1220},
        {"time": at, "surface_mm": 1000},
        {"time": "2026-11-30T00:15:00Z", "fog_bottom": 1100},
        {"seq": 4},
        {"time": "2026-11-30T00:30:00Z", "surface_mm": 1221},
    ]
    answer = device.post("/api/v1/readings", json=body)
    assert outcomes(answer) == [
        (0, "stored", None),
        (1, "duplicate", None),
        (2, "quarantined", "conflict"),
        (3, "quarantined", "no_unit"),
        (4, "heartbeat", None),
        (5, "stored", None),
    ]
    items = answer.json()["items"]
    assert items[0]["time"] == at
    assert "fog_bottom_mm" in items[3]["detail"]
    totals = live.totals()
    assert (totals.received, totals.stored, totals.duplicate) == (6, 2, 1)
    assert (totals.quarantined, totals.heartbeat, totals.messages) == (2, 1, 1)
    rows = live.service.store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert [row.values for row in rows] == [{"surface_m": 1.22}, {"surface_m": 1.221}]

    again = device.post("/api/v1/readings", json=body[:1] + body[5:])
    assert outcomes(again) == [(0, "duplicate", None), (1, "duplicate", None)]
    alone = device.post("/api/v1/readings", content=b'{"surface_mm": 1222}')
    assert outcomes(alone) == [(None, "stored", None)]
    assert outcomes(device.post("/api/v1/readings", content=b"")) == [(None, "quarantined", "not_json")]


def test_the_same_idempotency_key_takes_a_message_once(live: Running) -> None:
    device = live.device()
    headers = {"Idempotency-Key": "k1"}
    first = device.post("/api/v1/readings", content=b'{"surface_mm": 1222}', headers=headers)
    second = device.post("/api/v1/readings", content=b'{"surface_mm": 1222}', headers=headers)
    assert second.json() == first.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert live.totals().messages == 1
    # without a key and without a time every message is a new one, as over MQTT
    device.post("/api/v1/readings", content=b'{"surface_mm": 1222}')
    assert live.totals().stored == 2


def test_a_sensor_speaks_for_itself_only_and_not_without_its_password(live: Running) -> None:
    body = b'{"surface_mm": 1220}'
    assert live.device(password="wrong").post("/api/v1/readings", content=body).status_code == 401
    assert live.device("nobody").post("/api/v1/readings", content=body).status_code == 401
    assert httpx.post(f"{live.url}/api/v1/readings", content=body).status_code == 401
    other = live.device().post("/api/v1/readings?sensor=d-2", content=body)
    assert (other.status_code, other.headers["content-type"]) == (403, "application/problem+json")
    assert live.device().get("/api/v1/sensors").status_code == 403
    assert live.totals().messages == 0
    assert outcomes(live.device("D-1").post("/api/v1/readings", content=body)) == [(None, "stored", None)]
    assert outcomes(live.device("aa_bb").post("/api/v1/readings", content=body)) == [(None, "stored", None)]
    assert outcomes(live.operator().post("/api/v1/readings?sensor=d-2", content=body)) == [
        (None, "stored", None)
    ]
    unknown = live.operator().post("/api/v1/readings?sensor=x-9", content=body)
    assert outcomes(unknown) == [(None, "quarantined", "unknown_sensor")]
    heard = live.service.store.history.contacts()
    assert set(heard) == {"d-1", "aa:bb", "d-2"}


def test_a_message_too_large_is_refused_before_it_is_taken(live: Running) -> None:
    answer = live.device().post("/api/v1/readings", content=b"[" + b" " * 300_000 + b"]")
    assert answer.status_code == 413
    assert answer.json()["title"]
    assert live.totals().messages == 0


def test_a_replay_of_the_record_gives_what_came_by_http(live: Running, tmp_path: Path) -> None:
    devices = [live.device("d-1"), live.device("d-2")]

    def send(device: httpx.Client, base: int) -> None:
        for n in range(20):
            device.post("/api/v1/readings", json={"surface_mm": base + n, "seq": n})
            device.post("/api/v1/readings", content=b"broken")

    threads = [threading.Thread(target=send, args=(d, 1000 + 100 * n)) for n, d in enumerate(devices)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    lines = (tmp_path / "recorded.jsonl").read_text().splitlines()
    stamps = [json.loads(one)["received_at"] for one in lines]
    assert len(lines) == 80
    assert all(a < b for a, b in pairwise(stamps))  # no two commands share an instant

    store = open_store(tmp_path / "again", durable=False)
    put_fleet(store, FLEET)
    out = io.BytesIO()
    with (tmp_path / "recorded.jsonl").open("rb") as file:
        Replay(store, load_rules(live.settings), out).run(merged(read_messages(file, "recorded"), []))
    assert store.history.totals() == live.totals()
    span = {"since_us": 0, "until_us": 2**62}
    assert store.history.readings(["d-1", "d-2"], **span) == live.service.store.history.readings(
        ["d-1", "d-2"], **span
    )
    store.close()


# ---- passwords ---------------------------------------------------------------------------------------


def test_an_operator_gives_a_sensor_a_new_password_and_the_old_one_is_over(live: Running) -> None:
    assert live.device().post("/api/v1/sensors/d-1/password").status_code == 403
    assert live.operator().post("/api/v1/sensors/x-9/password").status_code == 404
    answer = live.operator().post("/api/v1/sensors/AA:BB/password").json()
    assert (answer["sensor"], answer["username"]) == ("aa:bb", "aa_bb")
    assert live.device("aa_bb").post("/api/v1/readings", content=b"{}").status_code == 401
    assert live.device("aa_bb", answer["password"]).post("/api/v1/readings", content=b"{}").status_code == 201


def test_a_key_of_a_sensor_is_no_password_and_a_revoked_one_nothing(live: Running) -> None:
    store = live.service.store
    record, token = new_key("d-1", "sensor", subject="d-1", now_us=1)
    live.service.submit(lambda commands: commands.store.ledger.put_key(record))
    assert authenticate_sensor(store.ledger, "d-1", token) is None
    who = authenticate_sensor(store.ledger, "d-1", PASSWORD)
    assert who is not None
    assert (who.role, who.subject) == ("sensor", "d-1")
    assert username_of("AA:bb") == "aa_bb"


# ---- check -------------------------------------------------------------------------------------------


def checked(client: httpx.Client, sensor: str) -> Any:
    answer = client.get(f"/api/v1/sensors/{sensor}/check")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_field_is_told_with_quantity_unit_and_si_value(live: Running) -> None:
    device = live.device()
    device.post(
        "/api/v1/readings",
        json={"fog_bottom_mm": 1101, "inlet_f": 212, "fog_dept_mm": 3, "tank_c": None, "seq": 7},
    )
    found = checked(device, "D-1")
    assert (found["sensor"], found["known"], found["interceptor"]) == ("d-1", True, "i")
    (message,) = found["messages"]
    (part,) = message["parts"]
    assert part["outcome"] == "stored"
    told = [(f["source"], f["raw"], f["quantity"], f["unit"], f["si"], f["value"]) for f in part["fields"]]
    assert told == [
        ("fog_bottom_mm", 1101, "fog_bottom", "mm", "fog_bottom_m", pytest.approx(1.101)),
        ("inlet_f", 212, "inlet", "f", "inlet_c", pytest.approx(100.0)),
        ("fog_dept_mm", 3, None, None, None, None),
        ("tank_c", None, None, None, None, None),
        ("seq", 7, None, None, None, None),
    ]
    notes = {f["source"]: f["note"] for f in part["fields"]}
    assert notes["fog_dept_mm"] == "ignored: did you mean fog_depth_mm?"
    assert notes["tank_c"] == "no value"


def test_what_was_refused_says_why_and_how_to_mend_it(live: Running) -> None:
    device = live.device()
    at = "2026-11-30T00:00:00Z"
    device.post("/api/v1/readings", json={"time": at, "surface_mm": 1220})
    device.post("/api/v1/readings", json={"time": at, "surface_mm": 1220})
    device.post("/api/v1/readings", json={"time": at, "surface_mm": 900})
    device.post("/api/v1/readings", json=[{"surface_mm": "12"}, {"time": at, "surface_mm": 1220}])
    array, conflict, again, first = checked(device, "d-1")["messages"]
    assert [p["outcome"] for p in first["parts"]] == ["stored"]
    assert [p["outcome"] for p in again["parts"]] == ["duplicate"]
    assert [(p["outcome"], p["reason"]) for p in conflict["parts"]] == [("refused", "conflict")]
    assert "1.22" in conflict["parts"][0]["detail"]
    assert [(p["place"], p["outcome"], p["reason"]) for p in array["parts"]] == [
        (0, "refused", "not_a_number"),
        (1, "duplicate", None),
    ]
    assert "send it as a JSON number" in array["parts"][0]["detail"]
    assert array["payload"] == '[{"surface_mm":"12"},{"time":"2026-11-30T00:00:00Z","surface_mm":1220}]'


def test_a_sensor_of_no_fleet_is_shown_from_quarantine_with_what_to_do(live: Running) -> None:
    boss = live.operator()
    boss.post("/api/v1/readings?sensor=new-1", json={"surface_mm": 1220})
    found = checked(boss, "NEW-1")
    assert (found["known"], found["heard_at"]) == (False, None)
    assert "quarterline sensor add new-1 --interceptor" in found["advice"]
    (part,) = found["messages"][0]["parts"]
    assert (part["outcome"], part["reason"]) == ("refused", "unknown_sensor")
    assert part["fields"][0]["si"] == "surface_m"  # what it will become
    assert "nothing has come yet" in checked(boss, "d-2")["advice"]
    assert live.device().get("/api/v1/sensors/d-2/check").status_code == 404  # another's is not shown


def test_a_message_of_many_bytes_shows_its_head_and_verdict(live: Running) -> None:
    device = live.device()
    big = json.dumps([{"time": 1764460800 + n, "surface_mm": 1220} for n in range(600)])
    device.post("/api/v1/readings", content=big)
    (message,) = checked(device, "d-1")["messages"]
    assert (message["size"], len(message["payload"])) == (len(big), 1024)
    assert [p["outcome"] for p in message["parts"]] == ["taken"]


# ---- what is kept in memory --------------------------------------------------------------------------


def message(topic: str, at: int, size: int = 10) -> RawMessage:
    return RawMessage(topic, b"x" * size, at)


def test_a_topic_keeps_its_last_ten_and_all_of_them_a_bounded_size() -> None:
    recent = Recent()
    topic = "quarterline/v1/D-1/readings"
    recent.note([message(topic, at) for at in range(1000)])
    assert [one.received_us for one in recent.of("d-1")] == list(range(999, 999 - KEPT, -1))
    recent.note([message(f"quarterline/v1/s-{n}/readings", 2000 + n, 16_000) for n in range(5000)])
    assert recent._bytes <= 32 << 20
    assert recent._bytes == sum(len(m.payload) for ring in recent._rings.values() for m in ring)
    assert len(recent.of("s-4999")) == 1
    assert recent.of("d-1") == []  # it was quiet longest
    recent.note([message(f"quarterline/v1/t-{n}/readings", 9000 + n, 0) for n in range(20_000)])
    assert len(recent._rings) <= 10_000
