"""Commands about what is kept: history brought in, backups, restoring, retention."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file (TOML).", envvar="QUARTERLINE_CONFIG"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON, for a program.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the program's."""
    app.command("import")(import_series)


def _answer(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """A line to a person on standard error, and how far the work is: a bar, on a terminal only."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield (lambda text: typer.echo(text, err=True)), (lambda _: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=max(total, 1))
        yield (
            lambda text: bar.console.print(text, markup=False),
            lambda done: bar.update(task, completed=done),
        )


def import_series(
    files: Annotated[
        list[Path], typer.Argument(help="CSV files, or JSON lines: one item or message a line.")
    ],
    mapping: Annotated[
        Path | None,
        typer.Option(
            help="Mapping file (TOML): column to quantity, unit, zone, sensor. CSV files need one; "
            "with one, the keys of JSON lines are read as columns."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be stored and what cannot be taken; store nothing."),
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Bring recorded series into the history, also while the service runs; a second time stores nothing twice."""
    from api import importing

    with _bar("reading", sum(file.stat().st_size for file in files if file.is_file())) as (say, bytes_read):
        watch = importing.Watch(say, bytes_read)
        result = importing.import_series(files, mapping, config, dry_run=dry_run, watch=watch)
    if json:
        _answer(result.as_json())
    else:
        typer.echo(importing.in_words(result))
    raise typer.Exit(1 if result.refused else 0)
