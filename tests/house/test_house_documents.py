"""What the documents say exists: commands, targets, files, settings."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from pydantic import BaseModel

from alerts.ordinance import load_ordinances
from api.cli import app
from api.fleet_file import Known, parse_fleet
from api.settings import Settings
from ingest.profile import load_profiles

COMMANDS = {
    *("demo", "serve", "replay", "import", "doctor"),
    *("fleet import", "token create", "bench ingest"),
}


def _blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.M | re.S)
    return [re.sub(rf"^{indent}", "", block, flags=re.M) for indent, block in found]


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    below_it: dict[str, click.Command] | None = getattr(command, "commands", None)
    if below_it is not None:
        for name, below in below_it.items():
            yield from _commands(below, (*path, name))
    else:
        yield " ".join(path), command


@pytest.fixture(scope="module")
def commands() -> dict[str, click.Command]:
    return dict(_commands(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def documents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    }


def test_the_commands_of_the_contract_exist(commands: dict[str, click.Command]) -> None:
    assert COMMANDS - commands.keys() == set()


def test_every_command_and_option_has_help(commands: dict[str, click.Command]) -> None:
    silent = [name for name, command in commands.items() if not (command.help or "").strip()]
    silent += [
        f"{name} {parameter.name}"
        for name, command in commands.items()
        for parameter in command.params
        if not (getattr(parameter, "help", None) or "").strip()
    ]
    assert silent == []


def test_every_quarterline_command_in_the_documents_exists(
    documents: dict[str, str], commands: dict[str, click.Command]
) -> None:
    unknown = []
    for document, text in documents.items():
        shown = re.findall(r"(?:^ *|`)(?:\.venv/bin/)?quarterline ([a-z][^`\n]*)", text, flags=re.M)
        for words in shown:
            found = next((name for name in commands if f"{words} ".startswith(f"{name} ")), None)
            options = {
                word.split("=")[0] for word in shlex.split(words, comments=True) if word.startswith("-")
            }
            known = (
                {name for parameter in commands[found].params for name in parameter.opts} if found else set()
            )
            if found is None or options - known - {"--help"}:
                unknown.append(f"{document}: quarterline {words}")
    assert unknown == []


def test_every_make_target_in_the_documents_exists(documents: dict[str, str], root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", (root / "Makefile").read_text(), flags=re.M))
    named = {
        target
        for text in documents.values()
        for target in re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.M)
    }
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_every_file_that_a_document_links_to_exists(documents: dict[str, str], root: Path) -> None:
    missing = [
        f"{document}: {target}"
        for document, text in documents.items()
        for target in re.findall(r"\]\(([^)#\s]+)", text)
        if "://" not in target and not (root / document).parent.joinpath(target).exists()
    ]
    assert missing == []


def test_the_fleet_of_the_readme_is_read(root: Path) -> None:
    (fleet,) = [block for block in _blocks((root / "README.md").read_text(), "toml") if "[[sites]]" in block]
    known = Known(ordinances=load_ordinances(), profiles=load_profiles(), check_frequency=lambda *_: None)
    parsed = parse_fleet(fleet, "fleet.toml", known)
    assert [sensor.id for sensor in parsed.sensors] == ["d-0001"]


def test_the_configuration_of_the_readme_is_read(root: Path) -> None:
    (block,) = [block for block in _blocks((root / "README.md").read_text(), "toml") if "[mqtt]" in block]
    assert Settings(**tomllib.loads(block)).mqtt.port == 1883


def test_the_defaults_in_the_documents_are_the_defaults(root: Path) -> None:
    (block,) = _blocks((root / "docs" / "configuration.md").read_text(), "toml")
    assert Settings(**tomllib.loads(block)) == Settings()


def test_every_setting_is_documented(root: Path) -> None:
    (block,) = _blocks((root / "docs" / "configuration.md").read_text(), "toml")
    uncommented = re.sub(r"^# (?=\w+ = )", "", block, flags=re.M)
    assert _keys_of_document(tomllib.loads(uncommented)) == set(_keys_of_model(Settings))


def _keys_of_document(table: dict[str, Any], path: str = "") -> set[str]:
    keys: set[str] = set()
    for key, value in table.items():
        keys |= _keys_of_document(value, f"{path}{key}.") if isinstance(value, dict) else {path + key}
    return keys


def _keys_of_model(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys_of_model(field.annotation, f"{path}{key}.")
        else:
            yield path + key
