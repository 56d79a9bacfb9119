"""A whole scenario written down for replay: fleet, messages, events, and the truth beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import msgspec
import numpy as np

from simulators.city import City
from simulators.interceptor import fraction
from simulators.kitchen import SLOTS
from simulators.network import Message
from simulators.people import Crew
from simulators.scenario import Scenario
from simulators.truth import MONITORED, Line

__all__ = ["Files", "Scenario", "simulate"]

CREW_STREAM: Final = 9
RETAIN: Final = b',"retain":true'
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Files:
    """Where a scenario was written."""

    fleet: Path
    messages: Path
    events: Path
    truth: Path


def simulate(scenario: Scenario, folder: Path, progress: Progress = lambda _: None) -> Files:
    """Write a scenario into ``folder``, which is made where it is not there.

    Parameters
    ----------
    scenario
        The same scenario gives the same bytes.
    folder
        Receives ``fleet.toml``, ``messages.jsonl``, ``events.jsonl`` and ``truth.jsonl``.
    progress
        Told the part done, from 0 to 1, once a simulated day.

    Raises
    ------
    ValueError
        The scenario's start is no multiple of 900 s, or its count below 1.
    """
    city = City.of(scenario)
    crew = Crew(city, scenario.habits, np.random.default_rng((scenario.seed, CREW_STREAM)))
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(
        folder / "fleet.toml", folder / "messages.jsonl", folder / "events.jsonl", folder / "truth.jsonl"
    )
    files.fleet.write_text(city.fleet_toml(), encoding="utf-8")
    with files.messages.open("wb") as messages, files.truth.open("wb") as truth:
        for step in range(scenario.days * SLOTS):
            if step % SLOTS == 0:
                progress(step / (scenario.days * SLOTS))
                crew.plan_day(city.now_s, fraction(city.tanks, city.layers())[:, MONITORED])
            made = city.step()
            _write_messages(messages, made.messages)
            write_lines(truth, made.truth)
            crew.services_done(made.done)
    with files.events.open("wb") as events:
        write_lines(events, crew.events_until(city.now_s))
    progress(1.0)
    return files


def write_lines(file: IO[bytes], lines: list[Line]) -> None:
    """Append lines as JSON, one object each."""
    file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _write_messages(file: IO[bytes], messages: list[Message]) -> None:
    if not messages:
        return
    received = np.array([message.received_us for message in messages], dtype="M8[us]")
    texts = np.datetime_as_string(received, unit="us").tolist()
    file.write(
        b"".join(
            b'{"received_at":"%bZ","topic":"%b","payload":%b%b}\n'
            % (text.encode(), message.topic.encode(), message.payload, RETAIN if message.retain else b"")
            for text, message in zip(texts, messages, strict=True)
        )
    )
