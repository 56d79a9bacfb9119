"""Recorded series: real files of others with their right answers (data/NOTICE.md), and every way to be wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ingest.message import RawMessage
from ingest.series import RowError, SeriesError, load_mapping, read_series

DATA = Path(__file__).parent / "data"
GOOD = """
[time]
columns = ["when"]
zone = "America/New_York"
[sensor]
id = "d-1"
[[fields]]
column = "level"
quantity = "surface"
unit = "cm"
sentinels = ["#-1", 9999]
"""


def read(folder: Path, text: str, mapping: str = GOOD, **kinds: str) -> list[RawMessage | RowError]:
    (folder / "m.toml").write_text(mapping)
    (folder / "s.csv").write_text(text, **kinds)
    return list(read_series(folder / "s.csv", load_mapping(folder / "m.toml")))


def bodies(rows: list[RawMessage | RowError]) -> list[dict[str, object]]:
    return [json.loads(row.payload) for row in rows if isinstance(row, RawMessage)]


def test_two_tide_gauges() -> None:
    rows = list(read_series(DATA / "coastlab_sheet_two_devices.csv", load_mapping(DATA / "coastlab.toml")))
    assert len(rows) == 1449
    assert not [row for row in rows if isinstance(row, RowError)]
    topics = Counter(row.topic for row in rows if isinstance(row, RawMessage))
    assert topics == {
        "quarterline/v1/waterLevel_0002/readings": 782,
        "quarterline/v1/waterLevel_0003/readings": 667,
    }
    first = rows[0]
    assert isinstance(first, RawMessage)
    # 4/5/2024 16:00:21 in New York is UTC-4; the reading's own time is 1712347219
    assert first.received_us == 1_712_347_221_000_000
    assert json.loads(first.payload) == {
        "time": "2024-04-05T20:00:19.000000+00:00",
        "distance_cm": 356.91388,
        "battery_v": 4.16,
        "battery_pct": 96.55,
    }


def test_a_dam() -> None:
    rows = list(read_series(DATA / "dam_stage_ultrasonic_adafruit.csv", load_mapping(DATA / "dam.toml")))
    assert len(rows) == 4800
    first = rows[0]
    assert isinstance(first, RawMessage)
    # 10:55:11 AM in New York on 2022-07-01; the file gives 14:55:11 UTC beside it
    assert json.loads(first.payload) == {"time": "2022-07-01T14:55:11.000000+00:00", "surface_ft": 8.0}
    by_utc = [
        line.split(",")[6]
        for line in (DATA / "dam_stage_ultrasonic_adafruit.csv").read_text().splitlines()[1:]
    ]
    assert [str(body["time"])[11:19] for body in bodies(rows)] == [text.zfill(8) for text in by_utc]


def test_sentinels_blank_cells_and_bad_cells(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        "when,level\n2026-01-01 12:00,120.5\n2026-01-01 12:15,#-1\n2026-01-01 12:30,9999.0\n"
        "2026-01-01 12:45,\n\n2026-01-01 13:00,1_0\nyesterday,1\n2026-01-01 13:15\n",
    )
    assert bodies(rows) == [
        {"time": "2026-01-01T17:00:00.000000+00:00", "surface_cm": 120.5},
        {"time": "2026-01-01T17:15:00.000000+00:00"},
        {"time": "2026-01-01T17:30:00.000000+00:00"},
        {"time": "2026-01-01T17:45:00.000000+00:00"},
    ]
    errors = [str(row).removeprefix(str(tmp_path)) for row in rows if isinstance(row, RowError)]
    assert errors == [
        "/s.csv:7: level: '1_0' is no number; add it to sentinels if it means no value",
        "/s.csv:8: time: 'yesterday' is not of the format 'iso'",
        "/s.csv:9: only 1 columns, column 2 is missing",
    ]


def test_decimal_commas_stray_characters_and_two_time_columns(tmp_path: Path) -> None:
    mapping = """
        delimiter = "\\t"
        decimal = ","
        encoding = "latin-1"
        skip_lines = 1
        header = false
        strip = ";"
        [time]
        columns = [1, 2]
        format = "%d.%m.%Y %H:%M:%S"
        zone = "Europe/Berlin"
        [sensor]
        column = 4
        names = { alt = "neu" }
        [[fields]]
        column = 3
        quantity = "surface"
        unit = "m"
        """
    rows = read(tmp_path, "Größe\n;17.04.2014\t11:45:00\t0,055\talt\n", mapping, encoding="latin-1")
    (row,) = rows
    assert isinstance(row, RawMessage)
    assert row.topic == "quarterline/v1/neu/readings"
    assert bodies(rows) == [{"time": "2014-04-17T09:45:00.000000+00:00", "surface_m": 0.055}]


def test_a_torn_line_does_not_stop_the_reading(tmp_path: Path) -> None:
    rows = read(tmp_path, "when,level\n2026-01-01 12:00,1\n2026-01\x00\x01,2\n2026-01-01 12:30,3\n")
    assert [body["surface_cm"] for body in bodies(rows)] == [1, 3]
    assert "torn" in str(rows[1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("quantity =", "quantety ="), "quantety"),
        (('"surface"', '"levle"'), "fields[0].quantity: 'levle' is none of"),
        (('unit = "cm"', 'unit = "c"'), "fields[0].unit: 'c' is no unit of length; one of mm"),
        (('zone = "America/New_York"', 'zone = "New York"'), "time.zone: 'New York' is no time zone"),
        (('id = "d-1"', ""), "sensor: give either id or column"),
        (('["when"]', "[]"), "time.columns: name at least one column"),
        (('["when"]', '["wann"]'), "time.columns: no column 'wann'; there are when, level"),
        (('["when"]', "[0]"), "time.columns: columns are counted from 1"),
        (("[time]", 'decimal = ";"\n[time]'), "decimal: ';' is neither"),
        (("[time]", 'encoding = "utf-9"\n[time]'), "encoding: 'utf-9' is unknown"),
        (("[time]", "[tame]"), "tame"),
        (("[time]", "[["), "m.toml"),
    ],
)
def test_a_wrong_mapping_names_file_and_key(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(SeriesError) as caught:
        read(tmp_path, "when,level\n2026-01-01 12:00,1\n", GOOD.replace(*change))
    assert said in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(GOOD)
    with pytest.raises(SeriesError, match="cannot be read"):
        list(read_series(tmp_path / "none.csv", load_mapping(tmp_path / "m.toml")))


def test_a_wrong_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(SeriesError, match="set encoding"):
        read(tmp_path, "when,level\n2026-01-01 12:00,ö\n", encoding="latin-1")
