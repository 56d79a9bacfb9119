"""A small service over a real SQLite store, served by a real uvicorn on a loopback port."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvicorn

from alerts.lines import alert_line, order_line, pump_out_line
from alerts.orders import AnswerError
from alerts.ordinance import load_ordinances
from api.bell import Bell
from api.fleet_file import Known, parse_fleet
from api.http.app import create_app
from api.intake import Flow
from api.recent import Recent
from api.security import new_key, new_sign_in
from api.service import CommandError, Fleet, IngestResult
from api.settings import Http, Settings
from ingest.message import RawMessage
from ingest.profile import NATIVE, DeviceProfile
from store import open_store
from store.ports import Store
from store.records import (
    Alert,
    CoreSample,
    FrequencyDecision,
    IngestWindow,
    Item,
    Json,
    Manifest,
    Order,
    PumpOutRecord,
    Quarantined,
)

T = TypeVar("T")
DAY_US = 86_400_000_000
NOW_US = 1_796_083_200_000_000  # 2026-12-01T00:00:00Z, 16:00 of the day before in Los Angeles

ORDINANCES = load_ordinances()

FLEET = """\
[[sites]]
id = "luigi"
name = "Luigi's <Trattoria>"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
units = "us"

[[sites]]
id = "wok"
name = "Golden Wok"
ordinance = "inglewood"
timezone = "America/Los_Angeles"
units = "si"

[[interceptors]]
id = "luigi-gi1"
site = "luigi"
kind = "gravity"
volume_l = 3785
base_depth_mm = 1220
compartments = 2
last_pump_out = 2026-09-01
hauler = "valley"

[[interceptors]]
id = "wok-gi1"
site = "wok"
kind = "gravity"
base_depth_mm = 1000

[[sensors]]
id = "D-0001"
interceptor = "luigi-gi1"

[[sensors]]
id = "d-0002"
interceptor = "wok-gi1"

[[haulers]]
id = "valley"
name = "Valley Pumping"

[[haulers]]
id = "basin"
name = "Basin Environmental"
"""


class TestCommands:
    """Commands that file what they are given, as the engine's do, without deciding anything."""

    __test__ = False

    def __init__(self, store: Store, now_us: int) -> None:
        self.store = store
        self.now_us = now_us

    def _id(self, prefix: str, record: object) -> str:
        return f"{prefix}-{hashlib.sha256(repr(record).encode()).hexdigest()[:12]}"

    def _known(self, interceptor: str) -> None:
        if interceptor not in {one.id for one in self.store.registry.interceptors()}:
            raise CommandError(f"interceptor: {interceptor!r} is not in the fleet")

    def manifest(self, manifest: Manifest) -> Manifest:
        self._known(manifest.interceptor)
        filed = replace(manifest, id=self._id("m", manifest))
        self.store.ledger.put_manifest(filed)
        return filed

    def core_sample(self, sample: CoreSample) -> CoreSample:
        self._known(sample.interceptor)
        filed = replace(sample, id=self._id("cs", sample))
        self.store.ledger.put_core_sample(filed)
        return filed

    def answer(self, order_id: str, hauler: str, word: str, scheduled_us: int | None) -> Order:
        order = self.store.ledger.order(order_id)
        if order is None or order.state != "offered" or order.hauler != hauler:
            raise AnswerError(f"order {order_id}: no answer is awaited from {hauler}")
        state = "scheduled" if word == "accepted" and scheduled_us else word
        answered = replace(order, state=state, scheduled_us=scheduled_us, changed_us=self.now_us)
        self.store.ledger.put_order(answered)
        self.store.ledger.append(self.now_us, "order", order.interceptor, order_line(answered))
        return answered

    def frequency_decision(self, decision: FrequencyDecision) -> FrequencyDecision:
        self._known(decision.interceptor)
        filed = replace(decision, id=self._id("fd", decision))
        self.store.ledger.put_frequency_decision(filed)
        return filed

    def put_fleet(self, fleet: Fleet) -> int:
        return self.store.registry.put_fleet(
            sites=fleet.sites,
            interceptors=fleet.interceptors,
            sensors=fleet.sensors,
            haulers=fleet.haulers,
        )

    def readings(self, messages: Sequence[RawMessage]) -> IngestResult:
        (message,) = messages
        sensor = message.topic.split("/")[2]
        if message.payload.startswith(b"{"):
            item = Item(
                sensor=sensor,
                time_us=message.received_us,
                received_us=message.received_us,
                topic=message.topic,
                values={"surface_m": 1.2},
            )
            result = self.store.history.commit(IngestWindow(items=(item,), messages=1))
        else:
            bad = Quarantined(
                sensor,
                message.topic,
                message.received_us,
                "not_json",
                "no JSON",
                message.payload,
                1,
                "0" * 64,
            )
            result = self.store.history.commit(IngestWindow(quarantined=(bad,), messages=1))
        kept = tuple((one.reason, one.detail) for one in result.quarantined)
        return IngestResult(len(result.stored), result.duplicates, kept)


