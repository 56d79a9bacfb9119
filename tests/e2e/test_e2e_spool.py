"""The service as a process while another program holds its database: spooled, killed, drained, damaged, full."""

from __future__ import annotations

import random
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import OUTCOMES, Publisher, Service, until, with_fleet

from ingest.broker import EmbeddedBroker
from ingest.spoolfile import Record, records
from store import open_store

T0_S = 1_767_225_600  # 2026-01-01T00:00:00Z
PATIENCE_S = 0.3

Make = Callable[..., Service]


@pytest.fixture
def spooling(
    tmp_path: Path, free_port: Callable[[], int], embedded: EmbeddedBroker
) -> Iterator[Callable[..., Service]]:
    """A running service that is soon impatient."""
    made: list[Service] = []

    def make(max_bytes: int = 1 << 28, mqtt: str = "", more: str = "") -> Service:
        data = tmp_path / "data"
        with_fleet(data)
        table = f"{mqtt}\n[spool]\npatience_s = {PATIENCE_S}\nmax_bytes = {max_bytes}\n{more}"
        made.append(Service(tmp_path, data, embedded.port, free_port(), mqtt=table))
        made[-1].start()
        until(made[-1].ready, "ready")
        return made[-1]

    yield make
    for one in made:
        one.close()


@contextmanager
def locked(service: Service) -> Iterator[None]:
    """The permission to write is somebody else's."""
    held = sqlite3.connect(service.data / "quarterline.sqlite3", timeout=60, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        held.execute("ROLLBACK")
        held.close()


def payloads(first: int, count: int, size: int = 0) -> list[bytes]:
    pad = b', "note": "%s"' % (b"x" * size) if size else b""
    return [
        b'{"time": %d, "surface_mm": %d%s}' % (T0_S + k, 1000 + k % 50, pad)
        for k in range(first, first + count)
    ]


def check(service: Service, sent: int, *, quarantined: int = 0, in_order: bool = True) -> None:
    """Each is stored once, in the store as in the counters; the spool is empty."""
    until(lambda: service.counters()["pending"] == 0, "nothing pending")
    counters = service.counters()
    assert counters == {
        **dict.fromkeys(OUTCOMES, 0),
        "stored": sent - quarantined,
        "quarantined": quarantined,
        "duplicate": counters["duplicate"],
        "pending": 0,
        "received_total": sent + counters["duplicate"],
    }
    until(lambda: not list((service.data / "spool").glob("*.spool")), "the spool is empty")
    service.end(signal.SIGTERM)
    assert service.child is not None
    assert service.child.returncode == 0
    store = open_store(service.data)
    try:
        rows = store.history.readings(["d-1"], since_us=0, until_us=2**62)
        assert len(rows) == sent - quarantined
        assert len({row.time_us for row in rows}) == len(rows)
        by_reception = sorted(rows, key=lambda row: (row.received_us, row.time_us))
        assert by_reception == rows or not in_order, "in the order they were sent"
        assert store.integrity() == "ok"
    finally:
        store.close()


def test_what_comes_while_the_store_is_locked_is_spooled_and_then_stored(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    service, sensor = spooling(), publisher(embedded.port)
    with locked(service):
        sensor.send(*payloads(0, 300))
        until(lambda: service.gauge("spool_records") == 300, "all of it in the spool")
        assert service.counters()["pending"] == 300
        assert service.counters()["stored"] == 0
        assert service.gauge("acknowledgement_lag_seconds") == 0
        assert service.gauge("spool_bytes") > 300 * 30
        assert list(service.readiness()[1]) == ["store"]
    until(lambda: service.counters()["stored"] == 300, "stored")
    until(service.ready, "well again")
    assert service.gauge("spool_records") == 0
    sensor.send(*payloads(300, 10))
    until(lambda: service.counters()["stored"] == 310, "and on it goes")
    assert service.counters()["duplicate"] == 0
    check(service, 310)


@pytest.mark.slow
@pytest.mark.parametrize("spool", ["true", "false"])
def test_L8_pings_go_on_while_the_store_hangs(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher], spool: str
) -> None:
    """Half a minute at a keepalive of 5 s, after which a broker drops whoever is silent for 7.5 s."""
    service, sensor = spooling(mqtt="keepalive_s = 5", more=f"enabled = {spool}"), publisher(embedded.port)
    with locked(service):
        sensor.send(*payloads(0, 300))
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert "mqtt" not in service.readiness()[1]
            assert service.counters()["stored"] == 0
            time.sleep(0.2)  # between two looks
        assert list(service.readiness()[1]) == ["store"]
    until(lambda: service.counters()["stored"] == 300, "stored")
    until(service.ready, "well again")
    assert len(re.findall(r"\] connected ", service.log)) == 1, service.log
    check(service, 300)


@pytest.mark.slow
def test_two_services_do_not_share_a_spool(
    spooling: Make, tmp_path: Path, free_port: Callable[[], int], embedded: EmbeddedBroker
) -> None:
    folder = tmp_path / "shared"
    spooling(more=f'dir = "{folder}"')
    assert folder.is_dir()
    (tmp_path / "other").mkdir()
    other = Service(
        tmp_path / "other",
        tmp_path / "other" / "data",
        embedded.port,
        free_port(),
        mqtt=f'[spool]\ndir = "{folder}"',
    )
    other.start(wait=False)
    assert other.child is not None
    assert other.child.wait(60) == 1
    assert "shared: the spool's directory is in use by process" in other.log


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_L6_a_store_that_is_slow_again_and_again(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    """The writer changes between source and spool all the time, and what was acknowledged is stored."""
    service, sensor = spooling(), publisher(embedded.port)
    ending = threading.Event()

    def hinder() -> None:
        while not ending.is_set():
            with locked(service):
                ending.wait(2 * PATIENCE_S)
            ending.wait(PATIENCE_S)

    thread = threading.Thread(target=hinder)
    thread.start()
    sent = 0

    def load() -> bool:
        nonlocal sent
        sensor.send(*payloads(sent, 50))
        sent += 50
        service.counters()
        return service.log.count("the spool is drained") >= 4

    try:
        until(load, "drained four times under load")
    finally:
        ending.set()
        thread.join(60)
    until(lambda: service.counters()["stored"] == sent, "stored")
    assert service.counters()["duplicate"] == 0
    check(service, sent)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_L61_a_minute_without_the_store_under_load(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    service, sensor = spooling(), publisher(embedded.port)
    sent = 0
    with locked(service):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            sensor.send(*payloads(sent, 100))
            sent += 100
            service.counters()
            time.sleep(0.2)  # a load, not a race
        until(lambda: service.gauge("spool_records") == sent, "all of it in the spool")
        assert service.gauge("spool_oldest_age_seconds") > 50
    until(lambda: service.counters()["stored"] == sent, "stored")
    assert service.counters()["duplicate"] == 0
    check(service, sent)


@pytest.mark.slow
def test_L67_a_full_spool_stops_the_acknowledgements_and_loses_nothing(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    service, sensor = spooling(max_bytes=1 << 20), publisher(embedded.port)
    count = 4000
    with locked(service):
        sensor.send(*payloads(0, count, size=900))
        until(lambda: "spool" in service.readiness()[1], "it says that the spool is full")
        assert "the spool is full" in service.readiness()[1]["spool"]
        until(lambda: service.gauge("acknowledgement_lag_seconds") > 1, "acknowledgements have stopped")
        held = service.gauge("spool_records")
        assert 500 < held < 1200
        for _ in range(10):
            assert service.gauge("spool_records") == held
            assert service.gauge("spool_bytes") <= 1 << 20
            assert service.counters()["pending"] < count
            assert service.gauge("reader_queue") <= service.gauge("reader_queue_bound")
            time.sleep(0.2)  # between two looks
    until(lambda: service.counters()["stored"] == count, "stored")
    until(service.ready, "well again")
    check(service, count)
    store = open_store(service.data)

    def states() -> list[str]:
        return [line.body["state"] for line in store.ledger.journal(types=["spool"])]

    until(lambda: "drained" in states(), "told: with the first window after the last of the spool")
    assert states() == ["half", "full", "drained"]
    store.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_kill_9_while_spooling_and_while_draining(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    """Half of the kills fall while the store is locked, half while the spool is being drained."""
    chance = random.Random(5)
    service, sensor = spooling(), publisher(embedded.port)
    sent = 0
    ending = threading.Event()

    def load() -> None:
        nonlocal sent
        while not ending.is_set():
            sensor.send(*payloads(sent, 200))
            sent += 200
            time.sleep(0.25)  # a load that leaves room to catch up

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(3):
            with locked(service):
                until(lambda: service.gauge("spool_records") > 0, "spooling")
                time.sleep(chance.uniform(0.2, 1.0))  # a random moment
                service.end(signal.SIGKILL)
            service.start()
            time.sleep(chance.uniform(0.0, 0.3))  # and another, while it drains
            service.end(signal.SIGKILL)
            service.start()
    finally:
        ending.set()
        thread.join(60)
    until(lambda: service.counters()["stored"] == sent, "stored", 200)
    check(service, sent, in_order=False)  # what it sends again, the embedded broker may send after newer ones


@pytest.mark.slow
def test_a_damaged_record_is_quarantined_and_the_rest_stored(
    spooling: Make, embedded: EmbeddedBroker, publisher: Callable[[int], Publisher]
) -> None:
    service, sensor = spooling(), publisher(embedded.port)
    with locked(service):
        sensor.send(*payloads(0, 50))
        until(lambda: service.gauge("spool_records") == 50, "all of it in the spool")
        service.end(signal.SIGKILL)
    (segment,) = (service.data / "spool").glob("*.spool")
    data = bytearray(segment.read_bytes())
    twentieth = [one for one in records(bytes(data)) if isinstance(one, Record)][19]
    data[twentieth.end - 10] ^= 1
    segment.write_bytes(data)
    service.start()
    until(lambda: service.counters()["stored"] == 49, "the rest stored")
    check(service, 50, quarantined=1)
    store = open_store(service.data)
    (bad,) = store.history.quarantine()
    store.close()
    assert bad.reason == "spool_damaged"
    assert twentieth.message.payload[:20] in bad.payload
    assert "a damaged record of the spool goes to quarantine" in service.log
