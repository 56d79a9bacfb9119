"""A stream with duplicates, late data, bad clocks and a restart in the middle: live and replayed, the same."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import paho.mqtt.client as paho
import pytest

from api.fleet_file import Known, parse_fleet
from api.recording import merged, read_messages
from api.replay import Replay
from api.serve import LiveService, load_rules, running
from api.service import Fleet
from api.settings import Settings
from api.work import put_fleet
from ingest.broker import EmbeddedBroker
from ingest.message import RawMessage
from simulators.city import DEFAULT_START_S, City
from store import open_store

SPEED = 21_600.0  # a simulated day in 4 s
DAYS = 2.0
COMPARED = ("assessment", "alert", "order", "pump_out", "hot_discharge", "frequency_proposal")


@dataclass(slots=True)
class Mischief:
    """What a bad network and bad clocks do to a stream, seeded."""

    rng: np.random.Generator
    held: list[tuple[float, str, bytes]] = field(default_factory=list)

    def send(self, client: paho.Client, topic: str, payload: bytes, now_s: float) -> None:
        for _, old_topic, old in [one for one in self.held if one[0] <= now_s]:
            client.publish(old_topic, old, qos=1)
        self.held = [one for one in self.held if one[0] > now_s]
        chance = self.rng.random()
        if chance < 0.05:  # late by some hours
            self.held.append((now_s + float(self.rng.uniform(3600, 20_000)), topic, payload))
            return
        if chance < 0.08:  # a device that has lost its clock
            item = msgspec.json.decode(payload)
            item["time"] = 946_684_810 + int(self.rng.integers(0, 1000))
            payload = msgspec.json.encode(item)
        client.publish(topic, payload, qos=1)
        if chance > 0.95:
            client.publish(topic, payload, qos=1)


def settings_for(folder: Path, port: int, start_s: float, real_s: float) -> Settings:
    return Settings(
        data_dir=folder / "data",
        record=folder / "recorded.jsonl",
        mqtt={"port": port, "keepalive_s": 10, "client_id": "live"},
        clock={"speed": SPEED, "start_s": start_s, "real_start_s": real_s},
    )


def wait_for_instant(service: LiveService, until_us: int, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if int(service.store.ledger.get_meta("last_instant_us") or 0) >= until_us:
            return
        time.sleep(0.05)
    raise AssertionError(f"instant {until_us} was not decided in {limit_s} s: {service.readiness()}")


@pytest.fixture
def broker(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[EmbeddedBroker]:
    embedded = EmbeddedBroker(tmp_path / "broker", free_port())
    embedded.start()
    yield embedded
    embedded.stop()


def test_live_and_replay_decide_the_same(tmp_path: Path, broker: EmbeddedBroker) -> None:
    start_s = DEFAULT_START_S
    city = City(5, 8, start_s)
    real_s = time.time() + 3.0
    settings = settings_for(tmp_path, broker.port, start_s, real_s)
    rules = load_rules(settings)
    known = Known(rules.ordinances, rules.profiles, lambda *_: None)
    fleet = parse_fleet(city.fleet_toml(), "fleet.toml", known)
    store = open_store(settings.data_dir)
    put_fleet(store, fleet)
    store.close()

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="city")
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    mischief = Mischief(np.random.default_rng(7))
    half_s, end_s = start_s + DAYS / 2 * 86_400, start_s + DAYS * 86_400

    def publish_until(until_s: float) -> None:
        while city.now_s < until_s:
            for message in city.step().messages:
                pause = real_s + ((message.received_us / 1e6) - start_s) / SPEED - time.time()
                if pause > 0:
                    time.sleep(pause)
                mischief.send(client, message.topic, message.payload, (message.received_us / 1e6))

    with running(settings) as service:
        publish_until(half_s)
        wait_for_instant(service, round((half_s - 7200) * 1e6), 30)
    with running(settings) as service:
        publish_until(end_s)
        wait_for_instant(service, round((end_s - 3600) * 1e6), 30)
        live_totals = service.store.history.totals()
    client.loop_stop()
    client.disconnect()

    store = open_store(settings.data_dir)
    until_us = int(store.ledger.get_meta("last_instant_us") or 0)
    first_us = int(store.ledger.get_meta("first_instant_us") or 0)
    live = [
        {"type": e.type, "interceptor": e.interceptor, **e.body}
        for e in store.ledger.journal(limit=1_000_000, types=COMPARED)
    ]
    totals = store.history.totals()
    store.close()
    assert totals.received == (
        totals.stored + totals.duplicate + totals.quarantined + totals.retained + totals.heartbeat
    )
    assert live_totals.duplicate > 0

    replayed = replay(tmp_path, settings, fleet, first_us, until_us)
    for kind in COMPARED:
        assert [one for one in live if one["type"] == kind] == [
            one for one in replayed if one["type"] == kind
        ], kind
    assert sum(one["type"] == "assessment" for one in live) >= 8 * 2
    assert any(one["type"] == "order" for one in live)


def replay(
    folder: Path, settings: Settings, fleet: Fleet, first_us: int, until_us: int
) -> list[dict[str, object]]:
    store = open_store(folder / "replayed", durable=False)
    out = io.BytesIO()
    try:
        put_fleet(store, fleet)
        with (folder / "recorded.jsonl").open("rb") as file:
            # a replay's clock starts with the first line: a message to nobody stands where the service started
            start = RawMessage("nobody/listens", b"{}", first_us)
            stream = chain([start], read_messages(file, "recorded.jsonl"))
            Replay(store, load_rules(settings), out).run(merged(stream, []), until_us=until_us)
    finally:
        store.close()
    lines = [msgspec.json.decode(line) for line in out.getvalue().splitlines()]
    return [{k: v for k, v in line.items() if k != "at"} for line in lines]
