"""How the commands speak to a person and to a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file (TOML).", envvar="QUARTERLINE_CONFIG"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON, for a program.")]


def say(text: str) -> None:
    """One line to a person on standard output."""
    typer.echo(text)


def complain(text: str) -> None:
    """One line to a person on standard error."""
    typer.echo(text, err=True)


def fail(text: str, status: int = 1) -> NoReturn:
    """End with a complaint."""
    complain(text)
    raise typer.Exit(status)


def answer(value: Any) -> None:
    """One JSON value to a program."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()
