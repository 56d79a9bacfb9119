"""The benchmark itself runs to its end and counts what it says; how fast is no test's business."""

from __future__ import annotations

import sys

import pytest

from ingest.bench import bench_ingest, in_words


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
