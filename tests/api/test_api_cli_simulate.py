"""`quarterline simulate`: a scenario file written down, and the same city over a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest

LIMIT_S = 60.0
SMALL = """
[habits]
levels = [0.01, 0.02]
paper = 1.0

[faults.retained]
share = 1.0
times_a_year = 365
size = [48, 48]
"""
FILES = ("fleet.toml", "messages.jsonl", "events.jsonl", "truth.jsonl")


def quarterline(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "small.toml"
    file.write_text("seed = 4\ninterceptors = 3\ndays = 2\n" + SMALL)
    return str(file)


def test_a_scenario_file_is_written_down_and_options_win_over_it(scenario: str, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    done = quarterline("simulate", "--scenario", scenario, "--out", str(first))
    assert (done.returncode, done.stderr) == (0, "")
    assert all(str(first / name) in done.stdout for name in FILES)
    assert {line["type"] for line in lines(first / "truth.jsonl")} >= {
        "sensor",
        "depths",
        "fault",
        "pump_out",
    }
    assert [line for line in lines(first / "messages.jsonl") if line.get("retain")]
    quarterline(
        "simulate", "--scenario", scenario, "--out", str(second), "--interceptors", "2", "--days", "1"
    )
    assert (second / "fleet.toml").read_text().count("[[interceptors]]") == 2
    assert sum(line["type"] == "depths" for line in lines(second / "truth.jsonl")) == 2
    names = quarterline("simulate", "--list").stdout.split()
    assert {"clean", "mixed", "fault:late_batch", "principle:radar"} <= set(names)


@pytest.mark.slow
def test_what_is_published_is_what_would_be_written(
    mosquitto_broker: Callable[..., Any], scenario: str, tmp_path: Path
) -> None:
    """Messages in their order, truth, papers and all; a retained copy goes out with its mark."""
    written, live = tmp_path / "written", tmp_path / "live"
    quarterline("simulate", "--scenario", scenario, "--out", str(written))
    broker = mosquitto_broker(["max_queued_messages 0"])
    heard: list[tuple[str, Any]] = []
    more, ready = threading.Condition(), threading.Event()

    def hear(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        with more:
            heard.append((message.topic, json.loads(message.payload)))
            more.notify_all()

    ear = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="ear")
    ear.on_message = hear
    ear.on_subscribe = lambda *_: ready.set()
    ear.connect("127.0.0.1", broker.port)
    ear.subscribe("quarterline/#", qos=1)
    ear.loop_start()
    assert ready.wait(LIMIT_S)
    done = quarterline(
        "simulate", "--scenario", scenario, "--out", str(live), "--speed", "60000",
        "--publish", f"127.0.0.1:{broker.port}",
    )  # fmt: skip
    expected = [(line["topic"], line["payload"]) for line in lines(written / "messages.jsonl")]
    with more:
        assert more.wait_for(lambda: len(heard) >= len(expected), LIMIT_S), len(heard)
    ear.disconnect()
    ear.loop_stop()
    assert done.returncode == 0
    assert "published 2.00 of 2 days" in done.stdout
    assert "[clock]" in done.stderr
    assert heard == expected
    for name in ("fleet.toml", "events.jsonl", "truth.jsonl"):
        assert (live / name).read_bytes() == (written / name).read_bytes(), name
    assert lines(live / "events.jsonl")
