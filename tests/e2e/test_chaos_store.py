"""The store hangs for half a minute, or refuses for a whole one, under load; all three brokers at once."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from brokers import TRAITS, Broker
from chaos import Rig
from processes import until
from proxy import Proxy

RATE = 100
KEEPALIVE_S = 5
#: Another program that takes the database for itself, says so, and lets go when its input ends.
HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
db.execute("ROLLBACK")
"""


class Lock:
    """A database's only permission to write, in another process's hands."""

    def __init__(self, database: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"held\n"

    def release(self) -> None:
        self._child.communicate(timeout=30)


@pytest.fixture
def rigs(
    make_broker: Callable[[str], Broker],
    make_proxy: Callable[[int], Proxy],
    make_rig: Callable[..., Rig],
) -> dict[str, tuple[Rig, Proxy]]:
    """A service under load at each broker, all well; what waits most of its time can do so at once."""
    made = {}
    for name in TRAITS:
        broker = make_broker(name)
        proxy = make_proxy(broker.port)
        rig = make_rig(broker.port, sensors=4, through=proxy.port, mqtt=f"keepalive_s = {KEEPALIVE_S}")
        rig.service.start(wait=False)
        made[name] = rig, proxy
    for rig, _ in made.values():
        rig.service.wait_ready()
        rig.load(100_000, RATE)
    for rig, _ in made.values():
        until(lambda rig=rig: rig.stored() > RATE, "the first readings stored")  # type: ignore[misc]
    return made


def behind(rig: Rig) -> bool:
    """Whether the store takes nothing while the load goes on."""
    return len(rig.sent()) - rig.stored() > RATE


def watch(rigs: dict[str, tuple[Rig, Proxy]], seconds: float) -> None:
    """All the while each service lives and answers, and its counters add up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for rig, _ in rigs.values():
            assert rig.service.alive(), rig.service.log[-3000:]
            rig.service.counters()
            rig.service.readiness()
        time.sleep(0.5)  # between two looks


def finish(rigs: dict[str, tuple[Rig, Proxy]], before: dict[str, int]) -> None:
    for rig, _ in rigs.values():
        rig.wait_caught_up()
        rig.loads[0].end(now=True)
    for name, (rig, proxy) in rigs.items():
        rig.wait_stored(len(rig.sent()))
        rig.service.wait_ready()
        assert proxy.taken == before[name], f"{name}: one connection throughout"
        outcomes = rig.check()
        if name != "embedded":  # which sends again on a live connection what waits longer than 5 s
            assert outcomes["duplicate"] == 0, name


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.mosquitto
@pytest.mark.rabbitmq
def test_a_store_that_hangs_for_half_a_minute_costs_neither_reading_nor_connection(
    rigs: dict[str, tuple[Rig, Proxy]],
) -> None:
    before = {name: proxy.taken for name, (_, proxy) in rigs.items()}
    locks = [Lock(rig.service.data / "quarterline.sqlite3") for rig, _ in rigs.values()]
    watch(rigs, 30)
    assert all(behind(rig) for rig, _ in rigs.values())
    for lock in locks:
        lock.release()
    finish(rigs, before)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.mosquitto
@pytest.mark.rabbitmq
def test_a_store_that_refuses_for_a_minute_costs_neither_reading_nor_connection(
    rigs: dict[str, tuple[Rig, Proxy]],
) -> None:
    before = {name: proxy.taken for name, (_, proxy) in rigs.items()}
    for rig, _ in rigs.values():
        files = [one for one in rig.service.data.iterdir() if one.is_file()]
        limit(
            rig, max(one.stat().st_size for one in files)
        )  # no file may grow: each write of the store fails
    for rig, _ in rigs.values():
        until(lambda rig=rig: behind(rig), "the store takes nothing")  # type: ignore[misc]
    watch(rigs, 60)
    assert all(behind(rig) for rig, _ in rigs.values())
    for rig, _ in rigs.values():
        limit(rig, resource.RLIM_INFINITY)
    finish(rigs, before)


def limit(rig: Rig, most: int) -> None:
    assert rig.service.child is not None
    resource.prlimit(rig.service.child.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
