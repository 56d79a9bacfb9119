"""The disk spool: what was received while the store could not take it, in order, bounded, on stable storage.

Append-only segment files ``<number>-<received_us>.spool``, named by their first record (:mod:`ingest.spoolfile`).
Messages are numbered over the life of the store; whoever commits them keeps the number of the last one in the same
transaction, so that after any end of the process each is taken exactly once: what stands here and was committed
already is passed over. One thread appends, another reads and discards.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import structlog

from ingest.message import RawMessage
from ingest.spoolfile import DAMAGED, Record, encode, records

__all__ = ["Run", "Spool", "SpoolError", "SpoolFull", "SpoolStatus"]

_log = structlog.get_logger("quarterline.spool")

_SUFFIX: Final = ".spool"
_SEGMENT_BYTES: Final = 8 * 1024 * 1024
_SEGMENTS: Final = 8  # at the least: room comes back by the segment


class SpoolError(Exception):
    """The spool cannot be written or read; nothing of what was to be appended counts as kept."""


class SpoolFull(SpoolError):
    """The spool has reached its bound."""


@dataclass(frozen=True, slots=True)
class Run:
    """Messages in order of reception with numbers from ``number`` on, none left out."""

    number: int
    messages: tuple[RawMessage, ...]


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """What the spool holds; ``oldest_us`` is when the first message that was not given out was received."""

    bytes: int
    capacity_bytes: int
    records: int
    oldest_us: int | None


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    received_us: int  # its first message
    size: int  # up to here it is on stable storage
    last: int
    since_us: int  # the first message that was not read yet
    sealed: bool = True


class Spool:
    """One folder of segments.

    Parameters
    ----------
    capacity_bytes
        The most the segments may take together [bytes].
    taken
        Number of the last message that is committed.

    Raises
    ------
    SpoolError
        The folder cannot be used; the text says why.
    """

    def __init__(
        self, folder: Path, capacity_bytes: int, *, taken: int = 0, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        self._folder = folder
        self._capacity = capacity_bytes
        self._segment_bytes = min(segment_bytes, max(capacity_bytes // _SEGMENTS, 1))
        self._lock = threading.Lock()
        self._appending = False
        self._file = -1  # the segment that is being written
        self._segments: deque[_Segment] = deque()
        self._given = self._committed = taken
        self._reading: _Segment | None = None
        self._offset = 0  # how much of it has been read
        self._ahead: deque[tuple[int, RawMessage]] = deque()  # read and not yet given out
        with _explained(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sync_folder(folder.parent)
            self._segments.extend(_found(folder))
        self._last = max(taken, self._segments[-1].last if self._segments else 0)
        self.discard(taken)

    @property
    def last(self) -> int:
        """Number of the newest message it ever held, or of the last one committed."""
        return self._last

    def status(self) -> SpoolStatus:
        """What it holds."""
        with self._lock:
            waiting = next((s for s in self._segments if s.last > self._given), None)
            oldest = waiting.since_us if waiting is not None else None
            with suppress(IndexError):
                oldest = self._ahead[0][1].received_us
            count = max(self._last - self._committed, 0)
            return SpoolStatus(self._bytes(), self._capacity, count, oldest)

    # ---- the thread that appends -----------------------------------------------------------------------

    def append(self, number: int, messages: Sequence[RawMessage]) -> None:
        """Keep these messages, the first under ``number``; when it returns they are on stable storage.

        Raises
        ------
        SpoolFull
            They would not fit.
        SpoolError
            The disk refuses.
        """
        data = encode(number, messages)
        with self._lock:
            if self._bytes() + len(data) > self._capacity:
                raise SpoolFull(f"{self._folder}: the spool is full ({self._capacity} bytes)")
            self._appending = True
        try:
            with _explained(self._folder):
                segment = self._writable(number, messages[0].received_us)
                self._write(segment, data)
        except SpoolError:
            self._appending = False
            raise
        with self._lock:  # all at once: what is being written to is never deleted
            if segment is self._reading and self._offset == segment.size:
                segment.since_us = messages[0].received_us
            segment.size += len(data)
            segment.last = self._last = number + len(messages) - 1
            self._appending = False

    def _writable(self, number: int, received_us: int) -> _Segment:
        if self._file >= 0:
            segment = self._segments[-1]
            if segment.size < self._segment_bytes:
                return segment
            self._seal(segment)
        path = self._folder / f"{number:020d}-{received_us:020d}{_SUFFIX}"
        self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        segment = _Segment(path, number, received_us, 0, number - 1, received_us, sealed=False)
        with self._lock:
            self._segments.append(segment)
        try:
            _sync_folder(self._folder)
        except OSError:
            self._give_up(segment)
            raise
        return segment

    def _write(self, segment: _Segment, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            self._give_up(segment)
            raise

    def _give_up(self, segment: _Segment) -> None:
        """After a failure nobody knows what the file holds beyond its last sync: it is not written to again."""
        with suppress(OSError):
            os.ftruncate(self._file, segment.size)
        self._seal(segment)
        if not segment.size:
            with self._lock:
                self._segments.remove(segment)
            with suppress(OSError):
                segment.path.unlink()

    def _seal(self, segment: _Segment) -> None:
        segment.sealed = True
        file, self._file = self._file, -1
        with suppress(OSError):
            os.close(file)

    # ---- the thread that reads -------------------------------------------------------------------------

    def read(self, most: int) -> Run | None:
        """The next messages that have not been given out, at most so many; None where there is none.

        Raises
        ------
        SpoolError
            A segment cannot be read.
        """
        self._skip()
        while not self._ahead:
            if not self._load():
                return None
            self._skip()
        number = self._ahead[0][0]
        run: list[RawMessage] = []
        while self._ahead and len(run) < most and self._ahead[0][0] == number + len(run):
            run.append(self._ahead.popleft()[1])
        self._given = number + len(run) - 1
        return Run(number, tuple(run))

    def discard(self, upto: int) -> None:
        """Everything up to this number is committed: never give it out, delete the segments that hold nothing else."""
        with self._lock:
            self._given = max(self._given, upto)
            self._committed = max(self._committed, upto)
            over = []
            while self._segments and self._segments[0].last <= self._committed:
                if not self._segments[0].sealed:
                    if self._appending:
                        break  # more is being written to it
                    self._seal(self._segments[0])
                over.append(self._segments.popleft())
        for segment in over:
            with suppress(OSError):  # it is passed over by its numbers
                segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file being written; what it holds is read after the next start."""
        if self._file >= 0:
            self._seal(self._segments[-1])

    def _skip(self) -> None:
        while self._ahead and self._ahead[0][0] <= self._given:
            self._ahead.popleft()

    def _load(self) -> bool:
        """Read on in the oldest segment that has more; False where none has."""
        with self._lock:
            following = next((s for s in self._segments if self._unread(s)), None)
            if following is None:
                return False
            size = following.size
        if following is not self._reading:
            self._reading, self._offset = following, 0
        with _explained(self._folder), following.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(size - self._offset)
        base, self._offset = self._offset, size
        self._ahead.extend(self._numbered(following, data, base))
        return True

    def _unread(self, segment: _Segment) -> bool:
        if self._reading is None or segment.first > self._reading.first:
            return segment.size > 0
        return segment is self._reading and self._offset < segment.size

    def _numbered(self, segment: _Segment, data: bytes, base: int) -> Iterator[tuple[int, RawMessage]]:
        """The records of a segment; a damaged one under the number that is missing for it."""
        number, received_us = max(self._given, segment.first - 1), segment.received_us
        found = list(records(data))
        for place, one in enumerate(found):
            if isinstance(one, Record):
                number, received_us = one.number, one.message.received_us
                yield number, one.message
                continue
            if one.torn:
                _log.info("a record that was never finished is cut off", file=segment.path.name)
                continue
            following = next(
                (r.number for r in found[place + 1 :] if isinstance(r, Record)), segment.last + 1
            )
            missing = one.number or number + 1
            if missing >= following:
                continue  # a number that stands elsewhere: nothing is missing
            number, received_us = missing, one.received_us or received_us
            _log.error(
                "a damaged record of the spool goes to quarantine",
                file=segment.path.name, at=base + one.start, bytes=one.end - one.start,
                numbers=(missing, following - 1),
            )  # fmt: skip
            yield number, RawMessage(DAMAGED, data[one.start : one.end], received_us, qos=0)

    def _bytes(self) -> int:
        return sum(one.size for one in self._segments)


def _found(folder: Path) -> list[_Segment]:
    """The segments of an earlier run, oldest first; empty ones are deleted."""
    segments = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        first, _, received = path.stem.partition("-")
        if not (first.isdecimal() and received.isdecimal()):
            raise SpoolError(f"{path}: no segment of a spool by its name: move it away")
        size = path.stat().st_size
        if size:
            segments.append(_Segment(path, int(first), int(received), size, int(first) - 1, int(received)))
        else:
            path.unlink()
    for one, following in pairwise(segments):
        one.last = following.first - 1
    if segments:
        _count(segments[-1])
        if segments[-1].last < segments[-1].first:  # nothing in it was ever finished
            segments.pop().path.unlink()
    return segments


def _count(segment: _Segment) -> None:
    for one in records(segment.path.read_bytes()):
        if isinstance(one, Record):
            segment.last = one.number
        elif not one.torn:
            segment.last = one.number or segment.last + 1


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Errors of the system as errors of the spool."""
    try:
        yield
    except OSError as error:
        raise SpoolError(
            f"{folder}: the spool cannot be used ({error.strerror}): make room, or give spool.dir another disk"
        ) from error
