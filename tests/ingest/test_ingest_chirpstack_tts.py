"""Network servers' envelopes: real ones of others (data/payloads.jsonl, data/NOTICE.md), and every way to be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.records import IngestWindow, Sensor

LINES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "payloads.jsonl").read_text(encoding="utf-8").splitlines()
]
BY_ID = {line["id"]: line for line in LINES}
NOW = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
EUI = "a84041ffff1812c0"
CS_TOPIC = f"application/0b4a/device/{EUI}/event/"
TTS_TOPIC = "v3/grease@acme/devices/trap-7/"


def cs_up(document: Any, **more: Any) -> dict[str, Any]:
    envelope = {
        "time": "2026-03-01T11:58:00.123456789+00:00",
        "deviceInfo": {"devEui": EUI},
        "fCnt": 7,
        "fPort": 2,
    }
    return {**envelope, "data": "qg==", "object": document, **more}


def tts_up(document: Any, **more: Any) -> dict[str, Any]:
    return {
        "end_device_ids": {"device_id": "trap-7", "dev_eui": EUI.upper()},
        "received_at": "2026-03-01T11:58:01Z",
        "uplink_message": {
            "f_cnt": 7,
            "frm_payload": "qg==",
            "decoded_payload": document,
            "received_at": "2026-03-01T11:58:00.123456789Z",
        },
        **more,
    }


@pytest.fixture
def send(fleet: Callable[..., Decoder]) -> Callable[..., IngestWindow]:
    def run(
        topic: str, document: Any, profile: str = "native", identity: str = EUI, **kinds: bool
    ) -> IngestWindow:
        decoder = fleet(Sensor(identity, "gi", profile=profile))
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        return decoder.decode([RawMessage(topic, payload, NOW, **kinds)])

    return run


Send = Callable[..., IngestWindow]


@pytest.mark.parametrize(("topic", "wrap"), [(CS_TOPIC + "up", cs_up), (TTS_TOPIC + "up", tts_up)])
@pytest.mark.parametrize(
    ("case", "profile", "values"),
    [
        ("lw-dragino-ldds45-1", "dragino-ldds45", {"distance_m": 2.799, "battery_v": 3.387}),
        ("lw-dragino-ldds04-1", "dragino-ldds04", {"distance_m": 0.79, "battery_v": 3.402}),
        ("lw-dragino-llds12-1", "dragino-llds12", {"distance_m": 2.84, "battery_v": 3.42}),
        ("lw-milesight-iot-em310-udl-1", "milesight-udl", {"distance_m": 2.116, "battery_pct": 92}),
        ("lw-milesight-iot-em500-pp-1", "milesight-em500-pp", {"pressure_pa": 10_000, "battery_pct": 92}),
        ("lw-milesight-iot-em500-swl-1", "milesight-em500-swl", {"pressure_pa": 196.133, "battery_pct": 92}),
        ("lw-milesight-iot-em500-pt100-1", "milesight-temperature", {"tank_c": 28.1, "battery_pct": 92}),
        ("lw-milesight-iot-ts101-1", "milesight-temperature", {"tank_c": 26.3, "battery_pct": 100}),
        ("lw-decentlab-dl-mbx-1", "decentlab-dl-mbx", {"distance_m": 1.234, "battery_v": 2.993}),
        ("lw-decentlab-dl-mbx-2", "decentlab-dl-mbx", {"battery_v": 2.993}),
        ("lw-decentlab-dl-lid-1", "decentlab-dl-lid", {"distance_m": 4.51, "battery_v": 2.749}),
        (
            "lw-decentlab-dl-pr26-0-1-1",
            "decentlab-dl-pr",
            {"pressure_pa": -1171.875, "tank_c": 25.671875, "battery_v": 3.199},
        ),
        (
            "lw-decentlab-dl-pr21-1-10-1",
            "decentlab-dl-pr",
            {"pressure_pa": 24609.375, "tank_c": 25.671875, "battery_v": 3.199},
        ),
        ("lw-terabee-lora-lm-xl-1", "terabee-lora-lm-xl", {"distance_m": 1.5, "battery_v": 3.6}),
        ("lw-terabee-lora-lm-xl-2", "terabee-lora-lm-xl", {"distance_m": 2.0, "battery_v": 3.0}),
        (
            "lw-yosensi-yo-distance-1",
            "yosensi-yo-distance",
            {"distance_m": 0.302, "air_c": 20.5, "battery_v": 4.744},
        ),
    ],
)
def test_what_the_makers_codec_says_through_its_profile(
    send: Send, topic: str, wrap: Callable[[Any], Any], case: str, profile: str, values: dict[str, float]
) -> None:
    expected = BY_ID[case]["expected"]
    window = send(topic, wrap(expected.get("data", expected)), profile)
    assert window.quarantined == ()
    (item,) = window.items
    assert item.values == pytest.approx(values, rel=1e-9)
    assert (item.sensor, item.time_us, item.seq, item.flags) == (EUI, 1_772_366_280_123_456, 7, 0)
    assert item.device_profile == profile


def test_no_echo_is_no_value(send: Send) -> None:
    decoded = BY_ID["lw-dragino-ldds75-1"]["expected"]["data"]
    assert decoded == {"distance": "No Sensor"}
    window = send(CS_TOPIC + "up", cs_up(decoded), "dragino-ldds75")
    assert (window.items, window.quarantined, window.heartbeats) == ((), (), 1)
    window = send(CS_TOPIC + "up", cs_up({"distance": 65533, "battery": 90}), "milesight-udl")
    assert window.items[0].values == {"battery_pct": 90.0}


# ---- every envelope in the file ----------------------------------------------------------------------

ENVELOPES = [line for line in LINES if line["kind"] in ("chirpstack", "tts")]
READINGS = {"tts-docs-starter-kit": ("mclimate-mc-button", {"air_c": 21.5, "battery_v": 3.4})}
EXCEPTIONS = {  # reviewed: a decoded object is there, and yet no value must come of it
    "tts-docs-simulated": "simulated",
    # envelopes of ChirpStack v3, whose objectJSON (25 °C, 32 %) has nothing to do with their bytes
    "cs-decentlab-dl-pr26-p-02": "envelope",
    "cs-decentlab-dl-ntu-p-02": "envelope",
    "cs-decentlab-dl-mbx-p-03": "envelope",
    "cs-decentlab-dl-ds18-p-02": "envelope",
}


def has_decoded(line: dict[str, Any]) -> bool:
    payload = line["payload"]
    uplink = payload.get("uplink_message") or {}
    return any((payload.get("object"), payload.get("objectJSON"), uplink.get("decoded_payload")))


def route(line: dict[str, Any]) -> tuple[str, str]:
    """The topic a line came on, and its sensor."""
    payload = line["payload"]
    if line["kind"] == "tts":
        ids = payload["end_device_ids"]
        topic = line["topic"] or f"v3/app@tenant/devices/{ids['device_id']}/up"
        return topic, ids.get("dev_eui", ids["device_id"]).lower()
    eui = payload.get("deviceInfo", {}).get("devEui", "0101010101010101")
    return line["topic"] or f"application/a/device/{eui}/event/up", eui.lower()


def test_every_decoded_line_is_accounted_for() -> None:
    assert {line["id"] for line in ENVELOPES if has_decoded(line)} == READINGS.keys() | EXCEPTIONS.keys()


@pytest.mark.parametrize("line", ENVELOPES, ids=[line["id"] for line in ENVELOPES])
def test_every_real_envelope(send: Send, line: dict[str, Any]) -> None:
    topic, sensor = route(line)
    profile, values = READINGS.get(line["id"], ("native", None))
    window = send(topic, line["payload"], profile, sensor)
    assert len(window.items) + len(window.quarantined) + window.heartbeats == 1
    if values is not None:
        assert window.items[0].values == pytest.approx(values)
    elif line["id"] in EXCEPTIONS:
        assert window.quarantined[0].reason == EXCEPTIONS[line["id"]]
    elif line["id"] == "cs-event-status":
        assert window.items[0].values == {"battery_pct": 88.3}
        assert window.items[0].time_us == 1_658_136_906_927_172  # 2022-07-18T09:35:06.927172Z
    elif topic.endswith("/up"):  # only bytes, or ChirpStack v3
        assert window.quarantined[0].reason in ("undecoded", "envelope")
    else:
        assert window.heartbeats == 1


def test_a_codec_may_speak_native_names(send: Send) -> None:
    for topic, document in (
        (CS_TOPIC + "up", cs_up({"fog_bottom_mm": 990})),
        (TTS_TOPIC + "up", tts_up({"fog_bottom_mm": 990})),
    ):
        (item,) = send(topic, document).items
        assert item.values == {"fog_bottom_m": 0.99}


def test_the_device_id_stands_in_for_a_dev_eui(send: Send) -> None:
    document = tts_up({"tank_c": 20})
    del document["end_device_ids"]["dev_eui"]
    (item,) = send(TTS_TOPIC + "up", document, identity="trap-7").items
    assert item.sensor == "trap-7"


@pytest.mark.parametrize(
    ("topic", "document", "reason", "says"),
    [
        (
            CS_TOPIC + "up",
            cs_up({"tank_c": 20}, deviceInfo={"devEui": "ff" * 8}),
            "sensor_mismatch",
            "devEui",
        ),
        (CS_TOPIC + "up", cs_up(None), "undecoded", "codec"),
        (CS_TOPIC + "up", cs_up("text"), "not_an_object", "text"),
        (CS_TOPIC + "up", cs_up({"tank_c": True}), "not_a_number", "tank_c"),
        (CS_TOPIC + "up", cs_up({"tank_c": 20}, time="soon"), "bad_time", "time"),
        (CS_TOPIC + "up", cs_up({"tank_c": 20}, fCnt="7"), "bad_seq", "fCnt"),
        (CS_TOPIC + "up", cs_up({"tank_c": 20}, deviceInfo=[1]), "envelope", "deviceInfo"),
        (CS_TOPIC + "up", [], "envelope", "payload"),
        (CS_TOPIC + "up", b"", "not_json", "empty"),
        (CS_TOPIC + "status", {"batteryLevel": "full"}, "not_a_number", "batteryLevel"),
        (CS_TOPIC + "status", {"batteryLevel": 101}, "out_of_range", "batteryLevel"),
        (TTS_TOPIC + "up", tts_up({"tank_c": 20}, simulated=True), "simulated", "simulated"),
        (
            TTS_TOPIC + "up",
            tts_up({"tank_c": 20}, end_device_ids={"device_id": "other"}),
            "sensor_mismatch",
            "device_id",
        ),
        (TTS_TOPIC + "up", tts_up({"tank_c": 20}, end_device_ids={"dev_eui": 7}), "envelope", "dev_eui"),
        (TTS_TOPIC + "up", tts_up(None), "undecoded", "decoded_payload"),
        (TTS_TOPIC + "up", tts_up({"tank_c": 20}, uplink_message=7), "envelope", "uplink_message"),
        (TTS_TOPIC + "up", {}, "unknown_sensor", "trap-7"),
        ("application/a/device/0011/event/up", cs_up({}), "unknown_sensor", "0011"),
    ],
)
def test_what_is_refused_and_why(send: Send, topic: str, document: Any, reason: str, says: str) -> None:
    window = send(topic, document)
    (found,) = window.quarantined
    assert (found.reason, window.items, window.heartbeats) == (reason, (), 0)
    assert says in found.detail


def test_other_events_are_heartbeats(send: Send) -> None:
    for event in ("join", "ack", "txack", "log", "location", "integration"):
        window = send(CS_TOPIC + event, {"deviceInfo": {"devEui": EUI}})
        assert (window.heartbeats, window.contacts) == (1, ((EUI, NOW),))
    for event in ("join", "down/queued", "down/ack", "service/data"):
        window = send(TTS_TOPIC + event, {"end_device_ids": {"device_id": "trap-7", "dev_eui": EUI}})
        assert (window.heartbeats, window.contacts) == (1, ((EUI, NOW),))
    assert send(CS_TOPIC + "up", {"fCnt": 3, "fPort": 0}).heartbeats == 1  # an uplink without bytes
    mains = {"batteryLevel": 0, "externalPowerSource": True}
    assert send(CS_TOPIC + "status", mains).heartbeats == 1


def test_a_simulated_uplink_is_no_sign_of_life(send: Send) -> None:
    assert send(TTS_TOPIC + "up", tts_up({"tank_c": 20}, simulated=True)).contacts == ()
    assert send(TTS_TOPIC + "up", tts_up({"tank_c": "x"})).contacts == ((EUI, NOW),)


def test_retained_uplinks_are_no_readings(send: Send) -> None:
    for topic, document in (
        (CS_TOPIC + "up", cs_up({"tank_c": 1})),
        (TTS_TOPIC + "up", tts_up({"tank_c": 1})),
    ):
        window = send(topic, document, retain=True)
        assert (window.retained, window.items, window.quarantined) == (1, (), ())


def test_upper_case_ids_are_the_same_device(
    fleet: Callable[..., Decoder], profiles: dict[str, DeviceProfile]
) -> None:
    decoder = Decoder({"X": Sensor(EUI.upper(), "gi")}, profiles)
    topic = f"application/a/device/{EUI.upper()}/event/up"
    (item,) = decoder.decode([RawMessage(topic, json.dumps(cs_up({"tank_c": 20})).encode(), NOW)]).items
    assert item.sensor == EUI
