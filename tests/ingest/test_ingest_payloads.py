"""Every line of data/payloads.jsonl (data/NOTICE.md): what its maker, test or example says it is, in SI, or why not.

The decoded object of a line is the one in its envelope. Where only bytes stand there, decoding them is the network
server's work: the line as sent is refused as undecoded, and with the values its source states as the decoded object
it gives the reading. A lorawan line is a codec's output and goes through both network servers' envelopes.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from store.records import IngestWindow, Sensor

NOW: Final = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
EUI: Final = "a84041ffff1812c0"
LINES: Final[dict[str, dict[str, Any]]] = {
    line["id"]: line
    for line in map(
        json.loads,
        (Path(__file__).parent / "data" / "payloads.jsonl").read_text(encoding="utf-8").splitlines(),
    )
}

# id: device profile, SI values
READINGS: Final[dict[str, tuple[str, dict[str, float]]]] = {
    "lw-decentlab-dl-pr26-0-1-1": (
        "decentlab-dl-pr",
        {"pressure_pa": -1171.875, "tank_c": 25.671875, "battery_v": 3.199},
    ),
    "lw-decentlab-dl-pr21-1-10-1": (
        "decentlab-dl-pr",
        {"pressure_pa": 24609.375, "tank_c": 25.671875, "battery_v": 3.199},
    ),
    "lw-decentlab-dl-mbx-1": ("decentlab-dl-mbx", {"distance_m": 1.234, "battery_v": 2.993}),
    "lw-decentlab-dl-mbx-2": ("decentlab-dl-mbx", {"battery_v": 2.993}),
    "lw-decentlab-dl-lid-1": ("decentlab-dl-lid", {"distance_m": 4.51, "battery_v": 2.749}),
    "lw-dragino-ldds45-1": ("dragino-ldds45", {"distance_m": 2.799, "battery_v": 3.387}),
    "lw-dragino-ldds04-1": ("dragino-ldds04", {"distance_m": 0.79, "battery_v": 3.402}),
    "lw-dragino-llds12-1": ("dragino-llds12", {"distance_m": 2.84, "battery_v": 3.42}),
    "lw-milesight-iot-em310-udl-1": ("milesight-udl", {"distance_m": 2.116, "battery_pct": 92}),
    "lw-milesight-iot-em500-pp-1": ("milesight-em500-pp", {"pressure_pa": 10_000, "battery_pct": 92}),
    # 2 cm of water: 2 * 98.0665 Pa
    "lw-milesight-iot-em500-swl-1": ("milesight-em500-swl", {"pressure_pa": 196.133, "battery_pct": 92}),
    "lw-milesight-iot-em500-pt100-1": ("milesight-temperature", {"tank_c": 28.1, "battery_pct": 92}),
    "lw-milesight-iot-ts101-1": ("milesight-temperature", {"tank_c": 26.3, "battery_pct": 100}),
    "lw-terabee-lora-lm-xl-1": ("terabee-lora-lm-xl", {"distance_m": 1.5, "battery_v": 3.6}),
    "lw-terabee-lora-lm-xl-2": ("terabee-lora-lm-xl", {"distance_m": 2.0, "battery_v": 3.0}),
    "lw-yosensi-yo-distance-1": (
        "yosensi-yo-distance",
        {"distance_m": 0.302, "air_c": 20.5, "battery_v": 4.744},
    ),
    "lw-elsys-elt-ultrasonic-1": ("elsys-elt-ultrasonic", {"distance_m": 8.977, "air_c": 22.6}),
    "lw-elsys-elt-2-1": ("elsys-elt-ultrasonic", {"air_c": 22.6}),
    "lw-pepperl-fuchs-wilsen-sonic-level-2": (
        "pepperl-fuchs-wilsen-sonic",
        {"distance_m": 1.718, "air_c": 22.7, "battery_v": 3.6},
    ),
    "lw-pepperl-fuchs-wilsen-sonic-level-5": ("pepperl-fuchs-wilsen-sonic", {"battery_v": 3.6}),
    # an unconnected probe: P1 is nothing, so that the difference is the barometer's
    "lw-keller-keller-1": (
        "keller-level",
        {"pressure_pa": -97_100.04925727844, "tank_c": 21.799999237060547},
    ),
    "lw-keller-keller-2": ("keller-level", {"battery_v": 5.083990573883057, "battery_pct": 47}),
    "cs-milesight-em400-udl-p-1": ("milesight-udl", {"distance_m": 2.116, "air_c": 25.7, "battery_pct": 92}),
    "cs-milesight-em500-udl-p": ("milesight-udl", {"distance_m": 0.03, "battery_pct": 100}),
    "cs-milesight-em500-swl-p": ("milesight-em500-swl", {"pressure_pa": 196.133, "battery_pct": 100}),
    "cs-milesight-em500-pp-p": ("milesight-em500-pp", {"pressure_pa": 10_000, "battery_pct": 100}),
    "cs-milesight-ts101-p-1": ("milesight-temperature", {"tank_c": 33.8}),
    "cs-decentlab-dl-pr21-p": (
        "decentlab-dl-pr",
        {"pressure_pa": 24609.375, "tank_c": 25.671875, "battery_v": 3.199},
    ),
    "tts-milesight-em500-udl-p": ("milesight-udl", {"distance_m": 0.03, "battery_pct": 100}),
    "tts-milesight-em500-pp-p": ("milesight-em500-pp", {"pressure_pa": 10_000, "battery_pct": 100}),
    "tts-decentlab-dl-mbx-p": ("decentlab-dl-mbx", {"distance_m": 1.234, "battery_v": 2.993}),
    "tts-decentlab-dl-pr21-p": (
        "decentlab-dl-pr",
        {"pressure_pa": 24609.375, "tank_c": 25.671875, "battery_v": 3.199},
    ),
    "tts-docs-starter-kit": ("mclimate-mc-button", {"air_c": 21.5, "battery_v": 3.4}),
}

# id: device profile, outcome (a reason of quarantine, or "heartbeat"), why no value of ours comes of it; reviewed
NO_READING: Final[dict[str, tuple[str, str, str]]] = {
    "lw-dragino-ldds75-1": ("dragino-ldds75", "heartbeat", "no echo: the codec says No Sensor"),
    "lw-dragino-lds02-1": ("dragino-ldds45", "heartbeat", "a door switch"),
    "lw-mclimate-flood-sensor-1": ("mclimate-mc-button", "heartbeat", "a flood switch"),
    "cs-milesight-em410-rdl-p": ("milesight-udl", "undecoded", "device information, no reading"),
    "cs-milesight-em300-sld-zld-p": ("milesight-temperature", "undecoded", "its reading is a history record"),
    "cs-milesight-em300-di-hall-p": ("milesight-temperature", "undecoded", "a water meter"),
    "cs-milesight-ts201-p-1": ("milesight-temperature", "undecoded", "its reading is a history record"),
    "cs-milesight-ct101-ct103-p-3": ("milesight-temperature", "undecoded", "a current clamp that failed"),
    "cs-netvox-r718wb-p": ("native", "undecoded", "a leak rope"),
    "cs-decentlab-dl-dlr2-004-p": ("native", "undecoded", "a current loop: its range is not in the message"),
    "cs-decentlab-dl-pr26-p-02": (
        "decentlab-dl-pr",
        "heartbeat",
        "ChirpStack v3, objectJSON of another device",
    ),
    "cs-decentlab-dl-ntu-p-02": ("native", "heartbeat", "ChirpStack v3, objectJSON of another device"),
    "cs-decentlab-dl-mbx-p-03": (
        "decentlab-dl-mbx",
        "heartbeat",
        "ChirpStack v3, objectJSON of another device",
    ),
    "cs-decentlab-dl-ds18-p-02": ("native", "heartbeat", "ChirpStack v3, objectJSON of another device"),
    "tts-milesight-em300-di-p": ("native", "undecoded", "a pulse counter in air"),
    "tts-milesight-em300-cl-p": ("native", "undecoded", "a level switch, uncalibrated"),
    "tts-decentlab-dl-ntu-p-01": ("native", "undecoded", "turbidity; the battery alone is there"),
    "tts-netvox-r718wb-p-1": ("native", "undecoded", "a configuration report"),
    "tts-tektelic-clover-p-1": ("native", "undecoded", "a soil probe"),
    "cs-event-up": ("native", "undecoded", "bytes of a test device"),
    "cs-event-join": ("native", "heartbeat", "an event without a reading"),
    "cs-event-log": ("native", "heartbeat", "an event without a reading"),
    "tts-docs-mqtt-up": ("native", "undecoded", "bytes of a test device"),
    "tts-docs-mqtt-join": ("native", "heartbeat", "an event without a reading"),
    "tts-docs-simulated": ("native", "simulated", "a simulated uplink"),
    "gw-tts-aws-iot-wrapped": ("native", "heartbeat", "a motion sensor, wrapped by AWS IoT"),
}
# the battery in a ChirpStack status event is the server's own word and needs no device profile
STATUS: Final = {"cs-event-status": {"battery_pct": 88.3}}

Send = Callable[[str, Any, str, str], IngestWindow]


@pytest.fixture
def send(fleet: Callable[..., Decoder]) -> Send:
    def run(topic: str, document: Any, profile: str, sensor: str) -> IngestWindow:
        decoder = fleet(Sensor(sensor, "gi", profile=profile))
        return decoder.decode([RawMessage(topic, json.dumps(document).encode(), NOW)])

    return run


def wrapped(document: Any) -> list[tuple[str, dict[str, Any]]]:
    """A codec's output as each network server passes it on."""
    chirpstack = {"deviceInfo": {"devEui": EUI}, "fCnt": 7, "fPort": 1, "data": "qg==", "object": document}
    uplink = {"f_port": 1, "f_cnt": 7, "frm_payload": "qg==", "decoded_payload": document}
    things = {"end_device_ids": {"device_id": "trap-7", "dev_eui": EUI.upper()}, "uplink_message": uplink}
    return [
        (f"application/a/device/{EUI}/event/up", chirpstack),
        ("v3/grease@acme/devices/trap-7/up", things),
    ]


