"""What a benchmark of estimate or replay answers: rates over its repeats, beside peers of the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Peer:
    """Another way to the same work. ``per_s`` is None where ``note`` says why it was not measured."""

    name: str
    per_s: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: ``per_s`` of every repeat, its goal, and its time by a plain copy of the bytes it touches."""

    name: str
    unit: str
    per_s: tuple[float, ...]
    goal: float | None = None
    by_copy: float | None = None
    peers: tuple[Peer, ...] = ()

    @property
    def median(self) -> float:
        """Of the repeats."""
        return statistics.median(self.per_s)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "unit": self.unit,
            "per_s": list(self.per_s),
            "median_per_s": self.median,
            "goal_per_s": self.goal,
            "by_copy": self.by_copy,
            "peers": {
                peer.name: {
                    "per_s": peer.per_s,
                    "ratio": None if peer.per_s is None else self.median / peer.per_s,
                    "note": peer.note,
                }
                for peer in self.peers
            },
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of one benchmark, with what they were measured on and other facts."""

    what: dict[str, int]
    lines: tuple[Line, ...]
    facts: dict[str, float | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {**self.what, **self.facts, "figures": {line.name: line.as_json() for line in self.lines}}


def in_words(figures: Figures) -> str:
    """For a person."""
    said = [", ".join(f"{name} {value:,}" for name, value in figures.what.items())]
    for line in figures.lines:
        goal = "" if line.goal is None else f"  goal {line.goal:,.0f}"
        copy = "" if line.by_copy is None else f"  {line.by_copy:,.0f} × the copy of its bytes"
        said.append(f"{line.name:<34}{line.median:>14,.0f} {line.unit}/s{goal}{copy}")
        for peer in line.peers:
            if peer.per_s is None:
                said.append(f"    {peer.name}: {peer.note}")
            else:
                ratio = line.median / peer.per_s
                said.append(
                    f"    {peer.name:<30}{peer.per_s:>14,.0f}    ours is {ratio:,.1f} × ({peer.note})"
                )
    said += [f"{name} {value:,.2f}" for name, value in figures.facts.items() if value is not None]
    return "\n".join(said)


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def copy_s(size: int) -> float:
    """Seconds that numpy takes to copy so many bytes: the median of five."""
    source = np.ones(max(size // 8, 1))
    target = np.empty_like(source)
    return statistics.median(seconds(lambda: np.copyto(target, source)) for _ in range(5))


def forget_peak() -> None:
    """Begin to watch the peak of resident memory anew, where the system can."""
    mark = Path("/proc/self/clear_refs")
    if mark.exists():
        mark.write_text("5")


def peak_mb() -> float | None:
    """The greatest resident memory since :func:`forget_peak` [MB]; None where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    (line,) = (one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6
