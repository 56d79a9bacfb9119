"""The floors hold, and the guard that says so would notice if they did not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@pytest.fixture
def copy_of_tree(tmp_path: Path, root: Path, packages: list[str]) -> Path:
    """The packages and their configuration, to plant a fault in."""
    for name in packages:
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def _lint(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LINT_IMPORTS), "--no-cache"], cwd=tree, capture_output=True, text=True, timeout=100
    )


def test_every_import_keeps_to_the_floors(root: Path) -> None:
    result = _lint(root)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("where", "statement"),
    [
        pytest.param("alerts", "import ingest", id="room-to-room"),
        pytest.param("store", "import api", id="upwards"),
        pytest.param("simulators", "import store", id="simulator-to-store"),
        pytest.param("simulators", "from analysis import estimate", id="simulator-to-estimator"),
        pytest.param("analysis", "import sqlite3", id="core-does-io"),
        pytest.param("analysis", "from datetime import datetime", id="core-reads-clock"),
    ],
)
def test_a_planted_fault_is_caught(copy_of_tree: Path, where: str, statement: str) -> None:
    (copy_of_tree / where / "planted.py").write_text(statement + "\n")
    result = _lint(copy_of_tree)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{where}.planted" in result.stdout
