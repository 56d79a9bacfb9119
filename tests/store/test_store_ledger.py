"""The contract of the ledger port."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from store.ports import Store, StoreError
from store.records import (
    Alert,
    ApiKey,
    CoreSample,
    FrequencyDecision,
    FrequencyProposal,
    HotDischargeRecord,
    Manifest,
    Order,
    OutboxItem,
    PumpOutRecord,
    SignIn,
)

ALERT = Alert(
    "a1", "gi1", "over_limit", "firing", "warning", "r", "c", "estimate", "d-1", "f", 5, 6, {"p": 0.95}
)
ORDER = Order(
    "o1",
    "gi1",
    "exceedance",
    "offered",
    "immediately",
    5,
    6,
    "valley",
    "due",
    7,
    8,
    9,
    ("x", "y"),
    "po",
    "m",
    "c",
    "n",
)
LAYERS = ({"compartment": 1, "fog_m": 0.2, "solids_m": None},)
PUMP_OUT = PumpOutRecord("po1", "gi1", 5, 6, True, 0.97, LAYERS, (*LAYERS, {"compartment": 2}))
HOT = HotDischargeRecord("hd1", "gi1", "d-1", 5, None, 66.5, 90.0, "possible")
HOT_OVER = replace(HOT, id="hd2", end_us=9, status="confirmed")
MANIFEST = Manifest("m1", "gi1", 5, 6, True, "N-1", "valley", 3.7, 0.2, 0.1, {"operator": "Ö"})
SAMPLE = CoreSample("cs1", "gi1", 1, 5, 6, 0.2, 0.1, "inspector")
DECISION = FrequencyDecision("fd1", "gi1", "approved", "P2M", "2026-12-01", 5, "manager", "why", "fp1")
PROPOSAL = FrequencyProposal(
    "fp1", "gi1", "P3M", "P2M", "why", "c", {"cycles": [1, 2]}, "2026-12-01", 5, "open"
)
ITEM = OutboxItem("x1", "webhook", "valley", "order.offered", {"id": "o1"}, 5, 6, 1, "waiting", "e")
KEY = ApiKey("k1", "demo", "hauler", "d" * 64, "valley", 5, 8)


def test_records_read_back_and_are_updated_by_id(store: Store) -> None:
    ledger = store.ledger
    with store.transaction():
        ledger.put_alert(ALERT)
        ledger.put_order(ORDER)
        ledger.put_pump_out(PUMP_OUT)
        ledger.put_hot_discharge(HOT)
        ledger.put_hot_discharge(HOT_OVER)
        ledger.put_manifest(MANIFEST)
        ledger.put_core_sample(SAMPLE)
        ledger.put_frequency_decision(DECISION)
        ledger.put_frequency_proposal(PROPOSAL)
        ledger.put_outbox(ITEM)
        ledger.put_key(KEY)
    assert ledger.alerts() == [ALERT]
    assert ledger.orders() == [ORDER]
    assert ledger.order("o1") == ORDER
    assert ledger.order("o2") is None
    assert ledger.pump_outs(interceptor="gi1") == [PUMP_OUT]
    assert ledger.pump_outs(interceptor="gi2") == []
    assert ledger.hot_discharges() == [HOT, HOT_OVER]
    assert ledger.manifests() == [MANIFEST]
    assert ledger.core_samples() == [SAMPLE]
    assert ledger.frequency_decisions() == [DECISION]
    assert ledger.frequency_proposals() == [PROPOSAL]
    assert ledger.outbox() == [ITEM]
    assert ledger.keys() == [KEY]
    with store.transaction():
        ledger.put_hot_discharge(replace(HOT, end_us=9, status="confirmed"))
        ledger.put_key(replace(KEY, revoked_us=None))
    assert ledger.hot_discharges() == [replace(HOT, end_us=9, status="confirmed"), HOT_OVER]
    assert ledger.keys() == [replace(KEY, revoked_us=None)]


def test_one_open_order_an_interceptor(store: Store) -> None:
    ledger = store.ledger
    with store.transaction():
        ledger.put_order(ORDER)

    def second() -> None:
        with store.transaction():
            ledger.put_order(replace(ORDER, id="o2"))

    with pytest.raises(StoreError, match="another open order"):
        second()
    with store.transaction():
        ledger.put_order(replace(ORDER, state="closed"))
        ledger.put_order(replace(ORDER, id="o2", opened_us=50))
        ledger.put_order(replace(ORDER, id="o3", interceptor="gi2", hauler="harbor"))
    assert [o.id for o in ledger.orders()] == ["o2", "o1", "o3"]
    assert [o.id for o in ledger.orders(open_only=True)] == ["o2", "o3"]
    assert [o.id for o in ledger.orders(hauler="harbor")] == ["o3"]


def test_open_alerts_are_those_not_resolved(store: Store) -> None:
    with store.transaction():
        store.ledger.put_alert(ALERT)
        store.ledger.put_alert(replace(ALERT, id="a2", state="resolved", changed_us=99))
        store.ledger.put_alert(replace(ALERT, id="a3", interceptor=None, state="pending"))
    assert [a.id for a in store.ledger.alerts()] == ["a2", "a1", "a3"]
    assert [a.id for a in store.ledger.alerts(open_only=True)] == ["a1", "a3"]
    assert [a.id for a in store.ledger.alerts(interceptor="gi1", limit=1)] == ["a2"]


def test_the_journal_is_dense_and_filtered(store: Store) -> None:
    ledger = store.ledger
    with store.transaction():
        entries = [ledger.append(n, "order" if n % 2 else "alert", f"gi{n % 3}", {"n": n}) for n in range(6)]
    assert [e.seq for e in entries] == [1, 2, 3, 4, 5, 6]
    assert ledger.journal() == entries
    assert ledger.journal(after=2, limit=2) == entries[2:4]
    assert ledger.journal(types=["order"], interceptor="gi1") == [entries[1]]
    assert ledger.journal(types=["order", "alert"], after=5) == [entries[5]]
    assert ledger.journal_tail(limit=2) == [entries[5], entries[4]]
    assert ledger.journal_tail(limit=9, types=["alert"]) == [entries[4], entries[2], entries[0]]
    assert ledger.journal_tail(limit=9, types=["order"], interceptor="gi0") == [entries[3]]
    assert ledger.journal_tail(limit=9, interceptor="gi9") == []

    def undone() -> None:
        with store.transaction():
            ledger.append(9, "alert", None, {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        undone()
    with store.transaction():
        assert ledger.append(9, "alert", None, {}).seq == 7


def test_named_values_and_newest_assessments(store: Store) -> None:
    ledger = store.ledger
    assert ledger.get_meta("x") is None
    with store.transaction():
        ledger.set_meta("x", "1")
        ledger.set_meta("x", "2")
        ledger.put_latest(5, {"gi1": {"fraction": 0.2}, "gi2": {"fraction": None}})
        ledger.put_latest(6, {"gi1": {"fraction": 0.3}})
    assert ledger.get_meta("x") == "2"
    assert ledger.latest() == {"gi1": (6, {"fraction": 0.3}), "gi2": (5, {"fraction": None})}
    assert ledger.latest("gi2") == {"gi2": (5, {"fraction": None})}


def test_the_outbox_gives_what_is_due_in_order(store: Store) -> None:
    ledger = store.ledger
    with store.transaction():
        for n, due in enumerate((30, 10, 20, 99)):
            ledger.enqueue(replace(ITEM, id=f"x{n}", due_us=due))
        ledger.enqueue(replace(ITEM, id="x1", due_us=0))  # there already
        ledger.put_outbox(replace(ITEM, id="x2", due_us=20, state="delivered"))
    assert [one.id for one in ledger.due(30)] == ["x1", "x0"]
    assert [one.id for one in ledger.due(30, limit=1)] == ["x1"]
    assert [one.id for one in ledger.due(9)] == []
    with store.transaction():  # due together: the older first, then by id
        ledger.enqueue(replace(ITEM, id="x5", due_us=10, created_us=4))
        ledger.enqueue(replace(ITEM, id="x0a", due_us=10))
    assert [one.id for one in ledger.due(10)] == ["x5", "x0a", "x1"]
    assert [one.id for one in ledger.outbox(state="delivered")] == ["x2"]


def test_a_sign_in_link_is_used_by_one(store: Store) -> None:
    link = SignIn("digest", "manager", "you", 10, True)
    with store.transaction():
        store.ledger.put_sign_in(link)
    assert store.ledger.sign_in("digest") == link
    start, won = threading.Barrier(4), []

    def use() -> None:
        start.wait()
        won.append(store.ledger.delete_sign_in("digest"))

    racers = [threading.Thread(target=use) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(won) == [False, False, False, True]
    assert store.ledger.sign_in("digest") is None


def test_an_answer_is_remembered(store: Store) -> None:
    assert store.ledger.remembered("k") is None
    with store.transaction():
        store.ledger.remember("k", "d", 201, "{}", 5)
    assert store.ledger.remembered("k") == ("d", 201, "{}")
