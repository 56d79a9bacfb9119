"""Field reports of sections B and C that touch clock, identity and store; docs/field_reports.md lists all."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store import open_store
from store.ports import Store, StoreError
from store.records import CLOCK_REPLACED, Sensor

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
S_US = 1_000_000
EUI = "0101010101010101"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "store", durable=False)
    yield one
    one.close()


@pytest.fixture
def take(store: Store, profiles: dict[str, DeviceProfile]) -> Callable[..., Any]:
    """Decode and commit payloads of d-1, each received a second after the one before; what became of them."""
    decoder = Decoder({name: Sensor(name, "gi-1") for name in ("d-1", EUI)}, profiles)

    def run(
        *payloads: bytes | dict[str, Any], topic: str = "quarterline/v1/d-1/readings", at_us: int = NOW_US
    ) -> Any:
        messages = [
            RawMessage(topic, one if isinstance(one, bytes) else json.dumps(one).encode(), at_us + n * S_US)
            for n, one in enumerate(payloads)
        ]
        return store.history.commit(decoder.decode(messages))

    return run


def counts(store: Store) -> tuple[int, int, int, int]:
    now = store.history.totals()
    assert now.received == now.stored + now.duplicate + now.quarantined + now.retained + now.heartbeat
    return now.stored, now.duplicate, now.quarantined, now.heartbeat


def times(store: Store) -> list[int]:
    return [row.time_us for row in store.history.readings(["d-1"], since_us=0, until_us=2**62)]


def test_L26_seconds_milli_micro_and_nanoseconds_are_one_instant(
    take: Callable[..., Any], store: Store
) -> None:
    for stated in (1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000):
        take({"time": stated, "surface_mm": 1000})
    assert counts(store) == (1, 3, 0, 0)
    assert times(store) == [1_700_000_000_000_000]


def test_L28_a_time_without_a_zone_is_quarantined(take: Callable[..., Any], store: Store) -> None:
    (found,) = take({"time": "2024-07-01T12:00:00", "surface_mm": 1000}).quarantined
    assert found.reason == "bad_time"
    assert "no offset" in found.detail


def test_L29_a_stamp_of_the_future_never_is_the_latest_by_its_claim(
    take: Callable[..., Any], store: Store
) -> None:
    ahead_s = NOW_US // S_US + 7 * 3600
    take({"time": ahead_s, "surface_mm": 1}, {"time": NOW_US // S_US + 1, "surface_mm": 1000})
    first, second = store.history.readings(["d-1"], since_us=0, until_us=2**62)
    assert (first.time_us, first.flags & CLOCK_REPLACED) == (NOW_US, CLOCK_REPLACED)
    assert store.history.last(["d-1"])["d-1"] == second


def test_L31_the_latest_is_the_newest_measured_whatever_the_order(
    take: Callable[..., Any], store: Store
) -> None:
    base = 1_700_000_000
    take(*({"time": base + n, "surface_mm": 1000 + n} for n in (4, 1, 3, 2)))
    assert store.history.last(["d-1"])["d-1"].time_us == (base + 4) * S_US


def test_L34_a_fraction_of_a_second_is_kept(take: Callable[..., Any], store: Store) -> None:
    take(*(b'{"time": 1774554381569.%d, "tank_c": 20}' % n for n in (0, 5)))
    take(b'{"time": 1772280000.992, "tank_c": 20}', b'{"time": "2026-02-28T12:00:00.993001Z", "tank_c": 21}')
    assert [one % S_US for one in times(store)[:2]] == [992_000, 993_001]


def test_L37_a_null_is_no_number_and_the_device_was_heard(take: Callable[..., Any], store: Store) -> None:
    take({"surface_mm": None, "time": "2026-02-28T06:32:07.507569+00:00"})
    assert counts(store) == (0, 0, 0, 1)
    assert store.history.contacts() == {"d-1": NOW_US}


@pytest.mark.parametrize(
    "payload", [b"nan", b'{"surface_mm": NaN}', b'{"surface_mm": 1e999}', b'{"tank_c": -Infinity}']
)
def test_L38_what_is_no_number_never_reaches_the_store(
    take: Callable[..., Any], store: Store, payload: bytes
) -> None:
    take(payload)
    assert counts(store) == (0, 0, 1, 0)


def test_L46_a_steady_value_is_fresh(take: Callable[..., Any], store: Store) -> None:
    base = NOW_US // S_US - 9000
    for n in range(10):
        at = base + 900 * n
        take({"time": at, "surface_mm": 0}, at_us=at * S_US)
    assert store.history.contacts()["d-1"] == (base + 8100) * S_US
    assert counts(store) == (10, 0, 0, 0)


def chirpstack(time: str, count: int | None, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "time": time,
        "deviceInfo": {"devEui": EUI, "deviceName": "n", "tags": {}},
        "fPort": 1,
        "object": {"surface_mm": 1000},
        **more,
    }
    if count is not None:
        body["fCnt"] = count
    return body


UP = f"application/1/device/{EUI}/event/up"


def test_L50_an_absent_frame_counter_is_zero(take: Callable[..., Any], store: Store) -> None:
    take(chirpstack("2026-03-01T11:00:00Z", None), topic=UP)
    (row,) = store.history.readings([EUI], since_us=0, until_us=2**62)
    assert row.seq == 0


def test_L53_a_frame_counter_that_starts_again_is_no_duplicate(
    take: Callable[..., Any], store: Store
) -> None:
    rows = [("11:00", 65535), ("11:15", 0), ("11:30", 1), ("11:45", 0), ("12:00", 0)]
    take(*(chirpstack(f"2026-03-01T{at}:00Z", count) for at, count in rows), topic=UP)
    assert counts(store) == (5, 0, 0, 0)


@pytest.mark.parametrize("payload", [b'{"l\xff}', b'{"surface_mm": 1}{"surface_mm": 2}'])
def test_L58_bytes_that_are_no_json_are_kept_as_they_came(
    take: Callable[..., Any], store: Store, payload: bytes
) -> None:
    (found,) = take(payload).quarantined
    assert (found.reason, found.payload) == ("not_json", payload)
    assert counts(store) == (0, 0, 1, 0)


def test_L56_an_object_where_a_list_was_meant_is_kept_with_its_reason(
    take: Callable[..., Any], store: Store
) -> None:
    (found,) = take(b'[[{"n": "level", "v": 1}]]').quarantined
    assert (found.sensor, found.reason) == ("d-1", "not_an_object")
    assert store.history.quarantine(sensor="d-1") == [found]


def test_L59_a_device_that_is_renamed_stays_the_same(take: Callable[..., Any], store: Store) -> None:
    take(chirpstack("2026-03-01T11:00:00Z", 1), topic=UP)
    renamed = chirpstack(
        "2026-03-01T11:15:00Z", 2, deviceInfo={"devEui": EUI, "deviceName": "kitchen", "tags": {}}
    )
    take(renamed, topic=f"application/other/device/{EUI.upper()}/event/up")
    assert len(store.history.readings([EUI], since_us=0, until_us=2**62)) == 2


# ---- the store ---------------------------------------------------------------------------------------


def test_L64_one_bad_item_costs_none_of_the_good_ones(take: Callable[..., Any], store: Store) -> None:
    base = 1_700_000_000
    take({"time": base, "surface_mm": 1})
    take(
        *({"time": base + n, "surface_mm": 1000} for n in range(1000))
    )  # the first contradicts what is stored
    assert counts(store) == (1000, 0, 1, 0)
    assert [one.reason for one in store.history.quarantine()] == ["conflict"]


def test_L70_made_up_ids_make_no_sensors(take: Callable[..., Any], store: Store, tmp_path: Path) -> None:
    take({"surface_mm": 1000})
    for n in range(1000):
        take(b'{"surface_mm": 1000}', topic=f"quarterline/v1/made-up-{n}/readings")
    assert counts(store) == (1, 0, 1000, 0)
    assert {one.reason for one in store.history.quarantine(limit=2000)} == {"unknown_sensor"}
    with sqlite3.connect(tmp_path / "store" / "quarterline.sqlite3") as raw:
        assert raw.execute("SELECT id FROM sensor_keys").fetchall() == [("d-1",)]
    raw.close()
    assert store.history.contacts().keys() == {"d-1"}


def test_L71_readers_and_an_export_never_lock_the_writer_out(take: Callable[..., Any], store: Store) -> None:
    base = 1_700_000_000
    failed: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                store.history.readings(["d-1"], since_us=0, until_us=2**62)
                store.history.totals()
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for one in readers:
        one.start()
    export = store.history.scan(received_since_us=0, received_before_us=2**62)
    try:
        for n in range(60):
            take(*({"time": base + n * 50 + k, "surface_mm": 1000} for k in range(50)))
            if n == 30:
                next(export, None)
    finally:
        done.set()
        for one in readers:
            one.join(30)
    assert failed == []
    assert counts(store)[0] == 3000


def test_L73_a_damaged_database_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    open_store(tmp_path / "d").close()
    file = tmp_path / "d" / "quarterline.sqlite3"
    damaged = bytearray(file.read_bytes())
    damaged[0:4096] = bytes(4096)
    file.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"quarterline\.sqlite3|database"):
        open_store(tmp_path / "d")
    assert file.read_bytes() == bytes(damaged)
