"""`quarterline evaluate`: a simulated city through replay, its public output scored against the truth."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from api.work import replay
from simulators.heard import read_fleet
from simulators.recorded import Files, Scenario, simulate
from simulators.score import score
from simulators.table import Table


def evaluate(
    scenario: Scenario, config: Path | None, *, keep: Path | None = None, say: Callable[[str], None]
) -> Table:
    """Simulate, replay and score; the files stay in ``keep`` where one is given."""
    if keep is not None:
        return _in(keep, scenario, config, say)
    with tempfile.TemporaryDirectory(prefix="quarterline-evaluate-") as folder:
        return _in(Path(folder), scenario, config, say)


def _in(folder: Path, scenario: Scenario, config: Path | None, say: Callable[[str], None]) -> Table:
    say(f"simulating {scenario.count} interceptors, {scenario.days} days, seed {scenario.seed} …")
    files: Files = simulate(scenario, folder)
    say("replaying …")
    out = folder / "output.jsonl"
    replay(files.fleet, str(files.messages), str(files.events), None, str(out), config)
    fleet = read_fleet(files.fleet.read_text(encoding="utf-8"))
    return score(_lines(files.truth), _lines(out), fleet, _lines(files.messages))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            yield msgspec.json.decode(line)
