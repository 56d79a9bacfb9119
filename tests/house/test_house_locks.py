"""The locks are in step with pyproject.toml, agree with each other and name no machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ["requirements.txt", "requirements-dev.txt", "requirements-build.txt"]


def _entries(path: Path) -> list[tuple[Requirement, int]]:
    """Each pinned requirement with the number of its hashes."""
    text = path.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(Requirement(line.split("--hash")[0].strip()), line.count("--hash=sha256:")) for line in lines]


def _pins(path: Path) -> dict[str, set[tuple[str, str]]]:
    """Of each package its pinned versions, each with the marker it holds under."""
    pins: dict[str, set[tuple[str, str]]] = {}
    for requirement, _ in _entries(path):
        (specifier,) = requirement.specifier
        pin = (specifier.version, str(requirement.marker or ""))
        pins.setdefault(canonicalize_name(requirement.name), set()).add(pin)
    return pins


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_pinned_and_hashed(root: Path, lock: str) -> None:
    entries = _entries(root / lock)
    assert entries
    for requirement, hashes in entries:
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], str(requirement)
        assert hashes, f"{requirement} has no hash"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index(root: Path, lock: str) -> None:
    text = (root / lock).read_text()
    assert re.findall(r"^\s*(?:-i|-f|--\w[\w-]*)(?=[\s=])(?<!--hash)", text, flags=re.M) == []
    assert "://" not in text


def test_the_locks_meet_what_pyproject_asks(root: Path, pyproject: dict[str, Any]) -> None:
    runtime = pyproject["project"]["dependencies"]
    asked = {
        "requirements.txt": runtime,
        "requirements-dev.txt": runtime + pyproject["project"]["optional-dependencies"]["dev"],
        "requirements-build.txt": pyproject["build-system"]["requires"],
    }
    for lock, requirements in asked.items():
        pins = _pins(root / lock)
        for text in requirements:
            requirement = Requirement(text)
            versions = [version for version, _ in pins.get(canonicalize_name(requirement.name), set())]
            assert versions, f"{lock} lacks {text}: run make lock"
            unfit = [version for version in versions if not requirement.specifier.contains(version)]
            assert unfit == [], f"{lock} has {requirement.name} {unfit}, asked is {text}: run make lock"


def test_the_locks_agree(root: Path) -> None:
    everything = _pins(root / "requirements-dev.txt")
    for lock in LOCKS:
        for name, pins in _pins(root / lock).items():
            versions = {version for version, _ in pins}
            assert versions <= {version for version, _ in everything.get(name, set())}, f"{name} in {lock}"
