"""The service's MQTT session over restarts: what the broker lost, what it must no longer send, when it is told anew."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import Publisher, Service, until

READING = b'{"surface_mm": 1000}'


def metric(service: Service, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", service._http.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def journal(data: Path, kind: str) -> list[dict[str, Any]]:
    with sqlite3.connect(f"file:{data}/quarterline.sqlite3?mode=ro", uri=True) as raw:
        rows = raw.execute("SELECT body FROM journal WHERE type = ? ORDER BY seq", (kind,)).fetchall()
    raw.close()
    return [json.loads(row[0]) for row in rows]


def remembered(data: Path) -> dict[str, Any]:
    with sqlite3.connect(f"file:{data}/quarterline.sqlite3?mode=ro", uri=True) as raw:
        row = raw.execute("SELECT value FROM meta WHERE name = 'mqtt_session'").fetchone()
    raw.close()
    found: dict[str, Any] = json.loads(row[0])
    return found


@pytest.mark.slow
@pytest.mark.mosquitto
def test_a_session_that_the_broker_lost_is_written_down_once(
    mosquitto_broker: Callable[..., Any],
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:
    broker = mosquitto_broker()  # without persistence: it forgets everything when it is killed
    service = make_service(broker.port)
    service.start()
    until(service.ready, "ready")
    until(lambda: remembered(service.data)["welcomed"], "the session is remembered")
    assert metric(service, "quarterline_possible_losses_total") == 0
    publisher(broker.port).send(READING)
    until(lambda: service.counters()["stored"] == 1, "stored")
    service.end(signal.SIGTERM)
    assert journal(service.data, "possible_loss") == []
    broker.kill()
    broker.start()
    service.start()
    until(service.ready, "ready again")
    until(lambda: metric(service, "quarterline_possible_losses_total") == 1, "the loss is counted")
    (loss,) = journal(service.data, "possible_loss")
    assert set(loss) == {"since", "until", "broker", "detail"}
    assert loss["since"] < loss["until"]
    assert "may be missing" in service._http.get("/readyz").json()["parts"]["mqtt"]["detail"]
    service.end(signal.SIGKILL)
    service.start()
    until(service.ready, "ready a third time")
    until(lambda: metric(service, "quarterline_mqtt_connections_total") == 1, "connected")
    assert metric(service, "quarterline_possible_losses_total") == 1


@pytest.mark.slow
@pytest.mark.mosquitto
def test_a_topic_taken_out_of_the_configuration_is_unsubscribed_even_after_a_kill(
    mosquitto_broker: Callable[..., Any],
    make_service: Callable[..., Service],
    publisher: Callable[[int], Publisher],
) -> None:
    broker = mosquitto_broker(["persistence true"])
    service = make_service(broker.port)
    config = service._config.read_text()
    service._config.write_text(
        config.replace("[http]", 'subscriptions = ["quarterline/v1/+/readings", "old/#"]\n[http]')
    )
    service.start()
    until(service.ready, "ready")
    sensor = publisher(broker.port)
    sensor.send(b"x", topic="old/1")
    until(lambda: service.counters()["quarantined"] == 1, "the old topic is subscribed")
    service.end(signal.SIGKILL)
    assert "old/#" in remembered(service.data)["topics"]
    service._config.write_text(
        config.replace("[http]", 'subscriptions = ["quarterline/v1/+/readings"]\n[http]')
    )
    service.start()
    until(lambda: remembered(service.data)["topics"] == ["quarterline/v1/+/readings"], "unsubscribed")
    sensor.send(b"y", topic="old/1")
    sensor.send(READING)
    until(lambda: service.counters()["stored"] == 1, "stored")
    assert service.counters()["quarantined"] == 1


@pytest.mark.slow
def test_sighup_connects_anew_and_the_service_goes_on(
    embedded: Any, make_service: Callable[..., Service], publisher: Callable[[int], Publisher]
) -> None:
    service = make_service(embedded.port)
    service.start()
    until(service.ready, "ready")
    assert metric(service, "quarterline_mqtt_connections_total") == 1
    assert service.child is not None
    service.child.send_signal(signal.SIGHUP)
    until(lambda: metric(service, "quarterline_mqtt_connections_total") == 2, "a second connection")
    publisher(embedded.port).send(READING)
    until(lambda: service.counters()["stored"] == 1, "stored")
    service.end(signal.SIGTERM)
    assert service.child.returncode == 0
