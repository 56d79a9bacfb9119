"""The fleet file: SI values of the contract's example, and a table of mistakes with the line each is on."""

from __future__ import annotations

import datetime as dt
import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from alerts.conditions import Subject
from api import tomllines
from api.fleet_file import FleetError, Known, parse_fleet, parse_object
from api.service import Fleet
from store.records import Site


def _check(frequency: str, ordinance: str, subject: Subject) -> str | None:
    return "expected at most P6M (SMMC 13.14.150.E.2), found P12M" if frequency == "P12M" else None


KNOWN = Known(
    ordinances=("inglewood", "sierra-madre"), profiles=("native", "chirp-demo"), check_frequency=_check
)

GOOD = """\
[[sites]]
id = "luigi"
name = "Luigi's"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
kitchen = "full-service"
latitude = 34.16
longitude = -118.05
units = "us"
seats = 80
equipment = ["fryer", "wok"]
contacts = [{ role = "owner", name = "Ann", email = "ann@example.org" }]

[[interceptors]]
id = "luigi-gi1"
site = "luigi"
kind = "gravity"
volume_l = 3785
base_depth_mm = 1220
compartments = 2
frequency = "P3M"
last_pump_out = 2026-09-01
hauler = "valley"
dispatch = "authorized"

[[sensors]]
id = "D-0001"
interceptor = "luigi-gi1"
compartment = 1
profile = "native"
interval_s = 600
mount_height_mm = 1500
pitch_mm = 50
levels = { air = 0.05, fog = 0.25, water = 1.0, solids = 0.7 }
min_layer_mm = 20
tau_s = 40

[[haulers]]
id = "valley"
name = "Valley Pumping"
licenses = [{ kind = "transport", number = "T-1", expires = 2027-06-30 }]
webhook = "https://valley.example/hook"
"""


def test_the_example_becomes_records_in_si() -> None:
    fleet = parse_fleet(GOOD, "fleet.toml", KNOWN)
    (site,), (interceptor,), (sensor,), (hauler,) = (
        fleet.sites,
        fleet.interceptors,
        fleet.sensors,
        fleet.haulers,
    )
    assert (site.name, site.timezone, site.seats, site.equipment) == (
        "Luigi's",
        "America/Los_Angeles",
        80,
        ("fryer", "wok"),
    )
    assert (interceptor.base_depth_m, interceptor.static_level_m, interceptor.volume_m3) == (
        1.22,
        1.22,
        3.785,
    )
    assert (interceptor.last_pump_out, interceptor.dispatch) == ("2026-09-01", "authorized")
    assert sensor.id == "d-0001"
    assert sensor.device == {
        "mount_height_m": 1.5,
        "pitch_m": 0.05,
        "min_layer_m": 0.02,
        "tau_s": 40.0,
        "levels": {"air": 0.05, "fog": 0.25, "water": 1.0, "solids": 0.7},
    }
    assert hauler.licenses == ({"kind": "transport", "number": "T-1", "expires": "2027-06-30"},)
    assert hauler.secret is None


@pytest.mark.parametrize("place", ["in-ground", "outdoor", "indoor", "in-floor", "under-sink"])
def test_where_a_device_stands(place: str) -> None:
    text = GOOD.replace('kind = "gravity"', f'kind = "gravity"\nplace = "{place}"')
    assert parse_fleet(text, "fleet.toml", KNOWN).interceptors[0].place == place
    assert parse_fleet(GOOD, "fleet.toml", KNOWN).interceptors[0].place is None
    with pytest.raises(FleetError, match=r"fleet.toml:18: interceptors\[0\].place: expected one of"):
        parse_fleet(text.replace(place, "cellar"), "fleet.toml", KNOWN)


MISTAKES = [
    (
        "base_depth_mm = 1220",
        "base_deph_mm = 1220",
        19,
        "interceptors[0].base_deph_mm",
        "did you mean base_depth_mm",
    ),
    ("base_depth_mm = 1220", "base_deph_mm = 1220", 14, "interceptors[0].base_depth_mm", "missing"),
    (
        "base_depth_mm = 1220",
        'base_depth_mm = "4 ft"',
        19,
        "interceptors[0].base_depth_mm",
        "expected a number",
    ),
    ("base_depth_mm = 1220", "base_depth_mm = -3", 19, "interceptors[0].base_depth_mm", "above 0"),
    ("base_depth_mm = 1220", "base_depth_mm = nan", 19, "interceptors[0].base_depth_mm", "expected a number"),
    ("base_depth_mm = 1220", "base_depth_mm = true", 19, "interceptors[0].base_depth_mm", "found true"),
    ('kind = "gravity"', 'kind = "gravty"', 17, "interceptors[0].kind", "did you mean gravity"),
    ('id = "luigi"', 'id = "Luigi Pizza"', 2, "sites[0].id", "a-z, 0-9"),
    ('site = "luigi"', 'site = "luiggi"', 16, "interceptors[0].site", "did you mean luigi"),
    ('ordinance = "sierra-madre"', 'ordinance = "sierra"', 4, "sites[0].ordinance", "sierra-madre"),
    ("America/Los_Angeles", "America/Los_Angles", 5, "sites[0].timezone", "time zone"),
    ('units = "us"', 'units = "imperial"', 9, "sites[0].units", "one of si, us"),
    ('frequency = "P3M"', 'frequency = "P12M"', 21, "interceptors[0].frequency", "P6M"),
    ("2026-09-01", '"last year"', 22, "interceptors[0].last_pump_out", "expected a date"),
    ('hauler = "valley"', 'hauler = "valey"', 23, "interceptors[0].hauler", "did you mean valley"),
    ('dispatch = "authorized"', 'dispatch = "yes"', 24, "interceptors[0].dispatch", "authorized, notify"),
    ('id = "D-0001"', 'id = "D 0001"', 27, "sensors[0].id", "letters, digits"),
    ("compartment = 1", "compartment = 3", 29, "sensors[0].compartment", "2 compartments"),
    ('profile = "native"', 'profile = "nativ"', 30, "sensors[0].profile", "did you mean native"),
    ("fog = 0.25, ", "", 34, "sensors[0].levels.fog", "missing"),
    ("solids = 0.7", "solid = 0.7", 34, "sensors[0].levels.solid", "did you mean solids"),
    ('role = "owner"', 'role = "boss"', 12, "sites[0].contacts[0].role", "property-owner"),
    ("https://valley.example/hook", "valley.example", 42, "haulers[0].webhook", "https://"),
    ("[[haulers]]", "[[hauler]]", 38, "hauler", "did you mean haulers"),
]


