"""The disk spool: its records against truncation and damage, its order, its bound, its life over restarts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.message import RawMessage
from ingest.spool import Spool, SpoolError, SpoolFull
from ingest.spoolfile import DAMAGED, HEAD_BYTES, Damage, Record, encode, records

messages = st.builds(
    RawMessage,
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    payload=st.binary(max_size=300),
    received_us=st.integers(0, 2**62),
    retain=st.booleans(),
    dup=st.booleans(),
    qos=st.integers(0, 1),
    size=st.integers(0, 2**31),
    sha256=st.sampled_from(["", "ab" * 32]),
)


def message(n: int, size: int = 20) -> RawMessage:
    return RawMessage(f"t/{n}", b"%0*d" % (size, n), 1_000_000 + n)


def some(first: int, count: int) -> list[RawMessage]:
    return [message(n) for n in range(first, first + count)]


def drain(spool: Spool, most: int = 100) -> list[tuple[int, RawMessage]]:
    """Everything it gives, with its numbers."""
    out: list[tuple[int, RawMessage]] = []
    while (run := spool.read(most)) is not None:
        assert 0 < len(run.messages) <= most
        out += enumerate(run.messages, run.number)
    return out


# ---- records -----------------------------------------------------------------------------------------


@given(st.lists(messages, max_size=5), st.integers(1, 2**60))
def test_what_is_written_is_read(many: list[RawMessage], first: int) -> None:
    found = list(records(encode(first, many)))
    assert [(one.number, one.message) for one in found if isinstance(one, Record)] == list(
        enumerate(many, first)
    )
    assert len(found) == len(many)


def test_cut_at_every_byte_gives_the_whole_records_before_and_one_torn() -> None:
    many = some(1, 3)
    data, ends = encode(1, many), [len(encode(1, many[:n])) for n in range(4)]
    for cut in range(len(data) + 1):
        whole = max(n for n in range(4) if ends[n] <= cut)
        found = list(records(data[:cut]))
        assert [one.message for one in found if isinstance(one, Record)] == many[:whole]
        assert [one for one in found if isinstance(one, Damage)] == (
            [] if cut == ends[whole] else [Damage(ends[whole], cut, torn=True)]
        )


@settings(max_examples=300)
@given(st.lists(messages, min_size=1, max_size=4), st.data())
def test_a_flipped_bit_costs_its_record_and_no_other(many: list[RawMessage], data: st.DataObject) -> None:
    good = encode(7, many)
    ends = [len(encode(7, many[: n + 1])) for n in range(len(many))]
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    hit = next(n for n, end in enumerate(ends) if at < end)
    found = list(records(bytes(bad)))
    kept = [(one.number, one.message) for one in found if isinstance(one, Record)]
    assert kept == [(7 + n, one) for n, one in enumerate(many) if n != hit]
    (damage,) = (one for one in found if isinstance(one, Damage))
    assert not damage.torn
    assert (damage.start, damage.end) == (ends[hit - 1] if hit else 0, ends[hit])


@given(st.binary(max_size=400))
def test_any_bytes_are_accounted_for(data: bytes) -> None:
    at = 0
    for one in records(data):
        if isinstance(one, Damage):
            assert one.start == at
        at = one.end
    assert at == len(data)


def test_room_never_written_to_is_a_torn_tail() -> None:
    data = encode(1, some(1, 2))
    *_, last = records(data + bytes(4096))
    assert last == Damage(len(data), len(data) + 4096, torn=True)


# ---- the folder --------------------------------------------------------------------------------------


def test_it_gives_in_order_while_more_is_appended(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1 << 20)
    assert spool.read(10) is None
    spool.append(1, some(1, 5))
    first = spool.read(3)
    assert first is not None
    assert (first.number, list(first.messages)) == (1, some(1, 3))
    spool.append(6, some(6, 2))
    assert drain(spool) == list(enumerate(some(4, 4), 4))
    assert spool.status().records == 7
    spool.discard(7)
    status = spool.status()
    assert (status.records, status.bytes, status.oldest_us) == (0, 0, None)
    assert list((tmp_path / "spool").iterdir()) == []


def test_it_is_read_from_the_first_uncommitted_after_a_restart(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20, segment_bytes=300)
    for n in range(1, 21):
        spool.append(n, [message(n)])
    assert len(list(tmp_path.iterdir())) == 4
    spool.read(12)
    spool.discard(9)
    spool.close()
    again = Spool(tmp_path, 1 << 20, taken=9)
    assert again.last == 20
    assert again.status().records == 11
    again.append(21, [message(21)])
    assert drain(again, 4) == list(enumerate(some(10, 12), 10))
    again.discard(21)
    assert list(tmp_path.iterdir()) == []


def test_numbers_go_on_where_the_store_or_the_spool_is_further(tmp_path: Path) -> None:
    assert Spool(tmp_path / "none", 1 << 20, taken=41).last == 41
    spool = Spool(tmp_path / "some", 1 << 20, taken=5)
    spool.append(6, some(6, 4))
    spool.close()
    assert Spool(tmp_path / "some", 1 << 20, taken=0).last == 9


def test_what_was_committed_otherwise_is_not_given_out(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.append(1, some(1, 3))
    spool.discard(2)
    spool.append(4, some(4, 1))
    assert drain(spool) == [(3, message(3)), (4, message(4))]


def test_a_full_spool_says_so_and_has_room_again_after_a_discard(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1000)
    held = 15  # of 64 or 65 bytes each; a segment takes an eighth of the room
    for number in range(1, held + 1):
        spool.append(number, [message(number)])
    with pytest.raises(SpoolFull):
        spool.append(held + 1, [message(held + 1)])
    assert spool.status().bytes <= 1000
    assert [n for n, _ in drain(spool)] == list(range(1, held + 1))
    spool.discard(held // 2)
    spool.append(held + 1, [message(held + 1)])
    assert drain(spool) == [(held + 1, message(held + 1))]


def test_a_torn_tail_is_cut_and_its_number_used_again(tmp_path: Path) -> None:
    whole = encode(1, some(1, 3))
    for cut in range(len(encode(1, some(1, 2))), len(whole)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / f"{1:020d}-{1_000_001:020d}.spool").write_bytes(whole[:cut])
        spool = Spool(folder, 1 << 20)
        assert spool.last == 2
        spool.append(3, some(3, 2))
        assert drain(spool) == list(enumerate(some(1, 4), 1))
        spool.close()


def test_a_segment_that_was_never_finished_vanishes(tmp_path: Path) -> None:
    (tmp_path / f"{5:020d}-{1_000_005:020d}.spool").write_bytes(encode(5, some(5, 1))[:-1])
    spool = Spool(tmp_path, 1 << 20, taken=4)
    assert spool.last == 4
    assert drain(spool) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", range(HEAD_BYTES + 30), ids=lambda at: f"byte {at}")
def test_a_damaged_record_is_set_aside_with_its_bytes(tmp_path: Path, where: int) -> None:
    parts = [encode(n, [message(n)]) for n in range(1, 5)]
    for hit in range(4):
        folder = tmp_path / str(hit)
        folder.mkdir()
        bad = bytearray(parts[hit])
        bad[where] ^= 0x10
        data = b"".join([*parts[:hit], bytes(bad), *parts[hit + 1 :]])
        (folder / f"{1:020d}-{1_000_001:020d}.spool").write_bytes(data)
        spool = Spool(folder, 1 << 20)
        assert spool.last == 4
        found = dict(drain(spool))
        assert list(found) == [1, 2, 3, 4]
        assert {n: one for n, one in found.items() if n != hit + 1} == {
            n: message(n) for n in range(1, 5) if n != hit + 1
        }
        aside = found[hit + 1]
        assert (aside.topic, aside.payload, aside.qos) == (DAMAGED, bytes(bad), 0)
        received = [one.received_us for one in found.values()]
        assert received == sorted(received)
        spool.discard(4)
        assert list(folder.iterdir()) == []


def test_damage_in_what_was_committed_already_is_passed_over(tmp_path: Path) -> None:
    parts = [encode(n, [message(n)]) for n in range(1, 5)]
    (tmp_path / f"{1:020d}-{1_000_001:020d}.spool").write_bytes(
        bytes(len(parts[0])) + parts[1] + bytes(len(parts[2])) + parts[3]
    )
    assert [n for n, _ in drain(Spool(tmp_path, 1 << 20, taken=2))] == [3, 4]


def test_another_file_in_the_folder_is_left_alone_and_a_false_segment_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("ours")
    assert drain(Spool(tmp_path, 1 << 20)) == []
    (tmp_path / "copy.spool").write_bytes(b"x")
    with pytest.raises(SpoolError, match=r"copy\.spool: no segment"):
        Spool(tmp_path, 1 << 20)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"file/spool: the spool cannot be used \(Not a directory\)"):
        Spool(tmp_path / "file" / "spool", 1 << 20)


NO_ROOM = """
import resource, signal, sys
from pathlib import Path
from ingest.message import RawMessage
from ingest.spool import Spool, SpoolError
spool = Spool(Path(sys.argv[1]), 1 << 20)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool.append(1, [RawMessage("t", b"first", 1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
try:
    spool.append(2, [RawMessage("t", b"x" * 1000, 2)])
except SpoolError as error:
    assert "File too large" in str(error), error
    assert spool.status().records == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
spool.append(2, [RawMessage("t", b"second", 2)])
print([one.payload.decode() for run in iter(lambda: spool.read(1), None) for one in run.messages])
"""


def test_without_room_nothing_half_written_counts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1:] == ["['first', 'second']"], done.stderr
    assert [one.payload for _, one in drain(Spool(tmp_path, 1 << 20))] == [b"first", b"second"]
