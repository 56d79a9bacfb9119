"""`quarterline bench memory`: resident memory while messages pass, sampled at equal distances.

Session, decoder and store take readings from a Mosquitto of our own while a publisher process sends them, never far
ahead. What leaks grows with the number of messages: the figure is the growth a million messages, after a warm-up.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ingest.bench import HOST, mosquitto, open_session
from ingest.bench_payload import NINE
from ingest.bench_publish import BATCH
from ingest.broker import BrokerError
from ingest.decode import Decoder
from ingest.profile import load_profiles
from ingest.session import SWITCH_S, MqttSettings, Session
from store import open_store

_AHEAD: Final = 20  # batches that the publisher may be ahead
_SAMPLES: Final = 100
_WARM: Final = 0.2  # of the run: caches fill
_PATIENCE_S: Final = 120.0  # without any message


@dataclass(frozen=True, slots=True)
class Memory:
    """Messages passed, and resident memory [bytes] then."""

    messages: int
    took_s: float
    samples: tuple[tuple[int, int], ...]

    @property
    def warm(self) -> tuple[tuple[int, int], ...]:
        """The samples after the warm-up."""
        return tuple(one for one in self.samples if one[0] >= self.messages * _WARM)

    @property
    def growth(self) -> float:
        """Bytes that a million messages leave behind: a straight line through the warm samples."""
        passed, resident = np.array(self.warm, dtype=float).T
        return float(np.polyfit(passed / 1e6, resident, 1)[0])

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "messages": self.messages,
            "per_s": self.messages / self.took_s,
            "samples": [list(one) for one in self.samples],
            "growth_bytes_per_million": self.growth,
        }


def in_words(memory: Memory) -> str:
    """For a person."""
    sizes = [size / 1e6 for _, size in memory.warm]
    return (
        f"{memory.messages} messages in {memory.took_s:.0f} s ({memory.messages / memory.took_s:,.0f}/s)\n"
        f"resident after the first fifth: {sizes[0]:.1f} MB, at the end {sizes[-1]:.1f} MB, "
        f"least {min(sizes):.1f}, most {max(sizes):.1f}\n"
        f"growth {memory.growth / 1e6:+.2f} MB a million messages"
    )


def bench_memory(*, messages: int, progress: Callable[[str], None] = lambda _: None) -> Memory:
    """Let ``messages`` pass, commit and acknowledge each, and look at the memory a hundred times.

    Raises
    ------
    BrokerError
        There is no Mosquitto on this machine, or messages stopped coming.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)  # as the service does
    try:
        with (
            tempfile.TemporaryDirectory(prefix="quarterline-bench-") as folder,
            mosquitto(Path(folder)) as port,
        ):
            open_session(port, "ours")
            command = [sys.executable, "-m", "ingest.bench_publish", str(port), str(messages)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as publisher:
                try:
                    return _pass(port, messages, Path(folder) / "data", publisher, progress)
                finally:
                    publisher.kill()
    finally:
        sys.setswitchinterval(before)


def resident() -> int:
    """Memory of this process that is in RAM [bytes]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def _pass(
    port: int,
    messages: int,
    data_dir: Path,
    publisher: subprocess.Popen[bytes],
    progress: Callable[[str], None],
) -> Memory:
    store = open_store(data_dir)
    decoder = Decoder(NINE.sensors(), load_profiles())
    session = Session(MqttSettings(host=HOST, port=port, client_id="ours", version="3.1.1"), time.time)
    session.start()
    samples: list[tuple[int, int]] = []
    done = paid = 0
    began = heard = time.monotonic()
    try:
        while done < messages:
            due = done // BATCH + _AHEAD
            if due > paid and publisher.stdin is not None and publisher.poll() is None:
                publisher.stdin.write(b"." * (due - paid))
                paid = due
            one = session.next(1.0)
            if one is None or not one.messages:
                if time.monotonic() - heard > _PATIENCE_S:
                    raise BrokerError(f"only {done} of {messages} messages came")
                continue
            heard = time.monotonic()
            store.history.commit(decoder.decode(one.messages))
            session.done(one)
            done += len(one.messages)
            if done >= messages * len(samples) // _SAMPLES:
                samples.append((done, resident()))
                progress(f"{done:>9} messages: {samples[-1][1] / 1e6:.1f} MB")
        took = time.monotonic() - began
        stored = store.history.totals().stored
        if stored != messages:
            raise BrokerError(f"only {stored} of {messages} were stored")
        return Memory(messages, took, tuple(samples))
    finally:
        session.stop()
        store.close()
