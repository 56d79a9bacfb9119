"""The dispatcher: back-off, order within a target, isolation between targets, counters, its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from alerts.channels import Outcome
from alerts.dispatch import BACK_OFF_S, Dispatcher, next_attempt
from store.ports import StoreError
from store.records import OutboxItem

NOW_US = 1_780_329_600_000_000


def _item(identity: str, *, target: str = "valley", created: int = 0, attempts: int = 0) -> OutboxItem:
    return OutboxItem(identity, "webhook", target, "order.offered", {}, created, 0, attempts)


class Outbox:
    """The outbox as the ledger keeps it."""

    def __init__(self, *items: OutboxItem) -> None:
        self.items = {item.id: item for item in items}
        self.settled = threading.Event()

    def due(self, now_us: int, *, limit: int) -> list[OutboxItem]:
        return [i for i in self.items.values() if i.state == "waiting" and i.due_us <= now_us][:limit]

    def put(self, item: OutboxItem) -> None:
        self.items[item.id] = item
        if all(one.state != "waiting" for one in self.items.values()):
            self.settled.set()


class Script:
    """A channel that answers as it was told, and remembers what it was asked."""

    def __init__(self, answer: Callable[[OutboxItem], Outcome]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def deliver(self, item: OutboxItem, now_s: float) -> Outcome:
        self.asked.append(item.id)
        return self.answer(item)


def _dispatcher(outbox: Outbox, channel: Script, now_us: int = NOW_US) -> Dispatcher:
    return Dispatcher({"webhook": channel}, outbox.due, outbox.put, clock=lambda: now_us / 1e6)


@pytest.mark.parametrize(("attempts", "wait_s"), list(enumerate(BACK_OFF_S)))
def test_waits_grow_and_are_spread_by_a_fifth(attempts: int, wait_s: float) -> None:
    item = _item("a", attempts=attempts)
    waits = [
        (next_attempt(item, Outcome("retry", "HTTP 500"), NOW_US, chance).due_us - NOW_US) / 1e6
        for chance in (0.0, 0.5, 0.999999)
    ]
    assert waits == pytest.approx([0.8 * wait_s, wait_s, 1.2 * wait_s], rel=1e-5)


def test_after_the_last_wait_it_has_failed() -> None:
    after = next_attempt(_item("a", attempts=len(BACK_OFF_S)), Outcome("retry", "HTTP 500"), NOW_US, 0.5)
    assert (after.state, after.attempts, after.error) == ("failed", len(BACK_OFF_S) + 1, "HTTP 500")


def test_a_wait_the_receiver_asked_for_is_never_cut_short() -> None:
    after = next_attempt(_item("a"), Outcome("retry", "HTTP 429", 900.0), NOW_US, 0.0)
    assert after.due_us - NOW_US == 900_000_000


def test_a_delivery_clears_the_error() -> None:
    after = next_attempt(replace(_item("a", attempts=2), error="HTTP 500"), Outcome("delivered"), NOW_US, 0.5)
    assert (after.state, after.attempts, after.error) == ("delivered", 3, "")


def test_one_target_in_trouble_keeps_its_order_and_holds_up_nobody_else() -> None:
    outbox = Outbox(
        _item("v2", created=2),
        _item("v1", created=1),
        _item("a1", target="able", created=3),
        _item("v3", created=4),
    )
    channel = Script(lambda i: Outcome("retry", "HTTP 500") if i.target == "valley" else Outcome("delivered"))
    dispatcher = _dispatcher(outbox, channel)
    assert dispatcher.drain_once() == 2
    assert sorted(channel.asked) == ["a1", "v1"]
    assert outbox.items["v2"].due_us == outbox.items["v1"].due_us > NOW_US
    assert (outbox.items["v2"].attempts, outbox.items["v1"].attempts) == (0, 1)
    assert dispatcher.drain_once() == 0
    assert dispatcher.counts() == {("webhook", "retry"): 1, ("webhook", "delivered"): 1}


def test_an_endpoint_that_is_gone_is_reported_and_its_item_failed() -> None:
    outbox, gone = Outbox(_item("a")), []
    channel = Script(lambda _: Outcome("gone", "HTTP 410"))
    dispatcher = Dispatcher(
        {"webhook": channel}, outbox.due, outbox.put, clock=lambda: NOW_US / 1e6, gone=gone.append
    )
    dispatcher.drain_once()
    assert (outbox.items["a"].state, gone) == ("failed", ["valley"])


def test_an_unknown_channel_fails_with_its_name() -> None:
    outbox = Outbox(replace(_item("a"), channel="pigeon"))
    _dispatcher(outbox, Script(lambda _: Outcome("delivered"))).drain_once()
    assert outbox.items["a"].error == "there is no channel 'pigeon'"


def test_when_the_store_refuses_the_item_is_delivered_again_under_its_id() -> None:
    outbox, channel, refused = Outbox(_item("a")), Script(lambda _: Outcome("delivered")), [True]

    def put(item: OutboxItem) -> None:
        if refused.pop() if refused else False:
            raise StoreError("disk full")
        outbox.put(item)

    dispatcher = Dispatcher({"webhook": channel}, outbox.due, put, clock=lambda: NOW_US / 1e6)
    dispatcher.drain_once()
    assert outbox.items["a"].state == "waiting"
    dispatcher.drain_once()
    assert (outbox.items["a"].state, channel.asked) == ("delivered", ["a", "a"])


def test_the_thread_delivers_everything_and_stops() -> None:
    outbox = Outbox(*(_item(f"i{n}", target=f"h{n % 3}", created=n) for n in range(30)))
    channel = Script(lambda _: Outcome("delivered"))
    dispatcher = Dispatcher(
        {"webhook": channel}, outbox.due, outbox.put, clock=lambda: NOW_US / 1e6, poll_s=0.01
    )
    dispatcher.start()
    assert outbox.settled.wait(30)
    dispatcher.stop()
    assert not dispatcher.alive()
    assert sorted(channel.asked) == sorted(outbox.items)  # each once
    assert dispatcher.counts() == {("webhook", "delivered"): 30}
