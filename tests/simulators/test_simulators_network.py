"""The way to the broker: each fault's effect by number, and on nobody else."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from simulators.faults import Fault, FaultKind, Schedule
from simulators.network import Message, Network, Quality

START_S = 1_788_246_000.0
TOPICS = ["quarterline/v1/a/readings", "quarterline/v1/b/readings"]
HOUR = 3600.0
FLAWLESS = Quality(lost=0.0, twice=0.0)


def run(
    kind: FaultKind | None,
    first_h: float = 0.0,
    last_h: float = 0.0,
    size: float = 1.0,
    *,
    hours: int = 48,
    quality: Quality = FLAWLESS,
) -> list[Message]:
    """Two sensors speak every quarter of an hour; the first suffers from ``kind`` for some hours."""
    faults = (
        () if kind is None else (Fault(kind, 0, START_S + first_h * HOUR, START_S + last_h * HOUR, size),)
    )
    network = Network(quality, np.random.default_rng(3), TOPICS, [0, 1], Schedule(faults, 2))
    out: list[Message] = []
    for step in range(hours * 4):
        now_us = int((START_S + step * 900) * 1e6)
        sent = np.array([now_us + 60_000_000, now_us + 300_000_000])
        network.carry(sent, TOPICS, [json.dumps({"seq": step}).encode()] * 2)
        out += network.deliver(now_us + 900_000_000)
    return out


def of(messages: list[Message], topic: int) -> list[Message]:
    return [message for message in messages if message.topic == TOPICS[topic]]


def numbers(messages: list[Message]) -> list[int]:
    return [json.loads(message.payload)["seq"] for message in messages]


def test_delays_are_a_fifth_of_a_second_and_then_exponential() -> None:
    found = of(run(None, hours=400), 0)
    delay = [(one.received_us / 1e6 - START_S) % 900 - 60 for one in found]
    assert len(found) == 1600
    assert min(delay) >= 0.2
    assert np.mean(delay) == pytest.approx(0.2 + 0.7, abs=0.06)
    assert np.std(delay) == pytest.approx(0.7, abs=0.08)


def test_silence_loses_everything_of_its_interval() -> None:
    found = numbers(of(run(FaultKind.SILENCE, 10, 20), 0))
    assert found == [*range(40), *range(80, 192)]


def test_a_drop_out_loses_its_share() -> None:
    found = numbers(of(run(FaultKind.DROP_OUT, 0, 400, 0.6, hours=400), 0))
    assert 1 - len(found) / 1600 == pytest.approx(0.6, abs=0.05)


def test_a_late_batch_comes_at_once_after_the_fault_and_out_of_order() -> None:
    found = of(run(FaultKind.LATE_BATCH, 10, 20), 0)
    batch = [one for one in found if 40 <= json.loads(one.payload)["seq"] < 80]
    arrived = [one.received_us / 1e6 - START_S for one in batch]
    assert sorted(numbers(batch)) == list(range(40, 80))  # nothing is lost
    assert numbers(batch) != sorted(numbers(batch))
    assert min(arrived) >= 20 * HOUR
    assert max(arrived) < 20 * HOUR + 900 + 20
    assert numbers(found)[:40] == list(range(40))


def test_duplicates_are_the_same_to_the_byte_within_two_minutes() -> None:
    found = of(run(FaultKind.DUPLICATES, 10, 20, 1.0), 0)
    counts = Counter(numbers(found))
    assert {seq for seq, count in counts.items() if count == 2} == set(range(40, 80))
    for seq in range(40, 80):
        first, second = (one for one in found if json.loads(one.payload)["seq"] == seq)
        assert first.payload == second.payload
        assert 2.0 <= (second.received_us - first.received_us) / 1e6 <= 120.0


def test_retained_copies_are_marked_and_repeat_the_message_before() -> None:
    found = of(run(FaultKind.RETAINED, 0, 480, 24.0, hours=480), 0)
    copies = [at for at, one in enumerate(found) if one.retain]
    assert len(copies) / 20 == pytest.approx(24, rel=0.15)  # a day
    assert [numbers(found[at - 1 : at + 1]) for at in copies] == [
        [seq + 1, seq] for seq in numbers([found[at] for at in copies])
    ]
    assert sorted(numbers([one for one in found if not one.retain])) == list(range(1920))


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.SILENCE,
        FaultKind.DROP_OUT,
        FaultKind.LATE_BATCH,
        FaultKind.DUPLICATES,
        FaultKind.RETAINED,
    ],
)
def test_a_fault_of_one_sensor_changes_no_byte_of_another(kind: FaultKind) -> None:
    usual = Quality(lost=0.05, twice=0.05)
    without, struck = run(None, quality=usual), run(kind, 5, 40, 0.8, quality=usual)
    assert of(struck, 1) == of(without, 1)
    assert of(struck, 0) != of(without, 0)


def test_a_fault_that_is_over_leaves_no_trace() -> None:
    usual = Quality(lost=0.05, twice=0.05)
    later = START_S + 24 * HOUR
    for kind in (FaultKind.SILENCE, FaultKind.DROP_OUT, FaultKind.DUPLICATES):
        without, struck = run(None, quality=usual), run(kind, 5, 20, 0.8, quality=usual)
        assert [m for m in struck if m.received_us / 1e6 > later] == [
            m for m in without if m.received_us / 1e6 > later
        ]
