"""Thinning: what goes, what stays, and that the estimate is what it was with every reading there."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.model import Assessment
from api.caretaker import Caretaker, keep_of
from api.core import Core
from api.retention import DAY_US, HOUR_US, WEEK_US, Keep, Retention
from api.serve import load_rules, running
from api.service import Fleet
from api.settings import Clock, ConfigurationError, Mqtt, Settings, load_settings
from api.settings import Retention as RetentionSettings
from api.work import put_fleet
from ingest.message import RawMessage
from store import open_store
from store.ports import Store
from store.records import FrequencyDecision, Interceptor, Manifest, Sensor, Site, StoredReading

T0_US = 2922 * WEEK_US  # 2026-01-01T00:00:00Z: weeks are counted from the epoch's first Thursday
DAYS, PUMPED_DAY, STEP_US = 47, 9, 1_800_000_000
NOW_US = T0_US + DAYS * DAY_US
pytestmark = pytest.mark.slow
KEEP = Keep(raw_us=30 * DAY_US)
RULES = load_rules(Settings())


def message(at_us: int, chance: random.Random) -> RawMessage:
    """Layers that grow, a drawdown and a clean tank on day 9, a hot discharge every tenth day."""
    day = (at_us - T0_US) / DAY_US
    since = day if day < PUMPED_DAY else day - PUMPED_DAY
    fog, solids, surface = 12 + 2.0 * since, 8 + 1.2 * since, 1200.0
    if PUMPED_DAY - 0.06 < day < PUMPED_DAY:
        fog, solids, surface = 5.0, 2.0, 40.0
    body = (
        f'{{"time": {at_us // 1_000_000}, "fog_depth_mm": {fog + chance.gauss(0, 2):.1f}, '
        f'"solids_depth_mm": {solids + chance.gauss(0, 1):.1f}, "surface_mm": {surface + chance.gauss(0, 1):.1f}, '
        f'"inlet_c": {70 if day % 10 < 0.1 else 30}}}'
    )
    return RawMessage("quarterline/v1/d-1/readings", body.encode(), at_us)


def fleet() -> Fleet:
    return Fleet(
        sites=(Site("s", "S", "sierra-madre", "America/Los_Angeles"),),
        interceptors=(Interceptor("i", "s", "gravity", 1.2, 1.2), Interceptor("j", "s", "gravity", 1.2, 1.2)),
        sensors=(Sensor("d-0", "j"), Sensor("d-1", "i")),
    )


def core_of(store: Store) -> Core:
    return Core(store, RULES, start_us=T0_US)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after some weeks, to be copied."""
    directory = tmp_path_factory.mktemp("lived") / "data"
    with closing(open_store(directory, durable=False)) as store:
        put_fleet(store, fleet())
        core, chance = core_of(store), random.Random(1)
        stream = [message(T0_US + n * STEP_US, chance) for n in range(1, DAYS * DAY_US // STEP_US)]
        core.accept(stream, NOW_US)
        assert [p.complete for p in store.ledger.pump_outs()] == [True]
        # days 10 to 40: a probe that is hot from its very first reading, as on day 0, tells nothing yet
        assert len(store.ledger.hot_discharges()) == 4
    return directory


@pytest.fixture
def make_store(tmp_path: Path, lived: Path) -> Iterator[Callable[[str], Store]]:
    opened: list[Store] = []

    def make(name: str) -> Store:
        if not (tmp_path / name).exists():
            shutil.copytree(lived, tmp_path / name)
        opened.append(open_store(tmp_path / name, durable=False))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def run(core: Core, keep: Keep = KEEP, *, now_us: int = NOW_US, most: int = 10_000) -> int:
    retention, done = Retention(core, keep), 0
    for interceptor in retention.interceptors():
        while done < most:
            with core.desk.transaction():
                if not retention.step(interceptor, now_us):
                    break
            done += 1
    return done


def readings(store: Store, sensor: str = "d-1") -> list[StoredReading]:
    return store.history.readings([sensor], since_us=0, until_us=2**62)


def assessed(core: Core, at_us: int = NOW_US) -> list[Assessment]:
    return core._estimates.assess(at_us / 1e6)


def same(one: list[Assessment], other: list[Assessment]) -> bool:
    return repr(one) == repr(other)  # NaN is not equal to itself


def test_the_estimate_after_a_restart_is_the_one_with_every_reading(
    make_store: Callable[[str], Store],
) -> None:
    whole, thinned = make_store("whole"), make_store("thinned")
    want = assessed(core_of(whole))
    assert want[0].fraction is not None
    live = core_of(thinned)
    assert run(live) > 5
    assert len(readings(thinned)) < 0.95 * len(readings(whole))
    assert same(assessed(live), want)
    restarted = core_of(thinned)
    assert same(assessed(restarted), want)
    assert run(restarted) == 0  # nothing is left to do

    # and both go on alike: late readings, new ones, another restart, another thinning
    cores = {"whole": core_of(whole), "thinned": restarted}
    chance = random.Random(2)
    more = [message(NOW_US + n * STEP_US, chance) for n in range(1, 7 * 48)]
    late = [replace_time(message(NOW_US - 20 * DAY_US + 7_000_000, chance), NOW_US + 3 * DAY_US)]
    for name, core in cores.items():
        core.accept(sorted(more + late, key=lambda m: m.received_us), NOW_US + 7 * DAY_US)
        if name == "thinned":
            assert run(core, now_us=NOW_US + 7 * DAY_US) > 1
    at_us = NOW_US + 7 * DAY_US
    assert same(assessed(cores["whole"], at_us), assessed(cores["thinned"], at_us))
    assert same(assessed(core_of(whole), at_us), assessed(core_of(thinned), at_us))
    assert [e.body for e in whole.ledger.journal(limit=10**6)] == [
        e.body for e in thinned.ledger.journal(limit=10**6)
    ]


def replace_time(one: RawMessage, received_us: int) -> RawMessage:
    return RawMessage(one.topic, one.payload, received_us)


def test_one_reading_an_hour_is_left_and_those_behind_records(make_store: Callable[[str], Store]) -> None:
    whole, thinned = make_store("whole"), make_store("thinned")
    records = (thinned.ledger.pump_outs(), thinned.ledger.alerts(), thinned.ledger.orders())
    journal = len(thinned.ledger.journal(limit=10**6))
    core = core_of(thinned)
    run(core)
    border = (NOW_US - 30 * DAY_US) // WEEK_US * WEEK_US
    before = {r.time_us: r for r in readings(whole)}
    after = {r.time_us: r for r in readings(thinned)}
    assert after == {at: before[at] for at in after}  # what is left is as it was
    assert {at for at in before if at >= border} <= after.keys()
    pump_out = thinned.ledger.pump_outs()[0]
    around = {at for at in before if pump_out.start_us - DAY_US <= at <= pump_out.end_us + DAY_US}
    assert len(around) > 90
    assert around <= after.keys()
    gone = sorted(before.keys() - after.keys())
    assert len(gone) > 100
    assert all(at < border and at % HOUR_US == STEP_US for at in gone)  # of two an hour the second
    assert {at // HOUR_US for at in before} == {at // HOUR_US for at in after}
    assert records == (thinned.ledger.pump_outs(), thinned.ledger.alerts(), thinned.ledger.orders())
    assert journal == len(thinned.ledger.journal(limit=10**6))
    assert thinned.history.totals() == whole.history.totals()


def test_killed_after_any_piece_it_goes_on(make_store: Callable[[str], Store]) -> None:
    want, at_once = assessed(core_of(make_store("whole"))), make_store("at-once")
    pieces = run(core_of(at_once))
    store = make_store("pieces")
    done = 0
    while done < pieces:
        now = run(core_of(store), most=4)
        assert now == min(4, pieces - done)
        assert same(assessed(core_of(store)), want)
        done += now
    assert readings(store) == readings(at_once)


def test_a_piece_that_fails_leaves_nothing_half_done(make_store: Callable[[str], Store]) -> None:
    store = make_store("failing")
    core = core_of(store)
    before = readings(store)

    def half() -> None:
        with core.desk.transaction():
            assert Retention(core, KEEP).step("i", NOW_US)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert (readings(store), store.keeping.kept_states()) == (before, [])


def test_daily_then_deleted_but_not_before_the_ordinance_lets_go(make_store: Callable[[str], Store]) -> None:
    store = make_store("old")
    core = core_of(store)
    keep = replace(KEEP, hourly_us=60 * DAY_US, delete_us=365 * DAY_US)
    count = len(readings(store))
    for years, left in ((1, "some"), (1.9, "some"), (2.3, "spared alone")):
        now_us = round(NOW_US + years * 366 * DAY_US)
        outlook = {one.interceptor: one for one in Retention(core, keep).outlook(now_us)}
        foretold = outlook["i"].to_hourly + outlook["i"].to_daily + outlook["i"].deleted
        run(core, keep, now_us=now_us)
        rows = readings(store)
        assert count - len(rows) == foretold
        count = len(rows)
        spans = Retention(core, keep)._spared("i")
        unspared = [r for r in rows if not any(a <= r.time_us <= b for a, b in spans)]
        assert bool(unspared) == (left == "some"), years
        assert len({r.time_us // DAY_US for r in unspared}) == len(unspared)
    assert count > 0
    assert store.ledger.pump_outs()


def test_a_hold_and_a_decision_keep_readings(make_store: Callable[[str], Store]) -> None:
    store = make_store("held")
    core = core_of(store)
    for name in ("i", "s"):
        assert run(core, replace(KEEP, hold=frozenset({name}))) == 0
    assert [one.held for one in Retention(core, replace(KEEP, hold=frozenset({"s"}))).outlook(NOW_US)] == [
        True,
        True,
    ]
    before = readings(store)
    with store.transaction():
        decision = FrequencyDecision(
            "fd", "i", "approved", "P2M", "2026-06-01", NOW_US - DAY_US, "Pat", "evidence"
        )
        store.ledger.put_frequency_decision(decision)
        store.ledger.put_manifest(Manifest("m", "j", T0_US, T0_US, True))
    run(core)
    assert readings(store) == before


def test_what_was_not_decided_yet_waits(make_store: Callable[[str], Store]) -> None:
    store = make_store("waiting")
    core = core_of(store)
    late = replace_time(message(T0_US + 7_000_000, random.Random(3)), NOW_US + 60_000_000)
    core.accept([late], NOW_US + 60_000_000)
    assert run(core) == 0
    core.advance(NOW_US + HOUR_US)
    assert run(core) > 0
    assert same(assessed(core), assessed(core_of(store)))


def test_a_changed_tank_is_folded_from_what_is_left(make_store: Callable[[str], Store]) -> None:
    store = make_store("changed")
    run(core_of(store))
    put_fleet(store, Fleet(interceptors=(Interceptor("i", "s", "gravity", 1.3, 1.2),)))
    core = core_of(store)
    (one, _) = assessed(core)
    assert one.fraction == pytest.approx((12 + 2.0 * 38 + 8 + 1.2 * 38) / 1300, abs=0.01)
    assert run(core) > 5  # made anew for the changed tank
    assert same(assessed(core), assessed(core_of(store)))


def test_a_running_service_thins_by_itself(make_store: Callable[[str], Store], tmp_path: Path) -> None:
    make_store("live").close()
    settings = Settings(
        data_dir=tmp_path / "live",
        mqtt=Mqtt(enabled=False),
        clock=Clock(start_s=NOW_US / 1e6 + 1, real_start_s=time.time(), speed=2.0),
        retention=RetentionSettings(raw_days=30),
    )
    border = (NOW_US - 30 * DAY_US) // WEEK_US * WEEK_US
    with running(settings) as service:
        deadline = time.monotonic() + 60
        while not any(s.time_us == border for s in service.store.keeping.kept_states()):
            assert time.monotonic() < deadline
            time.sleep(0.05)  # between two looks
        assert len(readings(service.store)) < DAYS * 48 - 100
        assert service.readiness()["store"] == (True, "ok")


def test_nothing_is_thinned_that_was_not_asked_for(make_store: Callable[[str], Store]) -> None:
    store = make_store("whole")
    core = core_of(store)
    assert run(core, keep_of(RetentionSettings())) == 0
    caretaker = Caretaker(core, lambda _: pytest.fail("asked the writer"), keep_of(RetentionSettings()))
    caretaker.start()
    caretaker.stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raw_days = 29", "retention.raw_days: input should be greater than or equal to 30"),
        ("hourly_days = 60", "hourly_days is set and raw_days is not"),
        ("raw_days = 90\nhourly_days = 90", "hourly_days 90 must be more than raw_days 90"),
        ("raw_days = 400\ndelete_days = 365", "delete_days 365 must be more than raw_days 400"),
        ("raw_day = 90", "unknown key; did you mean raw_days?"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "q.toml").write_text(f"[retention]\n{text}\n")
    with pytest.raises(ConfigurationError, match=said.replace("?", r"\?")):
        load_settings(tmp_path / "q.toml")
