"""The command line in this process, over a small fleet of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from api.cli import app

FLEET = """\
[[sites]]
id = "s"
name = "S"
ordinance = "sierra-madre"
timezone = "America/Los_Angeles"
[[interceptors]]
id = "i"
site = "s"
kind = "gravity"
base_depth_mm = 1220
"""


def run(*words: str) -> Any:
    """A command that must work; what it said is in ``stdout`` and ``stderr``."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


def refused(*words: str) -> str:
    """What is said of a command that must not work."""
    result = CliRunner().invoke(app, list(words))
    assert result.exception is not None, result.output
    return str(result.exception)


def configured(folder: Path) -> Path:
    """A configuration in a folder, with a site and an interceptor ``i`` registered."""
    path = folder / "quarterline.toml"
    path.write_text(f'data_dir = "{folder / "data"}"\n')
    fleet = folder / "fleet.toml"
    fleet.write_text(FLEET)
    run("fleet", "import", str(fleet), "--config", str(path))
    return path
