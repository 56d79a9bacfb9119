"""Whatever bytes come: decoding never raises, and every item has exactly one outcome."""

from __future__ import annotations

import json
import re
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(messages, max_size=5), max_size=3))
def test_what_is_decoded_the_store_can_hold(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[RawMessage]]
) -> None:
    store = open_store(tmp_path_factory.mktemp("fuzz"))
    decoder = Decoder(SENSORS, PROFILES)
    received = 0
    try:
        for batch in batches:
            window = decoder.decode(batch)
            received += outcomes(window)
            store.history.commit(window)
        totals = store.history.totals()
        assert totals.received == received
        assert totals.received == (
            totals.stored + totals.duplicate + totals.quarantined + totals.retained + totals.heartbeat
        )
    finally:
        store.close()


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
