"""The eleven recorded series of others, imported and replayed whole: the right answers their makers' numbers give.

Files, licences and what was cut: tests/ingest/data/NOTICE.md. None is a grease interceptor: a pump-out told of one is
invented.
"""

from __future__ import annotations

import io
import json
import lzma
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from api.fleet_file import Known, parse_fleet
from api.importing import Imported, import_series
from api.recording import merged
from api.replay import Replay
from api.serve import load_rules
from api.settings import Settings
from api.work import put_fleet
from ingest.message import RawMessage
from ingest.series import SeriesError, load_mapping, read_series
from store import open_store
from store.records import CLOCK_REPLACED, StoredReading

DATA: Final = Path(__file__).parents[1] / "ingest" / "data"
CONTRACTS_CLOCK_US: Final = 1_577_836_800_000_000  # 2020-01-01: live, an older time is no time
DAY_US: Final = 86_400_000_000
LATER_US: Final = 4383 * DAY_US  # twelve years: brings the oldest series behind that, weekdays as they were


@dataclass(frozen=True)
class Series:
    """One file, its mapping, and the device that is said to have sent it."""

    file: str
    mapping: str
    sensor: str
    interval_s: int
    base_mm: int
    more: str = ""

    def path(self, folder: Path) -> Path:
        plain = DATA / self.file
        if plain.exists():
            return plain
        out = folder / self.file
        out.write_bytes(lzma.decompress((DATA / f"{self.file}.xz").read_bytes()))
        return out

    def fleet(self) -> str:
        return f"""
[[sites]]
id = "place"
name = "Place"
ordinance = "sierra-madre"
timezone = "America/New_York"
[[interceptors]]
id = "tank"
site = "place"
kind = "gravity"
base_depth_mm = {self.base_mm}
[[sensors]]
id = "{self.sensor}"
interceptor = "tank"
interval_s = {self.interval_s}
{self.more}
"""


MOUNT = "mount_height_mm = 5000"
UNDER = "pressure_height_mm = 0"
TWO = Series("coastlab_sheet_two_devices.csv", "coastlab", "waterLevel_0003", 3600, 5000, MOUNT)
FLAT = Series("coastlab_sheet_low_battery.csv", "coastlab", "waterLevel_0001", 3600, 5000, MOUNT)
CARD = Series("coastlab_wl_0003_sdcard.csv", "coastlab_card", "card", 3600, 5000, MOUNT)
STAGE = Series("dam_stage_ultrasonic_adafruit.csv", "dam", "dam-1", 240, 2600)
HOBO = Series("dam_pressure_hobo.csv", "hobo", "hobo", 900, 500, UNDER)
DIVER = Series("groundwater_diver_inbo.csv", "diver", "diver", 43_200, 1900, UNDER)
SLUG = Series("slugtest_solinst.csv", "solinst", "slug", 60, 12_980)
NIVUS = Series("sewer_flowmeter_nivus_pcm4.csv", "nivus", "nivus", 120, 60)
MLOG = Series("sewer_radar_ori_mlog.csv", "mlog", "mlog", 60, 20)
NAB = Series("nab_machine_temperature.csv", "nab", "nab", 300, 1200)
BATH = Series("ds18b20_four_probes.csv", "ds18b20", "probe-2", 60, 1200, "tau_s = 10")
ALL = (TWO, FLAT, CARD, STAGE, HOBO, DIVER, SLUG, NIVUS, MLOG, NAB, BATH)


def put(folder: Path, series: Series) -> None:
    rules = load_rules(Settings())
    store = open_store(folder)
    try:
        known = Known(rules.ordinances, rules.profiles, lambda *_: None)
        put_fleet(store, parse_fleet(series.fleet(), "fleet.toml", known))
    finally:
        store.close()


