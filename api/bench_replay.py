"""`quarterline bench replay`: native messages a second through decoding, store, fold and decisions.

The files of `quarterline replay` are written first; then that very command's work is timed, from opening them
to the summary. Beside it, a loop that only parses the same lines and their payloads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from api.bench_result import Figures, Line, Peer, copy_s, seconds
from api.core import Rules
from api.recording import write_message
from ingest import bench_payload
from ingest.message import RawMessage

GOAL: Final = 4e4
_LATE_US: Final = 2_000_000
_HEAD: Final = """\
[[sites]]
id = "bench"
name = "Bench"
ordinance = "inglewood"
timezone = "America/Los_Angeles"
"""
_EACH: Final = """
[[interceptors]]
id = "gi-{number}"
site = "bench"
kind = "gravity"
base_depth_mm = 1220

[[sensors]]
id = "{sensor}"
interceptor = "gi-{number}"
"""

Say = Callable[[str], None]


def bench_replay(
    *, interceptors: int, readings: int, repeats: int, rules: Rules, progress: Say = lambda _: None
) -> Figures:
    """Replay ``readings`` of each of ``interceptors`` (at most 1000), so many times."""
    from api.work import replay

    interceptors = min(interceptors, bench_payload.SENSORS)
    count = interceptors * readings
    rates = []
    with tempfile.TemporaryDirectory(prefix="quarterline-bench-") as name:
        folder = Path(name)
        fleet, messages = _files(folder, interceptors, readings)
        out = str(folder / "out.jsonl")
        for run in range(repeats):
            took = seconds(lambda: replay(fleet, str(messages), None, None, out, None, rules))
            rates.append(count / took)
            progress(f"run {run + 1}: {rates[-1]:,.0f} messages/s")
        lines = messages.read_bytes().splitlines()
        bare = count / seconds(lambda: _parse_only(lines))
        line = Line("replay", "messages", tuple(rates), GOAL)
        by_copy = count / line.median / copy_s(messages.stat().st_size)
    peer = Peer("parse only", bare, "the same lines and payloads parsed, nothing stored or decided")
    return Figures(
        {"interceptors": interceptors, "readings": readings, "repeats": repeats},
        (Line(line.name, line.unit, line.per_s, line.goal, by_copy, (peer,)),),
    )


def _parse_only(lines: list[bytes]) -> None:
    for line in lines:
        msgspec.json.decode(msgspec.json.decode(line, type=dict[str, Any])["payload"])


def _files(folder: Path, interceptors: int, readings: int) -> tuple[Path, Path]:
    fleet, messages = folder / "fleet.toml", folder / "messages.jsonl"
    parts = [_EACH.format(number=n, sensor=bench_payload.sensor(n)) for n in range(interceptors)]
    fleet.write_text(_HEAD + "".join(parts), encoding="utf-8")
    with messages.open("wb") as file:
        for round_ in range(readings):
            for place in range(interceptors):
                number = round_ * bench_payload.SENSORS + place
                write_message(
                    file,
                    RawMessage(
                        topic=bench_payload.topic(number),
                        payload=bench_payload.payload(number),
                        received_us=bench_payload.at(number) * 1000 + _LATE_US,
                    ),
                )
    return fleet, messages
