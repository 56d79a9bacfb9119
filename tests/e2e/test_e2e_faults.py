"""The service as a process amid faults: no room, no broker, messages that are none."""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest
from processes import OUTCOMES, READINGS, Publisher, Service, until

from ingest.broker import EmbeddedBroker
from store import open_store

T0_S = 1_767_225_600  # 2026-01-01T00:00:00Z


# ---- no room -----------------------------------------------------------------------------------------


class Room(Protocol):
    """Where the service's data lie, and how there comes to be no room for more."""

    data: Path

    def take(self, service: Service) -> None: ...
    def give(self, service: Service) -> None: ...


class FileSizeLimit:
    """The system lets no file of the process grow beyond what its log of writes has reached."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def take(self, service: Service) -> None:
        most = max(one.stat().st_size for one in self.data.iterdir() if one.is_file())
        self._limit(service, most)

    def give(self, service: Service) -> None:
        self._limit(service, resource.RLIM_INFINITY)

    @staticmethod
    def _limit(service: Service, most: int) -> None:
        assert service.child is not None
        resource.prlimit(service.child.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


class SmallDisk:
    """A file system of its own, filled to the brim by somebody else's file."""

    def __init__(self, disk: Path) -> None:
        self.data = disk / "data"
        self._ballast = disk / "ballast"

    def take(self, service: Service) -> None:
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def give(self, service: Service) -> None:
        self._ballast.unlink()


def mount(folder: Path) -> bool:
    """Whether this machine lets us mount; only root of a whole machine may."""
    program = shutil.which("mount")
    words = ["-t", "tmpfs", "-o", "size=32m", "quarterline-test", str(folder)]
    return program is not None and not subprocess.run([program, *words], capture_output=True).returncode


