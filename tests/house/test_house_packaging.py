"""The names we ship are ours alone, and what we ship is whole."""

from __future__ import annotations

import hashlib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

# SHA-256 of the text that the Apache Software Foundation publishes.
OFFICIAL_LICENCE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
DATA_SUFFIXES = {".toml", ".html", ".css", ".js", ".sql", ".svg", ".mako", ".typed"}


@pytest.fixture(scope="session")
def shipped(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def test_no_other_distribution_owns_one_of_our_packages(packages: list[str]) -> None:
    # Two distributions with one top-level package overwrite each other's files without a word.
    owners = packages_distributions()
    strangers = {name: set(owners.get(name, [])) - {"quarterline"} for name in packages}
    assert {name: others for name, others in strangers.items() if others} == {}


def test_the_wheel_holds_every_file_of_the_packages(
    shipped: dict[str, bytes], package_files: list[Path], root: Path
) -> None:
    # The risk is in what is no Python: templates, profiles and ordinances are looked for at run time only.
    wanted = {path.relative_to(root).as_posix() for path in package_files}
    assert {name for name in wanted if Path(name).suffix in DATA_SUFFIXES}, "no data files found to look for"
    assert wanted - shipped.keys() == set()


def test_the_wheel_holds_nothing_else(shipped: dict[str, bytes], packages: list[str]) -> None:
    tops = {name.split("/")[0] for name in shipped}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(packages)


@pytest.mark.parametrize(
    "name",
    [
        "alerts/ordinances/inglewood.toml",
        "alerts/ordinances/sierra-madre.toml",
        "store/migrations/versions/0001_spine.py",
        "api/pages/templates/dashboard.html",
        "api/pages/static/quarterline.css",
    ],
)
def test_the_wheel_holds_the_data_that_the_product_starts_with(shipped: dict[str, bytes], name: str) -> None:
    assert shipped[name].strip()


def test_every_package_says_that_it_is_typed(shipped: dict[str, bytes], packages: list[str]) -> None:
    assert [name for name in packages if f"{name}/py.typed" not in shipped] == []


def test_the_wheel_brings_the_command_and_the_licence(shipped: dict[str, bytes]) -> None:
    info = {name.split("/", 1)[1]: text for name, text in shipped.items() if ".dist-info/" in name}
    assert b"quarterline = api.cli:main" in info["entry_points.txt"]
    assert b"License-Expression: Apache-2.0" in info["METADATA"]
    assert hashlib.sha256(info["licenses/LICENSE"]).hexdigest() == OFFICIAL_LICENCE


def test_the_licence_is_the_official_text(root: Path, pyproject: dict[str, Any]) -> None:
    assert hashlib.sha256((root / "LICENSE").read_bytes()).hexdigest() == OFFICIAL_LICENCE
    assert pyproject["project"]["license"] == "Apache-2.0"
