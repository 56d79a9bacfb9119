"""The city as a whole: its fleet file, its messages, its start, and that a seed decides everything."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from analysis.units import field
from api.fleet_file import Known, parse_fleet
from simulators.city import City, Step
from simulators.interceptor import fraction
from simulators.network import Quality

Build = Callable[..., City]
START_S = 1_788_246_000.0  # 2026-09-01 00:00 in Los Angeles


@pytest.fixture(scope="module")
def fleet(lived_fortnight: tuple[City, list[Step]]) -> dict[str, Any]:
    return tomllib.loads(lived_fortnight[0].fleet_toml("http://127.0.0.1:9/webhooks"))


@pytest.fixture(scope="module")
def bodies(lived_fortnight: tuple[City, list[Step]]) -> list[tuple[int, str, dict[str, Any]]]:
    steps = lived_fortnight[1]
    return [(m.received_us, m.topic, json.loads(m.payload)) for step in steps for m in step.messages]


def stated_s(body: dict[str, Any]) -> float:
    """The time a body states [s since the epoch], whichever way it is written."""
    time = body["time"]
    if isinstance(time, str):
        return datetime.fromisoformat(time).timestamp()
    return time / 1000 if time > 1e11 else float(time)


# ---- fleet file --------------------------------------------------------------------------------------


def test_the_fleet_file_is_one_that_the_service_takes(lived_fortnight: tuple[City, list[Step]]) -> None:
    text = lived_fortnight[0].fleet_toml("http://127.0.0.1:9/webhooks")
    known = Known(("inglewood", "sierra-madre"), ("native",), lambda *_: None)
    parsed = parse_fleet(text, "fleet.toml", known)
    counts = (len(parsed.sites), len(parsed.interceptors), len(parsed.sensors), len(parsed.haulers))
    assert counts == (30, 40, 40, 3)


def test_the_city_is_as_promised(fleet: dict[str, Any]) -> None:
    assert {site["ordinance"] for site in fleet["sites"]} == {"inglewood", "sierra-madre"}
    assert {site["timezone"] for site in fleet["sites"]} == {"America/Los_Angeles"}
    assert {site["units"] for site in fleet["sites"]} == {"us"}
    assert {item["dispatch"] for item in fleet["interceptors"]} == {"authorized"}
    assert {item["hauler"] for item in fleet["interceptors"]} == {"valley", "harbor", "swift"}
    for hauler in fleet["haulers"]:
        assert [one["kind"] for one in hauler["licenses"]] == ["transport", "city-business"]
        assert all(one["expires"] > date(2027, 9, 1) for one in hauler["licenses"])
        assert hauler["webhook"] == f"http://127.0.0.1:9/webhooks/{hauler['id']}"


def test_most_sensors_are_fifty_millimetre_rods(lived_fortnight: tuple[City, list[Step]]) -> None:
    kinds = Counter(str(sensor.principle) for sensor in lived_fortnight[0].plan.sensors)
    assert kinds == {"rod": 24, "interfaces": 8, "depths": 4, "echo": 4}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_some_interceptors_pass_the_limit_within_days(seed: int) -> None:
    city = City(seed)
    first = fraction(city.tanks, city.layers())[:, 0]
    assert ((first > 0.18) & (first < 0.25)).sum() >= 5
    lines = [line for _ in range(6 * 96) for line in city.step().truth]
    assert sum(line["type"] == "crossing" and line["level"] == 0.25 for line in lines) >= 3
    # and every interceptor starts as full as its last pump-out lets it be: never full on its first days
    fleet = tomllib.loads(city.fleet_toml())
    today = datetime.fromtimestamp(START_S, ZoneInfo("America/Los_Angeles")).date()
    ages = [(today - item["last_pump_out"]).days for item in fleet["interceptors"] if "last_pump_out" in item]
    assert len(ages) == 38
    assert min(ages) >= 1
    assert max(ages) <= 100


def test_true_fill_follows_from_the_last_pump_out(lived_fortnight: tuple[City, list[Step]]) -> None:
    """Fill at the start over age is the same rate as in the fortnight watched, within the kitchens' moods."""
    city, steps = lived_fortnight
    depths = [line for step in steps for line in step.truth if line["type"] == "depths"]
    first = {line["interceptor"]: line["fraction"] for line in depths[:40]}
    last = {line["interceptor"]: line["fraction"] for line in depths[-40:]}
    served = {line["interceptor"] for step in steps for line in step.truth if line["type"] == "pump_out"}
    today = datetime.fromtimestamp(city.start_s, ZoneInfo("America/Los_Angeles")).date()
    fleet = tomllib.loads(city.fleet_toml())
    ratios = [
        (last[item["id"]] - first[item["id"]]) / 13 * (today - item["last_pump_out"]).days / first[item["id"]]
        for item in fleet["interceptors"]
        if "last_pump_out" in item and item["id"] not in served and (today - item["last_pump_out"]).days > 20
    ]
    assert len(ratios) > 15
    assert 0.55 < np.median(ratios) < 1.1  # concave: the rate of a full tank is below its average


# ---- messages ----------------------------------------------------------------------------------------


