"""A decoder over a small fleet, as the service builds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile, load_profiles
from store.records import IngestWindow, Item, Quarantined, Sensor

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.fixture(scope="session")
def profiles() -> dict[str, DeviceProfile]:
    return load_profiles()


@pytest.fixture
def now_us() -> int:
    return NOW_US


@pytest.fixture
def fleet(profiles: dict[str, DeviceProfile]) -> Callable[..., Decoder]:
    def build(*sensors: Sensor, **more: DeviceProfile) -> Decoder:
        return Decoder({one.id: one for one in sensors}, {**profiles, **more})

    return build


@pytest.fixture
def decode(fleet: Callable[..., Decoder]) -> Callable[..., IngestWindow]:
    """Decode native payloads of the sensor ``probe-1`` received at noon, one message each."""
    decoder = fleet(Sensor("probe-1", "gi-1", interval_s=600.0))

    def run(
        *payloads: bytes | str, topic: str = "quarterline/v1/probe-1/readings", **kinds: bool
    ) -> IngestWindow:
        messages = [
            RawMessage(topic, one.encode() if isinstance(one, str) else one, NOW_US, **kinds)
            for one in payloads
        ]
        return decoder.decode(messages)

    return run


@pytest.fixture
def item(decode: Callable[..., IngestWindow]) -> Callable[..., Item]:
    """The one item a payload gives."""

    def run(payload: bytes | str, **kinds: bool) -> Item:
        window = decode(payload, **kinds)
        assert window.quarantined == ()
        (only,) = window.items
        return only

    return run


@pytest.fixture
def refused(decode: Callable[..., IngestWindow]) -> Callable[..., Quarantined]:
    """The one quarantined item a payload gives."""

    def run(payload: bytes | str, **kinds: str) -> Quarantined:
        window = decode(payload, **kinds)
        assert window.items == ()
        assert window.heartbeats == 0
        (only,) = window.quarantined
        return only

    return run
