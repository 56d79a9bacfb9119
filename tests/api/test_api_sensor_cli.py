"""`quarterline sensor`: register, mistakes, and what the store alone knows of a sensor's messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import configured, refused, run

from api.faults import in_a_sentence, wrong_use
from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import load_profiles
from store import open_store
from store.records import Sensor


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configured(tmp_path)


def test_a_sensor_is_registered_once_and_mistakes_are_told_by_name(
    config: Path,
) -> None:
    more = ("--interceptor", "i", "--config", str(config))
    run("sensor", "add", "d-0001", *more)
    assert "is there already" in refused("sensor", "add", "D-0001", *more)
    assert "user name of another" in refused("sensor", "add", "quarterline", *more)
    assert "a/b" in refused("sensor", "add", "a/b", *more)
    run("sensor", "add", "a:b", *more)
    assert "has the user name 'a_b' of 'a:b'" in refused("sensor", "add", "A_b", *more)
    for odd in ("\udcff", "a\x1b", "../x"):
        assert "no id of a sensor" in refused("sensor", "check", odd, "--config", str(config))
    wrong = refused("sensor", "add", "d-9", "--interceptor", "nowhere", "--config", str(config))
    assert "interceptor: expected the id of one of the interceptors, found 'nowhere'" in wrong
    assert "no sensor 'd-9'" in refused("sensor", "password", "d-9", "--config", str(config))
    shown = run("sensor", "add", "E-7", "--mount-height-mm", "1500", *more).stdout
    assert "topic     quarterline/v1/e-7/readings\n" in shown
    assert "this one's address in place of 127.0.0.1" in shown
    (sensor,) = [one for one in sensors(config) if one.id == "e-7"]
    assert (sensor.interval_s, sensor.device) == (900.0, {"mount_height_m": 1.5})


def sensors(config: Path) -> list[Sensor]:
    store = open_store(config.parent / "data")
    try:
        return store.registry.sensors()
    finally:
        store.close()


def test_check_without_a_running_service_says_what_the_store_knows(
    config: Path, free_port: Callable[[], int]
) -> None:
    config.write_text(f"{config.read_text()}[http]\nport = {free_port()}\n")
    run("sensor", "add", "d-1", "--interceptor", "i", "--config", str(config))
    said = run("sensor", "check", "D-1", "--config", str(config)).stdout
    assert said.splitlines()[0] == "d-1 in i, last heard never"
    assert "publish to quarterline/v1/d-1/readings" in said

    decoder = Decoder({"d-1": Sensor("d-1", "i")}, load_profiles())
    at = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
    topic = "quarterline/v1/{}/readings"
    store = open_store(config.parent / "data")
    store.history.commit(
        decoder.decode(
            [
                RawMessage(topic.format("d-1"), b'{"surface_mm": 1220}', at),
                RawMessage(topic.format("d-1"), b'{"surface": 1220}', at + 1),
                RawMessage(topic.format("x-9"), b'{"surface_mm": 1220}', at + 2),
            ]
        )
    )
    store.close()
    said = run("sensor", "check", "d-1", "--config", str(config)).stdout
    assert "surface_m = 1.22" in said
    assert "REFUSED (no_unit): surface: has no unit; name it surface_mm" in said
    strange = run("sensor", "check", "x-9", "--json", "--config", str(config)).stdout
    found = json.loads(strange)
    assert (found["known"], found["messages"][0]["parts"][0]["reason"]) == (False, "unknown_sensor")
    followed = run(
        "sensor", "check", "d-1", "--follow", "--stop-after-s", "0", "--config", str(config)
    ).stdout
    assert followed.count("12:00:00") == 4  # heard; two messages, each once; the time of the stored one


def test_no_password_of_the_service_is_made_where_its_file_cannot_be_written(config: Path) -> None:
    taken = config.parent / "taken"
    taken.write_text("mine")
    more = ("--config", str(config))
    assert "File exists" in refused("broker-config", "mosquitto", "--out", str(taken), *more)
    assert "--host: expected text on one line" in refused(
        "broker-config", "mosquitto", "--host", "a\nb", *more
    )
    assert "--at: expected text on one line" in refused("broker-config", "emqx", "--at", "\udcff", *more)
    store = open_store(config.parent / "data")
    assert store.ledger.keys() == []
    store.close()
    assert 'password = "' in run("broker-config", "mosquitto", *more).stderr
    assert taken.read_text() == "mine"


def test_an_export_that_fails_leaves_the_earlier_file(config: Path) -> None:
    earlier = config.parent / "earlier.jsonl"
    earlier.write_text("mine")
    more = ("--out", str(earlier), "--config", str(config))
    assert "surrogates not allowed" in refused("quarantine", "export", "--sensor", "\udcff", *more)
    assert earlier.read_text() == "mine"


def test_bytes_that_are_no_text_are_a_wrong_use() -> None:
    error = UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")
    assert (wrong_use(error), in_a_sentence(error)) == (
        2,
        r"'\udcff': is not UTF-8 text; give the option in UTF-8",
    )
