"""The writer: what is acknowledged and when, a full disk, commands in order of time, a missing broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from script import Script
from starlette.requests import Request

from api.commands import Commands
from api.core import Core, Rules
from api.engine import Engine
from api.fleet_file import Known, parse_fleet
from api.problems import on_store
from api.serve import load_rules, running
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from ingest.session import Window
from store import open_store
from store.ports import StoreError, StoreFull, StoreHangs
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


def fill(store: SqlStore) -> None:
    with store.transaction():
        raw = store.raw(store.writer)
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        raw.execute(f"PRAGMA max_page_count = {pages}")


def make_room(store: SqlStore) -> None:
    with store.transaction():
        store.raw(store.writer).execute("PRAGMA max_page_count = 1000000")


def many() -> Window:
    """More than fits into a store that is full."""
    return Window(tuple(reading(k, profile=[0.5] * 200) for k in range(1, 800)), T0 + 800 * SECOND)


class Asked:
    """Commands submitted from a thread each; what they return or raise."""

    def __init__(self, one: Engine) -> None:
        self._one = one

    def ask(self, command: Callable[[Commands], Any], timeout_s: float = 30.0) -> Future[Any]:
        """Submit one and return when it waits for its turn."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(self._one.submit(command, timeout_s))
            except Exception as error:
                future.set_exception(error)

        before = len(self._one._commands)
        threading.Thread(target=run, daemon=True).start()
        until(lambda: len(self._one._commands) > before or future.done(), "the command waits")
        return future


