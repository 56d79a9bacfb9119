"""The clock rule of contracts.md section 2: good times stay, wrong ones become the receipt, nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode import Decoder
from ingest.instants import EARLIEST_US, is_good, parse_time, replacements
from ingest.message import RawMessage
from ingest.refused import Refused
from store import open_store
from store.records import CLOCK_REPLACED, NO_TIME, IngestWindow, Item, Sensor

NOON = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
MINUTE = 60_000_000
Decode = Callable[..., IngestWindow]
Read = Callable[..., Item]


@pytest.mark.parametrize(
    "stated",
    [
        1772366400,
        1772366400.0,
        1772366400000,
        1772366400000000,
        1772366400000000000,
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00.000000000Z",  # network servers send nanoseconds
        "2026-03-01T04:00:00-08:00",
        "2026-03-01 12:00:00+00:00",
        "20260301T120000Z",
        "2026-03-01T11:59:60Z",  # a leap second
    ],
)
def test_every_way_to_say_noon(stated: float | str) -> None:
    assert parse_time(stated) == NOON


@pytest.mark.parametrize(
    ("stated", "us"),
    [
        (99_999_999_999, 99_999_999_999_000_000),  # below 1e11: seconds
        (100_000_000_000, 100_000_000_000_000),  # below 1e14: milliseconds
        (99_999_999_999_999, 99_999_999_999_999_000),
        (100_000_000_000_000, 100_000_000_000_000),  # below 1e17: microseconds
        (99_999_999_999_999_999, 99_999_999_999_999_999),
        (100_000_000_000_000_000, 100_000_000_000_000),  # else nanoseconds
        (1772366400.25, 1_772_366_400_250_000),
        (1772366400000.5, 1_772_366_400_000_500),
        (-5, -5_000_000),
        (1e300, int(1e300) // 1000),
    ],
)
def test_an_epoch_by_its_magnitude(stated: float, us: int) -> None:
    assert parse_time(stated) == us


@pytest.mark.parametrize(
    "stated", ["", "2026-03-01", "2026-03-01T12:00:00", "2020-0327T14:02:27.547Z", "1772366400", True, [], {}]
)
def test_what_is_no_time(stated: object) -> None:
    with pytest.raises(Refused) as caught:
        parse_time(stated, "uplink.time")
    assert caught.value.reason == "bad_time"
    assert caught.value.detail.startswith("uplink.time: ")


@pytest.mark.parametrize(
    ("stated_us", "good"),
    [
        (EARLIEST_US - 1, False),
        (EARLIEST_US, True),
        (NOON, True),
        (NOON + 5 * MINUTE, True),
        (NOON + 5 * MINUTE + 1, False),
    ],
)
def test_where_a_time_can_be_right(stated_us: int, good: bool) -> None:
    assert is_good(stated_us, NOON) is good
    assert parse_time("2020-01-01T00:00:00Z") == EARLIEST_US


def test_a_wrong_time_gives_way_to_the_receipt(item: Read) -> None:
    # the restart of a real device: coastlab_sheet_two_devices.csv, 946699212 is in the year 2000
    found = item('{"time":946699212,"distance_cm":200}')
    assert (found.time_us, found.flags) == (NOON, CLOCK_REPLACED)
    assert found.check_key
    assert found.key_since_us == 0
    for far in ("1e300", '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59-23:59"', "-1"):
        assert item(f'{{"time":{far},"tank_c":1}}').time_us == NOON


def test_the_keys_of_items_without_a_good_time(decode: Decode) -> None:
    def keys(*payloads: str, dup: bool = False) -> list[tuple[bytes | None, bool, int]]:
        return [(one.key, one.check_key, one.key_since_us) for one in decode(*payloads, dup=dup).items]

    stated = keys('{"time":5,"tank_c":20}', '{"time":5.0, "tank_c":20.0}', '{"time":6,"tank_c":20}')
    assert stated[0] == stated[1]
    assert stated[0][0] != stated[2][0]
    assert stated[0][1:] == (True, 0)
    day = 24 * 60 * MINUTE
    counted = keys('{"seq":5,"tank_c":20}', '{"seq":5,"tank_c":21}', '{"seq":6,"tank_c":20}')
    assert len({key for key, _, _ in counted}) == 3
    assert counted[0][1:] == (True, NOON - day)
    (plain,) = keys('{"tank_c":20}')
    (again,) = keys('{"tank_c":20}', dup=True)
    assert plain == (again[0], False, NOON - 10 * MINUTE)
    assert again[1] is True


def test_replaced_elements_keep_their_spacing_and_end_at_the_receipt(decode: Decode) -> None:
    # three readings of a clock that began at 1970, and a good one beside them
    payload = json.dumps(
        [
            {"time": 100, "tank_c": 20},
            {"time": "2026-03-01T11:00:00Z", "tank_c": 21},
            {"time": 400, "tank_c": 22},
            {"time": 1000, "tank_c": 23},
        ]
    )
    items = decode(payload).items
    assert [one.time_us for one in items] == [
        NOON - 15 * MINUTE,
        NOON - 60 * MINUTE,
        NOON - 10 * MINUTE,
        NOON,
    ]
    assert [one.flags for one in items] == [CLOCK_REPLACED, 0, CLOCK_REPLACED, CLOCK_REPLACED]


def test_the_newest_first_keeps_its_order_in_time(decode: Decode) -> None:
    items = decode('[{"time":400,"tank_c":1},{"time":100,"tank_c":2}]').items
    assert [one.time_us for one in items] == [NOON, NOON - 5 * MINUTE]


def test_elements_without_a_time_stand_an_interval_apart(decode: Decode) -> None:
    # the sensor reports every 600 s; the refused element keeps its place
    items = decode('[{"tank_c":1},{"tank_c":"x"},{"tank_c":3}]').items
    assert [(one.time_us, one.flags) for one in items] == [(NOON - 20 * MINUTE, NO_TIME), (NOON, NO_TIME)]
    items = decode('[{"time":0,"tank_c":1},{"time":0,"tank_c":2}]').items  # a device without a clock
    assert [one.time_us for one in items] == [NOON - 10 * MINUTE, NOON]


@given(
    st.lists(st.one_of(st.none(), st.integers(-(10**19), 10**19)), min_size=1, max_size=20),
    st.integers(1, 10**10),
)
def test_replacements_end_at_the_receipt_and_stay_near(stated: list[int | None], interval_us: int) -> None:
    times = replacements(list(enumerate(stated)), NOON, interval_us)
    assert set(times) == set(range(len(stated)))
    assert max(times.values()) == NOON
    assert min(times.values()) >= NOON - max(31 * 24 * 60 * MINUTE, len(stated) * interval_us)


@pytest.mark.parametrize(
    ("payload", "dup", "again"),
    [
        ('{"time":"2026-03-01T11:59:00Z","tank_c":20}', False, "duplicate"),
        ('{"time":946699212,"tank_c":20}', False, "duplicate"),
        ('{"seq":12,"tank_c":20}', False, "duplicate"),
        ('{"tank_c":20}', True, "duplicate"),
        ('{"tank_c":20}', False, "stored"),
        ('[{"time":5,"tank_c":20},{"time":65,"tank_c":20}]', True, "duplicate"),
        ('[{"tank_c":20},{"tank_c":20}]', True, "duplicate"),
    ],
)
def test_a_redelivery_through_the_real_store(
    tmp_path: Path, fleet: Callable[..., Decoder], payload: str, dup: bool, again: str
) -> None:
    decoder = fleet(Sensor("p", "gi"))
    store = open_store(tmp_path / "data")
    try:
        first = RawMessage("quarterline/v1/p/readings", payload.encode(), NOON)
        stored = store.history.commit(decoder.decode([first]))
        count = len(decoder.decode([first]).items)
        assert (len(stored.stored), stored.duplicates) == (count, 0)
        second = RawMessage("quarterline/v1/p/readings", payload.encode(), NOON + 9 * MINUTE, dup=dup)
        repeated = store.history.commit(decoder.decode([second]))
        expected = (0, count) if again == "duplicate" else (count, 0)
        assert (len(repeated.stored), repeated.duplicates) == expected
    finally:
        store.close()


DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize(
    ("payload", "after_us", "dup", "again"),
    [
        ('{"time":946699212,"tank_c":20}', 90 * DAY, False, "duplicate"),  # by the time it stated, for good
        ('{"time":946699212,"seq":3,"tank_c":20}', 90 * DAY, False, "duplicate"),
        ('{"time":"2031-01-01T00:00:00Z","tank_c":20}', DAY, False, "duplicate"),  # ahead of its receipt
        ('{"seq":12,"tank_c":20}', DAY, False, "duplicate"),
        ('{"seq":12,"tank_c":20}', DAY + 1, False, "stored"),  # a counter may begin anew
        ('{"seq":12,"tank_c":20}', DAY + 1, True, "stored"),
        ('{"tank_c":20}', 10 * MINUTE, True, "duplicate"),
        ('{"tank_c":20}', 10 * MINUTE + 1, True, "stored"),
        ('{"tank_c":20}', 1, False, "stored"),
        ('{"tank_c":20}', 0, False, "stored"),  # of one instant, and still new: it moves by a microsecond
        ('{"profile":[810,null]}', MINUTE, True, "duplicate"),
    ],
)
def test_how_long_an_item_is_known_again(
    tmp_path: Path, fleet: Callable[..., Decoder], payload: str, after_us: int, dup: bool, again: str
) -> None:
    decoder = fleet(Sensor("p", "gi"))
    store = open_store(tmp_path / "data")
    try:
        topic = "quarterline/v1/p/readings"
        store.history.commit(decoder.decode([RawMessage(topic, payload.encode(), NOON)]))
        second = RawMessage(topic, payload.encode(), NOON + after_us, dup=dup)
        found = store.history.commit(decoder.decode([second]))
        assert (len(found.stored), found.duplicates) == ((0, 1) if again == "duplicate" else (1, 0))
        assert found.quarantined == ()
    finally:
        store.close()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"time":5,"tank_c":20}', '{"time":6,"tank_c":20}'),  # another time stated
        ('{"time":5,"seq":1,"tank_c":20}', '{"time":5,"seq":2,"tank_c":20}'),  # another counter
        ('{"time":5,"tank_c":20}', '{"time":5,"tank_c":21}'),  # other content
        ('{"seq":1,"tank_c":20}', '{"seq":2,"tank_c":20}'),
        ('{"seq":1,"tank_c":20}', '{"seq":1,"tank_c":21}'),  # a counter that began anew
        ('{"tank_c":20}', '{"tank_c":21}'),
        ('{"tank_c":20}', '{"air_c":20}'),
    ],
)
def test_what_differs_is_new_also_within_one_instant_and_with_the_dup_flag(
    tmp_path: Path, fleet: Callable[..., Decoder], first: str, second: str
) -> None:
    decoder = fleet(Sensor("p", "gi"))
    store = open_store(tmp_path / "data")
    try:
        topic = "quarterline/v1/p/readings"
        messages = [
            RawMessage(topic, first.encode(), NOON),
            RawMessage(topic, second.encode(), NOON, dup=True),
        ]
        found = store.history.commit(decoder.decode(messages))
        assert (len(found.stored), found.duplicates, found.quarantined) == (2, 0, ())
    finally:
        store.close()


def test_a_good_time_is_known_again_without_a_flag_and_by_its_value(
    tmp_path: Path, fleet: Callable[..., Decoder]
) -> None:
    decoder = fleet(Sensor("p", "gi"))
    store = open_store(tmp_path / "data")
    payloads = [
        '{"time":1772366340,"surface_mm":1101}',
        '{"time":"2026-03-01T03:59:00-08:00","surface_m":1.101}',  # the same in other words
        '{"time":1772366340,"surface_mm":1101,"tank_c":20}',  # something new beside it
        '{"time":1772366340,"surface_mm":1102,"air_c":20}',  # otherwise: all of it is refused
    ]
    try:
        commits = [
            store.history.commit(decoder.decode([RawMessage("quarterline/v1/P/readings", p.encode(), NOON)]))
            for p in payloads
        ]
        assert [(len(one.stored), one.duplicates, len(one.quarantined)) for one in commits] == [
            (1, 0, 0),
            (0, 1, 0),
            (1, 0, 0),
            (0, 0, 1),
        ]
        (conflict,) = commits[3].quarantined
        assert (conflict.reason, conflict.payload) == ("conflict", payloads[3].encode())
    finally:
        store.close()
