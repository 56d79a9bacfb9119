"""Real series imported and replayed: the right answers their source gives (tests/ingest/data/NOTICE.md)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from api.fleet_file import Known, parse_fleet
from api.importing import import_series, in_words
from api.recording import merged
from api.replay import Replay
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from ingest.series import load_mapping, read_series
from store import open_store
from store.records import CLOCK_REPLACED

DATA = Path(__file__).parents[1] / "ingest" / "data"
FLEET = """
[[sites]]
id = "coast"
name = "Coast"
ordinance = "sierra-madre"
timezone = "America/New_York"
[[interceptors]]
id = "tide-2"
site = "coast"
kind = "gravity"
base_depth_mm = 5000
[[interceptors]]
id = "tide-3"
site = "coast"
kind = "gravity"
base_depth_mm = 5000
[[interceptors]]
id = "dam"
site = "coast"
kind = "gravity"
base_depth_mm = 2600
[[sensors]]
id = "waterLevel_0002"
interceptor = "tide-2"
interval_s = 3600
mount_height_mm = 5000
[[sensors]]
id = "waterLevel_0003"
interceptor = "tide-3"
interval_s = 3600
mount_height_mm = 5000
[[sensors]]
id = "dam-1"
interceptor = "dam"
interval_s = 240
"""
YEAR_2000_UPLOADED_US = 1_713_553_509_000_000  # 4/19/2024 15:05:09 in New York


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "quarterline.toml"
    file.write_text('data_dir = "data"\n')
    rules = load_rules(Settings())
    store = open_store(tmp_path / "data")
    put_fleet(
        store, parse_fleet(FLEET, "fleet.toml", Known(rules.ordinances, rules.profiles, lambda *_: None))
    )
    store.close()
    return file


def test_two_tide_gauges_are_imported_once(tmp_path: Path, config: Path) -> None:
    files, mapping = [DATA / "coastlab_sheet_two_devices.csv"], DATA / "coastlab.toml"
    dry = import_series(files, mapping, config, dry_run=True)
    store = open_store(tmp_path / "data")
    assert store.history.totals().received == 0
    store.close()
    first = import_series(files, mapping, config, dry_run=False)
    # two pairs of rows are doubled; one device had no clock once
    assert (first.rows, first.stored, first.duplicates, first.clock_replaced) == (1449, 1447, 2, 1)
    assert (dry.stored, dry.duplicates) == (first.stored, first.duplicates)
    assert not first.refused
    again = import_series(files, mapping, config, dry_run=False)
    assert (again.stored, again.duplicates) == (0, 1449)
    assert in_words(again).startswith("1449 rows: stored 0, 1449 there already")

    store = open_store(tmp_path / "data")
    try:
        rows = store.history.readings(["waterlevel_0002", "waterlevel_0003"], since_us=0, until_us=2**62)
        assert len(rows) == 1447
        flagged = [r for r in rows if r.flags & CLOCK_REPLACED]
        assert [(r.sensor, r.time_us) for r in flagged] == [("waterlevel_0003", YEAR_2000_UPLOADED_US)]
        assert min(r.values["distance_m"] for r in rows if r.sensor == "waterlevel_0002") == pytest.approx(
            2.3099, abs=1e-4
        )
    finally:
        store.close()


def replayed(tmp_path: Path, file: str, mapping: str) -> list[dict[str, Any]]:
    rules = load_rules(Settings())
    store = open_store(tmp_path / "replay", durable=False)
    out = io.BytesIO()
    try:
        put_fleet(store, parse_fleet(FLEET, "f", Known(rules.ordinances, rules.profiles, lambda *_: None)))
        rows = [
            r for r in read_series(DATA / file, load_mapping(DATA / mapping)) if isinstance(r, RawMessage)
        ]
        rows.sort(key=lambda row: row.received_us)
        Replay(store, rules, out).run(merged(iter(rows), []))
    finally:
        store.close()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_tides_are_no_pump_outs(tmp_path: Path) -> None:
    lines = replayed(tmp_path, "coastlab_sheet_two_devices.csv", "coastlab.toml")
    assert not [one for one in lines if one["type"] == "pump_out" and one["confidence"]]
    assert lines[-1]["stored"] == 1447
    assert lines[-1]["duplicate"] == 2
    # an air gap without a density sees no layer: unknown, not zero
    assessed = [one for one in lines if one["type"] == "assessment" and one["interceptor"].startswith("tide")]
    assert assessed
    assert all(one["fog_mm"] is None and one["fraction"] is None for one in assessed)
    # 0003 loses uploads for up to 40 h: the gaps are seen
    silent = {
        one["interceptor"] for one in lines if one["type"] == "alert" and one["kind"] == "sensor_silent"
    }
    assert "tide-3" in silent


def test_a_dam_with_false_echoes_and_lost_offsets_is_no_pump_out_and_not_stuck(tmp_path: Path) -> None:
    lines = replayed(tmp_path, "dam_stage_ultrasonic_adafruit.csv", "dam.toml")
    assert not [one for one in lines if one["type"] == "pump_out" and one["confidence"]]
    flags = {flag["flag"] for one in lines if one["type"] == "assessment" for flag in one["health"]}
    assert "stuck" not in flags
    assert lines[-1]["quarantined"] == 0
