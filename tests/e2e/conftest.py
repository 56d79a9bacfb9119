"""A service, a broker and a sensor's client for the tests that end or starve them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, Embedded
from chaos import Rig
from chaos import make_rig as rig
from processes import Publisher, Service, with_fleet
from proxy import Proxy
from rabbitmq import RabbitBroker

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


@pytest.fixture
def make_broker(
    request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int]
) -> Iterator[Callable[[str], Broker]]:
    """Start a broker by its name in ``brokers.TRAITS``; a test of one that is not embedded carries its marker."""
    embedded: list[Embedded] = []

    def make(name: str) -> Broker:
        if name == "embedded":
            embedded.append(Embedded(tmp_path / "embedded", free_port()))
            embedded[-1].start()
            return embedded[-1]
        start = request.getfixturevalue(f"{name}_broker")
        return start(MOSQUITTO) if name == "mosquitto" else start()  # type: ignore[no-any-return]

    yield make
    for one in embedded:
        one.stop()


@pytest.fixture
def make_rig(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[..., Rig]]:
    """A service and loads for a broker, not yet started: ``make_rig(broker.port, …)`` as ``chaos.make_rig``."""
    made: list[Rig] = []

    def make(broker_port: int, **more: Any) -> Rig:
        made.append(rig(tmp_path / f"rig-{len(made)}", broker_port, free_port(), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make_proxy() -> Iterator[Callable[[int], Proxy]]:
    """A proxy before a broker's port."""
    made: list[Proxy] = []

    def make(port: int) -> Proxy:
        made.append(Proxy(port))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def rabbitmq_broker(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[Callable[[], RabbitBroker]]:
    """Start a RabbitMQ that speaks MQTT on a loopback port; all are ended with the test."""
    started: list[RabbitBroker] = []

    def start() -> RabbitBroker:
        broker = RabbitBroker(tmp_path_factory.mktemp("rabbitmq"), free_port)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.close()
