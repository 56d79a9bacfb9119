"""The broker dies and comes back under load, or its link is cut, falls silent or turns slow."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from brokers import TRAITS, Broker
from chaos import Rig, Sent
from processes import until
from proxy import Proxy

BROKERS = [
    "embedded",
    pytest.param("mosquitto", marks=pytest.mark.mosquitto),
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
]
RATE = 200  # readings a second over all sensors
UNWRITTEN_S = 7.0  # brokers.MOSQUITTO writes every 5 s; a margin for a busy machine


def part(rig: Rig, seconds: float) -> None:
    """Let the load go on for a while: measured by what the broker has acknowledged."""
    goal = len(rig.sent()) + int(RATE * seconds)
    until(lambda: len(rig.sent()) >= goal, f"{goal} acknowledged")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_that_dies_under_load_is_taken_up_again(
    name: str, make_broker: Callable[[str], Broker], make_rig: Callable[..., Rig]
) -> None:
    broker = make_broker(name)
    rig = make_rig(broker.port)
    rig.service.start()
    rig.service.wait_ready()
    load = rig.load(100_000, RATE)

    def without_it(end: Callable[[], None]) -> tuple[float, float, float]:
        part(rig, 1)
        end()
        died = time.monotonic()
        until(lambda: not rig.service.ready(), "it says that its broker is gone")
        assert list(rig.service.readiness()[1]) == ["mqtt"]
        broker.start()
        back = time.monotonic()
        rig.service.wait_ready(90)
        return died, back, time.monotonic()

    without_it(broker.stop)
    part(rig, 1)
    rig.wait_caught_up()  # an orderly end takes nothing along
    died, back, taken_up = without_it(broker.kill)
    part(rig, 1)
    load.end(now=True)

    def unwritten(one: Sent) -> bool:
        """Acknowledged by a Mosquitto that had not yet written it down, or had forgotten the session."""
        return died - UNWRITTEN_S < one.moment_s < died or back < one.moment_s < taken_up

    rig.check(lost=lambda one: not TRAITS[name].keeps_over_kill and unwritten(one))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BROKERS)
def test_a_link_that_fails_costs_no_reading(
    name: str,
    make_broker: Callable[[str], Broker],
    make_proxy: Callable[[int], Proxy],
    make_rig: Callable[..., Rig],
) -> None:
    broker = make_broker(name)
    proxy = make_proxy(broker.port)
    rig = make_rig(broker.port, through=proxy.port, mqtt="keepalive_s = 5")
    rig.service.start()
    rig.service.wait_ready()
    load = rig.load(100_000, RATE)
    part(rig, 1)

    # slow is not gone: one connection throughout
    before = proxy.taken
    proxy.delay(0.3)
    part(rig, 3)
    proxy.heal()
    rig.wait_caught_up()
    assert rig.service.ready()
    assert proxy.taken == before

    for _ in range(2):  # cut, and again in the midst of what comes anew
        proxy.cut()
        until(lambda: not rig.service.ready(), "it says that the link is gone")
        proxy.heal()
        rig.service.wait_ready()
        part(rig, 0.2)
    rig.wait_caught_up()

    proxy.hold()  # half-open: nobody says that anything has ended
    until(lambda: not rig.service.ready(), "it notices that nothing comes any more")
    part(rig, 1)  # the sensors go on: they have another way to the broker
    proxy.heal(forget=True)
    rig.service.wait_ready()
    part(rig, 1)
    load.end(now=True)
    rig.check()
