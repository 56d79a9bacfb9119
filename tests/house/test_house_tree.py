"""Habits that the whole tree keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
# Files that may be longer, each with the reason.
LONG_FILES: dict[str, str] = {
    "tests/api/conftest.py": "a whole service with a history, which every test of pages and resources looks at",
    "tests/api/test_api_http.py": "one test a resource; read as the table of the API",
}
# Length says nothing of a migration, which is a list of statements, nor of a told history in a test.
LISTS = ("store/migrations/versions/", "tests/")
# Split, so that this file does not find itself.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted",
    "registry.npm" + "js",
    "crates" + ".io",
    "proxy.golang" + ".org",
    "maven" + ".org",
    "deb.debian" + ".org",
]
MACHINE_PATH = re.compile(r"(?<![\w.\-/])/" + r"(?:work|root|home)(?:/|\b(?=[\s\"'`]))")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None  # an image


@pytest.fixture(scope="session")
def texts(tree_files: list[Path], root: Path) -> dict[str, str]:
    found = {path.relative_to(root).as_posix(): _text(path) for path in tree_files}
    return {name: text for name, text in found.items() if text is not None}


@pytest.fixture(scope="session")
def code(texts: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name.endswith(".py")}


def test_no_file_names_a_package_registry(texts: dict[str, str]) -> None:
    assert [(name, host) for name, text in texts.items() for host in REGISTRIES if host in text] == []


def test_no_file_holds_a_path_of_one_machine(texts: dict[str, str]) -> None:
    hits = {name: MACHINE_PATH.findall(text) for name, text in texts.items() if name != "LICENSE"}
    assert {name: found for name, found in hits.items() if found} == {}


def test_long_files_are_justified(code: dict[str, str]) -> None:
    lengths = {name: len(text.splitlines()) for name, text in code.items()}
    long = {name for name, length in lengths.items() if length > LONGEST_FILE}
    assert long - LONG_FILES.keys() == set()
    assert LONG_FILES.keys() - long == set(), "no longer long: take them off the list"


def test_functions_are_short(code: dict[str, str]) -> None:
    long = []
    for name, text in code.items():
        if name.startswith(LISTS):
            continue
        for node in ast.walk(ast.parse(text, name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{name}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def test_tests_are_no_packages(tree_files: list[Path], root: Path) -> None:
    # An __init__.py under tests/ would make `analysis` resolve to tests/analysis in some import modes.
    tests = root / "tests"
    assert [path for path in tree_files if path.name == "__init__.py" and tests in path.parents] == []


def test_test_files_have_names_of_their_own(tree_files: list[Path]) -> None:
    names = [path.name for path in tree_files if path.name.startswith("test_") and path.suffix == ".py"]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
