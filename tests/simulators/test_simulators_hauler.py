"""The haulers: signed offers in, answers, trucks and manifests out, all over real HTTP."""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
from standardwebhooks.webhooks import Webhook

from simulators.city import City
from simulators.clock import AcceleratedClock
from simulators.control import ControlServer, Gate
from simulators.hauler import CalledOff, Company, Hauler, HaulerServer, Offer, RefusedError, Wire, read_event
from simulators.truth import iso, seconds

SECRETS = {
    name: f"whsec_{base64.b64encode(name.encode() * 6).decode()}" for name in ("valley", "harbor", "swift")
}
HAULERS = [Hauler(id=name, secret=secret, key=f"key-{name}", name=name) for name, secret in SECRETS.items()]


@dataclass
class Town:
    """A city behind its control port, haulers at their webhooks, and a thread that lets time pass."""

    city: City
    gate: Gate
    control: ControlServer
    server: HaulerServer
    company: Company
    stop: threading.Event

    def offer(self, hauler: str, order: str, *, kind: str = "order.offered", **more: Any) -> httpx.Response:
        """Send a signed webhook as the service does."""
        named = {"order": order, "interceptor": self.city.plan.interceptors[0].id, "due": "immediately"}
        body = json.dumps({"type": kind, "timestamp": "2026-09-01T07:00:00Z", "data": named | more})
        return self.deliver(hauler, body, SECRETS[hauler], f"msg-{order}-{kind}")

    def deliver(self, hauler: str, body: str, secret: str, identity: str) -> httpx.Response:
        now = datetime.now(UTC)
        headers = {
            "webhook-id": identity,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret).sign(identity, now, body),
        }
        url = f"http://127.0.0.1:{self.server.port}/webhooks/{hauler}"
        return httpx.post(url, content=body, headers=headers)

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"http://127.0.0.1:{self.control.port}/pump-outs").json()
        return found


@pytest.fixture
def town(small_city: Callable[..., City], api: Any) -> Iterator[Town]:
    city = small_city()
    clock = AcceleratedClock.starting_now(city.start_s, 20_000.0)
    gate, stop = Gate(city, np.random.default_rng(1)), threading.Event()
    control = ControlServer(gate, 0)
    wire = Wire(stop)
    company = Company(
        api.url, f"http://127.0.0.1:{control.port}", clock, wire, random.Random(1), lambda text: None
    )
    server = HaulerServer(HAULERS, company, 0)

    def live() -> None:
        while not stop.wait(clock.real_delay(gate.live(lambda c: c.now_s))):
            gate.finished(gate.live(City.step).done)

    time = threading.Thread(target=live)
    for part in (control, server, time):
        part.start()
    yield Town(city, gate, control, server, company, stop)
    stop.set()
    server.stop()
    control.stop()
    time.join()
    wire.close()


def test_an_offer_becomes_answer_drawdown_and_manifest(town: Town, api: Any) -> None:
    assert town.offer("valley", "o1").status_code == 204
    (answer,) = api.wait_for("/api/v1/orders/o1/answers")
    (paper,) = api.wait_for("/api/v1/manifests")
    assert answer["answer"] == "accepted"
    assert {authorization for _, authorization, _ in api.posts} == {"Bearer key-valley"}
    (job,) = town.jobs()
    assert job["state"] == "done"
    assert seconds(job["start"]) >= seconds(answer["scheduled_at"])
    assert paper["pumped_at"] == job["start"]
    assert (paper["interceptor"], paper["hauler"], paper["complete"]) == (job["interceptor"], "valley", True)
    for name in ("volume_l", "fog_mm", "solids_mm"):
        assert paper[name] == job[name] > 0
    assert {"operator", "signature", "disposal_facility", "repairs"} <= paper["fields"].keys()
    layers = town.gate.live(City.layers)
    assert layers.fog[0, 0] + layers.solids[0, 0] < 0.05  # it is gone from the tank, too


def test_the_liar_writes_without_a_truck(town: Town, api: Any) -> None:
    before = town.gate.live(lambda city: float(city.layers().fog[0, 0]))
    assert town.offer("swift", "o2").status_code == 204
    (paper,) = api.wait_for("/api/v1/manifests")
    assert (paper["complete"], paper["hauler"]) == (True, "swift")
    assert town.jobs() == []
    assert town.gate.live(lambda city: float(city.layers().fog[0, 0])) >= before


