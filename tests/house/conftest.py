"""What the guards of the house look at: the tree, its files, the built wheel, the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", "dist", "build", "__pycache__"}


def _walk(folder: Path) -> list[Path]:
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith("_cache")]
        found += [Path(where, name) for name in names if not name.endswith(".pyc")]
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the tree."""
    return ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def packages(pyproject: dict[str, Any]) -> list[str]:
    """Names of the packages we ship."""
    names: list[str] = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return names


@pytest.fixture(scope="session")
def tree_files() -> list[Path]:
    """Every file that is or would be under version control."""
    if not (ROOT / ".git").exists():
        return _walk(ROOT)
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.fixture(scope="session")
def package_files(packages: list[str]) -> list[Path]:
    """Every file of the packages, code and data."""
    return [path for package in packages for path in _walk(ROOT / package)]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree with the locked backend."""
    out = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.glob("*.whl")
    return path
