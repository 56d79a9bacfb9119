"""Vendors' payload codecs in JavaScript (LoRa Alliance TS013), run in a child process within limits.

A codec that hangs, breaks or asks for too much costs its own message: the child is ended and a new one goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from ingest.limits import parse
from ingest.refused import Refused, shown

SOURCE_BYTES: Final = 256 * 1024
ANSWER_S: Final = 2.0  # for one message, beyond what the engine itself interrupts
START_S: Final = 10.0  # the child's first answer
STRIKES: Final = 5  # runs out of time one after another, until a codec is left alone for a while
PAUSE_S: Final = 60.0
_ANSWER_BYTES: Final = 1 << 20
_CHILD: Final = Path(__file__).with_name("codec_child.py")


class CodecError(Exception):
    """A codec's file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec's text; its digest (SHA-256) is what a record names it by."""

    name: str
    source: str
    sha256: str

    @classmethod
    def load(cls, path: Path) -> Codec:
        """Read a codec.

        Raises
        ------
        CodecError
            The file cannot be read, is no UTF-8 text, empty, or longer than 256 KiB.
        """
        try:
            raw = path.read_bytes() if path.stat().st_size <= SOURCE_BYTES else None
        except OSError as error:
            raise CodecError(f"{path}: cannot be read: {error.strerror or error}") from None
        if raw is None:
            raise CodecError(f"{path}: longer than {SOURCE_BYTES} bytes")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise CodecError(f"{path}: not UTF-8: {error}") from None
        if not text.strip():
            raise CodecError(f"{path}: empty")
        return cls(path.name, text, hashlib.sha256(raw).hexdigest())


@dataclass(frozen=True, slots=True)
class Request:
    """One uplink for a codec: its bytes, its LoRaWAN port, and when it came [us since the epoch, UTC]."""

    raw: bytes
    port: int | None
    received_us: int

    def line(self, variables: Mapping[str, str]) -> bytes:
        """As the child reads it."""
        at_ms = self.received_us // 1000
        given = {"bytes": list(self.raw), "fPort": self.port, "recvTime": at_ms, "variables": dict(variables)}
        return msgspec.json.encode({"at_ms": at_ms, "input": given}) + b"\n"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a codec made of one uplink."""

    data: dict[str, Any]
    warnings: tuple[str, ...] = ()


class Runner:
    """One child process at a time, started when first needed; used by one thread at a time."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._fresh = True  # the child has not answered yet
        self._loaded = ""
        self._strikes: dict[str, int] = {}
        self._until: dict[str, float] = {}

    @property
    def pid(self) -> int | None:
        """The child's process id; None where there is none."""
        return None if self._child is None else self._child.pid

    def run(
        self, codec: Codec, requests: Sequence[Request], variables: Mapping[str, str] | None = None
    ) -> list[Decoded | Refused]:
        """Every request's outcome, in order; one bad run costs no other."""
        with self._lock:
            return [self._one(codec, one, variables or {}) for one in requests]

    def close(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._end()

    def _one(self, codec: Codec, request: Request, variables: Mapping[str, str]) -> Decoded | Refused:
        if time.monotonic() < self._until.get(codec.sha256, 0.0):
            return Refused(
                "codec_paused",
                f"{codec.name}: ran out of time {STRIKES} times in a row and is left alone for {PAUSE_S:g} s; "
                "mend it, then quarterline quarantine retry",
            )
        answer = self._ask(codec, request.line(variables))
        self._count(codec, answer.get("error"))
        return outcome(codec, answer)

    def _count(self, codec: Codec, error: str | None) -> None:
        if error not in ("time", "ended"):
            self._strikes.pop(codec.sha256, None)
            return
        self._strikes[codec.sha256] = self._strikes.get(codec.sha256, 0) + 1
        if self._strikes[codec.sha256] >= STRIKES:
            self._strikes.pop(codec.sha256)
            self._until[codec.sha256] = time.monotonic() + PAUSE_S

    def _ask(self, codec: Codec, line: bytes) -> dict[str, Any]:
        child = self._running()
        assert child.stdin is not None
        try:
            if self._loaded != codec.sha256:
                child.stdin.write(msgspec.json.encode({"source": codec.source}) + b"\n")
            child.stdin.write(line)
            child.stdin.flush()
            self._loaded = codec.sha256
            found = self._line(child)
        except (OSError, ValueError):
            found = b""
        if found.endswith(b"\n"):
            self._fresh = False
            answer: dict[str, Any] = msgspec.json.decode(found)
            return answer
        self._end()
        if found == b"":
            return {"error": "time", "detail": "it did not end in time, and was ended"}
        return {"error": "ended", "detail": "the process it ran in ended; the message can be tried again"}

    def _line(self, child: subprocess.Popen[bytes]) -> bytes:
        """The next line of the child; without its end where it took too long, ended or said too much."""
        assert child.stdout is not None
        end = time.monotonic() + (START_S if self._fresh else self._answer_s)
        found = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not found.endswith(b"\n"):
                left = end - time.monotonic()
                if left <= 0 or len(found) > _ANSWER_BYTES or not selector.select(left):
                    return b""
                part = os.read(child.stdout.fileno(), 65536)
                if not part:
                    return b"ended"
                found += part
        return bytes(found)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._owner != os.getpid():
            self._child = None  # a fork: the child is our parent's
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-B", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                env={"PATH": os.defpath},
            )
            self._owner, self._loaded, self._fresh = os.getpid(), "", True
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None or self._owner != os.getpid():
            return
        child.kill()  # it holds nothing that is not in the request
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        child.wait()


def outcome(codec: Codec, answer: Mapping[str, Any]) -> Decoded | Refused:
    """What an answer of the child means."""
    error = answer.get("error")
    if error is not None:
        return Refused("codec", f"{codec.name}: {answer.get('detail', error)}")
    try:
        found = parse(str(answer["text"]).encode())
    except (Refused, UnicodeEncodeError):
        return Refused("codec", f"{codec.name}: what it gave is no JSON")
    if type(found) is not dict:
        return Refused("codec", f"{codec.name}: expected an object with data, found {shown(found)}")
    errors = found.get("errors")
    if errors:
        return Refused("codec", f"{codec.name}: {'; '.join(_texts(errors))}")
    data = found.get("data")
    if type(data) is not dict:
        return Refused("codec", f"{codec.name}: expected data to be an object, found {shown(data)}")
    return Decoded(data, _texts(found.get("warnings")))


def _texts(given: Any) -> tuple[str, ...]:
    if not given:
        return ()
    every = given if type(given) is list else [given]
    return tuple(one[:200] if type(one) is str else shown(one) for one in every[:10])


_shared: Runner | None = None
_sharing: Final = threading.Lock()


def shared() -> Runner:
    """This process's runner; its child ends with the process, or by :func:`close`."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = Runner()
            atexit.register(_shared.close)
        return _shared


def close() -> None:
    """End the shared runner's child; the next message that needs one starts another."""
    if _shared is not None:
        _shared.close()
