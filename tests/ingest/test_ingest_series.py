"""Recorded series: real files of others with their right answers (data/NOTICE.md), and every way to be wrong."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

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
        earliest = 2014-04-01
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
        (("quantity =", "quantety ="), "did you mean quantity?"),
        (("quantity =", "xyz ="), "known are time, sensor, fields"),
        (('"surface"', '"levle"'), "fields[0].quantity: 'levle' is none of"),
        (('unit = "cm"', 'unit = "c"'), "fields[0].unit: 'c' is no unit of length; one of mm"),
        (('zone = "America/New_York"', 'zone = "New York"'), "time.zone: 'New York' is no time zone"),
        (('id = "d-1"', ""), "sensor: give either id or column"),
        (('["when"]', "[]"), "time.columns: name at least one column"),
        (('["when"]', '["wann"]'), "time.columns: no column 'wann'; there are when, level"),
        (('["when"]', "[0]"), "time.columns: columns are counted from 1"),
        (("[time]", 'decimal = ";"\n[time]'), "decimal: ';' is neither"),
        (("[time]", 'encoding = "utf-9"\n[time]'), "encoding: 'utf-9' is unknown"),
        (("[time]", 'delimiter = "\\n"\n[time]'), "delimiter: expected one character"),
        (("[time]", "skip_lines = -1\n[time]"), "skip_lines: -1"),
        (('id = "d-1"', 'id = "a/b"'), "sensor.id: 'a/b'"),
        (('zone = "America/New_York"', 'zone = ""'), "time.zone: '' is no time zone"),
        (('zone = "America/New_York"', 'format = "%d.%m.%Y"'), "time.zone: missing"),
        (('zone = "America/New_York"', 'zone = "UTC"\nformat = "%Q"'), "time.format: '%Q'"),
        (('unit = "cm"', 'unit = "cm"\nscale = nan'), "fields[0]: scale and offset"),
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


# ---- local time --------------------------------------------------------------------------------------


def clocks(folder: Path, rows: list[tuple[str, int]], mapping: str = GOOD) -> list[str]:
    text = "when,level\n" + "".join(f"{when},{level}\n" for when, level in rows)
    return [str(body["time"])[:16] for body in bodies(read(folder, text, mapping))]


# New York put its clocks back on 2025-11-02: 01:00 to 02:00 came at 05:00 and again at 06:00 UTC
@pytest.mark.parametrize("step", [10, 15, 20, 30, 60])
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_hour_that_comes_twice_is_told_by_its_place_in_the_series(
    tmp_path: Path, step: int, newest_first: bool
) -> None:
    start = datetime(2025, 11, 2, 3, tzinfo=UTC)
    utc = [start + n * timedelta(minutes=step) for n in range(6 * 60 // step)]
    if newest_first:
        utc.reverse()
    local = [one.astimezone(ZoneInfo("America/New_York")).strftime("%Y-%m-%d %H:%M") for one in utc]
    found = clocks(tmp_path, [(when, n) for n, when in enumerate(local)])
    assert found == [one.strftime("%Y-%m-%dT%H:%M") for one in utc]


def test_a_double_within_that_hour_stays_a_double(tmp_path: Path) -> None:
    rows = [("2025-11-02 01:00", 5), ("2025-11-02 01:00", 5), ("2025-11-02 01:00", 6)]
    assert clocks(tmp_path, rows) == ["2025-11-02T05:00", "2025-11-02T05:00", "2025-11-02T06:00"]


def test_in_that_hour_the_receipt_decides(tmp_path: Path) -> None:
    mapping = GOOD + '[received]\ncolumns = ["level"]\nformat = "epoch_s"\n'
    early, late = 1_762_060_000, 1_762_063_600  # 05:06:40 and 06:06:40 UTC
    rows = [("2025-11-02 01:05", late), ("2025-11-02 01:05", early)]
    assert clocks(tmp_path, rows, mapping) == ["2025-11-02T06:05", "2025-11-02T05:05"]


def test_an_hour_that_never_came_is_no_time(tmp_path: Path) -> None:
    rows = read(tmp_path, "when,level\n2026-03-08 01:59,1\n2026-03-08 02:30,2\n2026-03-08 03:00,3\n")
    assert [str(body["time"])[11:16] for body in bodies(rows)] == ["06:59", "07:00"]
    assert str(rows[1]).endswith(
        "s.csv:3: time: '2026-03-08 02:30' never was in America/New_York: clocks were put forward over it; if this one "
        "never is, give a zone of one offset, such as Etc/GMT+5 (five hours behind UTC)"
    )


# ---- numbers and names -------------------------------------------------------------------------------


def test_a_quantity_whose_name_carries_its_unit_is_converted(tmp_path: Path) -> None:
    mapping = GOOD.replace('"surface"', '"battery_v"').replace('"cm"', '"mv"')
    assert bodies(read(tmp_path, "when,level\n2026-01-01 12:00,3600\n", mapping))[0]["battery_v"] == 3.6


def test_thousands_separators_are_no_decimals(tmp_path: Path) -> None:
    mapping = 'decimal = ","\ndelimiter = ";"\n' + GOOD
    rows = read(
        tmp_path,
        "when;level\n2026-01-01 12:00;1.234\n2026-01-01 12:15;1.234,5\n2026-01-01 12:30;1,5\n",
        mapping,
    )
    assert [body["surface_cm"] for body in bodies(rows)] == [1.5]
    assert "'1.234' is no number" in str(rows[0])


def test_a_row_of_nobody_is_named(tmp_path: Path) -> None:
    mapping = GOOD.replace('id = "d-1"', 'column = "who"\nnames = { "tank #1" = "d-1" }')
    text = "when,level,who\n2026-01-01 12:00,1,tank #1\n2026-01-01 12:00,1,tank #2\n2026-01-01 12:00,1,\n"
    rows = read(tmp_path, text, mapping)
    assert [row.topic for row in rows if isinstance(row, RawMessage)] == ["quarterline/v1/d-1/readings"]
    assert "s.csv:3: sensor: 'tank #2' is no sensor id" in str(rows[1])
    assert "s.csv:4: sensor: '' is no sensor id" in str(rows[2])


# ---- whatever stands in a file -----------------------------------------------------------------------

cells = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "2026-01-01 12:00",
            "2025-11-02 01:30",
            "0001-01-01 00:00",
            "9999-12-31 23:59",
            "1e99",
            "12.5",
            "#-1",
            '"',
        ]
    ),
)


@given(st.lists(st.lists(cells, max_size=4).map(",".join), max_size=12))
def test_any_row_is_a_message_or_an_error_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    text = "\n".join(["when,level", *lines]).encode("utf-8", "replace")
    (folder / "m.toml").write_text(GOOD)
    (folder / "s.csv").write_bytes(text)
    rows = list(read_series(folder / "s.csv", load_mapping(folder / "m.toml")))
    physical = re.split("\r\n|\r|\n", text.decode())[1:]
    assert len(rows) == sum(1 for line in physical if line.strip())
    for row in rows:
        if isinstance(row, RawMessage):
            assert set(json.loads(row.payload)) <= {"time", "surface_cm"}
        else:
            assert re.match(r".*s\.csv:\d+: ", str(row))


values = st.recursive(
    st.one_of(st.booleans(), st.integers(-(10**6), 10**6), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.sampled_from(
        ["time", "sensor", "fields", "received", "delimiter", "encoding", "decimal", "strip", "skip_lines"]
    ),
    st.one_of(
        st.none(), st.sampled_from(["columns", "format", "zone", "id", "column", "quantity", "unit", "scale"])
    ),
    values,
)
def test_any_mapping_is_one_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, key: str, inner: str | None, value: object
) -> None:
    document = tomlkit.parse(GOOD).unwrap()
    if inner is None:
        document[key] = value
    elif isinstance(document.get(key), list):
        document[key][0][inner] = value
    else:
        document[key] = {**(document.get(key) or {}), inner: value}
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "m.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
    (folder / "s.csv").write_text("when,level\n2026-01-01 12:00,1\n", encoding="utf-8")
    said = None
    try:
        rows = list(read_series(folder / "s.csv", load_mapping(folder / "m.toml")))
        assert len(rows) <= 2
    except SeriesError as error:
        said = str(error)
    assert said is None or said.startswith(str(folder))