def test_every_field_is_one_of_the_contract(bodies: list[tuple[int, str, dict[str, Any]]]) -> None:
    names = {name for _, _, body in bodies for name in body} - {"time", "seq"}
    assert {name for name in names if field(name) is None} == set()
    assert {"profile", "fog_bottom_mm", "solids_depth_in", "echo_fog_us", "inlet_max_f", "tank_c"} <= names


def test_messages_come_in_order_each_device_every_fifteen_minutes(
    lived_fortnight: tuple[City, list[Step]], bodies: list[tuple[int, str, dict[str, Any]]]
) -> None:
    received = [at for at, _, _ in bodies]
    assert received == sorted(received)
    assert {topic for _, topic, _ in bodies} == {
        f"quarterline/v1/{sensor.id}/readings" for sensor in lived_fortnight[0].plan.sensors
    }
    sensor = lived_fortnight[0].plan.sensors[5]
    times = sorted({stated_s(body) for _, topic, body in bodies if f"/{sensor.id}/" in topic})
    assert Counter(np.diff(times)).most_common(1)[0][0] == 900.0
    assert len(times) > 0.98 * 14 * 96


def test_some_messages_are_lost_and_some_come_twice(bodies: list[tuple[int, str, dict[str, Any]]]) -> None:
    distinct = {(topic, body["seq"]) for _, topic, body in bodies}
    sent = 40 * 14 * 96
    assert (sent - len(distinct)) / sent == pytest.approx(0.004, abs=0.0015)
    assert (len(bodies) - len(distinct)) / sent == pytest.approx(0.003, abs=0.0015)


def test_a_second_copy_is_the_same_to_the_byte(small_city: Build) -> None:
    city = small_city(quality=Quality(lost=0.0, twice=1.0))
    seen = Counter(m.payload for _ in range(8) for m in city.step().messages)
    assert seen.most_common(1)[0][1] == 2
    nothing = small_city(quality=Quality(lost=1.0))
    assert [m for _ in range(4) for m in nothing.step().messages] == []


def test_a_moving_liquid_is_reported_every_five_minutes(small_city: Build) -> None:
    city = small_city(count=20)
    quick = next(sensor for sensor in city.plan.sensors if sensor.in_motion_s == 300.0)
    city.pump_out(city.plan.interceptors[quick.interceptor].id, city.start_s + 3600.0, complete=True)
    times = sorted(
        {
            stated_s(json.loads(m.payload))
            for _ in range(12)
            for m in city.step().messages
            if f"/{quick.id}/" in m.topic
        }
    )
    assert list(np.diff(times)).count(300.0) >= 3


def test_devices_tell_of_hot_discharges(lived_fortnight: tuple[City, list[Step]], bodies: list[Any]) -> None:
    city, steps = lived_fortnight
    sensors = {city.plan.interceptors[sensor.interceptor].id: sensor for sensor in city.plan.sensors}
    lines = [line for step in steps for line in step.truth if line["type"] == "hot_discharge"]
    plain = [
        line
        for line in lines
        if (tau := sensors[line["interceptor"]].tau_s)
        and line["duration_s"] > 3 * tau
        and line["peak_c"] > 66
    ]
    assert len(plain) >= 3
    told = {
        (topic, int(at // 900e6))
        for at, topic, body in bodies
        if body.get("inlet_max_f", body.get("inlet_max_c", 0) * 1.8 + 32) > 140.0 and body["inlet_over_s"] > 0
    }
    found = 0
    for line in plain:
        first = int(datetime.fromisoformat(line["start"]).timestamp() // 900)
        topic = f"quarterline/v1/{sensors[line['interceptor']].id}/readings"
        found += any((topic, first + late) in told for late in (0, 1, 2))
    assert found >= 0.9 * len(plain)


# ---- seeds -------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes(small_city: Build) -> None:
    first, again, other = small_city(3), small_city(3), small_city(4)
    assert first.fleet_toml() == again.fleet_toml() != other.fleet_toml()
    lived = [[city.step() for _ in range(30)] for city in (first, again, other)]
    assert lived[0] == lived[1]
    assert [step.messages for step in lived[0]] != [step.messages for step in lived[2]]


def test_a_service_changes_neither_weather_nor_network(small_city: Build) -> None:
    untouched, served = small_city(3), small_city(3)
    served.pump_out(served.plan.interceptors[0].id, served.start_s, complete=True)
    for _ in range(50):
        untouched.step()
        served.step()
    assert (untouched.state.fed[1:] == served.state.fed[1:]).all()
    assert (untouched.state.grease_m3[1:] == served.state.grease_m3[1:]).all()


def test_a_start_off_the_grid_is_refused(small_city: Build) -> None:
    with pytest.raises(ValueError, match="start_s"):
        small_city(start_s=START_S + 1)
    with pytest.raises(ValueError, match="count"):
        small_city(count=0)


def test_a_city_of_one_works(small_city: Build) -> None:
    city = small_city(count=1)
    assert len(city.step().messages) <= 2
    assert len(tomllib.loads(city.fleet_toml())["interceptors"]) == 1