def test_a_full_disk_stops_acknowledging_and_nothing_is_lost_or_doubled(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    fill(store)
    window = many()
    script.windows.put(window)
    until(lambda: not one.readiness()["store"][0], "store refuses")
    assert "disk is full" in one.readiness()["store"][1]
    assert script.acknowledged == []
    assert store.history.totals().received == 0
    assert one.pending() == 799
    assert one.readiness()["writer"][0]
    make_room(store)
    until(lambda: script.acknowledged == [window], "acknowledged once there is room")
    assert store.history.totals().stored == 799
    assert store.history.totals().duplicate == 0
    assert one.readiness()["store"] == (True, "ok")


def test_stopping_while_the_store_refuses_leaves_the_window_to_the_broker(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    fill(store)
    script.windows.put(many())
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

    failed = Asked(one).ask(fails)
    script.windows.put(Window((), T0 + 60 * SECOND))
    with pytest.raises(ValueError, match="no such thing"):
        failed.result(30)
    assert store.ledger.get_meta("half") is None
    after = Asked(one).ask(lambda commands: commands.store.ledger.get_meta("half"))
    script.windows.put(Window((), T0 + 61 * SECOND))
    assert after.result(30) is None


def test_a_command_without_room_says_so_and_the_writer_goes_on(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    fill(store)

    def large(commands: Commands) -> str:
        commands.store.ledger.set_meta("large", "x" * 1_000_000)
        return "kept"

    refused = Asked(one).ask(large)
    script.windows.put(Window((), T0 + SECOND))
    with pytest.raises(StoreFull, match="disk is full"):
        refused.result(30)
    assert store.ledger.get_meta("large") is None
    make_room(store)
    kept = Asked(one).ask(large)
    script.windows.put(Window((), T0 + 2 * SECOND))
    assert kept.result(30) == "kept"


def test_a_command_given_up_never_runs_and_does_not_end_the_writer(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, store = engine
    fill(store)
    script.windows.put(many())
    until(lambda: not one.readiness()["store"][0], "store refuses")
    ran: list[int] = []
    with pytest.raises(StoreError, match="busy or down: the disk is full"):
        one.submit(lambda commands: ran.append(1), timeout_s=0.1)
    make_room(store)
    until(lambda: len(script.acknowledged) == 1, "acknowledged")
    script.windows.put(Window((), T0 + 900 * SECOND))
    until(lambda: len(script.acknowledged) == 2 and not one._commands, "the command's turn is over")
    assert ran == []
    assert one.readiness()["writer"][0]


def test_who_asked_for_what_the_store_hangs_over_is_not_told_that_nothing_was_kept(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, _ = engine
    hangs, goes_on = threading.Event(), threading.Event()
    said = ""

    def slow(commands: Any) -> None:
        hangs.set()
        goes_on.wait(60)

    for n in range(1, 100):  # until its turn comes within the time
        asked = Asked(one).ask(slow, timeout_s=0.2)
        script.windows.put(Window((), T0 + n * SECOND))
        with pytest.raises(StoreError) as caught:
            asked.result(30)
        said = str(caught.value)
        if hangs.is_set():
            break
    assert said == "the store has hung over this for 0.2 s and may yet take it: look before it is sent again"
    assert isinstance(caught.value, StoreHangs)
    answer = on_store(Request({"type": "http", "path": "/x", "headers": []}), caught.value)
    assert answer.status_code == 503
    assert b"may yet take this" in answer.body
    goes_on.set()
    asked = Asked(one).ask(lambda commands: 7)
    script.windows.put(Window((), T0 + 1000 * SECOND))
    assert asked.result(30) == 7


def test_the_error_of_a_command_is_its_own_whatever_it_is(
    engine: tuple[Engine, Script, SqlStore],
) -> None:
    one, script, _ = engine

    def late(commands: Any) -> None:
        raise TimeoutError("mine")

    asked = Asked(one).ask(late)
    script.windows.put(Window((), T0 + SECOND))
    with pytest.raises(TimeoutError, match="mine"):
        asked.result(30)


def test_stopping_answers_every_command_that_waits(
    engine: tuple[Engine, Script, SqlStore], clock: list[float]
) -> None:
    one, script, store = engine
    asked = Asked(one)
    clock[0] = T0 / 1e6 + 1000
    with pytest.raises(StoreError, match="no answer in time"):
        one.submit(lambda commands: 0, timeout_s=0.05)  # given up, and still in line
    waiting = [asked.ask(lambda commands: 1) for _ in range(3)]
    fill(store)
    script.windows.put(replace(many(), watermark_us=T0 + 1001 * SECOND))
    until(lambda: not one.readiness()["store"][0], "store refuses")
    clock[0] += 100
    waiting += [asked.ask(lambda commands: 2) for _ in range(2)]
    one.stop()
    for future in waiting:
        with pytest.raises(StoreError, match="stopping"):
            future.result(5)
    assert script.acknowledged == []


def test_a_clock_set_back_brings_no_command_before_what_was_taken(
    engine: tuple[Engine, Script, SqlStore], clock: list[float]
) -> None:
    one, script, _ = engine
    script.windows.put(Window((reading(50),), T0 + 60 * SECOND))
    until(lambda: len(script.acknowledged) == 1, "taken")
    clock[0] = T0 / 1e6 + 30
    asked = Asked(one).ask(lambda commands: (commands.now_us, commands.store.history.totals().stored))
    script.windows.put(Window((reading(61),), T0 + 61 * SECOND))
    now_us, stored = asked.result(30)
    assert T0 + 60 * SECOND < now_us <= T0 + 61 * SECOND
    assert stored == 1


def test_a_record_that_cannot_be_written_holds_the_acknowledgement(tmp_path: Path, rules: Rules) -> None:
    store = open_store(tmp_path / "data")
    assert isinstance(store, SqlStore)
    put_fleet(store, parse_fleet(FLEET, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))
    script, record = Script(), tmp_path / "not yet" / "messages.jsonl"
    one = Engine(
        lambda written: Core(store, rules, start_us=T0, written=written),
        script,
        lambda: T0 / 1e6,
        record=record,
    )
    one.start()
    script.windows.put(Window((reading(1), reading(2)), T0 + 3 * SECOND))
    until(lambda: not one.readiness()["store"][0], "refused")
    assert "messages.jsonl cannot be written (No such file" in one.readiness()["store"][1]
    assert one.readiness()["writer"][0]
    assert script.acknowledged == []
    record.parent.mkdir()
    until(lambda: len(script.acknowledged) == 1, "acknowledged")
    one.stop()
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["received_at"] for line in lines] == ["2026-09-01T07:00:01Z", "2026-09-01T07:00:02Z"]
    assert store.history.totals().stored == 2
    store.close()


def test_without_a_broker_the_clock_alone_brings_commands_their_turn(tmp_path: Path) -> None:
    with running(Settings(data_dir=tmp_path / "data", mqtt={"enabled": False})) as service:
        assert service.readiness()["mqtt"] == (True, "no broker configured")
        first = service.submit(lambda commands: commands.now_us)
        second = service.submit(lambda commands: commands.now_us)
    assert first < second
    with pytest.raises(StoreError, match="stopping"):
        service.submit(lambda commands: commands.now_us)


def test_a_missing_broker_is_named_and_waited_for(tmp_path: Path, free_port: Callable[[], int]) -> None:
    port = free_port()
    settings = Settings(data_dir=tmp_path / "data", mqtt={"port": port})
    with running(settings) as service:
        until(lambda: f"127.0.0.1:{port}" in service.readiness()["mqtt"][1], "the reason names the address")
        assert not service.readiness()["mqtt"][0]
        assert service.readiness()["writer"][0]
        assert service.submit(lambda commands: commands.store.history.totals().received) == 0
