"""The wall clock of a running service is stepped back an hour and on by two, under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from brokers import Broker
from chaos import Rig
from load import sensor_name
from processes import until

from store import open_store

RATE = 200


def step(file: Path, offset: str) -> None:
    """All of the new offset or the old one, whenever it is read."""
    fresh = file.with_suffix(".new")
    fresh.write_text(offset + "\n")
    fresh.replace(file)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_clock_that_is_stepped_costs_no_reading(
    make_broker: Callable[[str], Broker],
    make_rig: Callable[..., Rig],
    faketime_library: str,
    tmp_path: Path,
) -> None:
    offset = tmp_path / "offset"
    step(offset, "+0")
    # only the service's wall clock: what measures patience is monotonic, here as on a machine that NTP corrects
    words = ("LD_PRELOAD=" + faketime_library, f"FAKETIME_TIMESTAMP_FILE={offset}", "FAKETIME_NO_CACHE=1",
             "FAKETIME_DONT_FAKE_MONOTONIC=1")  # fmt: skip
    rig = make_rig(make_broker("embedded").port, before=("env", *words))
    service = rig.service
    service.start()
    service.wait_ready()
    load = rig.load(100_000, RATE)
    until(lambda: rig.stored() > RATE, "the first readings")
    for jump in ("-1h", "+2h", "-10d", "+0"):
        step(offset, jump)
        goal = rig.stored() + RATE
        until(lambda goal=goal: rig.stored() >= goal, f"readings after {jump}", 30)  # type: ignore[misc]
        rig.wait_caught_up()
        assert service.alive()
        assert service.ready()
    load.end(now=True)
    rig.check()
    store = open_store(service.data)
    received = [
        row.received_us
        for row in store.history.readings(
            [sensor_name(n) for n in range(rig.sensors)], since_us=0, until_us=2**62
        )
    ]
    store.close()
    # the clock was stepped indeed: on by two hours; the time of receipt never goes back
    assert max(received) - min(received) > 7_000_000_000
