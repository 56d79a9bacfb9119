"""Between source and writer: whatever happens in whatever order, what is acknowledged is committed once, in order."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from api.intake import Handed, Intake
from ingest.message import RawMessage
from ingest.spool import Spool
from ingest.spoolfile import Record, encode, records
from ingest.told import Window


class Broker:
    """A source whose broker sends again, in order, what was not acknowledged before the service ended."""

    def __init__(self) -> None:
        self.sent: list[RawMessage] = []
        self.acknowledged: list[RawMessage] = []
        self.sent_again: set[str] = set()
        self._windows: deque[Window] = deque()

    def publish(self, count: int) -> None:
        many = tuple(
            RawMessage(f"t/{n}", b"x" * (n % 50), n) for n in range(len(self.sent), len(self.sent) + count)
        )
        self.sent += many
        self._windows.append(Window(many, many[-1].received_us if many else len(self.sent)))

    def connect_again(self) -> None:
        rest = self.sent[len(self.acknowledged) :]
        self.sent_again |= {one.topic for one in rest}
        self._windows = deque(Window((one,), one.received_us) for one in rest)

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def next(self, timeout_s: float) -> Window | None:
        return self._windows.popleft() if self._windows else None

    def done(self, window: Any) -> None:
        self.acknowledged += window.messages

    def pending(self) -> int:
        return sum(len(one.messages) for one in self._windows)

    def bound(self) -> int:
        return 1000

    def ready(self) -> tuple[bool, str]:
        return True, ""


class Slow(Spool):
    """While it writes, other things happen: before the bytes are there, or after."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def append(self, number: int, messages: Sequence[RawMessage]) -> None:
        if self.before is not None:
            self.before()
        super().append(number, messages)
        if self.after is not None:
            self.after()


