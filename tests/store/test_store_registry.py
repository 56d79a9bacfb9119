"""The contract of the registry port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.ports import Store, StoreError
from store.records import Hauler, Interceptor, Sensor, Site

SITE = Site(
    "luigi", "Luigi's", "sierra-madre", "America/Los_Angeles", "full-service", 34.16, -118.05, "us", 80,
    ("fryer", "wok"), ({"role": "owner", "name": "L", "email": "l@example.org"},),
)  # fmt: skip
HAULER = Hauler(
    "valley",
    "Valley",
    ({"kind": "transport", "number": "1", "expires": "2027-06-30"},),
    "https://e.org",
    "v@e.org",
    "whsec_x",
)
TANK = Interceptor(
    "gi1", "luigi", "gravity", 1.22, 1.2, 3.785, 2, "P3M", "2026-09-01", "valley", "authorized"
)
SENSOR = Sensor("d-1", "gi1", 2, "native", 300.0, {"pitch_m": 0.05, "levels": {"air": 0.05, "fog": 0.25}})


def put_all(store: Store) -> int:
    return store.registry.put_fleet(sites=[SITE], interceptors=[TANK], sensors=[SENSOR], haulers=[HAULER])


def test_everything_reads_back(store: Store) -> None:
    assert put_all(store) == 4
    registry = store.registry
    assert registry.sites() == [SITE]
    assert registry.haulers() == [HAULER]
    assert registry.interceptors() == [TANK]
    assert registry.sensors() == [SENSOR]


def test_the_same_fleet_again_changes_nothing(store: Store) -> None:
    put_all(store)
    version = store.registry.version()
    assert put_all(store) == 0
    assert store.registry.version() == version
    assert store.registry.put_fleet(sensors=[replace(SENSOR, interval_s=900.0)]) == 1
    assert store.registry.version() > version
    assert store.registry.sensors() == [replace(SENSOR, interval_s=900.0)]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"interceptors": [TANK]}, "interceptor 'gi1': site: 'luigi' does not exist"),
        ({"sites": [SITE], "interceptors": [TANK]}, "interceptor 'gi1': hauler: 'valley' does not exist"),
        ({"sensors": [SENSOR]}, "sensor 'd-1': interceptor: 'gi1' does not exist"),
    ],
)
def test_a_reference_to_nothing_is_refused_whole(
    store: Store, parts: dict[str, list[object]], said: str
) -> None:
    with pytest.raises(StoreError, match=said):
        store.registry.put_fleet(**parts)  # type: ignore[arg-type]
    assert store.registry.sites() == []
    assert store.registry.version() == 0
