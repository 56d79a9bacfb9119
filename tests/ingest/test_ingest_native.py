"""The native message of contracts.md section 2: what is a reading, a heartbeat, or refused and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from analysis.units import QUANTITIES
from ingest.decode import Decoder
from ingest.limits import MAX_BYTES
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.records import IngestWindow, Item, Quarantined, Sensor

T = '{"time":1772366400'
Read = Callable[..., Item]
Refuse = Callable[..., Quarantined]
Decode = Callable[..., IngestWindow]


@pytest.mark.parametrize(
    ("field", "value", "column", "si"),
    [
        ("surface_mm", 1101, "surface_m", 1.101),
        ("distance_cm", 23.5, "distance_m", 0.235),
        ("fog_bottom_in", 40, "fog_bottom_m", 1.016),  # 1 in = 25.4 mm
        ("solids_top_ft", 0.5, "solids_top_m", 0.1524),
        ("fog_depth_mm", 0, "fog_depth_m", 0.0),
        ("solids_depth_m", 0.25, "solids_depth_m", 0.25),
        ("pressure_pa", 9806.65, "pressure_pa", 9806.65),
        ("pressure_kpa", 9.80665, "pressure_pa", 9806.65),
        ("pressure_mbar", 98.0665, "pressure_pa", 9806.65),
        ("pressure_psi", 1, "pressure_pa", 6894.757293168361),
        ("pressure_mh2o", 1, "pressure_pa", 9806.65),
        ("pressure_inh2o", 1, "pressure_pa", 249.08891),
        ("echo_fog_us", 100, "echo_fog_s", 1e-4),
        ("echo_solids_us", 1200, "echo_solids_s", 1.2e-3),
        ("inlet_f", 118.4, "inlet_c", 48.0),  # contracts.md's own example
        ("inlet_max_c", 61.5, "inlet_max_c", 61.5),
        ("inlet_over_s", 340, "inlet_over_s", 340.0),
        ("tank_f", 32, "tank_c", 0.0),
        ("air_c", -5, "air_c", -5.0),
        ("battery_v", 3.6, "battery_v", 3.6),
        ("battery_pct", 97, "battery_pct", 97.0),
        ("rssi_dbm", -97, "rssi_dbm", -97.0),
    ],
)
def test_a_quantity_with_its_unit(item: Read, field: str, value: float, column: str, si: float) -> None:
    found = item(json.dumps({"time": 1772366400, field: value}))
    assert found.values == {column: pytest.approx(si, rel=1e-9, abs=1e-12)}
    assert found.time_us == 1_772_366_400_000_000
    assert (found.sensor, found.flags, found.key) == ("probe-1", 0, None)


def test_electrodes_from_the_floor_up(item: Read) -> None:
    found = item(T + ',"profile":[810,null,402.5]}')
    assert found.profile == (810.0, None, 402.5)
    assert found.values == {}


def test_the_same_quantity_in_two_units(item: Read, refused: Refuse) -> None:
    assert item(T + ',"surface_mm":1101,"surface_m":1.101}').values == {"surface_m": pytest.approx(1.101)}
    found = refused(T + ',"surface_mm":1101,"surface_m":1.102}')
    assert found.reason == "contradiction"
    assert found.detail.startswith("surface_m:")


@pytest.mark.parametrize(
    ("payload", "reason", "says"),
    [
        (b"", "not_json", "empty"),
        (b"   ", "not_json", "empty"),
        (b"\xff\xfe", "not_json", "payload"),
        (b'{"tank_c":"\xff"}', "not_json", "UTF-8"),
        (b'{"tank_c":NaN}', "not_json", "null where there is no value"),
        (b'{"tank_c":-Infinity}', "not_json", "null where there is no value"),
        (b'{"tank_c":1e999}', "not_json", "range"),
        (b'{"tank_c":20}x', "not_json", "trailing"),
        (b'{"tank_c":20', "not_json", "truncated"),
        (b"42", "not_an_object", "42"),
        (b'"online"', "not_an_object", "online"),
        (b'{"tank_c":20,"tank_c":21}', "duplicate_key", "tank_c"),
        (b'{"tank_c":20,"tank\\u005fc":20}', "duplicate_key", "tank_c"),
        (b'{"x":{"a":1,"a":2},"tank_c":20}', "duplicate_key", '"a"'),
        (b'{"note":"\\u003a","tank_c":20,"tank_c":21}', "duplicate_key", "tank_c"),
        (b'{"tank_c":true}', "not_a_number", "tank_c: expected a number or null, found true"),
        (b'{"tank_c":"20.5"}', "not_a_number", 'tank_c: expected a number or null, found "20.5"'),
        (b'{"tank_c":[20]}', "not_a_number", "tank_c"),
        (b'{"profile":7}', "not_an_array", "profile"),
        (b'{"profile":[1,true]}', "not_a_number", "profile[1]"),
        (b'{"profile":[1e12]}', "out_of_range", "profile[0]"),
        (b'{"tank_c":300}', "out_of_range", "tank_c: 300 is not between -60 and 200"),
        (b'{"fog_depth_mm":-1}', "out_of_range", "fog_depth_mm"),
        (b'{"surface_mm":25000}', "out_of_range", "surface_mm: 25000 is not between -1000 and 20000"),
        (b'{"surface_mm":' + b"9" * 5000 + b"}", "not_json", "payload"),
        (b'{"surface_mm":' + b"9" * 400 + b"}", "out_of_range", "surface_mm"),
        (b'{"surface":1101}', "no_unit", "surface_mm"),
        (b'{"tank":20}', "no_unit", "tank_c"),
        (b'{"tank_c":20,"surface":1101}', "no_unit", "surface"),
        (b'{"tank_c":20,"seq":true}', "bad_seq", "seq"),
        (b'{"tank_c":20,"seq":9223372036854775808}', "bad_seq", "seq"),
        (b'{"tank_c":20,"time":"2026-03-01T12:00:00"}', "bad_time", "offset"),
        (b'{"tank_c":20,"time":"1772366400"}', "bad_time", "time"),
        (b'{"tank_c":20,"time":"yesterday"}', "bad_time", "yesterday"),
        (b'{"tank_c":20,"time":true}', "bad_time", "true"),
    ],
)
def test_what_is_refused_and_why(refused: Refuse, payload: bytes, reason: str, says: str) -> None:
    found = refused(payload)
    assert found.reason == reason
    assert says in found.detail
    assert (found.sensor, found.payload, found.size) == ("probe-1", payload[:4096], len(payload))


def test_null_and_absent_are_no_value(decode: Decode, item: Read) -> None:
    assert item(T + ',"surface_mm":null,"tank_c":20}').values == {"tank_c": 20.0}
    window = decode(T + ',"surface_mm":null}', "{}", '{"seq":7}', '{"profile":[]}', "[]")
    assert (window.items, window.quarantined, window.heartbeats) == ((), (), 5)
    assert window.contacts == (("probe-1", 1_772_366_400_000_000),)


def test_one_bad_element_goes_alone(decode: Decode) -> None:
    bad = '{"time":1772366340,"tank_c":21,"surface_mm":"high"}'
    window = decode('[{"time":1772366280,"tank_c":20}, ' + bad + ' ,7,{"time":1772366400,"tank_c":22},{}]')
    assert [(one.time_us, one.values) for one in window.items] == [
        (1_772_366_280_000_000, {"tank_c": 20.0}),
        (1_772_366_400_000_000, {"tank_c": 22.0}),
    ]
    assert [one.reason for one in window.quarantined] == ["not_a_number", "not_an_object"]
    assert window.quarantined[0].payload == bad.encode()
    assert window.quarantined[0].sha256 == hashlib.sha256(bad.encode()).hexdigest()
    assert window.quarantined[0].detail.startswith("[1] surface_mm:")
    assert (window.heartbeats, window.messages) == (1, 1)


def test_an_array_that_does_not_parse_is_one_item(decode: Decode) -> None:
    window = decode('[{"tank_c":20},{"tank_c":21},{"tank_c":')
    assert len(window.quarantined) == 1
    assert window.items == ()


def test_quarantine_keeps_four_kibibytes_and_the_hash_of_all(refused: Refuse) -> None:
    payload = b'{"note":"' + b"x" * 10_000 + b'","tank_c":true}'
    found = refused(payload)
    assert found.payload == payload[:4096]
    assert (found.size, found.sha256) == (len(payload), hashlib.sha256(payload).hexdigest())


def test_limits_come_before_parsing(decode: Decode, refused: Refuse) -> None:
    assert refused(b" " * (MAX_BYTES + 1)).reason == "too_large"
    assert refused(b"[" * 100_000).reason == "too_deep"
    assert refused(b'{"a":' * 17 + b"1" + b"}" * 17).reason == "too_deep"
    deepest = b'{"a":' * 15 + b"[1]" + b"}" * 15
    assert decode(deepest).heartbeats == 1
    brackets = json.dumps({"time": 1772366400, "tank_c": 20, "note": '[{"' * 40})
    assert len(decode(brackets).items) == 1
    assert refused(b'"\\"' * 80_000 + b"[" * 17).reason == "not_json"


def test_unknown_fields_are_counted_and_near_misses_warned_of(decode: Decode) -> None:
    with structlog.testing.capture_logs() as logs:
        window = decode(T + ',"tank_c":20,"fog_botom_mm":990,"colour":"red"}', T + ',"colour":1}')
    assert window.unknown_fields == (("probe-1", "fog_botom_mm", 1), ("probe-1", "colour", 2))
    assert [(one["field"], one["did_you_mean"]) for one in logs] == [("fog_botom_mm", "fog_bottom_mm")]


def test_a_sensor_that_makes_up_names_does_not_fill_the_count(decode: Decode) -> None:
    window = decode(json.dumps({f"n{i}": i for i in range(500)} | {"x" * 9000: 1}))
    assert len(window.unknown_fields) == 65
    assert sum(count for _, _, count in window.unknown_fields) == 501
    assert max(len(name) for _, name, _ in window.unknown_fields) <= 64


def test_status_sets_connectivity(decode: Decode) -> None:
    topic = "quarterline/v1/PROBE-1/status"
    window = decode("online", "offline", topic=topic)
    assert window.statuses == (("probe-1", True, 1772366400_000_000), ("probe-1", False, 1772366400_000_000))
    assert (window.heartbeats, window.contacts) == (2, (("probe-1", 1772366400_000_000),))
    assert decode("offline", topic=topic).contacts == ()  # its will speaks when it cannot
    assert decode("maybe", topic=topic).quarantined[0].reason == "bad_status"


def test_retained_is_never_a_reading(decode: Decode) -> None:
    window = decode('{"tank_c":20}', "no json", retain=True)
    assert (window.retained, window.items, window.quarantined, window.contacts) == (2, (), (), ())
    window = decode("offline", topic="quarterline/v1/probe-1/status", retain=True)
    assert (window.retained, window.heartbeats) == (1, 0)
    assert window.statuses == (("probe-1", False, 1772366400_000_000),)


def test_whose_it_is_the_topic_says(decode: Decode) -> None:
    assert (
        decode('{"tank_c":20,"sensor":"other"}', topic="quarterline/v1/Probe-1/readings").items[0].sensor
        == "probe-1"
    )
    window = decode('[{"tank_c":20},{"tank_c":21}]', topic="quarterline/v1/Probe-9/readings")
    assert [(one.reason, one.sensor) for one in window.quarantined] == [("unknown_sensor", "probe-9")] * 2
    assert window.contacts == ()
    for topic in ("quarterline/v2/probe-1/readings", "quarterline/v1/probe-1/readings/x", "x", ""):
        (found,) = decode("{}", topic=topic).quarantined
        assert (found.reason, found.sensor) == ("topic", None)


def test_the_profile_gives_the_unit(fleet: Callable[..., Decoder], now_us: int) -> None:
    profile = DeviceProfile("mine", units={"surface": "mm", "tank": "f"})
    decoder = fleet(Sensor("p", "gi", profile="mine"), mine=profile)
    payload = b'{"surface":1101,"tank":32,"fog_bottom_cm":100}'
    (found,) = decoder.decode([RawMessage("quarterline/v1/p/readings", payload, now_us)]).items
    assert found.values == pytest.approx({"surface_m": 1.101, "tank_c": 0.0, "fog_bottom_m": 1.0})
    assert found.device_profile == "mine"


def test_a_missing_profile_is_said(fleet: Callable[..., Decoder], now_us: int) -> None:
    decoder = fleet(Sensor("p", "gi", profile="gone"))
    (found,) = decoder.decode([RawMessage("quarterline/v1/p/readings", b'{"tank_c":1}', now_us)]).quarantined
    assert found.reason == "unknown_profile"
    assert "gone" in found.detail


def test_every_quantity_has_a_name_that_is_taken(item: Read) -> None:
    body: dict[str, Any] = {"profile": [1, 2]}
    for quantity in QUANTITIES.values():
        suffix = {"length": "_mm", "temperature": "_c", "pressure": "_pa"}.get(quantity.dimension, "")
        if quantity.dimension != "array":
            body[quantity.name + suffix] = 1
    found = item(json.dumps(body))
    assert len(found.values) == len(QUANTITIES) - 1