class TestService:
    """What the HTTP room needs, with one lock in place of the writer's thread."""

    __test__ = False

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.ordinances = ORDINANCES
        self.profiles: Mapping[str, DeviceProfile] = {"native": NATIVE}
        self.recent = Recent()
        self.bell = Bell()
        self.parts: dict[str, tuple[bool, str]] = {"store": (True, "ok"), "mqtt": (True, "connected")}
        self.waiting = 0
        self.now_us = NOW_US
        self.fault: Exception | None = None
        self._lock = threading.Lock()

    def now(self) -> float:
        return self.now_us / 1e6

    def submit(self, command: Callable[[Any], T]) -> T:
        with self._lock, self.store.transaction():
            if self.fault is not None:
                raise self.fault
            result = command(TestCommands(self.store, self.now_us))
        tail = self.store.ledger.journal_tail(limit=1)
        self.bell.ring(tail[0].seq if tail else 0)
        return result

    def readiness(self) -> dict[str, tuple[bool, str]]:
        return self.parts

    def pending(self) -> int:
        return self.waiting

    def session(self) -> None:
        return None

    def flow(self) -> Flow:
        return Flow()

    def subscribe(self) -> Bell:
        return self.bell


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory as the migrations leave it, to be copied: migrating takes longer than most tests."""
    directory = tmp_path_factory.mktemp("empty") / "data"
    open_store(directory).close()
    return directory


@pytest.fixture
def service(tmp_path: Path, empty_store: Path) -> Iterator[TestService]:
    """A service without any fleet."""
    shutil.copytree(empty_store, tmp_path / "data")
    store = open_store(tmp_path / "data")
    yield TestService(store, Settings(http=Http(body_limit_bytes=20_000)))
    store.close()


@pytest.fixture
def fleet(service: TestService) -> Fleet:
    """Two sites with an interceptor and a sensor each, two haulers; registered."""
    known = Known(sorted(service.ordinances), ("native",), lambda *_: None)
    read = parse_fleet(FLEET, "fleet.toml", known)
    service.submit(lambda commands: commands.put_fleet(read))
    return read


@pytest.fixture
def server(service: TestService) -> Iterator[str]:
    """The address of a real server over the service."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(service), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not running.started and time.monotonic() < deadline:
        thread.join(0.01)
    assert running.started
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    service.bell.close()
    running.should_exit = True
    thread.join(20)
    listener.close()
    assert not thread.is_alive()


@pytest.fixture
def key(service: TestService) -> Callable[..., str]:
    """Makes an API key: ``key("hauler", "valley")``."""

    def make(role: str, subject: str | None = None) -> str:
        record, token = new_key(f"{role} key", role, subject=subject, now_us=NOW_US)
        service.submit(lambda commands: commands.store.ledger.put_key(record))
        return token

    return make


@pytest.fixture
def client(server: str, key: Callable[..., str]) -> Iterator[Callable[..., httpx.Client]]:
    """Makes an HTTP client of a role; of nobody without one."""
    made: list[httpx.Client] = []

    def make(role: str | None = None, subject: str | None = None) -> httpx.Client:
        headers = {} if role is None else {"Authorization": f"Bearer {key(role, subject)}"}
        made.append(httpx.Client(base_url=server, headers=headers, timeout=20, verify=False))
        return made[-1]

    yield make
    for one in made:
        with suppress(RuntimeError):
            one.close()