@pytest.mark.parametrize(("was", "becomes", "line", "key", "words"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_a_mistake_is_named_with_line_key_and_fix(
    was: str, becomes: str, line: int, key: str, words: str
) -> None:
    text = GOOD.replace(was, becomes, 1)
    assert text != GOOD
    with pytest.raises(FleetError) as caught:
        parse_fleet(text, "fleet.toml", KNOWN)
    mine = [m for m in caught.value.messages if m.startswith(f"fleet.toml:{line}: {key}: ")]
    assert mine, caught.value.messages
    assert words in mine[0]


def test_every_mistake_of_a_file_is_reported_in_order_of_its_lines() -> None:
    text = GOOD.replace('kind = "gravity"', "kind = 7").replace('units = "us"', "units = 1")
    with pytest.raises(FleetError) as caught:
        parse_fleet(text.replace("80", '"many"'), "f", KNOWN)
    assert [m.split(": ")[1] for m in caught.value.messages] == [
        "sites[0].units",
        "sites[0].seats",
        "interceptors[0].kind",
    ]


def test_an_object_with_mistakes_of_its_own_is_not_also_called_missing() -> None:
    with pytest.raises(FleetError) as caught:
        parse_fleet(GOOD.replace("America/Los_Angeles", "Mars/Olympus"), "f", KNOWN)
    assert len(caught.value.messages) == 1


def test_ids_are_unique_and_sensor_ids_are_compared_without_case() -> None:
    sensor = '[[sensors]]\nid = "d-0001"\ninterceptor = "luigi-gi1"\n'
    with pytest.raises(FleetError, match=r"sensors\[1\].id: 'd-0001' is already the id of sensors\[0\]"):
        parse_fleet(GOOD + sensor, "f", KNOWN)


def test_text_that_is_no_toml_names_the_line() -> None:
    with pytest.raises(FleetError, match=r"^fleet.toml:2: not TOML: "):
        parse_fleet('[[sites]]\nid = "a\n', "fleet.toml", KNOWN)


def test_what_is_registered_already_can_be_referred_to() -> None:
    site = Site("there", "There", "inglewood", "America/Los_Angeles")
    known = Known(("inglewood",), ("native",), lambda *_: None, Fleet(sites=(site,)))
    fleet = parse_object(
        "interceptors", {"id": "new", "site": "there", "kind": "trap", "base_depth_mm": 500}, known
    )
    assert fleet.interceptors[0].base_depth_m == 0.5
    with pytest.raises(FleetError, match=r"^base_depth_mm: missing"):
        parse_object("interceptors", {"id": "new", "site": "there", "kind": "trap"}, known)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {path} if path else set()
    for key, one in below:
        found |= _paths(one, (*path, key))
    return found


_SCALARS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12),
    st.dates(min_value=dt.date(1900, 1, 1)),
)
_KEYS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)
_TREES = st.recursive(
    _SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _TREES, max_size=5))
def test_every_key_of_any_toml_text_has_a_line(tree: dict[str, Any]) -> None:
    text = tomlkit.dumps(tree)
    document = tomllines.parse(text)
    assert document.data == tomllib.loads(text)
    wanted = _paths(document.data)
    assert wanted <= set(document.lines)
    rows = text.split("\n")
    for path in wanted:
        key = path[-1]
        if isinstance(key, str) and key.isascii() and key.isalnum():
            assert key in rows[document.lines[path] - 1]


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('a = """x\n"" y"""""\nb = 1', ("b",), 3),
        ("a = '''\n# no comment'''\n\n[t] # c\nb.c = 2", ("t", "b", "c"), 5),
        ('[[x]]\n[[x]]\n[x.y]\nz = "]"\n', ("x", 1, "y", "z"), 4),
        ("l = [ # c\n 1,\n\n { k = 2 } ]", ("l", 1, "k"), 4),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ('"a.b" = 1\n', ("a.b",), 1),
    ],
)
def test_lines_of_awkward_texts(text: str, path: tuple[str | int, ...], line: int) -> None:
    assert tomllines.parse(text).lines[path] == line


@pytest.mark.parametrize(
    ("value", "kept"), [("915", 915.0), ("0.915", None), ("1010", None)]
)  # grease as heavy as water, or told as a gravity, is a mistake
def test_the_density_of_grease_is_a_key_of_the_sensor(value: str, kept: float | None) -> None:
    text = GOOD.replace("tau_s = 40\n", f"tau_s = 40\nfog_density_kg_m3 = {value}\n", 1)
    if kept is None:
        with pytest.raises(FleetError, match=r"fog_density_kg_m3: expected"):
            parse_fleet(text, "fleet.toml", KNOWN)
    else:
        (device,) = [s.device for s in parse_fleet(text, "fleet.toml", KNOWN).sensors if "tau_s" in s.device]
        assert device["fog_density_kg_m3"] == kept
