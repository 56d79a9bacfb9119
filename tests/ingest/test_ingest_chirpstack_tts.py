"""Network servers' envelopes and every way to be wrong; real ones of others are in test_ingest_payloads.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.records import IngestWindow, Sensor

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


def test_no_echo_is_no_value(send: Send) -> None:
    window = send(CS_TOPIC + "up", cs_up({"distance": "No Sensor"}), "dragino-ldds75")
    assert (window.items, window.quarantined, window.heartbeats) == ((), (), 1)
    window = send(CS_TOPIC + "up", cs_up({"distance": 65533, "battery": 90}), "milesight-udl")
    assert window.items[0].values == {"battery_pct": 90.0}


def test_a_codec_may_speak_native_names(send: Send) -> None:
    for topic, document in (
        (CS_TOPIC + "up", cs_up({"fog_bottom_mm": 990})),
        (TTS_TOPIC + "up", tts_up({"fog_bottom_mm": 990})),
    ):
        (item,) = send(topic, document).items
        assert item.values == {"fog_bottom_m": 0.99}
        assert (item.sensor, item.time_us, item.seq, item.flags) == (EUI, 1_772_366_280_123_456, 7, 0)


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
        spoke = ((EUI, NOW),) if event in ("join", "ack", "location") else ()
        assert (window.heartbeats, window.contacts) == (1, spoke)
    for event in ("join", "down/queued", "down/ack", "service/data"):
        window = send(TTS_TOPIC + event, {"end_device_ids": {"device_id": "trap-7", "dev_eui": EUI}})
        spoke = ((EUI, NOW),) if event != "down/queued" else ()
        assert (window.heartbeats, window.contacts) == (1, spoke)
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
