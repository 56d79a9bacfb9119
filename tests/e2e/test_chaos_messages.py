"""Bad, old, huge and contested messages in the midst of a load that must not suffer from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from brokers import Broker
from chaos import Rig
from processes import Publisher, Service, until

BROKERS = [
    "embedded",
    pytest.param("mosquitto", marks=pytest.mark.mosquitto),
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
]
WINDOW = 200
HUGE = b"[" + b"0" * 50_000_000  # 50 MB


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BROKERS)
def test_junk_old_news_and_a_rival_do_not_touch_the_load(
    name: str,
    make_broker: Callable[[str], Broker],
    make_rig: Callable[..., Rig],
    publisher: Callable[[int], Publisher],
) -> None:
    broker = make_broker(name)
    # retained topics are there before the service comes; RabbitMQ's plugin replays none to a filter with "+"
    retained = 10_000 if name != "rabbitmq" else 100
    loud = publisher(broker.port)
    for number in range(retained):
        loud.begin(b'{"level": 95}', topic=f"quarterline/v1/old-{number}/readings", retain=True)
    loud.finish()
    rig = make_rig(broker.port, mqtt=f"window = {WINDOW}")
    service = rig.service
    service.start()
    service.wait_ready()
    load = rig.load(100_000, 200)
    if name != "rabbitmq":
        until(lambda: service.counters()["retained"] >= retained, "all that was retained", 60)
    until(lambda: rig.stored() > 0, "live readings beside it", 30)

    # poison: three windows of junk, then the load goes on
    junk = 3 * WINDOW
    loud.send(*[b"not json"] * junk, topic="quarterline/v1/d-00/readings")
    until(lambda: service.counters()["quarantined"] == junk, "all junk put away")
    rig.wait_caught_up()

    size = 0
    if name == "mosquitto":  # NATS takes 1 MB at most; RabbitMQ is asked for bounded memory itself
        before = peak_kb(service)
        loud.send(HUGE, topic="quarterline/v1/d-01/readings")
        until(lambda: service.counters()["quarantined"] == junk + 1, "the huge one put away")
        assert peak_kb(service) - before < 60_000  # its head is kept, the rest passes by
        size = 1
        rig.wait_caught_up()

    # another program takes the service's own client id, for a while
    rival = take_over(broker.port)
    until(lambda: not service.ready(), "it says that its connection is taken")
    rival.disconnect()
    rival.loop_stop()
    service.wait_ready(120)
    load.end(now=True)
    rig.check(quarantined=junk + size, again=name == "rabbitmq")


def take_over(port: int) -> paho.Client:
    """A second client of the service's own id, which acknowledges nothing and does not come back."""
    rival = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id="quarterline", clean_session=False, protocol=paho.MQTTv311,
        manual_ack=True, reconnect_on_failure=False,
    )  # fmt: skip
    rival.connect("127.0.0.1", port)
    rival.loop_start()
    return rival


def peak_kb(service: Service) -> int:
    assert service.child is not None
    status = Path(f"/proc/{service.child.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])
