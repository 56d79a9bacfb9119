"""Commands about what is kept: history brought in, backups, restoring, retention."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
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
    app.command("backup")(backup)
    app.command("restore")(restore)
    app.command("retention")(retention)


def _answer(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[tuple[Callable[[str], None], Callable[..., None]]]:
    """A line to a person on standard error, and how far the work is: a bar, on a terminal only."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield (lambda text: typer.echo(text, err=True)), (lambda *_: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield (
            lambda text: bar.console.print(text, markup=False),
            lambda done, total=total: bar.update(task, completed=done, total=total),
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


def backup(
    dest: Annotated[Path, typer.Argument(help="Folder of backups; each is a folder of its own in it.")],
    keep: Annotated[
        int | None, typer.Option(help="Then remove all backups in DEST but the newest so many.", min=1)
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Copy the store of one instant, also while the service writes to it; the copy is checked before it counts."""
    from api import backing
    from api.settings import load_settings

    with _bar("copying", 0) as (_, done):
        made = backing.back_up(
            load_settings(config), config, dest, datetime.now(tz=UTC), keep=keep, progress=done
        )
    if json:
        _answer({"backup": str(made.place), "manifest": made.manifest})
    else:
        typer.echo(backing.in_words(made.place, made.manifest))


def restore(
    src: Annotated[Path, typer.Argument(help="A backup, or a folder of backups: then the newest in it.")],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Put a backup into an empty data directory, after every file of it was checked."""
    from api import backing
    from api.settings import load_settings

    settings = load_settings(config)
    place = backing.newest(src)
    with _bar("restoring", 0) as (_, done):
        manifest = backing.restore(place, settings.data_dir, progress=done)
    if json:
        _answer({"backup": str(place), "data_dir": str(settings.data_dir), "manifest": manifest})
    else:
        typer.echo(
            f"{backing.in_words(place, manifest)}\nrestored into {settings.data_dir}; what was configured then "
            f"is in {place / 'configuration'}. Start the service: the broker sends what was never acknowledged."
        )


def retention(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Say what thinning would remove by the rules under `retention`; the running service does it, a piece at a time."""
    from api import keeping

    rows = keeping.outlook(config)
    if json:
        _answer(rows)
    else:
        typer.echo(keeping.in_words(rows))