@pytest.fixture
def link(service: TestService) -> Callable[..., str]:
    """Makes the path of a one-time sign-in link."""

    def make(role: str = "manager", minutes: float = 15) -> str:
        record, token = new_sign_in("Pat", role, now_us=round(time.time() * 1e6), minutes=minutes)
        service.submit(lambda commands: commands.store.ledger.put_sign_in(record))
        return f"/sign-in/{token}"

    return make


def assessment(fraction: float | None, **more: object) -> Json:
    """A journal line of an assessment."""
    fog = None if fraction is None else round(fraction * 1220 * 0.7, 3)
    line: Json = {
        "compartment": None if fraction is None else 1,
        "fog_mm": fog,
        "fog_sd_mm": None if fraction is None else 9.0,
        "solids_mm": None if fraction is None else round(fraction * 1220 * 0.3, 3),
        "solids_sd_mm": None if fraction is None else 5.0,
        "fraction": fraction,
        "fraction_sd": None if fraction is None else 0.012,
        "p_over_limit": None if fraction is None else float(fraction > 0.25),
        "rate_mm_per_day": None if fraction is None else 2.54,
        "rate_sd_mm_per_day": None if fraction is None else 0.4,
        "crossing": None,
        "health": [],
        "compartments": [],
    }
    return line | dict(more)


@pytest.fixture
def history(service: TestService, fleet: Fleet) -> TestService:
    """A cycle with a pump-out, an alert and an order under way at Luigi's; readings of its sensor."""

    def write(commands: TestCommands) -> None:
        ledger = commands.store.ledger
        for day in range(60, 0, -1):
            fraction = 0.27 - 0.0035 * day if day < 55 else 0.24
            at_us = NOW_US - day * DAY_US + 8 * 3_600_000_000
            ledger.append(at_us, "assessment", "luigi-gi1", assessment(round(fraction, 4)))
        body = assessment(
            0.266,
            crossing=dict.fromkeys(("p05", "p10", "p50", "p90", "p95"), "2026-11-28T12:00:00Z"),
            last_reading_us=NOW_US - 360_000_000,
        )
        ledger.put_latest(NOW_US - 60_000_000, {"luigi-gi1": body})
        pump_out = PumpOutRecord(
            id="po-1",
            interceptor="luigi-gi1",
            start_us=NOW_US - 55 * DAY_US,
            end_us=NOW_US - 55 * DAY_US + 2_400_000_000,
            complete=True,
            confidence=0.99,
            before=({"compartment": 1, "fog_m": 0.2, "solids_m": 0.09},),
            after=({"compartment": 1, "fog_m": 0.0, "solids_m": 0.0},),
        )
        ledger.put_pump_out(pump_out)
        ledger.append(pump_out.end_us, "pump_out", "luigi-gi1", pump_out_line(pump_out))
        alert = Alert(
            id="al-1",
            interceptor="luigi-gi1",
            kind="over_limit",
            state="firing",
            severity="critical",
            reason="Instrument estimate, not a determination of violation: 26.6 % & <b>rising</b>",
            citation="SMMC 13.14.150.E.1",
            basis="estimate",
            sensor="d-0001",
            flag=None,
            since_us=NOW_US - DAY_US,
            changed_us=NOW_US - DAY_US,
        )
        ledger.put_alert(alert)
        ledger.append(alert.changed_us, "alert", "luigi-gi1", alert_line(alert))
        order = Order(
            id="or-1",
            interceptor="luigi-gi1",
            reason="exceedance",
            state="proposed",
            due="immediately",
            opened_us=NOW_US - DAY_US,
            changed_us=NOW_US - DAY_US,
        )
        for step, state in enumerate(("proposed", "offered")):
            order = replace(
                order,
                state=state,
                hauler="valley" if state == "offered" else None,
                changed_us=order.opened_us + step * 3_600_000_000,
            )
            ledger.put_order(order)
            ledger.append(order.changed_us, "order", "luigi-gi1", order_line(order))
        items = tuple(
            Item(
                sensor="d-0001",
                time_us=NOW_US - (100 - n) * 900_000_000,
                received_us=NOW_US - (100 - n) * 900_000_000,
                topic="quarterline/v1/d-0001/readings",
                values={"surface_m": 1.22, "fog_bottom_m": 1.0 + n / 10_000, "tank_c": 25.0},
            )
            for n in range(100)
        )
        commands.store.history.commit(IngestWindow(items=items, messages=100))

    service.submit(write)
    return service
