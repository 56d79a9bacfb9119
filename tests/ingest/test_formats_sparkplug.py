"""Sparkplug B: births, aliases, sequence, deaths, after the Sparkplug specification 3.0.0; L55 of the field reports."""

from __future__ import annotations

import pytest

from ingest.decode import Decoder
from ingest.formats.memory import Memory
from ingest.formats.tahu import Payload
from ingest.message import RawMessage
from ingest.profile import load_profiles
from store.records import IngestWindow, Sensor

NOW = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
NODE, TRAP = "kitchens:edge", "kitchens:edge:trap"


class Edge:
    """One edge node and its device, as the service hears them."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.decoder = Decoder(
            {one: Sensor(one, "gi") for one in (NODE, TRAP)}, load_profiles(), memory=self.memory
        )
        self.now_us = NOW

    def say(self, kind: str, seq: int | None, *metrics: dict[str, object], device: str = "") -> IngestWindow:
        payload = Payload(timestamp=self.now_us // 1000)
        if seq is not None:
            payload.seq = seq
        for one in metrics:
            payload.metrics.add(**one)
        topic = f"spBv1.0/kitchens/{kind}/edge" + (f"/{device}" if device else "")
        return self.decoder.decode([RawMessage(topic, payload.SerializeToString(), self.now_us)])

    def born(self, session: int = 5) -> None:
        self.say("NBIRTH", 0, {"name": "bdSeq", "datatype": 8, "long_value": session})
        window = self.say(
            "DBIRTH",
            1,
            {"name": "surface_mm", "alias": 7, "datatype": 10, "double_value": 1180.0},
            device="trap",
        )
        assert values(window) == [(TRAP, {"surface_m": 1.18})]
        assert window.statuses == ((TRAP, True, self.now_us),)


def values(window: IngestWindow) -> list[tuple[str, dict[str, float]]]:
    assert window.quarantined == ()
    return [(item.sensor, dict(item.values)) for item in window.items]


LEVEL = {"alias": 7, "double_value": 1175.0}


def test_L55_an_alias_means_what_the_birth_said() -> None:
    edge = Edge()
    edge.born()
    assert values(edge.say("DDATA", 2, LEVEL, device="trap")) == [(TRAP, {"surface_m": 1.175})]
    assert edge.memory.wishes == ()


def test_L55_an_alias_before_its_birth_is_never_misnamed() -> None:
    edge = Edge()
    (found,) = edge.say("DDATA", 9, LEVEL, device="trap").quarantined
    assert (found.reason, found.sensor) == ("alias", None)
    assert len(edge.memory.wishes) == 1


def test_L55_a_gap_wishes_for_one_rebirth_a_minute() -> None:
    edge = Edge()
    edge.born()
    wishes = []
    for seq in (3, 5, 7):
        edge.say("DDATA", seq, LEVEL, device="trap")
        wishes.append(len(edge.memory.wishes))
    edge.now_us += 61_000_000
    edge.say("DDATA", 9, LEVEL, device="trap")
    assert [*wishes, len(edge.memory.wishes)] == [1, 0, 0, 1]


def test_the_sequence_wraps_at_255() -> None:
    edge = Edge()
    edge.born()
    for seq in [*range(2, 256), 0, 1]:
        edge.say("DDATA", seq, LEVEL, device="trap")
        assert edge.memory.wishes == ()


def test_L55_a_death_of_another_session_says_nothing() -> None:
    edge = Edge()
    edge.born(session=5)
    late = edge.say("NDEATH", None, {"name": "bdSeq", "datatype": 8, "long_value": 4})
    assert (late.statuses, late.heartbeats) == ((), 1)
    window = edge.say("NDEATH", None, {"name": "bdSeq", "datatype": 8, "long_value": 5})
    assert {(sensor, online) for sensor, online, _ in window.statuses} == {(NODE, False), (TRAP, False)}
    assert edge.say("DDATA", 2, LEVEL, device="trap").quarantined[0].reason == "alias"


def test_an_alias_given_twice_is_nobodys() -> None:
    edge = Edge()
    twice = [{"name": name, "alias": 7, "datatype": 10, "double_value": 1.0} for name in ("a", "surface_mm")]
    edge.say("NBIRTH", 0, *twice)
    assert edge.say("NDATA", 1, LEVEL).quarantined[0].reason == "alias"


@pytest.mark.parametrize(
    ("datatype", "metric", "value"),
    [
        (1, {"int_value": 0xF6}, -10.0),
        (3, {"int_value": 0xFFFFFFF6}, -10.0),
        (4, {"long_value": 2**64 - 10}, -10.0),
        (7, {"int_value": 40}, 40.0),
        (9, {"float_value": 21.5}, 21.5),
        (10, {"double_value": float("nan")}, None),
        (10, {"is_null": True}, None),
    ],
)
def test_numbers_by_their_type(datatype: int, metric: dict[str, object], value: float | None) -> None:
    edge = Edge()
    window = edge.say("NBIRTH", 0, {"name": "tank_c", "datatype": datatype, **metric})
    assert values(window) == ([] if value is None else [(NODE, {"tank_c": value})])


def test_bytes_that_are_no_protobuf_and_odd_topics() -> None:
    edge = Edge()
    for topic, payload, reason in (
        ("spBv1.0/kitchens/NDATA/edge", b"\xff\xff", "sparkplug"),
        ("spBv1.0/kitchens/DDATA/edge", b"", "topic"),
        ("spBv1.0/a:b/NDATA/edge", b"", "topic"),
    ):
        (found,) = edge.decoder.decode([RawMessage(topic, payload, NOW)]).quarantined
        assert found.reason == reason
