"""Readings by HTTP under `kill -9`: what was answered is stored, what is sent again is stored once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from processes import Service, with_fleet

from api.credentials import issue
from store import open_store

DEVICES, KILLS, EACH = ("d-1", "d-2", "d-3"), 3, 60


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_was_answered_is_stored_once_over_kill_minus_nine(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    data, http = tmp_path / "data", free_port()
    with_fleet(data, DEVICES)
    store = open_store(data)
    with store.transaction():
        for one in DEVICES:
            issue(store.ledger, one, password=f"pw-{one}", now_us=1)
    store.close()
    service = Service(tmp_path, data, free_port(), http, mqtt="enabled = false")
    answered: dict[str, list[dict[str, object]]] = {one: [] for one in DEVICES}

    def device(name: str) -> None:
        """Sends each reading until it is answered, as a device with a memory does."""
        url = f"http://127.0.0.1:{http}/api/v1/readings"
        for n in range(EACH):
            body = {"time": 1_764_547_200 + 60 * n, "seq": n, "surface_mm": 1000 + n}
            while True:
                try:
                    answer = httpx.post(url, json=body, auth=(name, f"pw-{name}"), timeout=20)
                except httpx.HTTPError:
                    time.sleep(0.05)  # the service is down; between two tries
                    continue
                if answer.status_code == 201:
                    answered[name] += answer.json()["items"]
                    break
                assert answer.status_code == 503, answer.text

    try:
        service.start()
        threads = [threading.Thread(target=device, args=(one,), daemon=True) for one in DEVICES]
        for one in threads:
            one.start()
        for n in range(1, KILLS + 1):
            while sum(map(len, answered.values())) < n * 30 and any(one.is_alive() for one in threads):
                time.sleep(0.01)  # between two looks
            service.end(signal.SIGKILL)
            service.start()
        for one in threads:
            one.join(120)
            assert not one.is_alive()
        counters = service.counters()
    finally:
        service.close()
    outcomes = [str(item["outcome"]) for one in DEVICES for item in answered[one]]
    assert len(outcomes) == len(DEVICES) * EACH
    assert set(outcomes) <= {
        "stored",
        "duplicate",
    }  # a duplicate: committed before the kill, answered after it
    assert counters["stored"] == len(DEVICES) * EACH
    assert counters["duplicate"] >= outcomes.count("duplicate")  # an answer may have been lost twice
    store = open_store(data)
    rows = store.history.readings(DEVICES, since_us=0, until_us=2**62)
    store.close()
    assert sorted((row.sensor, row.seq) for row in rows) == [(d, n) for d in DEVICES for n in range(EACH)]
    assert all(row.values == {"surface_m": (1000 + (row.seq or 0)) * 1e-3} for row in rows)