def route(line: dict[str, Any]) -> tuple[str, str]:
    """The topic a line came on, or would have, and its sensor."""
    payload = line["payload"]
    if line["kind"] == "tts":
        ids = payload["end_device_ids"]
        topic = line["topic"] or f"v3/app@tenant/devices/{ids['device_id']}/up"
        return topic, ids.get("dev_eui", ids["device_id"]).lower()
    if line["kind"] == "gateway":
        return line["topic"], payload["payload"]["end_device_ids"]["dev_eui"]
    eui = payload.get("deviceInfo", {}).get("devEui", EUI).lower()
    if "devEUI" in payload:  # version 3 has it in base64
        eui = base64.b64decode(payload["devEUI"]).hex()
    return line["topic"] or f"application/a/device/{eui}/event/up", eui


def codec_output(line: dict[str, Any]) -> Any:
    """What the line's source says the bytes decode to, in the shape of its codec."""
    expected = line["expected"]
    if "telemetry" not in expected:
        return expected.get("data", expected)
    values = expected["telemetry"][0]["values"]
    if line["vendor"] == "decentlab":  # ThingsBoard's copy is flat, the maker's codec is not
        return {name: {"value": value} for name, value in values.items()}
    return values


def with_object(line: dict[str, Any]) -> Any:
    """The real envelope with the decoded object its network server would have put there."""
    document = copy.deepcopy(line["payload"])
    if line["kind"] == "tts":
        document["uplink_message"]["decoded_payload"] = codec_output(line)
    else:
        document["object"] = codec_output(line)
    return document


