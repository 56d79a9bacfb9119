"""One store for each adapter: the contract suites run over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store import open_store
from store.ports import Store
from store.records import Item

ADAPTERS: dict[str, Callable[[Path], Store]] = {"sqlite": open_store}


@pytest.fixture(params=sorted(ADAPTERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = ADAPTERS[request.param](tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def item() -> Callable[..., Item]:
    """An item; by default one surface reading of d-1."""

    def make(time_us: int = 1_000_000, **fields: object) -> Item:
        known: dict[str, object] = {
            "sensor": "d-1",
            "time_us": time_us,
            "received_us": time_us + 1,
            "topic": "quarterline/v1/d-1/readings",
            "values": {"surface_m": 1.2},
            "raw": b"{}",
        }
        return Item(**{**known, **fields})

    return make
