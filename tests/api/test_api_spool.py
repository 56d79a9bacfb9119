"""The writer with a spool: held up or not, restarted or not, the same messages decide the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from script import Script

from api.core import Core, Rules
from api.engine import Engine
from api.fleet_file import Known, parse_fleet
from api.serve import load_rules, running
from api.settings import ConfigurationError, Settings
from api.work import put_fleet
from ingest.message import RawMessage
from ingest.spool import Spool
from ingest.told import Window
from store import open_store
from store.sql import SqlStore

T0 = 1_788_246_000_000_000  # 2026-09-01T07:00:00Z, local midnight at the site
MINUTE = 60_000_000
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


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)  # between two looks


def stream() -> list[Window]:
    """A day and more of a filling interceptor: two readings every 20 minutes, one without time or counter."""
    windows = []
    for k in range(80):
        at = T0 + (k * 20 + 1) * MINUTE
        fog = 150 + 2 * k
        timed = {
            "time": at // 1_000_000,
            "surface_mm": 1200,
            "fog_bottom_mm": 1200 - fog,
            "solids_top_mm": 100,
        }
        pair = tuple(
            RawMessage("quarterline/v1/d-1/readings", json.dumps(body).encode(), at + n)
            for n, body in enumerate((timed, {"inlet_c": 20}))
        )
        windows.append(Window(pair, at + 2))
    return windows


class Life:
    """A store, and one engine after another over it."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        self._folder, self._rules = folder, rules
        one = open_store(folder / "data")
        assert isinstance(one, SqlStore)
        self.store = one
        put_fleet(one, parse_fleet(FLEET, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))

    def begin(self, patience_s: float = 0.1) -> Script:
        self.script = Script()
        self.engine = Engine(
            lambda written: Core(self.store, self._rules, start_us=T0, written=written),
            self.script,
            lambda: T0 / 1e6,
            spool=lambda taken: Spool(self._folder / "spool", 1 << 22, taken=taken),
            patience_s=patience_s,
        )
        self.engine.start()
        return self.script

    def fill(self) -> None:
        """No page more than now."""
        with self.store.transaction():
            raw = self.store.raw(self.store.writer)
            pages = raw.execute("PRAGMA page_count").fetchone()[0]
            raw.execute(f"PRAGMA max_page_count = {pages}")

    def make_room(self) -> None:
        with self.store.transaction():
            self.store.raw(self.store.writer).execute("PRAGMA max_page_count = 1000000")

    def journal(self) -> list[tuple[int, str, Any]]:
        return [
            (e.at_us, e.type, e.body) for e in self.store.ledger.journal(limit=10_000) if e.type != "spool"
        ]


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load_rules(Settings())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, rules: Rules) -> list[tuple[int, str, Any]]:
    """What is decided on the stream when the store is always well."""
    life = Life(tmp_path_factory.mktemp("undisturbed"), rules)
    script = life.begin(patience_s=3600)
    for one in stream():
        script.windows.put(one)
    until(lambda: len(script.acknowledged) == 80, "taken")
    life.engine.stop()
    journal = life.journal()
    assert life.store.history.totals().stored == 160
    life.store.close()
    assert {kind for _, kind, _ in journal} >= {"assessment", "alert", "order"}
    return journal


def test_held_up_it_acknowledges_out_of_the_spool_and_decides_the_same(
    tmp_path: Path, rules: Rules, undisturbed: list[tuple[int, str, Any]]
) -> None:
    life, windows = Life(tmp_path / "held up", rules), stream()
    script = life.begin()
    for one in windows[:27]:
        script.windows.put(one)
    until(lambda: len(script.acknowledged) == 27, "the first third")
    life.fill()
    for one in windows[27:]:
        script.windows.put(one)
    until(lambda: len(script.acknowledged) == 80, "acknowledged, though not stored")
    assert script.acknowledged == windows
    stored = life.store.history.totals().stored
    assert stored < 160
    assert life.engine.pending() == 160 - stored
    assert "disk is full" in life.engine.readiness()["store"][1]
    assert life.engine.readiness()["spool"][0]
    life.make_room()
    until(lambda: life.engine.pending() == 0, "drained")
    life.engine.stop()
    assert life.store.history.totals().stored == life.store.history.totals().received == 160
    assert life.journal() == undisturbed
    life.store.close()


def test_stopped_while_held_up_it_goes_on_with_the_spool(
    tmp_path: Path, rules: Rules, undisturbed: list[tuple[int, str, Any]]
) -> None:
    life, windows = Life(tmp_path / "stopped", rules), stream()
    script = life.begin()
    life.fill()
    for one in windows[:40]:
        script.windows.put(one)
    until(lambda: len(script.acknowledged) == 40, "acknowledged")
    stored = life.store.history.totals().stored
    life.engine.stop()
    life.make_room()
    script = life.begin()
    assert life.engine.pending() <= 80 - stored
    for one in windows[40:]:
        script.windows.put(one)
    until(lambda: len(script.acknowledged) == 40 and life.engine.pending() == 0, "everything taken")
    life.engine.stop()
    totals = life.store.history.totals()
    assert (totals.stored, totals.received) == (160, 160)
    assert life.journal() == undisturbed
    life.store.close()


def test_L74_without_room_in_the_spool_nothing_is_promised(tmp_path: Path, rules: Rules) -> None:
    life, windows = Life(tmp_path, rules), stream()
    script = life.begin()
    life.fill()
    (tmp_path / "spool").rmdir()
    (tmp_path / "spool").write_text("no folder any more")
    for one in windows:
        script.windows.put(one)
    until(lambda: not life.engine.readiness()["spool"][0], "it says so")
    assert "the spool cannot be used (Not a directory)" in life.engine.readiness()["spool"][1]
    assert len(script.acknowledged) < 80
    (tmp_path / "spool").unlink()
    (tmp_path / "spool").mkdir()
    until(lambda: len(script.acknowledged) == 80, "acknowledged out of the spool")
    life.make_room()
    until(lambda: life.engine.pending() == 0, "drained")
    life.engine.stop()
    assert life.store.history.totals().stored == 160
    life.store.close()


def test_a_spool_of_another_store_is_refused_unless_this_one_is_new(tmp_path: Path) -> None:
    """As when the data directory was put away, and `spool.dir` was not."""

    def settings(data: str) -> Settings:
        return Settings(data_dir=tmp_path / data, mqtt={"port": 9}, spool={"dir": tmp_path / "spool"})

    def reading(second: int) -> RawMessage:
        return RawMessage("quarterline/v1/d-1/readings", b'{"surface_mm": 1}', T0 + second)

    def leave(number: int) -> None:
        spool = Spool(tmp_path / "spool", 1 << 20, taken=number - 1)
        spool.append(number, [reading(number)])
        spool.close()

    def drain(data: str) -> int:
        with running(settings(data)) as service:
            until(lambda: service.pending() == 0, "drained")
            return service.store.history.totals().received

    assert drain("first") == 0
    leave(1)
    assert drain("first") == 1
    leave(2)
    assert drain("new") == 1  # it has taken nothing yet: nothing can be taken for something else
    leave(3)
    with pytest.raises(
        ConfigurationError, match=r"spool.dir: .*holds messages that another store has yet to take"
    ):
        drain("first")
    assert drain("new") == 2
    assert drain("first") == 1  # empty, it is anybody's
