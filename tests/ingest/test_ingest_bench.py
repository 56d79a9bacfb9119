"""The benchmark itself runs to its end and counts what it says; how fast is no test's business."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ingest import bench_memory
from ingest.bench import Result, bench_ingest, in_words
from ingest.bench_payload import SHAPES
from ingest.bench_telegraf import telegraf
from ingest.broker import BrokerError


@pytest.mark.mosquitto
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_both_drain_the_whole_queue(version: str) -> None:
    before = sys.getswitchinterval()
    said: list[str] = []
    result = bench_ingest(messages=1500, runs=1, version=version, window=200, progress=said.append)
    found = result.as_json()
    assert (found["messages"], found["window"], found["mqtt"]) == (1500, 200, version)
    assert len(found["bare_per_s"]) == len(found["ours_per_s"]) == len(said) == 1
    assert found["ratio"] == found["ours_per_s"][0] / found["bare_per_s"][0] > 0
    assert f"over MQTT {version}, window 200" in in_words(result)
    assert sys.getswitchinterval() == before


@pytest.mark.mosquitto
@pytest.mark.slow
@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"nine"}))
def test_each_shape_is_stored_whole(shape: str) -> None:
    # more than one message of a sensor; the benchmark itself refuses a run that stored fewer readings than were sent
    result = bench_ingest(messages=1200, runs=1, shape=SHAPES[shape], window=100)
    assert result.as_json()["shape"] == shape
    assert SHAPES[shape].title in in_words(result)


@pytest.mark.mosquitto
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_stays_flat_while_messages_pass() -> None:
    # the store's page cache (64 MB) fills within the first third; what leaked 100 bytes a message would be 20 MB after
    memory = bench_memory.bench_memory(messages=600_000)
    assert memory.messages == memory.samples[-1][0] == 600_000
    late = [size for passed, size in memory.samples if passed >= 400_000]
    assert max(late) - min(late) < 8_000_000
    assert "MB a million messages" in bench_memory.in_words(memory)


#: Does what the configuration asks of Telegraf: consumes by MQTT and writes a line a message. No Telegraf is in the
#: package sources of the test machines; that the real one takes this configuration is not shown by this.
STAND_IN = """\
import sys, tomllib
import paho.mqtt.client as paho
config = tomllib.load(open(sys.argv[sys.argv.index("--config") + 1], "rb"))
(mqtt,), (out,) = config["inputs"]["mqtt_consumer"], config["outputs"]["file"]
assert config["agent"]["metric_batch_size"] == mqtt["max_undelivered_messages"] == 100
assert (mqtt["persistent_session"], mqtt["qos"]) == (True, 1)
host, port = mqtt["servers"][0].removeprefix("tcp://").split(":")
file = open(out["files"][0], "a")
client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=mqtt["client_id"], clean_session=False)
client.on_message = lambda *_: (file.write("mqtt_consumer value=1\\n"), file.flush())
client.connect(host, int(port))
client.loop_forever()
"""


def stand_in(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "telegraf"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.mosquitto
def test_a_telegraf_on_path_drains_a_queue_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, STAND_IN, monkeypatch)
    result = bench_ingest(messages=1200, runs=1, window=100)
    (theirs,) = result.as_json()["telegraf_per_s"]
    assert theirs > 0
    assert f"ours by it {result.ours[0] / theirs:.2f}" in in_words(result)


@pytest.mark.mosquitto
def test_a_telegraf_that_ends_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "raise SystemExit('E! no such plugin')", monkeypatch)
    with pytest.raises(BrokerError, match="telegraf wrote 0 of 1000: E! no such plugin"):
        bench_ingest(messages=1000, runs=1, window=100)


def test_without_a_telegraf_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert telegraf() is None
    plain = Result(SHAPES["nine"], 1000, 100, "5", (1000.0,), (800.0,))
    assert plain.as_json()["telegraf_per_s"] == []
    assert "telegraf: not on PATH" in in_words(plain)
