"""The other wire formats: what each message becomes. Shapes and literal values after each format's own description."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import cbor2
import pytest

from analysis.units import QUANTITIES
from ingest.decode import Decoder
from ingest.formats.registry import FORMATS, Router, usual_filters
from ingest.formats.template import TemplateError, template
from ingest.message import RawMessage
from ingest.profile import DeviceProfile, Field, load_profiles
from store.records import IngestWindow, Sensor

NOW = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
EUI = "a84041ffff1812c0"
DISTANCE = QUANTITIES["distance"]


def profile(*fields: tuple[str, str, str | None]) -> DeviceProfile:
    return DeviceProfile(
        "made", fields=tuple(Field(tuple(path.split(".")), QUANTITIES[q], unit) for path, q, unit in fields)
    )


def decoder(sensor: str, made: DeviceProfile | None = None, **more: Any) -> Decoder:
    profiles = load_profiles() | ({} if made is None else {"made": made})
    return Decoder(
        {sensor: Sensor(sensor, "gi", profile="native" if made is None else "made")}, profiles, **more
    )


def take(one: Decoder, topic: str, payload: Any, **more: Any) -> IngestWindow:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return one.decode([RawMessage(topic, body, NOW, **more)])


def values(window: IngestWindow) -> list[tuple[str, int, dict[str, float]]]:
    assert window.quarantined == ()
    return [(item.sensor, item.time_us, dict(item.values)) for item in window.items]


# ---- topics ------------------------------------------------------------------------------------------


def test_a_template_names_levels_and_gives_the_filter() -> None:
    one = template("plant/tank_{sensor}/{field}/+")
    assert one.filter == "plant/+/+/+"
    assert one.match("plant/tank_a7/level/x") == {"sensor": "a7", "field": "level"}
    for topic in ("plant/a7/level/x", "plant/tank_/level/x", "/plant/tank_a7/level/x", "plant/tank_a7/level"):
        assert one.match(topic) is None


@pytest.mark.parametrize("text", ["", "a/{who}", "{sensor}/{sensor}", "a/#/b", "a/b+", "a#"])
def test_a_template_that_cannot_be_used_says_why(text: str) -> None:
    with pytest.raises(TemplateError):
        template(text)


def test_ones_own_topics_come_before_the_usual_ones() -> None:
    router = Router([("text", "tele/{sensor}/SENSOR")])
    found = router.find("tele/x/SENSOR")
    assert found is not None
    assert found[0] is FORMATS["text"]
    assert Router().find("nobody/reads/this/topic/at/all") is None
    assert usual_filters(["esphome", "sparkplug"]) == ("spBv1.0/#", "+/sensor/+/state", "+/status")


# ---- Tasmota, ESPHome, Zigbee2MQTT -------------------------------------------------------------------

LASER = profile(("VL53L0X.Distance", "distance", "mm"), ("DS18B20.Temperature", "tank", "c"))


def test_tasmota_by_the_epoch_beside_the_local_time() -> None:
    payload = {"Time": "2026-03-01T12:59:00", "Epoch": 1_772_366_340, "VL53L0X": {"Distance": 318}}
    window = take(decoder("trap", LASER), "tele/trap/SENSOR", payload)
    assert values(window) == [("trap", NOW - 60_000_000, {"distance_m": 0.318})]


def test_tasmota_in_fahrenheit_by_its_own_word() -> None:
    payload = {"Time": "2026-03-01T11:59:00Z", "DS18B20": {"Temperature": 77.0}, "TempUnit": "F"}
    ((_, _, found),) = values(take(decoder("trap", LASER), "tele/trap/SENSOR", payload))
    assert found == pytest.approx({"tank_c": 25.0})


def test_tasmota_of_another_chip_is_no_level() -> None:
    payload = {"Time": "2026-03-01T11:59:00Z", "AS3935": {"Event": 4, "Distance": 12}}
    assert take(decoder("trap", LASER), "tele/trap/SENSOR", payload).heartbeats == 1


def test_tasmota_local_time_without_zone_is_quarantined() -> None:
    payload = {"Time": "2026-03-01T11:59:00", "VL53L0X": {"Distance": 318}}
    (found,) = take(decoder("trap", LASER), "tele/trap/SENSOR", payload).quarantined
    assert found.reason == "bad_time"


@pytest.mark.parametrize(
    ("topic", "payload", "online"),
    [
        ("tele/trap/LWT", b"Online", True),
        ("tele/trap/LWT", b"Offline", False),
        ("trap/status", b"offline", False),
        ("zigbee2mqtt/trap/availability", b"online", True),
        ("zigbee2mqtt/trap/availability", b'{"state":"offline"}', False),
    ],
)
@pytest.mark.parametrize("retain", [True, False])
def test_a_will_is_connectivity_alone(topic: str, payload: bytes, online: bool, retain: bool) -> None:
    window = take(decoder("trap"), topic, payload, retain=retain)
    assert window.statuses == (("trap", online, NOW),)
    assert (window.items, window.quarantined, window.contacts) == ((), (), ())
    assert window.retained + window.heartbeats == 1


GAP = profile(("gap", "distance", "cm"))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (b"42.5", {"distance_m": 0.425}),
        (b"nan", "heartbeat"),
        (b"None", "heartbeat"),
        (b"21,5", "not_a_number"),
        (b"1_000", "not_a_number"),
        (b"Normal", "not_a_number"),
        (b"\xff", "not_text"),
        (b"9" * 300, "not_text"),
    ],
)
def test_esphome_state(text: bytes, outcome: Any) -> None:
    window = take(decoder("cellar", GAP), "cellar/sensor/gap/state", text)
    if isinstance(outcome, dict):
        assert values(window) == [("cellar", NOW, outcome)]
    else:
        assert [one.reason for one in window.quarantined] == ([] if outcome == "heartbeat" else [outcome])
        assert window.items == ()


def test_zigbee2mqtt_is_known_by_its_address_whatever_its_name() -> None:
    made = profile(("liquid_depth", "surface", "m"))
    one = decoder("0x00124b0012345678", made)
    for name in ("trap", "old trap"):
        payload = {
            "liquid_depth": 0.71,
            "device": {"ieeeAddr": "0x00124B0012345678"},
            "last_seen": 1_772_366_340_000,
        }
        window = take(one, f"zigbee2mqtt/{name}", payload)
        assert values(window) == [("0x00124b0012345678", NOW - 60_000_000, {"surface_m": 0.71})]
    assert take(one, "zigbee2mqtt/bridge", {"x": 1}).heartbeats == 1


# ---- SenML -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dump", [lambda pack: json.dumps(pack).encode(), lambda pack: _cbor(pack)])
def test_senml_resolved_in_both_forms(dump: Callable[[Any], bytes]) -> None:
    pack = [
        {"bn": "urn:dev:mac:0024befffe804ff1:", "bt": 1_772_366_340.25, "bu": "m", "n": "surface", "v": 1.18},
        {"n": "tank", "u": "Cel", "t": -60, "v": 31.5},
    ]
    found = values(take(decoder("trap"), "senml/trap", dump(pack)))
    assert found == [
        ("trap", NOW - 59_750_000, {"surface_m": 1.18}),
        ("trap", NOW - 119_750_000, {"tank_c": 31.5}),
    ]
    by_name = decoder("0024befffe804ff1", topics=[("senml", "gateway/senml")])
    assert values(take(by_name, "gateway/senml", dump(pack)))[0][0] == "0024befffe804ff1"


def _cbor(pack: list[dict[str, Any]]) -> bytes:
    labels = {"bn": -2, "bt": -3, "bu": -4, "bv": -5, "n": 0, "u": 1, "v": 2, "t": 6}
    return cbor2.dumps([{labels[name]: value for name, value in record.items()} for record in pack])


def test_senml_relative_time_and_base_value() -> None:
    pack = [{"bn": "d:", "bv": 1.0, "bu": "m", "n": "surface", "v": 0.18, "t": -30}]
    assert values(take(decoder("trap"), "senml/trap", pack)) == [
        ("trap", NOW - 30_000_000, {"surface_m": 1.18})
    ]


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        ({"temperature": 33.06}, "senml"),
        ([{"n": "surface", "v": 1, "must_": 1}], "senml"),
        ([{"bver": 11, "n": "surface", "v": 1}], "senml"),
        ([{"n": "surface", "v": "1"}], "senml"),
        ([{"bn": "a:", "n": "x", "v": 1}, {"bn": "b:", "n": "x", "v": 1}], "sensor_mismatch"),
        ([{"n": "surface", "v": 1}, {"n": "surface", "v": 2}], "contradiction"),
        ([{"n": "surface", "u": "furlong", "v": 1}], "no_unit"),
    ],
)
def test_senml_that_cannot_be_taken(pack: Any, reason: str) -> None:
    assert [one.reason for one in take(decoder("trap"), "senml/trap", pack).quarantined] == [reason]


def test_a_unit_in_the_message_wins_over_the_profiles() -> None:
    made = profile(("level", "surface", "mm"))
    pack = [{"n": "level", "u": "m", "v": 0.42}]
    assert values(take(decoder("trap", made), "senml/trap", pack)) == [("trap", NOW, {"surface_m": 0.42})]
    (found,) = take(decoder("trap", made), "senml/trap", [{"n": "level", "u": "Cel", "v": 0.42}]).quarantined
    assert found.reason == "no_unit"


# ---- network servers and clouds ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "envelope"),
    [
        ("mqtt/things/{eui}/uplink", {"DevEUI_uplink": {"Time": "2026-03-01T11:59:00.000+00:00", "DevEUI": EUI.upper(),
          "FPort": 1, "FCntUp": 26, "payload_hex": "02", "payload": {"tank_c": 25.5}}}),
        ("loriot/app/up", {"cmd": "rx", "EUI": EUI.upper(), "ts": 1_772_366_340_000, "fcnt": 26, "port": 1, "bat": 94,
          "data": "02", "decoded": {"data": {"tank_c": 25.5}}}),
        ("milesight/uplink", {"devEUI": EUI, "time": "2026-03-01T11:59:00Z", "fCnt": 26, "fPort": 85, "data": "Ag==",
          "object": {"tank_c": 25.5}}),
    ],
)  # fmt: skip
def test_network_servers(topic: str, envelope: dict[str, Any]) -> None:
    (item,) = take(decoder(EUI), topic.format(eui=EUI), envelope).items
    assert (item.sensor, item.time_us, dict(item.values), item.seq) == (
        EUI,
        NOW - 60_000_000,
        {"tank_c": 25.5},
        26,
    )


@pytest.mark.parametrize(
    ("topic", "envelope"),
    [
        ("loriot/app/up", {"cmd": "gw", "EUI": EUI, "ts": 1, "data": "02"}),
        (f"mqtt/things/{EUI}/uplink", {"DevEUI_uplink": {"DevEUI": EUI, "payload_hex": "02"}}),
        (f"lorawan/a/b/things/{EUI}/up", {"WirelessDeviceId": "x", "PayloadData": "Ag==",
          "WirelessMetadata": {"LoRaWAN": {"DevEui": EUI, "FPort": 2}}}),
    ],
)  # fmt: skip
def test_bytes_that_nobody_decoded(topic: str, envelope: dict[str, Any]) -> None:
    (found,) = take(decoder(EUI), topic, envelope).quarantined
    assert found.reason == "undecoded"


def test_a_topic_of_one_device_takes_no_envelope_of_another() -> None:
    envelope = {"DevEUI_uplink": {"DevEUI": "0" * 16, "payload": {"tank_c": 1}}}
    (found,) = take(decoder(EUI), f"mqtt/things/{EUI}/uplink", envelope).quarantined
    assert found.reason == "sensor_mismatch"


def test_chirpstack_3() -> None:
    envelope = {"devEUI": base64.b64encode(bytes.fromhex(EUI)).decode(), "fCnt": 7, "data": "Ag==",
                "publishedAt": "2026-03-01T11:59:00Z", "objectJSON": '{"tank_c": 25.5}'}  # fmt: skip
    (item,) = take(decoder(EUI), f"application/1/device/{EUI}/event/up", envelope).items
    assert (item.time_us, dict(item.values), item.seq) == (NOW - 60_000_000, {"tank_c": 25.5}, 7)


def test_aws_shadow_and_presence() -> None:
    shadow = {"state": {"reported": {"surface_mm": 420}}, "version": 7, "timestamp": 1_772_366_340}
    topic = "$aws/things/trap/shadow/update/accepted"
    assert values(take(decoder("trap"), topic, shadow)) == [("trap", NOW - 60_000_000, {"surface_m": 0.42})]
    assert take(decoder("trap"), topic, {"state": {"desired": {"surface_mm": 1}}}).contacts == ()
    event = {"clientId": "trap", "timestamp": 1_772_366_340_000, "eventType": "disconnected"}
    window = take(decoder("trap"), "$aws/events/presence/disconnected/trap", event)
    assert (window.statuses, window.contacts) == ((("trap", False, NOW),), ())


@pytest.mark.parametrize("encoded", [True, False])
def test_azure_telemetry(encoded: bool) -> None:
    body: Any = {"surface_mm": 420}
    if encoded:
        body = base64.b64encode(json.dumps(body).encode()).decode()
    device = {"iothub-connection-device-id": "trap", "iothub-enqueuedtime": "2026-03-01T11:59:00Z"}
    event = {"eventType": "Microsoft.Devices.DeviceTelemetry", "eventTime": "2026-03-01T11:59:30Z",
             "data": {"systemProperties": device, "body": body}}  # fmt: skip
    assert values(take(decoder("trap"), "azure/events", [event])) == [
        ("trap", NOW - 60_000_000, {"surface_m": 0.42})
    ]
    routed = {
        "EnqueuedTimeUtc": "2026-03-01T11:59:00Z",
        "SystemProperties": {"connectionDeviceId": "trap"},
        "Body": body,
    }
    assert values(take(decoder("trap"), "azure/events", routed)) == [
        ("trap", NOW - 60_000_000, {"surface_m": 0.42})
    ]
    gone = {"eventType": "Microsoft.Devices.DeviceDisconnected", "data": {"deviceId": "trap"}}
    assert take(decoder("trap"), "azure/events", [gone]).statuses == (("trap", False, NOW),)


# ---- any maker's JSON and text -----------------------------------------------------------------------


def test_json_and_text_on_ones_own_topic() -> None:
    made = profile(("level", "surface", "mm"))
    one = decoder("trap", made, topics=[("json", "plant/{sensor}/json"), ("text", "plant/{sensor}/{field}")])
    pack = [{"level": 420, "time": 1_772_366_340}, {"level": "x"}, {"other": 1}]
    window = take(one, "plant/trap/json", pack)
    assert [dict(item.values) for item in window.items] == [{"surface_m": 0.42}]
    assert ([one.reason for one in window.quarantined], window.heartbeats) == (["not_a_number"], 1)
    assert values(take(one, "plant/trap/level", b" 420 \n")) == [("trap", NOW, {"surface_m": 0.42})]
