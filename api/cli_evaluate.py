"""`quarterline evaluate`: how good the estimates are, on a city whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from api.terminal import ConfigOption, JsonOption, answer, complain, say


def register(app: typer.Typer) -> None:
    """Add this command to the program's."""
    app.command("evaluate")(evaluate)


def evaluate(
    scenario: Annotated[str, typer.Option(help="Scenario by name, or a scenario file (TOML).")] = "clean",
    seed: Annotated[
        list[int] | None,
        typer.Option(
            help="Which simulated city; may be given several times: what they bring is pooled.", min=0
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Days to simulate; the scenario's where absent.", min=1)
    ] = None,
    interceptors: Annotated[
        int | None, typer.Option(help="Interceptors; the scenario's where absent.", min=1)
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep the files of the runs in this folder.")] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Draw truth, estimate and events of each interceptor into this folder."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Seeds to run at once, each in a process of its own.", min=1)] = 1,
    limit: Annotated[
        float,
        typer.Option(help="Let every ordinance's limit be this: 0.1, 0.15, 0.2 or 0.25 of the base depth."),
    ] = 0.25,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Replay simulated cities and score what comes out against what was true, beside two baselines."""
    from api import evaluate as work
    from simulators.scenariofile import load

    chosen = load(scenario)
    if days is not None:
        chosen = replace(chosen, days=days)
    if interceptors is not None:
        chosen = replace(chosen, count=interceptors)
    wanted = work.Wanted(chosen, tuple(seed or [chosen.seed]), keep, plots, jobs, limit)
    table = work.evaluate(wanted, config, complain)
    if json:
        answer(work.as_json(wanted, table))
    else:
        say(table.as_text())
