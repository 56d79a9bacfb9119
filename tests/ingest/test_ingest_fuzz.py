"""Whatever bytes come: decoding never raises, and every item has exactly one outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.units import COLUMNS, QUANTITIES
from ingest.decode import Decoder
from ingest.limits import MAX_BYTES, MAX_DEPTH, check, parse
from ingest.message import RawMessage
from ingest.native import table_of
from ingest.profile import load_profiles
from ingest.refused import Refused
from store import open_store
from store.ports import Store
from store.records import IngestWindow, Sensor

NOW = 1_772_366_400_000_000
EUI = "a84041ffff1812c0"
SENSORS = {
    "probe-1": Sensor("probe-1", "gi-1"),
    EUI: Sensor(EUI, "gi-1", profile="dragino-ldds45"),
    "mapped": Sensor("mapped", "gi-1", profile="decentlab-dl-pr"),
}
PROFILES = load_profiles()
TOPICS = [
    "quarterline/v1/probe-1/readings",
    "quarterline/v1/PROBE-1/readings",
    "quarterline/v1/probe-1/status",
    "quarterline/v1/nobody/readings",
    f"application/x/device/{EUI}/event/up",
    f"application/x/device/{EUI}/event/status",
    "v3/a@b/devices/mapped/up",
    "v3/a@b/devices/mapped/join",
    "somewhere/else",
]
NATIVE = [topic for topic in TOPICS if topic.endswith("/readings")]
LOW = {quantity.column: (quantity.low, quantity.high) for quantity in QUANTITIES.values()}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**320),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["2026-03-01T11:59:00Z", "2799 mm", "online", 1772366300, 946699212]),
)
names = st.one_of(
    st.sampled_from([*table_of({}), *QUANTITIES, "time", "seq", "interval_s", "Distance", "Bat", "pressure"]),
    st.text(max_size=10),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=5)),
    max_leaves=12,
)
elements = st.one_of(st.dictionaries(names, values, max_size=6), values)
documents = st.one_of(elements, st.lists(elements, max_size=6))
envelopes = st.builds(
    lambda inner, time, seq: {
        "time": time,
        "fCnt": seq,
        "object": inner,
        "data": "AA==",
        "batteryLevel": seq,
        "end_device_ids": {"device_id": "mapped"},
        "uplink_message": {"decoded_payload": inner, "f_cnt": seq, "received_at": time},
    },
    elements,
    scalars,
    scalars,
)
payloads = st.one_of(
    st.binary(max_size=200),
    st.one_of(documents, envelopes).map(lambda document: json.dumps(document).encode()),
    st.sampled_from([b"online", b"offline", b"", b"[]", b"{}", b"[" * 40, b"\x00", b" " * (MAX_BYTES + 1)]),
)
messages = st.builds(
    RawMessage,
    topic=st.one_of(st.sampled_from(TOPICS), st.text(max_size=20)),
    payload=payloads,
    received_us=st.integers(NOW, NOW + 10**9),
    retain=st.booleans(),
    dup=st.booleans(),
)


def count(message: RawMessage) -> int:
    """How many items contracts.md section 2 says a message is: n for an array of n that parses, else one."""
    if message.retain or message.topic not in NATIVE:
        return 1
    try:
        check(message.payload)
        text = message.payload.decode()
        # objects as tuples of pairs, so that only an array is a list and no double key is lost
        document = json.loads(
            text, parse_constant=_no, parse_float=str, parse_int=str, object_pairs_hook=tuple
        )
    except (Refused, ValueError):
        return 1
    return max(1, len(document)) if isinstance(document, list) and _is_text(document) else 1


def _no(word: str) -> None:
    raise ValueError(word)


def _strict(payload: bytes) -> Any:
    def number(word: str) -> float:
        value = float(word)
        if value in (float("inf"), float("-inf")):
            raise ValueError(word)
        return value

    return json.loads(payload.decode(), parse_constant=_no, parse_float=number)


def _mutate(document: Any, cuts: list[tuple[int, bytes]]) -> bytes:
    """Valid JSON with some of its bytes replaced, doubled or gone."""
    payload = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    for place, piece in cuts:
        at = place % (len(payload) + 1)
        payload = payload[:at] + piece + payload[at + place % 3 :]
    return payload


VALID: list[Any] = [
    {"time": 1772366340, "seq": 4, "fog_bottom_mm": 1101, "tank_c": 21.5, "profile": [810, None, 402.5]},
    [{"time": 1772366340, "tank_c": 20}, {"time": 5, "tank_c": 21, "seq": 7}, {"time": 65, "air_f": 70}, {}],
    [{"inlet_c": 40, "note": 'a:"[{\\'}, {"surface_in": 40.5, "surface_mm": 1028.7}],
]
mutated = st.builds(
    RawMessage,
    topic=st.sampled_from(NATIVE),
    payload=st.builds(
        _mutate,
        st.sampled_from(VALID),
        st.lists(
            st.tuples(
                st.integers(0, 300),
                st.sampled_from(
                    (
                        *(b"", b"[", b"]", b"{", b"}", b'"', b"\\", b":", b",", b"{},", b'"tank_c":1,'),
                        *(b"NaN", b"null", b"true", b"9" * 30, b"-", b"e9", b" ", b"\xff", b"\xed\xa0\x80"),
                    )
                ),
            ),
            max_size=4,
        ),
    ),
    received_us=st.just(NOW),
    dup=st.booleans(),
)


def outcomes(window: IngestWindow) -> int:
    return len(window.items) + len(window.quarantined) + window.retained + window.heartbeats


@settings(max_examples=300, deadline=None)
@given(st.lists(messages, max_size=6))
@example([RawMessage(TOPICS[0], b'[{"tank_c":1},{"tank_c":1e999}]', NOW)])
@example([RawMessage(TOPICS[0], b'[{"note":"\\ud800"},{"tank_c":1}]', NOW)])
def test_every_item_has_one_outcome(batch: list[RawMessage]) -> None:
    window = Decoder(SENSORS, PROFILES).decode(batch)
    assert window.messages == len(batch)
    assert outcomes(window) == sum(count(message) for message in batch)
    for item in window.items:
        assert item.sensor in SENSORS
        assert item.values or item.profile is not None
        assert item.values.keys() <= set(COLUMNS)
        assert all(LOW[name][0] <= value <= LOW[name][1] for name, value in item.values.items())
        assert 1_577_836_800_000_000 <= item.time_us <= item.received_us + 300_000_000
        assert (item.key is None) == (item.flags == 0)
    for one in window.quarantined:
        assert one.reason
        assert ": " in one.detail
        assert one.payload == one.payload[:4096]


@settings(max_examples=300, deadline=None)
@given(mutated)
def test_a_damaged_message_has_its_outcomes_too(message: RawMessage) -> None:
    window = Decoder(SENSORS, PROFILES).decode([message])
    assert outcomes(window) == count(message)


def _all(windows: list[IngestWindow]) -> tuple[Any, ...]:
    """What windows say together, whatever their borders."""
    unknown: dict[tuple[str, str], int] = {}
    contacts: dict[str, int] = {}
    for window in windows:
        for sensor, name, times in window.unknown_fields:
            unknown[sensor, name] = unknown.get((sensor, name), 0) + times
        for sensor, at in window.contacts:
            contacts[sensor] = max(at, contacts.get(sensor, at))
    return (
        [item for window in windows for item in window.items],
        [one for window in windows for one in window.quarantined],
        [one for window in windows for one in window.statuses],
        sum(window.retained for window in windows),
        sum(window.heartbeats for window in windows),
        sum(window.messages for window in windows),
        unknown,
        contacts,
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(messages, mutated), max_size=8), st.lists(st.integers(0, 8), max_size=4))
def test_the_borders_of_windows_change_nothing(batch: list[RawMessage], cuts: list[int]) -> None:
    whole = Decoder(SENSORS, PROFILES).decode(batch)
    decoder = Decoder(SENSORS, PROFILES)
    borders = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    parts = [decoder.decode(batch[a:b]) for a, b in pairwise(borders)]
    assert _all(parts) == _all([whole])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = open_store(tmp_path_factory.mktemp("fuzz"))
    yield opened
    opened.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.one_of(messages, mutated), max_size=5), max_size=3))
def test_what_is_decoded_the_store_can_hold(store: Store, batches: list[list[RawMessage]]) -> None:
    decoder = Decoder(SENSORS, PROFILES)
    received = store.history.totals().received
    for batch in batches:
        window = decoder.decode(batch)
        received += outcomes(window)
        store.history.commit(window)
    totals = store.history.totals()
    assert totals.received == received
    assert totals.received == (
        totals.stored + totals.duplicate + totals.quarantined + totals.retained + totals.heartbeat
    )


@settings(deadline=None)
@given(documents)
def test_a_parse_is_what_the_standard_library_reads(document: Any) -> None:
    payload = json.dumps(document).encode()
    try:
        expected = _strict(payload)
    except ValueError:
        with pytest.raises(Refused):
            parse(payload)
        return
    if re.search(rb"\\\\ud[89a-f]", payload) and not _is_text(expected):  # a lone surrogate is no text
        with pytest.raises(Refused):
            parse(payload)
    else:
        assert parse(payload) == expected


def _is_text(document: Any) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.dictionaries(st.text(max_size=6), scalars, min_size=1, max_size=6), st.data())
def test_a_key_given_twice_is_always_found(document: dict[str, Any], data: st.DataObject) -> None:
    pairs = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in document.items() if value == value]
    double = data.draw(st.sampled_from(sorted(document)))
    pairs.insert(data.draw(st.integers(0, len(pairs))), f'{json.dumps(double, ensure_ascii=False)}: "a:b"')
    pairs.insert(data.draw(st.integers(0, len(pairs))), f"{json.dumps(double)} :[]")
    with pytest.raises(Refused) as caught:
        parse(("{" + ",".join(pairs) + "}").encode("utf-8", "surrogatepass"))
    assert caught.value.reason in ("duplicate_key", "not_json")


@given(st.integers(1, 60), st.booleans())
def test_depth_is_counted_outside_strings(depth: int, quoted: bool) -> None:
    payload = b"[" * depth + b'"' + b"[{" * 50 * quoted + b'"' + b"]" * depth
    if depth > MAX_DEPTH:
        with pytest.raises(Refused, match="too_deep"):
            check(payload)
    else:
        check(payload)
