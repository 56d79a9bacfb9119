"""The benchmark itself runs to its end and counts what it says; how fast is no test's business."""

from __future__ import annotations

import sys

import pytest

from ingest import bench_memory
from ingest.bench import bench_ingest, in_words
from ingest.bench_payload import SHAPES


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