def only(window: IngestWindow) -> str | dict[str, float]:
    """The one outcome of one message: its values, a reason of quarantine, or heartbeat."""
    assert len(window.items) + len(window.quarantined) + window.heartbeats == 1
    if window.heartbeats:
        return "heartbeat"
    return window.quarantined[0].reason if window.quarantined else dict(window.items[0].values)


def test_every_line_is_accounted_for_and_may_be_copied() -> None:
    lists = (READINGS.keys(), NO_READING.keys(), STATUS.keys())
    assert sum(map(len, lists)) == len(LINES)
    assert set().union(*lists) == LINES.keys()
    assert {line["license"] for line in LINES.values()} == {"MIT", "Apache-2.0"}
    assert all(line["source"] for line in LINES.values())


@pytest.mark.parametrize("case", sorted(READINGS))
def test_the_stated_values_in_si(send: Send, case: str) -> None:
    line, (profile, values) = LINES[case], READINGS[case]
    if line["kind"] == "lorawan":
        for topic, document in wrapped(codec_output(line)):
            assert only(send(topic, document, profile, EUI)) == pytest.approx(values, rel=1e-9)
        return
    topic, sensor = route(line)
    window = send(topic, with_object(line), profile, sensor)
    assert only(window) == pytest.approx(values, rel=1e-9)
    assert (window.items[0].sensor, window.items[0].flags) == (sensor, 0)
    as_sent = only(send(topic, line["payload"], profile, sensor))
    sent_decoded = "decoded_payload" in line["payload"].get("uplink_message", {})
    assert as_sent == (pytest.approx(values, rel=1e-9) if sent_decoded else "undecoded")