@pytest.fixture(params=["file size limit", "small disk"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """Where nothing may be mounted, the small disk is a limit too: the test runs everywhere."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if request.param == "small disk" and mount(disk):
        yield SmallDisk(disk)
        # service and store are gone by now: fixtures end in the reverse order
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    else:
        yield FileSizeLimit(disk / "data")


@pytest.mark.slow
def test_without_room_nothing_is_acknowledged_and_with_room_nothing_is_lost(
    room: Room,
    embedded: EmbeddedBroker,
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:
    service = make_service(embedded.port, room.data)
    service.start()
    until(service.ready, "ready")
    sensor = publisher(embedded.port)
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        body = {"surface_mm": 1000, "profile": [0.5] * 200}
        sensor.send(
            *(json.dumps({"time": T0_S + sent + k, "seq": sent + k, **body}).encode() for k in range(count))
        )
        sent += count

    send(100)
    until(lambda: service.counters()["stored"] == 100, "the first hundred stored")
    room.take(service)
    for _ in range(60):
        send(100)
        if service.readiness()[0] == 503:
            break
    until(lambda: service.readiness()[0] == 503, "it says that there is no room")
    send(500)
    status, broken = service.readiness()
    assert status == 503
    assert broken.keys() - {"spool"} == {"store"}  # the spool is on the same disk
    assert re.search("the disk (is full|cannot be written).*nothing is stored", broken["store"])
    stuck = service.counters()
    assert stuck["stored"] < sent
    assert stuck["pending"] > 0
    # it tries again and again, at most 5 s apart, and goes on answering
    quiet_until = time.monotonic() + 6
    while time.monotonic() < quiet_until:
        assert service.alive()
        assert service.readiness()[0] == 503
        assert service.counters()["stored"] == stuck["stored"]
        time.sleep(0.2)

    room.give(service)
    until(lambda: service.counters()["stored"] == sent, "everything stored")
    until(lambda: service.counters()["pending"] == 0, "nothing pending")
    counters = service.counters()  # what waits for more than 5 s the embedded broker may send once more
    assert counters == {
        **dict.fromkeys(OUTCOMES, 0),
        "stored": sent,
        "duplicate": counters["duplicate"],
        "pending": 0,
        "received_total": sent + counters["duplicate"],
    }
    until(service.ready, "ready again")
    service.end(signal.SIGTERM)
    assert service.child is not None
    assert service.child.returncode == 0
    store = open_store(room.data)
    try:
        rows = store.history.readings(["d-1"], since_us=0, until_us=2**62)
        assert [row.time_us for row in rows] == [(T0_S + k) * 1_000_000 for k in range(sent)]
        assert store.integrity() == "ok"
    finally:
        store.close()


@pytest.mark.slow
def test_killed_without_room_it_gets_everything_again(
    embedded: EmbeddedBroker, make_service: Callable[..., Service], publisher: Callable[[int], Publisher],
    tmp_path: Path,
) -> None:  # fmt: skip
    room = FileSizeLimit(tmp_path / "data")
    service = make_service(embedded.port)
    service.start()
    until(service.ready, "ready")
    room.take(service)
    count = 3000
    publisher(embedded.port).send(
        *(
            b'{"time": %d, "surface_mm": 1000, "profile": [%s0]}' % (T0_S + k, b"1," * 100)
            for k in range(count)
        )
    )
    until(lambda: service.readiness()[0] == 503, "it says that there is no room")
    assert service.counters()["stored"] < count
    service.end(signal.SIGKILL)
    service.start()
    until(lambda: service.counters()["stored"] == count, "everything stored")
    assert service.counters()["quarantined"] == 0


# ---- no broker ---------------------------------------------------------------------------------------


def test_a_missing_broker_is_named_until_it_comes(
    tmp_path: Path, free_port: Callable[[], int], make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:  # fmt: skip
    port = free_port()
    service = make_service(port)
    service.start()
    until(lambda: f"cannot reach 127.0.0.1:{port}" in service.readiness()[1].get("mqtt", ""), "the reason")
    status, broken = service.readiness()
    assert (status, list(broken)) == (503, ["mqtt"])
    assert service.alive()
    broker = EmbeddedBroker(tmp_path / "late", port)
    broker.start()
    try:
        until(service.ready, "ready once it is there", 90)
        publisher(port).send(b'{"surface_mm": 1000}')
        until(lambda: service.counters()["stored"] == 1, "the first reading")
        service.end(signal.SIGTERM)
    finally:
        broker.stop()


# ---- messages that are none --------------------------------------------------------------------------


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def any_port(request: pytest.FixtureRequest) -> int:
    name = "embedded" if request.param == "embedded" else "mosquitto_broker"
    fixture = request.getfixturevalue(name)
    return int((fixture if name == "embedded" else fixture()).port)


def test_each_bad_message_ends_in_its_counter(
    any_port: int, make_service: Callable[..., Service], publisher: Callable[[int], Publisher]
) -> None:
    sensor = publisher(any_port)
    sensor.send(b'{"surface_mm": 1}', retain=True)  # lies there when the service comes
    service = make_service(any_port)
    service.start()
    until(service.ready, "ready")
    until(lambda: service.counters()["retained"] == 1, "the retained one")
    expected = {
        "stored": 0, "duplicate": 0, "quarantined": 0, "retained": 1, "heartbeat": 0, "pending": 0,
        "received_total": 1,
    }  # fmt: skip

    def gives(payload: bytes, outcome: str, topic: str = READINGS, count: int = 1) -> None:
        sensor.send(payload, topic=topic)
        expected[outcome] += count
        expected["received_total"] += count
        until(
            lambda: service.counters()["received_total"] >= expected["received_total"], f"{payload!r} taken"
        )
        until(lambda: service.counters()["pending"] == 0, f"{payload!r} committed")
        assert service.counters() == expected, payload

    future_s = int(time.time()) + 86_400 * 365
    good = b'{"time": %d, "surface_mm": 1000}' % T0_S
    gives(good, "stored")
    gives(good, "duplicate")
    gives(b'{"time": %d, "surface_mm": 1001}' % T0_S, "quarantined")  # another content of that instant
    gives(b'{"surface_mm": 1000}', "quarantined", topic="quarterline/v1/nobody/readings")
    gives(b'{"surface_mm": 1000', "quarantined")
    gives(b"", "quarantined")
    gives(b'{"surface_mm": "\xff\xfe"}', "quarantined")
    gives(b'{"surface_mm": NaN}', "quarantined")
    gives(b'{"surface_mm": [1000]}', "quarantined")
    gives(b'{"surface_mm": true}', "quarantined")
    gives(b'"reading"', "quarantined")
    gives(b"[" * 100, "quarantined")
    gives(b'{"time": %d, "surface_mm": 1000}' % future_s, "stored")  # at its receipt, and marked
    gives(b'{"time": 0, "surface_mm": 1002}', "stored")
    gives(b'{"time": "yesterday", "surface_mm": 1000}', "quarantined")
    gives(b"{}", "heartbeat")
    gives(b"[]", "heartbeat")
    gives(b"online", "heartbeat", topic="quarterline/v1/d-1/status")
    gives(b"perhaps", "quarantined", topic="quarterline/v1/d-1/status")
    gives(b"{}", "quarantined", topic="application/1/device/ffffffffffffffff/event/up")
    gives(b"{}", "quarantined", topic="v3/app/devices/x/up")
    # a topic that nobody here asked for does not arrive at all; the one after it does
    sensor.send(b'{"surface_mm": 1000}', topic="quarterline/v2/d-1/readings")
    gives(
        b'[{"time": %d, "surface_mm": 1000}, {"time": %d, "surface_mm": 1000}]' % (T0_S + 1, T0_S + 2),
        "stored",
        count=2,
    )
    before = service.counters()
    service.end(signal.SIGKILL)
    service.start()
    until(service.ready, "ready again")
    assert service.counters()["stored"] == before["stored"]
