"""`quarterline import`: JSON lines, dry runs, rows that cannot be taken, being killed, being run twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.core import Core
from api.importing import Imported, Watch, import_series, in_words
from api.serve import load_rules
from api.service import Fleet
from api.settings import Settings
from api.work import put_fleet
from ingest.series import SeriesError
from store import open_store
from store.ports import Store
from store.records import Interceptor, Sensor, Site, StoredReading

MAPPING = """
[time]
columns = ["when"]
[sensor]
column = "who"
[[fields]]
column = "fog"
quantity = "fog_depth"
unit = "mm"
"""
T0_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
DAY_US = 86_400_000_000


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "quarterline.toml"
    file.write_text('data_dir = "data"\n')
    store = open_store(tmp_path / "data")
    put_fleet(
        store,
        Fleet(
            sites=(Site("s", "S", "sierra-madre", "America/Los_Angeles"),),
            interceptors=(Interceptor("i", "s", "gravity", 1.2, 1.2),),
            sensors=(Sensor("d-1", "i"),),
        ),
    )
    store.close()
    return file


@pytest.fixture
def the_store(tmp_path: Path, config: Path) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def make() -> Store:
        opened.append(open_store(tmp_path / "data"))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def lines(tmp_path: Path, *documents: object, name: str = "h.jsonl") -> Path:
    file = tmp_path / name
    file.write_text("".join(f"{d if isinstance(d, str) else json.dumps(d)}\n" for d in documents))
    return file


def take(file: Path, config: Path, *, mapping: Path | None = None, dry_run: bool = False) -> Imported:
    return import_series([file], mapping, config, dry_run=dry_run)


def readings(store: Store) -> list[StoredReading]:
    return store.history.readings(["d-1"], since_us=0, until_us=2**62)


def test_native_items_that_name_their_sensor(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    file = lines(
        tmp_path,
        {"sensor": "d-1", "time": "2026-01-01T00:00:00Z", "fog_depth_mm": 20, "seq": 7},
        {"sensor": "D-1", "time": 1_767_226_500, "fog_depth_in": 1, "fog_dephth_mm": 1},
        {"sensor": "d-1", "time": "2026-01-01T00:30:00Z"},
    )
    first = take(file, config)
    assert (first.rows, first.stored, first.duplicates, first.without_value) == (3, 2, 0, 1)
    assert first.ignored == {"fog_dephth_mm": 1}
    assert not first.refused
    rows = readings(the_store())
    assert [(r.time_us, r.received_us, r.values, r.seq) for r in rows] == [
        (T0_US, T0_US, {"fog_depth_m": 0.02}, 7),
        (T0_US + 900_000_000, T0_US + 900_000_000, {"fog_depth_m": pytest.approx(0.0254)}, None),
    ]


def test_what_cannot_be_taken_is_told_by_file_and_line_and_not_kept(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    at = "2026-01-01T00:00:00Z"
    file = lines(
        tmp_path,
        {"sensor": "d-1", "time": at, "fog_depth_mm": 20},
        '{"sensor": "d-1", "time": ',
        {"time": at, "fog_depth_mm": 20},
        {"sensor": "d-1", "fog_depth_mm": 20},
        "",
        {"sensor": "d-1", "time": "yesterday", "fog_depth_mm": 20},
        {"sensor": "d-1", "time": "2099-01-01T00:00:00Z", "fog_depth_mm": 20},
        {"sensor": "d-9", "time": at, "fog_depth_mm": 20},
        {"sensor": "d-1", "time": at, "fog_depth_mm": "much"},
        {"sensor": "d-1", "time": at, "fog_depth_mm": 21},
        {"sensor": "d-1", "time": at, "fog_depth_mm": 21},
        {
            "received_at": at,
            "topic": "quarterline/v1/d-1/readings",
            "payload": [{"fog_depth": 1}, {"tank_c": 9}],
        },
        {"received_at": at, "topic": "quarterline/v1/d-1/readings"},
        {"received_at": at, "topic": "quarterline/v1/d-1/readings", "payload": {"tank_c": 9}, "retain": True},
        "[1]",
    )
    told: list[str] = []
    for dry_run in (True, False, False):
        told.clear()
        result = import_series([file], None, config, dry_run=dry_run, watch=Watch(told.append))
        assert told == result.refused
        assert sorted(result.refused, key=lambda text: int(text.split(":")[1])) == [
            f"{file}:2: line: no JSON (Input data was truncated); the line may be torn",
            f"{file}:3: sensor: 'None' is no sensor id; name the sensor of every item",
            f"{file}:4: time: missing; a recorded item says when it was, as ISO 8601 with an offset",
            f'{file}:6: time: cannot read "yesterday"; send ISO 8601 with an offset, such as '
            "2026-03-01T12:00:00Z, or a number of seconds since 1970",
            f"{file}:7: time: lies in the future; correct the year or the zone",
            f'{file}:8: "d-9": no sensor of the fleet; add it under [[sensors]]',
            f'{file}:9: fog_depth_mm: expected a number or null, found "much"; send it as a JSON number',
            f"{file}:10: fog_depth_m: 0.02 is stored for this sensor and time, 0.021 came; "
            "the first stays: a correction needs a time of its own",
            f"{file}:11: fog_depth_m: 0.02 is stored for this sensor and time, 0.021 came; "
            "the first stays: a correction needs a time of its own",
            f"{file}:12: [0] fog_depth: has no unit; name it fog_depth_mm or fog_depth_cm or fog_depth_m or "
            "fog_depth_in or fog_depth_ft, or give the unit in the device profile",
            f"{file}:13: neither payload nor payload_hex",
            f"{file}:14: retain: a retained message is no reading",
            f"{file}:15: line: expected a JSON object",
        ]
        assert result.reasons == {
            "unreadable": 6,
            "future": 1,
            "unknown_sensor": 1,
            "not_a_number": 1,
            "conflict": 2,
            "no_unit": 1,
            "retained": 1,
        }
        assert result.rows == 14
    assert (result.stored, result.duplicates) == (0, 2)
    store = the_store()
    assert store.history.quarantine() == []
    totals = store.history.totals()
    assert (totals.received, totals.stored, totals.duplicate) == (4, 2, 2)
    assert "not taken: 2 conflict, 1 future, 1 no_unit" in in_words(result)


def test_messages_of_a_recording_are_found_again_even_without_a_time(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    def message(minute: int, payload: object) -> dict[str, object]:
        at = f"2026-01-01T00:{minute:02d}:00Z"
        return {"received_at": at, "topic": "quarterline/v1/d-1/readings", "payload": payload}

    file = lines(
        tmp_path,
        message(0, {"tank_c": 20}),
        message(5, {"tank_c": 20}),  # the same content: another reading
        message(10, json.dumps({"tank_c": 20})),
        message(50, [{"air_c": 20}, {"air_c": 20}]),  # fifteen minutes apart, the last at its reception
        message(55, {"seq": 3, "tank_c": 20}),
        message(59, {"time": "1999-01-01T00:00:00Z", "tank_c": 20}),
        {"received_at": "2026-01-01T01:00:00Z", "topic": "quarterline/v1/d-1/status", "payload": "online"},
    )
    first, again = take(file, config), take(file, config)
    assert (first.stored, first.duplicates, first.without_value, first.clock_replaced) == (7, 0, 1, 1)
    assert (again.stored, again.duplicates) == (0, 7)
    store = the_store()
    minutes = [(r.time_us - T0_US) / 60e6 for r in readings(store)]
    assert minutes == [0, 5, 10, 35, 50, 55, 59]
    assert store.history.contacts() == {}
    assert store.history.connectivity() == {}


def test_objects_by_a_mapping(tmp_path: Path, config: Path, the_store: Callable[[], Store]) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(MAPPING)
    file = lines(
        tmp_path,
        {"when": "2026-01-01T00:00:00Z", "who": "d-1", "fog": 25.5, "other": [1]},
        {"when": "2026-01-01T00:15:00Z", "who": "d-1", "fog": None},
        {"when": "2026-01-01T00:30:00Z", "who": "d-1", "fog": True},
        {"when": "2026-01-01T00:45:00Z", "fog": 26},
        name="mapped.json",
    )
    result = take(file, config, mapping=mapping)
    assert (result.stored, result.without_value) == (1, 1)
    assert [one.removeprefix(str(file)) for one in result.refused] == [
        ":3: fog: expected text, a number or null, found bool",
        ":4: sensor: '' is no sensor id (letters, digits and . _ : -); give it one in sensor.names",
    ]
    assert [r.values for r in readings(the_store())] == [{"fog_depth_m": pytest.approx(0.0255)}]
    mapping.write_text(MAPPING.replace('"fog"', "3"))
    with pytest.raises(SeriesError, match=r"mapped.json: column 3: objects have keys"):
        take(file, config, mapping=mapping)


def test_a_csv_file_needs_a_mapping(tmp_path: Path, config: Path) -> None:
    (tmp_path / "h.csv").write_text("when,who,fog\n")
    with pytest.raises(SeriesError, match=r"h.csv: a CSV file needs --mapping"):
        take(tmp_path / "h.csv", config)


def test_a_dry_run_leaves_the_store_to_others_and_foretells_the_run(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    items = [
        {"sensor": "d-1", "time": (T0_US + n * 900_000_000) // 1_000_000, "tank_c": 20 + n % 7}
        for n in range(3000)
    ]
    file = lines(tmp_path, *items[:1000], items[0], "{", *items[1000:])
    store = the_store()

    def meanwhile(_: str) -> None:
        with store.transaction():  # as a running service: it waits for nobody
            store.ledger.set_meta("meanwhile", "written")

    dry = import_series([file], None, config, dry_run=True, watch=Watch(meanwhile))
    assert store.ledger.get_meta("meanwhile") == "written"
    assert store.history.totals().received == 0
    real = take(file, config)
    assert (dry.stored, dry.duplicates, dry.refused) == (real.stored, real.duplicates, real.refused)
    assert (real.stored, real.duplicates) == (3000, 1)
    assert in_words(dry).startswith("3002 rows: would store 3000, 1 there already")
    assert [path.name for path in (tmp_path / "data").iterdir() if path.is_dir()] == []


def test_killed_and_run_again_nothing_is_missing_or_doubled(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    count = 40_000
    mapping = tmp_path / "m.toml"
    mapping.write_text(MAPPING)
    with (tmp_path / "h.csv").open("w") as file:
        file.write("when,who,fog\n")
        for n in range(count):
            file.write(f"2026-01-{1 + n // 1440:02d}T{n // 60 % 24:02d}:{n % 60:02d}:00Z,d-1,{n % 50}\n")
    words = ["import", "h.csv", "--mapping", "m.toml", "--config", str(config)]
    store = the_store()
    child = subprocess.Popen([sys.executable, "-m", "api", *words], cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while store.history.totals().stored < 3000:
        assert time.monotonic() < deadline
        time.sleep(0.005)  # between two looks
    child.send_signal(signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    assert child.stderr is not None
    child.stderr.close()
    kept = store.history.totals().stored
    assert 3000 <= kept < count
    result = import_series([tmp_path / "h.csv"], mapping, config, dry_run=False)
    valid = 31 * 1440  # the 32nd of January is none
    assert result.rows == count
    assert (result.stored, result.duplicates) == (min(count, valid) - kept, kept)
    assert len(readings(store)) == min(count, valid)


def test_history_that_comes_in_calls_nobody(
    tmp_path: Path, config: Path, the_store: Callable[[], Store]
) -> None:
    """A series that crosses the limit, stands still and ends long ago: the same alerts as without it."""
    file = lines(
        tmp_path,
        *(
            {
                "sensor": "d-1",
                "time": (T0_US + n * 3_600_000_000) // 1_000_000,
                "fog_depth_mm": min(30 + n * 0.5, 400),
                "solids_depth_mm": 80,
                "surface_mm": 1230 if n > 900 else 1200,
                "inlet_c": 70 if n % 100 == 0 else 30,
                "battery_v": 2.1,
            }
            for n in range(1000)
        ),
    )
    store = the_store()
    start_us = T0_US + 300 * DAY_US
    core = Core(store, load_rules(Settings()), start_us=start_us)
    core.advance(start_us + DAY_US)
    before = {(a.kind, a.basis) for a in store.ledger.alerts()}
    orders = {(o.id, o.state) for o in store.ledger.orders()}
    assert take(file, config).stored == 1000
    core.registry_changed()
    core.advance(start_us + 3 * DAY_US)
    assert {(a.kind, a.basis) for a in store.ledger.alerts()} == before
    assert {(o.id, o.state) for o in store.ledger.orders()} == orders
    restarted = Core(store, load_rules(Settings()), start_us=start_us)
    restarted.advance(start_us + 5 * DAY_US)
    assert {(a.kind, a.basis) for a in store.ledger.alerts()} == before
