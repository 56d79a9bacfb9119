"""`quarterline evaluate`: simulated cities through replay, their public output scored against the truth."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from alerts.rules import Version
from api.core import Rules
from api.evaluateplots import draw
from api.serve import load_rules
from api.settings import load_settings
from api.work import UseError, replay
from simulators.heard import read_fleet
from simulators.recorded import Files, simulate
from simulators.scenario import Scenario
from simulators.score import Score
from simulators.table import Table
from simulators.truth import LEVELS
from simulators.truthbook import LIMIT

OUTPUT: Final = "output.jsonl"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an evaluation is asked for: one scenario under several seeds, and what to keep of it.

    ``limit`` is what the ordinances are taken to say, so that passages of lower levels can be judged too.
    """

    scenario: Scenario
    seeds: tuple[int, ...]
    keep: Path | None = None
    plots: Path | None = None
    jobs: int = 1
    limit: float = LIMIT


def evaluate(wanted: Wanted, config: Path | None, say: Say) -> Table:
    """Simulate, replay and score every seed; what all of them brought is pooled.

    Raises
    ------
    UseError
        A seed is named twice, the limit is none that truth tells of, or a folder cannot be made.
    """
    if wanted.limit not in LEVELS:
        raise UseError(f"--limit: {wanted.limit:g} is none of {', '.join(f'{one:g}' for one in LEVELS)}")
    if len(set(wanted.seeds)) < len(wanted.seeds):
        raise UseError("--seed: each seed counts once; name it once")
    for option, folder in (("--keep", wanted.keep), ("--plots", wanted.plots)):
        _make(option, folder)
    if wanted.keep is not None:
        return _in(wanted.keep, wanted, config, say)
    with tempfile.TemporaryDirectory(prefix="quarterline-evaluate-") as scratch:
        return _in(Path(scratch), wanted, config, say)


def _make(option: str, folder: Path | None) -> None:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UseError(f"{option}: {folder}: {error.strerror}; give a folder that can be written") from None


def _in(folder: Path, wanted: Wanted, config: Path | None, say: Say) -> Table:
    places = {seed: folder if len(wanted.seeds) == 1 else folder / f"seed-{seed}" for seed in wanted.seeds}
    score = Score(wanted.limit)
    for seed, files in _runs(wanted, places, config, say):
        say(f"seed {seed}: scoring …")
        judged = score.add(
            _lines(files.truth),
            _lines(places[seed] / OUTPUT),
            read_fleet(files.fleet.read_text(encoding="utf-8")),
            _lines(files.messages),
        )
        if wanted.plots is not None:
            prefix = "" if len(wanted.seeds) == 1 else f"seed-{seed}-"
            drawn = draw(judged, _lines(places[seed] / OUTPUT), wanted.plots, prefix)
            say(f"seed {seed}: {drawn} plots in {wanted.plots}")
    return score.table()


def _runs(
    wanted: Wanted, places: dict[int, Path], config: Path | None, say: Say
) -> Iterator[tuple[int, Files]]:
    """Simulate and replay each seed, ``jobs`` at once."""
    scenarios = {seed: replace(wanted.scenario, seed=seed) for seed in wanted.seeds}
    if wanted.jobs == 1 or len(scenarios) == 1:
        for seed, scenario in scenarios.items():
            say(f"seed {seed}: {scenario.count} interceptors, {scenario.days} days …")
            yield seed, _run(scenario, places[seed], config, wanted.limit, shown=True)
        return
    say(f"{len(scenarios)} seeds, {wanted.jobs} at once …")
    with ProcessPoolExecutor(wanted.jobs, mp_context=get_context("spawn"), initializer=_silent) as pool:
        waiting = {
            seed: pool.submit(_run, one, places[seed], config, wanted.limit)
            for seed, one in scenarios.items()
        }
        for seed, result in waiting.items():
            yield seed, result.result()


def with_limit(rules: Rules, limit: float) -> Rules:
    """The same rules, but every ordinance's limit of the fraction is ``limit``."""

    def of(version: Version) -> Version:
        stated = version.values.get("fill_limit")
        if stated is None:
            return version
        limits = tuple(replace(one, value=limit, unit="ratio") for one in stated)
        return replace(version, values={**version.values, "fill_limit": limits})

    ordinances = {
        name: replace(one, versions=tuple(of(version) for version in one.versions))
        for name, one in rules.ordinances.items()
    }
    return replace(rules, ordinances=ordinances)


def _silent() -> None:
    """Two bars on one terminal would garble each other; errors come back as exceptions."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _run(
    scenario: Scenario, folder: Path, config: Path | None, limit: float, *, shown: bool = False
) -> Files:
    with _progress(shown) as progress:
        files = simulate(scenario, folder, progress)
    rules = with_limit(load_rules(load_settings(config)), limit)
    replay(files.fleet, str(files.messages), str(files.events), None, str(folder / OUTPUT), config, rules)
    return files


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[Callable[[float], None]]:
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("simulating"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=1.0)
        yield lambda part: bar.update(task, completed=part)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def as_json(wanted: Wanted, table: Table) -> dict[str, Any]:
    """What `--json` answers."""
    return {
        "scenario": wanted.scenario.name,
        "seeds": list(wanted.seeds),
        "interceptors": wanted.scenario.count,
        "days": wanted.scenario.days,
        "limit": wanted.limit,
        "rows": table.as_json(),
    }
