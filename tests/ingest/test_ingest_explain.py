"""What a message's fields are told to have become: the decoder's own verdicts, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.decode import Decoder
from ingest.explain import Part, explain, sensor_of
from ingest.message import RawMessage
from ingest.profile import DeviceProfile, load_profiles
from store.records import Sensor

NOW = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
EUI = "a84041ffff1812c0"
NATIVE = "quarterline/v1/probe-1/readings"
PROFILES = load_profiles()


def told(topic: str, document: Any, sensor: Sensor | None) -> tuple[Part, ...]:
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    return explain(RawMessage(topic, payload, NOW), sensor, PROFILES)


def fields(part: Part) -> list[tuple[Any, ...]]:
    return [(f.source, f.quantity, f.unit, f.column, f.value) for f in part.fields]


def test_a_profile_s_fields_are_told_by_the_profile() -> None:
    envelope = {
        "deviceInfo": {"devEui": EUI},
        "fCnt": 7,
        "object": {"distance": 850, "temperature": 21.5, "battery": 90, "tilt": "no"},
    }
    sensor = Sensor(EUI, "i", profile="milesight-udl")
    (part,) = told(f"application/0b4a/device/{EUI}/event/up", envelope, sensor)
    assert part.kind == "reading"
    assert fields(part) == [
        ("distance", "distance", "mm", "distance_m", pytest.approx(0.85)),
        ("temperature", "air", "c", "air_c", 21.5),
        ("battery", "battery_pct", "pct", "battery_pct", 90),
        ("tilt", None, None, None, None),
    ]
    assert part.fields[3].note == "ignored: not in the device profile"
    # 65533 is this device's word for no echo: docs of the profile
    envelope["object"] = {"distance": 65533, "temperature": "warm"}
    (part,) = told(f"application/0b4a/device/{EUI}/event/up", envelope, sensor)
    assert (part.kind, part.reason) == ("refused", "not_a_number")
    assert part.fields[0].note == "no value"
    assert part.fields[1].note.startswith("temperature: expected a number")


def test_a_network_server_s_own_values_are_told_as_its_own() -> None:
    topic = f"application/0b4a/device/{EUI}/event/status"
    (part,) = told(topic, {"deviceInfo": {"devEui": EUI}, "batteryLevel": 88}, Sensor(EUI, "i"))
    assert part.kind == "reading"
    assert fields(part) == [("(network server)", "battery_pct", "pct", "battery_pct", 88.0)]


def test_electrodes_and_a_wrong_unit_in_a_native_message() -> None:
    (part,) = told(NATIVE, {"profile": [0.1, None, 1], "surface_psi": 3}, Sensor("probe-1", "i"))
    assert fields(part)[0] == ("profile", "profile", None, "profile", [0.1, None, 1.0])
    assert part.fields[1].note == "ignored: did you mean surface_in?"


def test_an_unknown_sensor_s_array_is_refused_element_by_element_with_what_it_would_be() -> None:
    parts = told("quarterline/v1/new/readings", [{"surface_mm": 1}, {"surface": 1}], None)
    assert [(p.place, p.kind, p.reason) for p in parts] == [
        (0, "refused", "unknown_sensor"),
        (1, "refused", "unknown_sensor"),
    ]
    assert parts[0].fields[0].column == "surface_m"
    assert "no unit" in parts[1].fields[0].note


def test_what_is_no_reading_says_what_it_is() -> None:
    probe = Sensor("probe-1", "i")
    (status,) = told("quarterline/v1/probe-1/status", b"offline", probe)
    assert (status.kind, status.detail) == ("status", "offline")
    retained = RawMessage(NATIVE, b'{"surface_mm": 1}', NOW, retain=True)
    assert [p.kind for p in explain(retained, probe, PROFILES)] == ["retained"]
    assert [p.kind for p in told(NATIVE, {"seq": 1}, probe)] == ["heartbeat"]
    assert [(p.kind, p.reason) for p in told(NATIVE, b"[1, 2", probe)] == [("refused", "not_json")]
    assert [(p.kind, p.reason) for p in told("other/topic", b"{}", None)] == [("refused", "topic")]


@pytest.mark.parametrize(
    ("topic", "payload", "expected"),
    [
        ("quarterline/v1/D-1/readings", b"", "d-1"),
        (f"application/x/device/{EUI.upper()}/event/up", b"", EUI),
        ("v3/a@t/devices/trap-7/up", b'{"end_device_ids": {"device_id": "trap-7", "dev_eui": "AB"}}', "ab"),
        ("v3/a@t/devices/trap-7/up", b"no json", "trap-7"),
        ("elsewhere", b"", None),
    ],
)
def test_whose_a_message_is(topic: str, payload: bytes, expected: str | None) -> None:
    assert sensor_of(RawMessage(topic, payload, NOW)) == expected


keys = st.sampled_from(["surface_mm", "fog_bottom_in", "surface", "inlet_f", "time", "seq", "profile", "Bat"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
elements = st.one_of(
    st.dictionaries(keys, st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=5), scalars
)
documents = st.one_of(elements, st.lists(elements, max_size=6)).map(json.dumps).map(str.encode)
topics = st.sampled_from(
    [
        NATIVE,
        "quarterline/v1/probe-1/status",
        "quarterline/v1/nobody/readings",
        f"application/x/device/{EUI}/event/up",
        "v3/a@b/devices/probe-1/up",
        "else/where",
    ]
)


@given(topics, st.one_of(documents, st.binary(max_size=60)), st.booleans(), st.booleans())
@settings(max_examples=200)
def test_the_parts_are_the_decoder_s_outcomes_whatever_comes(
    topic: str, payload: bytes, retain: bool, known: bool
) -> None:
    profiles: dict[str, DeviceProfile] = PROFILES
    sensor = Sensor("probe-1", "i") if known else None
    message = RawMessage(topic, payload, NOW, retain=retain)
    window = Decoder({sensor.id: sensor} if sensor else {}, profiles).decode([message])
    parts = explain(message, sensor, profiles)
    kinds = [part.kind for part in parts]
    assert [part.item for part in parts if part.kind == "reading"] == list(window.items)
    assert [(p.reason, p.detail) for p in parts if p.kind == "refused"] == [
        (one.reason, one.detail) for one in window.quarantined
    ]
    assert kinds.count("heartbeat") + kinds.count("status") * (not retain) == window.heartbeats
    assert kinds.count("retained") == window.retained
