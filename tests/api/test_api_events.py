"""The journal as server-sent events: numbers, resumption, filters, the end of the service."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from api.bell import Bell

Client = Callable[..., httpx.Client]


def _events(lines: Iterator[str], count: int) -> list[tuple[int, str, dict[str, Any]]]:
    found = []
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            key, _, value = line.partition(": ")
            fields[key] = value
        elif "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
            fields = {}
            if len(found) == count:
                break
    return found


def test_the_whole_journal_from_the_start(client: Client, history: Any) -> None:
    journal = history.store.ledger.journal(limit=1000)
    with client("read-only").stream("GET", "/api/v1/events?after=0") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = _events(answer.iter_lines(), len(journal))
    assert [one[0] for one in events] == [entry.seq for entry in journal]
    assert [one[1] for one in events] == [entry.type for entry in journal]
    _, kind, body = events[-1]
    assert kind == "order"
    assert (body["type"], body["interceptor"], body["state"]) == ("order", "luigi-gi1", "offered")
    assert body["at"] == "2026-11-30T01:00:00Z"


def test_a_reader_resumes_where_it_was(client: Client, history: Any) -> None:
    last = history.store.ledger.journal_tail(limit=1)[0].seq
    with client("read-only").stream(
        "GET", "/api/v1/events", headers={"Last-Event-ID": str(last - 3)}
    ) as answer:
        events = _events(answer.iter_lines(), 3)
    assert [one[0] for one in events] == [last - 2, last - 1, last]


def test_new_lines_come_as_they_are_written(client: Client, history: Any) -> None:
    asker, hauler = client("read-only"), client("hauler", "valley")
    with asker.stream("GET", "/api/v1/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        accepted = threading.Thread(
            target=hauler.post, args=("/api/v1/orders/or-1/answers",), kwargs={"json": {"answer": "accepted"}}
        )
        accepted.start()
        ((_, kind, body),) = _events(lines, 1)
        accepted.join()
    assert (kind, body["state"], body["hauler"]) == ("order", "accepted", "valley")


def test_one_interceptors_lines_only(client: Client, history: Any) -> None:
    history.submit(lambda c: c.store.ledger.append(c.now_us, "alert", "wok-gi1", {"id": "x"}))
    with client("read-only").stream("GET", "/api/v1/events?after=0&interceptor=wok-gi1") as answer:
        ((_, _, body),) = _events(answer.iter_lines(), 1)
    assert body["id"] == "x"


def test_the_stream_ends_with_the_service(client: Client, service: Any) -> None:
    with client("read-only").stream("GET", "/api/v1/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        service.bell.close()
        assert [line for line in lines if line] == []


def test_a_bell_wakes_waiters_on_any_loop_and_lets_others_time_out() -> None:
    bell = Bell(5)

    async def wait(after: int, timeout_s: float) -> bool:
        return await bell.wait(after, timeout_s)

    assert asyncio.run(wait(4, 0.0))
    assert not asyncio.run(wait(5, 0.01))

    async def both() -> list[bool]:
        waiting = [asyncio.create_task(bell.wait(5, 20)) for _ in range(3)]
        await asyncio.sleep(0)
        ringer = threading.Thread(target=bell.ring, args=(6,))
        ringer.start()
        results = list(await asyncio.gather(*waiting))
        ringer.join()
        return results

    assert asyncio.run(both()) == [True, True, True]
    assert bell.seq == 6
