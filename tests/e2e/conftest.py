"""A service, a broker and a sensor's client for the tests that end or starve them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Publisher, Service, with_fleet

from ingest.broker import EmbeddedBroker


@pytest.fixture
def make_service(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[..., Service]]:
    """A service of one sensor, d-1, not yet started."""
    made: list[Service] = []

    def make(mqtt_port: int, data: Path = tmp_path / "data") -> Service:
        with_fleet(data)
        made.append(Service(tmp_path, data, mqtt_port, free_port()))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def embedded(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "broker", free_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def publisher() -> Iterator[Callable[[int], Publisher]]:
    opened: list[Publisher] = []

    def make(port: int) -> Publisher:
        opened.append(Publisher(port))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
