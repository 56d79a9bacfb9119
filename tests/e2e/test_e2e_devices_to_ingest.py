"""Every message of a city with devices of every principle and every fault is what the service's rim expects."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from api.fleet_file import Known, parse_fleet
from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import load_profiles
from simulators.city import City
from simulators.faults import USUAL, FaultKind, FaultPlan
from simulators.network import Message, Quality
from simulators.sensor import Principle
from simulators.trouble import OF_DEVICES
from store.records import IngestWindow

COUNT = 26  # two of each principle
STEPS = 110
SEEN_BY = {
    Principle.ROD: {"profile"},
    Principle.INTERFACES: {"surface_m", "fog_bottom_m", "solids_top_m"},
    Principle.DEPTHS: {"fog_depth_m", "solids_depth_m", "surface_m"},
    Principle.ECHO: {"echo_fog_s", "echo_solids_s", "distance_m"},
    Principle.CAPACITANCE: {"profile"},
    Principle.THERMISTOR: {"profile"},
    Principle.SONAR_UP: {"echo_fog_s", "fog_bottom_m"},
    Principle.SONAR_DOWN: {"echo_solids_s"},
    Principle.AIR_GAP: {"distance_m", "air_c"},
    Principle.OPTICAL: {"distance_m"},
    Principle.PRESSURE: {"pressure_pa"},
    Principle.PRESSURE_SURFACE: {"pressure_pa", "surface_m"},
    Principle.RADAR: {"surface_m", "fog_bottom_m"},
}
OF_ALL = {"inlet_c", "inlet_max_c", "inlet_over_s", "tank_c", "battery_v"}


def plans() -> dict[FaultKind, FaultPlan]:
    """Every fault of a device, often enough that each strikes several times within a day."""
    return {kind: FaultPlan(0.6, 500.0, (0.1, 0.6), USUAL[kind].size) for kind in OF_DEVICES}


def live(city: City) -> list[Message]:
    """What a day and a little more brings, with a pump-out in it."""
    for number in (0, 5, 11):
        city.pump_out(city.plan.interceptors[number].id, city.start_s + 6 * 3600.0, complete=True)
    return [message for _ in range(STEPS) for message in city.step().messages]


def says_something(message: Message) -> bool:
    """Whether a message holds any quantity beside its time and number."""
    body = json.loads(message.payload)
    return any(value is not None for name, value in body.items() if name not in ("time", "seq"))


def decode(city: City, messages: list[Message]) -> IngestWindow:
    known = Known(("inglewood", "sierra-madre"), ("native",), lambda *_: None)
    fleet = parse_fleet(city.fleet_toml(), "fleet.toml", known)
    decoder = Decoder({sensor.id: sensor for sensor in fleet.sensors}, load_profiles())
    return decoder.decode([RawMessage(one.topic, one.payload, one.received_us) for one in messages])


@pytest.fixture(scope="module")
def city() -> City:
    return City(
        13, COUNT, quality=Quality(0.0, 0.0), principles=dict.fromkeys(Principle, 1.0), faults=plans(),
        fault_days=1.2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def messages(city: City) -> list[Message]:
    return live(city)


@pytest.fixture(scope="module")
def window(city: City, messages: list[Message]) -> IngestWindow:
    return decode(city, messages)


def test_every_kind_of_fault_struck_and_every_principle_spoke(city: City) -> None:
    assert {one.kind for one in city.faults.faults} == set(OF_DEVICES)
    assert Counter(sensor.principle for sensor in city.plan.sensors) == dict.fromkeys(Principle, 2)


def test_every_message_becomes_one_item_and_none_is_refused(
    messages: list[Message], window: IngestWindow
) -> None:
    assert window.quarantined == ()
    assert (window.unknown_fields, window.retained) == ((), 0)
    telling = [one for one in messages if says_something(one)]
    assert window.heartbeats == len(messages) - len(telling) < 20  # a sonar that a pump-out left dry
    assert len(window.items) == len(telling) > 0.8 * COUNT * STEPS


def test_each_principle_says_its_own_quantities(city: City, window: IngestWindow) -> None:
    principles = {sensor.id: sensor.principle for sensor in city.plan.sensors}
    told: dict[Principle, set[str]] = {principle: set() for principle in Principle}
    for item in window.items:
        told[principles[item.sensor]] |= item.values.keys() | ({"profile"} if item.profile else set())
    assert {principle: names - OF_ALL for principle, names in told.items()} == SEEN_BY
    unprobed = {sensor.id for sensor in city.plan.sensors if sensor.tau_s is None}
    assert unprobed
    for item in window.items:
        assert item.sensor not in unprobed or "inlet_c" not in item.values
        assert item.values["tank_c"] > 0.0 if "tank_c" in item.values else True


def test_only_reset_clocks_are_taken_for_wrong(
    city: City, messages: list[Message], window: IngestWindow
) -> None:
    """A device that starts again in 1970 is stored at the time of reception, flagged; the others never are."""
    rows = {sensor.id: sensor.interceptor for sensor in city.plan.sensors}
    resets = [one for one in city.faults.faults if one.kind is FaultKind.CLOCK_RESET]
    flagged = 0
    for message, item in zip(filter(says_something, messages), window.items, strict=True):
        slot_s = message.received_us / 1e6
        near = any(
            one.interceptor == rows[item.sensor] and one.start_s - 5 <= slot_s < one.end_s + 960
            for one in resets
        )
        stated = json.loads(message.payload)["time"]
        assert item.flags == 0 or near, stated
        if item.flags:
            flagged += 1
            assert item.time_us == pytest.approx(message.received_us, abs=1e6)
    assert flagged > 50


def test_without_faults_layers_told_lie_in_order(city: City) -> None:
    clean = City(13, COUNT, quality=Quality(0.0, 0.0), principles=dict.fromkeys(Principle, 1.0))
    items = decode(clean, [message for _ in range(20) for message in clean.step().messages]).items
    assert len(items) == COUNT * 20
    heights = [
        [item.values[name] for name in ("surface_m", "fog_bottom_m", "solids_top_m") if name in item.values]
        for item in items
    ]
    assert sum(len(one) > 1 for one in heights) >= 40
    assert all(one == sorted(one, reverse=True) for one in heights)
    assert clean.fleet_toml() == city.fleet_toml()
