"""kill -9 of the service at a hundred random moments of a load, over three brokers."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import numpy as np
import pytest
from brokers import Broker
from chaos import Rig

SEED = 20_261_201


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("embedded", 60),
        pytest.param("mosquitto", 25, marks=pytest.mark.mosquitto),
        pytest.param("rabbitmq", 15, marks=pytest.mark.rabbitmq),
    ],
)
def test_kill_9_at_random_moments_of_a_load(
    name: str, kills: int, make_broker: Callable[[str], Broker], make_rig: Callable[..., Rig]
) -> None:
    print(f"seed {SEED}, {kills} kills over {name}")  # noqa: T201 - a failure is drawn again by it
    chance = np.random.default_rng([SEED, kills])
    rig = make_rig(make_broker(name).port)
    service = rig.service
    service.start()
    service.wait_ready()  # the session exists: from now on the broker keeps what is not acknowledged
    load = rig.load(400_000, 400, limit_s=850.0)  # longer than the kills take
    progress = 0
    for _ in range(kills):
        # one in three dies while it starts or takes up its session, the others in the midst of the load
        if chance.random() < 2 / 3:
            service.wait_ready()
            progress += rig.stored() > 0
        time.sleep(float(chance.uniform(0.0, 1.0)))  # the random moment itself
        assert service.alive(), service.log[-3000:]  # nothing but the kill has ended it
        service.end(signal.SIGKILL)
        service.start(wait=False)
    assert load.running(), "the load ended before the kills did"
    load.end(now=True)
    service.wait_ready()
    outcomes = rig.check()
    print(dict(outcomes))  # noqa: T201
