"""Limits of one sensor: how fast it may send, and how large a message may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.pace import Limits, Pace
from ingest.profile import DeviceProfile
from ingest.refused import Refused
from store.records import Sensor

T0_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
S_US = 1_000_000


def admitted(limits: Limits, times_us: list[int]) -> list[bool]:
    """What a plain token bucket of whole messages says of one sensor: the specification."""
    tokens, last, out = float(limits.sensor_burst), None, []
    for at in times_us:
        if last is not None:
            tokens = min(limits.sensor_burst, tokens + (at - last) / 1e6 * limits.sensor_per_s)
        last = at
        out.append(tokens >= 1 - 1e-6)
        if out[-1]:
            tokens -= 1
    return out


def takes(pace: Pace, window: dict[str, int], at: int) -> bool:
    try:
        pace.take(window, "a", at)
    except Refused:
        return False
    return True


@given(st.lists(st.integers(0, 3000), max_size=60), st.sampled_from([(1.0, 3), (0.5, 1), (4.0, 10)]))
def test_it_is_a_token_bucket_on_the_receipt_times(steps_ms: list[int], figures: tuple[float, int]) -> None:
    limits = Limits(sensor_per_s=figures[0], sensor_burst=figures[1])
    times, at = [], T0_US
    for step in steps_ms:
        at += step * 1000
        times.append(at)
    pace, window = Pace(limits), dict[str, int]()
    assert [takes(pace, window, at) for at in times] == admitted(limits, times)


@pytest.fixture
def paced(profiles: dict[str, DeviceProfile]) -> Callable[..., Decoder]:
    def build(pace: Pace | None = None, **figures: float) -> Decoder:
        limits = Limits(**figures)  # type: ignore[arg-type]
        sensors = {name: Sensor(name, "gi-1") for name in ("loud", "calm")}
        return Decoder(sensors, profiles, limits=limits, pace=pace or Pace(limits))

    return build


def said(sensor: str, at_us: int, payload: bytes = b'{"surface_mm":1000}') -> RawMessage:
    return RawMessage(f"quarterline/v1/{sensor}/readings", payload, at_us)


def test_one_sensor_does_not_use_up_what_another_may_send(paced: Callable[..., Decoder]) -> None:
    decoder = paced(sensor_per_s=1, sensor_burst=5)
    messages = [said("loud", T0_US + n * 1000) for n in range(100)]
    messages[50:50] = [said("calm", T0_US + 49_000 + n) for n in range(5)]
    window = decoder.decode(messages)
    assert [item.sensor for item in window.items] == ["loud"] * 5 + ["calm"] * 5
    assert {one.reason for one in window.quarantined} == {"rate"}
    assert len(window.quarantined) == 95
    assert window.quarantined[0].detail == (
        "more than 5 messages at once and 1 a second came from this sensor; let it send less often, or raise "
        "limits.sensor_per_s and limits.sensor_burst"
    )
    assert dict(window.contacts)["loud"] == T0_US + 99_000  # it spoke, all the same


def test_a_window_that_was_not_kept_took_nothing(paced: Callable[..., Decoder]) -> None:
    pace = Pace(Limits(sensor_per_s=0.1, sensor_burst=3))
    decoder = paced(pace, sensor_per_s=0.1, sensor_burst=3)
    messages = [said("loud", T0_US + n) for n in range(3)]
    for _ in range(4):  # the store refuses, and the window is decoded again
        assert len(decoder.decode(messages).items) == 3
        pace.put_back(pace.keep(decoder.taken))
    pace.keep(decoder.taken)
    again = decoder.decode([said("loud", T0_US + 3)])
    assert [one.reason for one in again.quarantined] == ["rate"]
    later = decoder.decode([said("loud", T0_US + 11 * S_US)])
    assert len(later.items) == 1


def test_what_a_hasty_sensor_used_outlives_a_restart(paced: Callable[..., Decoder]) -> None:
    figures = {"sensor_per_s": 0.1, "sensor_burst": 3}
    window = paced(**figures).decode([said("loud", T0_US + n) for n in range(3)])
    assert window.paces == (("loud", T0_US + 30 * S_US),)
    pace = Pace(Limits(sensor_per_s=0.1, sensor_burst=3), dict(window.paces))
    again = paced(pace, **figures).decode([said("loud", T0_US + S_US)])
    assert [one.reason for one in again.quarantined] == ["rate"]


def test_an_ordinary_sensor_leaves_nothing_to_be_written(paced: Callable[..., Decoder]) -> None:
    assert paced().decode([said("calm", T0_US)]).paces == ()


def test_a_message_may_be_as_large_as_the_limit_says(paced: Callable[..., Decoder]) -> None:
    decoder = paced(message_bytes=1024)
    fits, over = b" " * 1005 + b'{"surface_mm":1000}', b" " * 1006 + b'{"surface_mm":1000}'
    assert len(decoder.decode([said("calm", T0_US, fits)]).items) == 1
    (found,) = decoder.decode([said("calm", T0_US, over)]).quarantined
    assert (found.reason, found.detail) == (
        "too_large",
        "payload: 1025 bytes, at most 1024 are taken; send smaller arrays",
    )


def test_of_a_message_that_passed_by_the_size_and_hash_of_the_whole_are_kept(
    paced: Callable[..., Decoder],
) -> None:
    huge = RawMessage("quarterline/v1/calm/readings", b"[" * 4096, T0_US, size=50_000_000, sha256="ab" * 32)
    (found,) = paced().decode([huge]).quarantined
    assert (found.reason, found.size, found.sha256) == ("too_large", 50_000_000, "ab" * 32)
    assert found.payload == b"[" * 4096
    assert not found.is_whole