def imported(
    tmp_path: Path, series: Series, mapping: Path | None = None
) -> tuple[Imported, list[StoredReading]]:
    """What the import says, and what it left in the history of that sensor, twice imported."""
    config = tmp_path / "quarterline.toml"
    config.write_text('data_dir = "data"\n')
    put(tmp_path / "data", series)
    files, way = [series.path(tmp_path)], mapping or DATA / f"{series.mapping}.toml"
    first = import_series(files, way, config, dry_run=False)
    again = import_series(files, way, config, dry_run=False)
    assert again.stored == 0
    assert again.duplicates == first.stored + first.duplicates
    store = open_store(tmp_path / "data")
    try:
        return first, store.history.readings([series.sensor.lower()], since_us=0, until_us=2**62)
    finally:
        store.close()


@dataclass
class Told:
    """The lines of one replay."""

    lines: list[dict[str, Any]]
    flags: dict[str, list[str]] = field(default_factory=dict)  # the local dates on which each was told

    def __post_init__(self) -> None:
        for one in self.of("assessment"):
            for flag in {flag["flag"] for flag in one["health"]}:
                self.flags.setdefault(flag, []).append(one["at"][:10])

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]

    def alerts(self, kind: str) -> list[tuple[str, str]]:
        """State and hour."""
        return [(one["state"], one["at"][:13]) for one in self.of("alert") if one["kind"] == kind]


Replayed = Callable[[Series], Told]