def test_a_delivery_repeated_sends_one_truck(town: Town, api: Any) -> None:
    for _ in range(3):
        assert town.offer("harbor", "o3").status_code == 204
    api.wait_for("/api/v1/manifests")
    assert len([path for path, _, _ in api.posts if "answers" in path]) == 1
    assert len(town.jobs()) == 1


def test_an_order_called_off_gets_no_truck(town: Town, api: Any) -> None:
    slow = AcceleratedClock.starting_now(town.city.start_s, 1.0)  # hours until the truck would leave
    town.company.clock = slow
    town.offer("valley", "o4")
    api.wait_for("/api/v1/orders/o4/answers")
    assert town.offer("valley", "o4", kind="order.cancelled").status_code == 204
    town.company.clock = AcceleratedClock.starting_now(town.city.start_s, 20_000.0)
    town.offer("valley", "o5")
    api.wait_for("/api/v1/manifests")
    assert len(town.jobs()) == 1  # of o5


def test_a_service_that_stumbles_is_asked_again(town: Town, api: Any) -> None:
    api.failures += [503, 429, 500]
    town.offer("valley", "o6")
    api.wait_for("/api/v1/manifests")


def test_an_answer_refused_sends_no_truck(town: Town, api: Any) -> None:
    told: list[str] = []
    refused = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        refused.set()

    town.company.tell = tell
    api.failures += [409]
    town.offer("valley", "o7")
    assert refused.wait(60.0)
    assert "409" in told[0]
    assert town.jobs() == []
    town.offer("valley", "o8")  # the next is served
    api.wait_for("/api/v1/manifests")


def test_forged_and_foreign_webhooks_are_refused(town: Town) -> None:
    body = json.dumps({"type": "order.offered", "data": {"order": "x", "interceptor": "y"}})
    assert town.deliver("valley", body, SECRETS["harbor"], "m1").status_code == 401
    assert town.deliver("nobody", body, SECRETS["valley"], "m2").status_code == 404
    url = f"http://127.0.0.1:{town.server.port}/webhooks/valley"
    assert httpx.post(url, content=body).status_code == 401
    assert httpx.post(url, content=b"\xff\xfe", headers={"webhook-id": "z"}).status_code == 401
    assert httpx.post(url, content=b"x" * 70_000).status_code == 413
    bad = town.deliver("valley", '{"type": "order.offered", "data": {"order": "x"}}', SECRETS["valley"], "m3")
    assert bad.status_code == 400
    assert "interceptor" in bad.json()["detail"]
    assert town.jobs() == []


def test_other_events_are_taken_and_change_nothing(town: Town, api: Any) -> None:
    assert town.offer("valley", "o9", kind="order.updated").status_code == 204
    assert api.posts == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("order.offered", Offer("o", "i", urgent=True)),
        ("order.withdrawn", CalledOff("o")),
        ("order.cancelled", CalledOff("o")),
        ("order.unverified", None),
        (7, None),
    ],
)
def test_what_an_event_asks(kind: object, expected: object) -> None:
    data = {"order": "o", "interceptor": "i", "due": "immediately"}
    assert read_event({"type": kind, "timestamp": "t", "data": data}) == expected


@pytest.mark.parametrize("event", [None, [], {}, {"type": "order.offered", "data": []}])
def test_what_is_no_event_is_refused(event: object) -> None:
    with pytest.raises(ValueError, match="body"):
        read_event(event)


def test_nobody_at_home_is_tried_a_bounded_number_of_times(free_port: Callable[[], int]) -> None:
    waited: list[float] = []

    class NoPause(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    wire = Wire(NoPause())
    with pytest.raises(RefusedError, match="ConnectError"):
        wire.send("POST", f"http://127.0.0.1:{free_port()}/x", {})
    wire.close()
    assert waited == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0])


def test_times_are_written_and_read_alike() -> None:
    assert seconds(iso(1_788_246_000.5)) == 1_788_246_000.5
    with pytest.raises(ValueError, match="offset"):
        seconds("2026-09-01T07:00:00")