@pytest.mark.parametrize("case", sorted(NO_READING))
def test_what_gives_no_reading_and_what_becomes_of_it(send: Send, case: str) -> None:
    line, (profile, outcome, _) = LINES[case], NO_READING[case]
    if line["kind"] == "lorawan":
        outcomes = [only(send(topic, doc, profile, EUI)) for topic, doc in wrapped(codec_output(line))]
        assert outcomes == [outcome, outcome]
        return
    topic, sensor = route(line)
    assert only(send(topic, line["payload"], profile, sensor)) == outcome


def test_a_server_tells_the_battery(send: Send) -> None:
    (case,) = STATUS
    topic, sensor = route(LINES[case])
    assert only(send(topic, LINES[case]["payload"], "native", sensor)) == STATUS[case]


@pytest.mark.parametrize(
    ("case", "time_us", "seq"),
    [
        ("cs-milesight-em500-udl-p", 1_684_741_625_404_859, 4),  # 2023-05-22T07:47:05.404859Z
        ("cs-decentlab-dl-pr21-p", 1_731_243_110_000_000, 20),  # 2024-11-10T12:51:50Z
        ("tts-decentlab-dl-pr21-p", 1_580_982_365_234_172, 101),  # 2020-02-06T09:46:05.234172599Z
        ("tts-docs-starter-kit", 1_744_804_453_787_593, 14),  # 2025-04-16T11:54:13.787593298Z
    ],
)
def test_when_it_was_says_the_envelope(send: Send, case: str, time_us: int, seq: int) -> None:
    topic, sensor = route(LINES[case])
    (item,) = send(topic, with_object(LINES[case]), READINGS[case][0], sensor).items
    assert (item.time_us, item.seq) == (time_us, seq)


# Our own messages in the shape of devices whose sources state no licence, from devices that are not in the fleet.
@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        (
            "tele/trap/SENSOR",
            '{"Time":"2026-03-01T12:00:00","VL53L0X":{"Distance":318},"TempUnit":"C"}',
            "unknown_sensor",
        ),
        ("tele/trap/LWT", "Online", "unknown_sensor"),
        ("cellar/sensor/trap_level/state", "nan", "unknown_sensor"),
        ("cellar/sensor/trap_level/state", "41.5", "unknown_sensor"),
        ("zigbee2mqtt/0x00124b0000000001", '{"battery":"80.00","water_leak":false}', "unknown_sensor"),
        ("spBv1.0/kitchens/STATE/host", "ONLINE", "topic"),
        ("trap/senml", '[{"bn":"urn:dev:trap:","n":"temp","u":"Cel","v":23.4}]', "topic"),
    ],
)
def test_other_families_are_kept_whole_in_quarantine(
    fleet: Callable[..., Decoder], topic: str, payload: str, reason: str
) -> None:
    window = fleet(Sensor(EUI, "gi")).decode([RawMessage(topic, payload.encode(), NOW)])
    assert only(window) == reason
    assert window.quarantined[0].payload == payload.encode()