class Life(RuleBasedStateMachine):
    """The steps of reader, keeper and writer, one at a time in any order, with ends of the process between them."""

    @initialize(capacity=st.integers(500, 5000))
    def begin(self, capacity: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.capacity = capacity
        self.broker = Broker()
        self.committed: list[RawMessage] = []
        self.taken = 0
        self.hand: Handed | None = None
        self._open()

    def _open(self) -> None:
        self.spool = Slow(self.folder, self.capacity, taken=self.taken, segment_bytes=400)
        self.intake = Intake(self.broker, lambda: 0.0, taken=self.taken, spool=self.spool, patience_s=0.0)
        self.first = 0  # how much of what is in hand is committed

    @rule(count=st.integers(0, 8))
    def publish(self, count: int) -> None:
        self.broker.publish(count)

    @rule(before=st.booleans(), after=st.booleans())
    def keeper_looks(self, before: bool, after: bool) -> None:
        self.spool.before = self._writer_goes_on if before else None
        self.spool.after = self._writer_goes_on if after else None
        self.intake._look(self.spool)

    def _writer_goes_on(self) -> None:
        if self.hand is not None:
            self.writer_commits_a_span(1000)
            self.writer_is_done()
        self.writer_asks()

    @precondition(lambda self: self.hand is None)
    @rule()
    def writer_asks(self) -> None:
        self.hand = self.intake.next(0.0)
        self.first = 0

    @precondition(lambda self: self.hand is not None)
    @rule(count=st.integers(1, 5))
    def writer_commits_a_span(self, count: int) -> None:
        assert self.hand is not None
        span = self.hand.messages[self.first : self.first + count]
        self.committed += span
        self.first += len(span)
        if span:  # number and messages in one transaction
            self.taken = self.hand.number + self.first - 1

    @precondition(lambda self: self.hand is not None and self.first == len(self.hand.messages))
    @rule()
    def writer_is_done(self) -> None:
        assert self.hand is not None
        self.intake.done(self.hand)
        self.hand = None

    @rule(written=st.floats(0, 1))
    def killed_and_started_again(self, written: float) -> None:
        """In the middle of writing what is to be kept next, where something is."""
        handed = self.intake._unsaved or self.intake._kept
        if handed is not None and self.spool._file >= 0:
            data = encode(handed.number, handed.messages)
            with max(self.folder.glob("*.spool")).open("ab") as file:
                file.write(data[: int(written * len(data))])
        self.hand = None
        self.broker.connect_again()
        self._open()

    @invariant()
    def everything_acknowledged_is_safe(self) -> None:
        if not hasattr(self, "folder"):
            return
        safe = {one.topic for one in self.committed}
        for path in self.folder.glob("*.spool"):
            safe |= {one.message.topic for one in records(path.read_bytes()) if isinstance(one, Record)}
        assert {one.topic for one in self.broker.acknowledged} <= safe

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        for _ in range(10_000):
            if self.hand is None:
                self.hand = self.intake.next(0.0)
                self.first = 0
            if self.hand is None:
                break
            self.writer_commits_a_span(1000)
            self.writer_is_done()
        self._check_end()
        self.spool.close()
        shutil.rmtree(self.folder)

    def _check_end(self) -> None:
        topics = [one.topic for one in self.committed]
        # what the broker had to send again may be committed again: it is a duplicate then; nothing else is
        once = list(dict.fromkeys(topics))
        assert once == [one.topic for one in self.broker.sent]
        assert {one for one in once if topics.count(one) > 1} <= self.broker.sent_again
        assert [one.topic for one in self.broker.acknowledged] == once
        assert self.intake.pending(self.taken) == 0
        assert self.spool.status().bytes == 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    one = Spool(tmp_path / "spool", 1 << 20)
    yield one
    one.close()


def test_a_message_committed_out_of_the_spool_is_never_handed_out_again(tmp_path: Path) -> None:
    """No message here could be told from another by its content."""
    broker = Broker()
    intake = Intake(broker, lambda: 0.0, spool=Spool(tmp_path, 1 << 20), patience_s=0.0)
    broker.publish(6)
    hand = intake.next(0.0)
    assert hand is not None
    assert (hand.number, hand.last) == (1, 6)
    intake._look(intake._spool)  # type: ignore[arg-type]  # there is one
    assert len(broker.acknowledged) == 6
    # killed when four of the six were committed
    again = Intake(broker, lambda: 0.0, taken=4, spool=Spool(tmp_path, 1 << 20, taken=4), patience_s=0.0)
    assert again.pending(4) == 2
    broker.publish(1)
    rest = again.next(0.0)
    assert rest is not None
    assert (rest.number, [one.topic for one in rest.messages]) == (5, ["t/4", "t/5"])
    again.done(rest)
    last = again.next(0.0)
    assert last is not None
    assert (last.number, [one.topic for one in last.messages]) == (7, ["t/6"])


def test_half_and_full_are_told_once_and_the_end_too(tmp_path: Path) -> None:
    broker = Broker()
    intake = Intake(broker, lambda: 12.0, spool=Spool(tmp_path, 2000), patience_s=0.0)
    broker.publish(0)
    hand = intake.next(0.0)
    assert hand is not None
    said = []
    for _ in range(60):
        broker.publish(1)
        intake._look(intake._spool)  # type: ignore[arg-type]
        said.append(intake.ready())
    assert [one.state for one in intake.notices()] == ["half", "full"]
    assert intake.notices() == []
    assert [ok for ok, _ in said].index(False) > next(
        n for n, (ok, text) in enumerate(said) if text.startswith("degraded: ")
    )
    assert "the spool is full" in said[-1][1]
    assert intake.flow().lag_s > 0
    acknowledged = len(broker.acknowledged)
    assert acknowledged < 60
    while hand is not None:
        intake.done(hand)
        hand = intake.next(0.0)
    assert len(broker.acknowledged) == 60
    (drained,) = intake.notices()
    assert (drained.state, drained.at_us) == ("drained", 12_000_000)
    assert intake.ready() == (True, "empty")
    assert intake.flow().lag_s == 0


def test_a_patient_keeper_touches_nothing(spool: Spool, tmp_path: Path) -> None:
    broker = Broker()
    intake = Intake(broker, lambda: 0.0, spool=spool, patience_s=3600)
    broker.publish(3)
    assert intake.next(0.0) is not None
    broker.publish(3)
    intake._look(spool)
    assert broker.acknowledged == []
    assert broker.pending() == 3
    assert spool.status().records == 0


def test_a_spool_that_cannot_be_read_is_said_and_waited_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1 << 20)
    spool.append(1, [RawMessage("t/0", b"", 0)])
    spool.close()
    again = Spool(tmp_path / "spool", 1 << 20)
    intake = Intake(Broker(), lambda: 0.0, spool=again)
    (tmp_path / "spool").rename(tmp_path / "away")
    assert intake.next(0.0) is None
    ok, text = intake.ready()
    assert not ok
    assert "No such file" in text
    (tmp_path / "away").rename(tmp_path / "spool")
    hand = intake.next(0.0)
    assert hand is not None
    assert [one.topic for one in hand.messages] == ["t/0"]