def later(message: RawMessage) -> RawMessage:
    """The same reading twelve years on."""
    body = json.loads(message.payload)
    moment = datetime.fromisoformat(body["time"])
    body["time"] = datetime.fromtimestamp(moment.timestamp() + LATER_US / 1e6, UTC).isoformat()
    return RawMessage(message.topic, json.dumps(body).encode(), message.received_us + LATER_US)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The replay of a series, once for all tests of a process."""
    return cache(lambda series: replay(tmp_path_factory.mktemp("replay"), series))


def replay(tmp_path: Path, series: Series) -> Told:
    rules = load_rules(Settings())
    put(tmp_path / "replay", series)
    rows = read_series(series.path(tmp_path), load_mapping(DATA / f"{series.mapping}.toml"))
    messages = sorted((r for r in rows if isinstance(r, RawMessage)), key=lambda r: r.received_us)
    if messages[0].received_us < CONTRACTS_CLOCK_US:
        messages = [later(one) for one in messages]
    store = open_store(tmp_path / "replay", durable=False)
    out = io.BytesIO()
    try:
        Replay(store, rules, out).run(merged(iter(messages), []))
    finally:
        store.close()
    return Told([json.loads(line) for line in out.getvalue().splitlines()])


LONG: Final = {CARD, DIVER}  # hundreds of days to assess


@pytest.mark.parametrize(
    "series",
    [pytest.param(one, marks=[pytest.mark.slow] if one in LONG else []) for one in ALL],
    ids=lambda s: s.file.split("_")[0] + "-" + s.sensor,
)
def test_nothing_is_pumped_out_and_nothing_hot_is_confirmed(replayed: Replayed, series: Series) -> None:
    told = replayed(series)
    assert told.of("pump_out") == []
    assert told.of("hot_discharge") == []
    # none of these devices sees a layer: unknown, never zero
    assert all(one["fog_mm"] is None and one["fraction"] is None for one in told.of("assessment"))
    assert not {"stuck", "tamper", "moved", "drift", "possibly_overfull"} & told.flags.keys()
    summary = told.of("summary")[0]
    outcomes = ("stored", "duplicate", "quarantined", "retained", "heartbeat")
    assert summary["received"] == sum(summary[name] for name in outcomes)
    if series is not TWO:  # whose other device is in another fleet here
        assert summary["quarantined"] == 0


def test_a_device_that_runs_flat(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, FLAT)
    # the last row comes from a clock that lost its time: it stands at its upload, 3/25/2024 18:14:17 in New York
    assert (first.rows, first.stored, first.duplicates, first.clock_replaced) == (769, 769, 0, 1)
    assert not first.refused
    assert [r.time_us for r in rows if r.flags & CLOCK_REPLACED] == [1_711_404_857_000_000]
    told = replayed(FLAT)
    # 2.96 V on the 5th, changed in the afternoon (UTC), down again until the 18th
    assert told.alerts("low_battery") == [
        ("firing", "2024-03-05T02"), ("resolved", "2024-03-05T17"), ("firing", "2024-03-17T18"),
    ]  # fmt: skip
    # silent after 2024-03-18 03:00 in New York, three hours on
    assert ("firing", "2024-03-18T11") in told.alerts("sensor_silent")
    assert [day for day in told.flags["silent"] if day > "2024-03-10"] == [
        f"2024-03-{day}" for day in range(19, 26)
    ]
    assert told.flags["gap"] == ["2024-02-22", "2024-02-27", "2024-03-06"]  # after 21.6, 4.0 and 4.1 h
    assert "cover_open" not in told.flags  # a tide is no swinging sensor
    assert told.alerts("high_liquid_level") == []  # 27 to 71 cm after a hole is a hand, not a level


def test_a_tide_is_no_open_cover(replayed: Replayed) -> None:
    told = replayed(TWO)
    assert told.flags.keys() <= {"unobservable", "gap", "silent", "clock"}
    assert told.alerts("low_battery") == []
    assert told.alerts("sensor_fault") == []


@pytest.mark.slow
def test_a_memory_card(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, CARD)
    # 67 rows of the year 2000 and one torn line; the stray semicolons are dropped
    assert (first.rows, first.stored, first.duplicates) == (5000, 4932, 0)
    refused = {one.rsplit(".csv:", 1)[1].split(": ", 1)[0]: one for one in first.refused}
    year_2000 = [1, *range(4, 37), 40, 41, *range(44, 59), *range(372, 388)]
    assert sorted(map(int, refused)) == sorted([*year_2000, 147])
    assert "time: 2000-01-01T00:00:10Z lies before 2020-01-01: a clock that was not set" in refused["1"]
    assert min(r.time_us for r in rows) == 1_704_407_934_000_000  # line 2; nothing stands in 2000
    assert max(r.time_us for r in rows) == 1_730_160_019_000_000  # 2024-10-29 00:00:19 UTC
    # 2024-08-08 09:00: high water for some days is real
    assert min(r.values["distance_m"] for r in rows if r.time_us > 1_713_600_000_000_000) == pytest.approx(
        0.476, abs=5e-4
    )
    told = replayed(CARD)
    assert told.alerts("low_battery") == []  # 0.05 to 0.3 V is no flat battery: the device lives
    assert told.flags.keys() <= {"unobservable", "gap", "silent"}


def test_a_logger_that_is_nearly_out_of_the_water(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, HOBO)
    assert (first.rows, first.stored, len(first.refused)) == (1163, 1163, 0)
    # 6/14/2022 13:15 at UTC-4 whatever the season; 0.5639 psi; 77.4 °F
    assert rows[0].time_us == 1_655_226_900_000_000
    assert rows[0].values == pytest.approx({"pressure_pa": 3887.954, "tank_c": 25.2222}, rel=1e-6)
    assert replayed(HOBO).flags.keys() == {"unobservable"}  # no hole: no gap


@pytest.mark.slow
def test_an_old_series_with_its_own_clock(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, DIVER)
    assert (first.rows, first.stored, first.duplicates, first.clock_replaced) == (3275, 3275, 0, 0)
    assert not any(r.flags & CLOCK_REPLACED for r in rows)
    # 2/05/2013 12:11:37 +01:00 is the second of May
    assert rows[0].time_us == 1_367_493_097_000_000
    # 2014-03-28: the row before the logger was pulled is 11.6 minutes later than the next: sorted
    assert rows == sorted(rows, key=lambda r: r.time_us)
    told = replayed(DIVER)
    # 204 hours without a reading, to 2017-02-08 (here 2029)
    assert told.flags["gap"] == ["2029-02-09"]
    assert told.flags["silent"] == [f"2029-02-0{day}" for day in range(2, 9)]
    assert told.flags.keys() == {"unobservable", "gap", "silent"}


def test_an_old_series_must_say_that_it_is_old(tmp_path: Path) -> None:
    text = (DATA / "diver.toml").read_text().replace("earliest = 2013-05-01\n", "")
    (tmp_path / "young.toml").write_text(text)
    first, rows = imported(tmp_path, DIVER, tmp_path / "young.toml")
    assert (first.stored, len(rows), len(first.refused)) == (0, 0, 3275)
    assert "2013-05-02T11:11:37Z lies before 2020-01-01" in first.refused[0]
    assert "give time.earliest" in first.refused[0]


def test_eight_readings_a_second(tmp_path: Path) -> None:
    first, rows = imported(tmp_path, SLUG)
    assert (first.rows, first.stored, len(first.refused)) == (4988, 4988, 0)
    steps = Counter(b.time_us - a.time_us for a, b in pairwise(rows))
    assert steps.most_common(1) == [(125_000, steps[125_000])]
    assert rows[0].values == pytest.approx({"surface_m": 12.9784, "tank_c": 10.681})


def test_no_measurement_is_no_number(tmp_path: Path) -> None:
    first, rows = imported(tmp_path, NIVUS)
    assert (first.rows, first.stored, len(first.refused)) == (1057, 1057, 0)
    assert all("surface_m" in r.values for r in rows)  # the level is good throughout
    assert sum("inlet_c" not in r.values for r in rows) == 5
    inlet = [r.values["inlet_c"] for r in rows if "inlet_c" in r.values]
    assert (min(inlet), max(inlet)) == (8.6, 9.9)
    # 17.04.2014 11:45 in Berlin is summer time
    assert rows[0].time_us == 1_397_727_900_000_000


def test_a_radar_at_the_bottom_of_its_range(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, MLOG)
    assert (first.rows, first.stored, len(first.refused)) == (2010, 2010, 0)
    assert min(r.values["surface_m"] for r in rows) == 0.0013  # 4.05 mA is a value
    assert rows[0].time_us == 1_389_274_219_000_000  # 14:30:19 in Berlin, winter
    told = replayed(MLOG)
    assert told.flags.keys() <= {"unobservable", "high_liquid_level"}


def test_a_temperature_of_no_stated_unit(replayed: Replayed, tmp_path: Path) -> None:
    first, rows = imported(tmp_path, NAB)
    assert (first.rows, first.stored, len(first.refused)) == (5000, 5000, 0)  # 17 digits are a number
    assert len([r for r in rows if r.values["inlet_c"] < -10]) >= 3  # the fall to 2 °F is real, no sentinel
    assert replayed(NAB).flags == {}  # without a level nothing is said of filling, nor missed
    unknown = tmp_path / "unknown.toml"
    unknown.write_text((DATA / "nab.toml").read_text().replace('unit = "f"\n', ""))
    with pytest.raises(SeriesError, match=r"fields\[0\].unit: None is no unit of temperature; one of c, f"):
        load_mapping(unknown)


def test_thousandths_taken_for_degrees_are_refused(tmp_path: Path) -> None:
    first, rows = imported(tmp_path, BATH)
    assert (first.rows, first.stored, len(first.refused)) == (3900, 3900, 0)
    assert rows[0].values == {"inlet_c": 68.0}
    plain = tmp_path / "plain.toml"
    plain.write_text((DATA / "ds18b20.toml").read_text().replace("scale = 0.001\n", ""))
    (tmp_path / "raw").mkdir()
    first, rows = imported(tmp_path / "raw", BATH, plain)
    assert (first.stored, rows, first.reasons) == (0, [], Counter(out_of_range=3900))


@pytest.mark.parametrize(("probe", "low", "high"), [(4, -5.9, -2.5), (10, 20.8, 22.1), (13, 21.0, 22.1)])
def test_cold_and_still_probes_are_well(tmp_path: Path, probe: int, low: float, high: float) -> None:
    mapping = tmp_path / "probe.toml"
    mapping.write_text((DATA / "ds18b20.toml").read_text().replace("column = 7", f"column = {probe}"))
    first, rows = imported(tmp_path, BATH, mapping)
    assert first.stored == 3900
    values = [r.values["inlet_c"] for r in rows]
    assert low - 0.3 <= min(values) < max(values) <= high + 0.6
