"""The writer: what is acknowledged and when, a full disk, commands in order of time, a missing broker."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.commands import Commands
from api.core import Core, Rules
from api.engine import Engine
from api.fleet_file import Known, parse_fleet
from api.serve import load_rules, running
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from ingest.session import Window
from store import open_store
from store.ports import StoreError
from store.sql import SqlStore

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z
SECOND = 1_000_000
FLEET = """
[[sites]]
id = "luigi"
name = "Luigi's"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
[[interceptors]]
id = "gi1"
site = "luigi"
kind = "gravity"
base_depth_mm = 1200
[[sensors]]
id = "d-1"
interceptor = "gi1"
"""


class Script:
    """A source that gives what the test puts in, and remembers what was acknowledged."""

    def __init__(self) -> None:
        self.windows: queue.Queue[Window] = queue.Queue()
        self.acknowledged: list[Window] = []

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def next(self, timeout_s: float) -> Window | None:
        try:
            return self.windows.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def done(self, window: Any) -> None:
        self.acknowledged.append(window)

    def pending(self) -> int:
        return sum(len(one.messages) for one in list(self.windows.queue))

    def ready(self) -> tuple[bool, str]:
        return True, "scripted"


def reading(second: int, **fields: Any) -> RawMessage:
    body = {"time": (T0 // SECOND) + second, "surface_mm": 1200, **fields}
    return RawMessage("quarterline/v1/d-1/readings", json.dumps(body).encode(), T0 + second * SECOND)


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


@pytest.fixture
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture
def clock() -> list[float]:
    return [T0 / 1e6]


@pytest.fixture
def engine(tmp_path: Path, rules: Rules, clock: list[float]) -> Iterator[tuple[Engine, Script, SqlStore]]:
    store = open_store(tmp_path / "data")
    assert isinstance(store, SqlStore)
    put_fleet(store, parse_fleet(FLEET, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))
    script = Script()
    one = Engine(lambda written: Core(store, rules, start_us=T0, written=written), script, lambda: clock[0])
    one.start()
    yield one, script, store
    one.stop()
    store.close()


def test_a_window_is_acknowledged_after_its_commit(engine: tuple[Engine, Script, SqlStore]) -> None:
    one, script, store = engine
    window = Window((reading(1), reading(2)), T0 + 3 * SECOND)
    script.windows.put(window)
    until(lambda: script.acknowledged == [window], "acknowledged")
    assert store.history.totals().stored == 2
    assert one.pending() == 0
    assert all(ok for ok, _ in one.readiness().values())


def test_a_full_disk_stops_acknowledging_and_nothing_is_lost_or_doubled(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    with store.transaction():
        raw = store.raw(store.writer)
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        raw.execute(f"PRAGMA max_page_count = {pages}")
    window = Window(tuple(reading(k, profile=[0.5] * 200) for k in range(1, 800)), T0 + 800 * SECOND)
    script.windows.put(window)
    until(lambda: not one.readiness()["store"][0], "store refuses")
    assert "disk is full" in one.readiness()["store"][1]
    assert script.acknowledged == []
    assert store.history.totals().received == 0
    assert one.pending() == 799
    assert one.readiness()["writer"][0]
    with store.transaction():
        raw.execute("PRAGMA max_page_count = 1000000")
    until(lambda: script.acknowledged == [window], "acknowledged once there is room")
    assert store.history.totals().stored == 799
    assert store.history.totals().duplicate == 0
    assert one.readiness()["store"] == (True, "ok")


def test_stopping_while_the_store_refuses_leaves_the_window_to_the_broker(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    with store.transaction():
        raw = store.raw(store.writer)
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        raw.execute(f"PRAGMA max_page_count = {pages}")
    script.windows.put(
        Window(tuple(reading(k, profile=[0.5] * 200) for k in range(1, 800)), T0 + 800 * SECOND)
    )
    until(lambda: not one.readiness()["store"][0], "store refuses")
    one.stop()
    assert script.acknowledged == []
    with pytest.raises(StoreError, match="stopping"):
        one.submit(lambda commands: commands.now_us)


def test_a_command_comes_before_a_message_of_its_instant(
    engine: tuple[Engine, Script, SqlStore], clock: list[float]
) -> None:
    one, script, store = engine
    clock[0] = T0 / 1e6 + 10

    def count(commands: Commands) -> tuple[int, int]:
        return commands.now_us, commands.store.history.totals().stored

    results: list[tuple[int, int]] = []
    script.windows.put(Window((), T0 + 9 * SECOND))
    asking = threading.Thread(target=lambda: results.append(one.submit(count)))
    asking.start()
    until(lambda: len(one._commands) == 1, "the command waits for its instant")
    script.windows.put(Window((reading(9), reading(10), reading(11)), T0 + 11 * SECOND))
    asking.join(30)
    assert results == [(T0 + 10 * SECOND, 1)]
    until(lambda: store.history.totals().stored == 3, "the rest is taken after it")


def test_a_failing_command_says_so_and_keeps_nothing(engine: tuple[Engine, Script, SqlStore]) -> None:
    one, script, store = engine

    def fails(commands: Commands) -> None:
        commands.store.ledger.set_meta("half", "done")
        raise ValueError("no such thing")

    script.windows.put(Window((), T0 + 60 * SECOND))
    with pytest.raises(ValueError, match="no such thing"):
        one.submit(fails)
    assert store.ledger.get_meta("half") is None
    script.windows.put(Window((), T0 + 61 * SECOND))
    assert one.submit(lambda commands: commands.store.ledger.get_meta("half")) is None


def test_a_missing_broker_is_named_and_waited_for(tmp_path: Path, free_port: Callable[[], int]) -> None:
    port = free_port()
    settings = Settings(data_dir=tmp_path / "data", mqtt={"port": port})
    with running(settings) as service:
        until(lambda: f"127.0.0.1:{port}" in service.readiness()["mqtt"][1], "the reason names the address")
        assert not service.readiness()["mqtt"][0]
        assert service.readiness()["writer"][0]
        assert service.submit(lambda commands: commands.store.history.totals().received) == 0
