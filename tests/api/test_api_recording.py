"""Recorded streams: what contracts.md §3 says of message and event files."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.recording import (
    Event,
    RecordingError,
    instant_text,
    merged,
    parse_instant,
    read_events,
    read_messages,
    write_event,
    write_message,
)
from ingest.message import RawMessage

T0 = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z, `date -u -d 2026-01-01 +%s`


def messages(text: str) -> list[RawMessage]:
    return list(read_messages(io.BytesIO(text.encode()), "m.jsonl"))


def test_payloads_as_text_object_and_hex() -> None:
    got = messages(
        '{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload": "{\\"surface_mm\\": 1}"}\n'
        '{"received_at": "2026-01-01T01:00:00+01:00", "topic": "b", "payload": {"surface_mm":  1.50}}\n'
        '\n{"received_at": "2026-01-01T00:00:01Z", "topic": "c", "payload_hex": "ff00", "retain": true}\n'
    )
    assert got == [
        RawMessage(topic="a", payload=b'{"surface_mm": 1}', received_us=T0),
        RawMessage(topic="b", payload=b'{"surface_mm":  1.50}', received_us=T0),
        RawMessage(topic="c", payload=b"\xff\x00", received_us=T0 + 1_000_000, retain=True),
    ]


def test_lines_out_of_order_are_read_in_order_of_reception_and_equals_keep_the_files_order() -> None:
    got = messages(
        '{"received_at": "2026-01-01T00:00:02Z", "topic": "late", "payload": ""}\n'
        '{"received_at": "2026-01-01T00:00:01Z", "topic": "first", "payload": ""}\n'
        '{"received_at": "2026-01-01T00:00:01Z", "topic": "second", "payload": ""}\n'
    )
    assert [m.topic for m in got] == ["first", "second", "late"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"topic": "a", "payload": ""}', "m.jsonl:1: received_at"),
        ('{"received_at": "2026-01-01T00:00:00", "topic": "a", "payload": ""}', "no offset"),
        ('{"received_at": "yesterday", "topic": "a", "payload": ""}', "m.jsonl:1: received_at"),
        ('{"received_at": "2026-01-01T00:00:00Z", "topic": "a"}', "m.jsonl:1: neither payload"),
        (
            '{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload": "", "payload_hex": ""}',
            "m.jsonl:1: both payload and payload_hex",
        ),
        ('{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload_hex": "f"}', "m.jsonl:1:"),
        ('{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload": "", "qos": 1}', "qos"),
        ("not json", "m.jsonl:1:"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str) -> None:
    with pytest.raises(RecordingError, match=said.replace("(", r"\(")):
        messages(line)


def test_a_bad_line_is_named_by_its_own_number() -> None:
    good = '{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload": ""}\n'
    with pytest.raises(RecordingError, match=r"^m\.jsonl:4: "):
        messages(good + "\n" + good + "{\n")


def test_events_come_before_messages_of_the_same_instant() -> None:
    events = read_events(
        io.BytesIO(b'{"at": "2026-01-01T00:00:00Z", "type": "core_sample", "interceptor": "x"}\n'), "e.jsonl"
    )
    assert events == [Event(T0, "core_sample", {"interceptor": "x"}, "e.jsonl:1")]
    stream = list(merged(iter([RawMessage("t", b"", T0)]), events))
    assert [type(one).__name__ for one in stream] == ["Event", "RawMessage"]


def test_an_event_without_a_type_is_named() -> None:
    with pytest.raises(RecordingError, match=r"^e\.jsonl:1: type: missing"):
        read_events(io.BytesIO(b'{"at": "2026-01-01T00:00:00Z"}\n'), "e.jsonl")


@given(
    st.lists(
        st.builds(
            RawMessage,
            topic=st.text(max_size=20),
            payload=st.binary(max_size=40),
            received_us=st.integers(0, 4_000_000_000_000_000),
            retain=st.booleans(),
        ),
        max_size=8,
    )
)
def test_what_is_recorded_reads_back(stream: list[RawMessage]) -> None:
    file = io.BytesIO()
    for one in stream:
        write_message(file, one)
    file.seek(0)
    assert list(read_messages(file, "m")) == sorted(stream, key=lambda m: m.received_us)


@given(st.integers(0, 4_000_000_000_000_000))
def test_instants_read_back(us: int) -> None:
    assert parse_instant(instant_text(us)) == us


def test_an_event_reads_back() -> None:
    event = Event(T0 + 1, "order_answer", {"hauler": "valley", "answer": "accepted"}, "e:1")
    file = io.BytesIO()
    write_event(file, event)
    file.seek(0)
    assert read_events(file, "e") == [event]


def test_what_a_broker_sent_again_and_what_was_too_large_to_keep_stay_so() -> None:
    again = RawMessage("quarterline/v1/d-1/readings", b'{"surface_mm": 1}', T0, dup=True)
    huge = RawMessage("quarterline/v1/d-1/readings", b"[" * 4096, T0, size=50_000_000, sha256="ab" * 32)
    file = io.BytesIO()
    for one in (again, huge):
        write_message(file, one)
    assert messages(file.getvalue().decode()) == [again, huge]
