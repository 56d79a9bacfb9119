"""The `ordinance` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from api.terminal import ConfigOption, JsonOption, answer, complain, say

ordinance_app = typer.Typer(help="The rules of each city, with their sections.", no_args_is_help=True)
OnOption = Annotated[str | None, typer.Option(help="As it stands on this date; default: today.")]


@ordinance_app.command("show")
def ordinance_show(
    ordinance: Annotated[
        str | None, typer.Argument(help="Ordinance; all of them where none is given.")
    ] = None,
    on: OnOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """An ordinance's values, each with its section and the day it was read."""
    from api import ordinances

    rows = ordinances.show(ordinance, on, config)
    if json:
        answer(rows)
        return
    for row in rows:
        say(ordinances.in_words(row))


@ordinance_app.command("check")
def ordinance_check(files: Annotated[list[Path], typer.Argument(help="Profiles (TOML).")]) -> None:
    """Whether files are profiles, and whether each meets its own examples."""
    from api import ordinances

    faults = 0
    for path in files:
        one, wrong = ordinances.check(path)
        faults += len(wrong)
        for text in wrong:
            complain(text)
        if one is not None and not wrong:
            say(f"{path}: {one.name}: {len(one.versions)} version(s), {len(one.examples)} example(s) met")
    raise typer.Exit(1 if faults else 0)


@ordinance_app.command("diff")
def ordinance_diff(
    first: Annotated[str, typer.Argument(help="An ordinance, or a profile's file.")],
    second: Annotated[str, typer.Argument(help="The one to hold beside it.")],
    on: OnOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """What differs between two profiles."""
    from api import ordinances

    changes = ordinances.diff(first, second, on, config)
    if json:
        answer([one.as_json() for one in changes])
        return
    for one in changes:
        say(one.key)
        say(f"  - {one.before or 'silent'}")
        say(f"  + {one.after or 'silent'}")
    if not changes:
        say("no difference")
