"""Time and environment come in as arguments: only the composition root and processes' own mains read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# What reads the wall clock or the environment. Monotonic clocks measure patience, not time of day.
READS = {
    *("time.time", "time.time_ns", "time.localtime", "time.gmtime"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("dt.datetime.now", "dt.datetime.utcnow", "dt.datetime.today", "dt.date.today"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("os.environ", "os.getenv"),
}
# Places below the composition root that may, each with the reason.
ALLOWED: dict[str, str] = {
    "ingest/bench_memory.py": "as the benchmark beside it",
    "ingest/bench.py": "the benchmark is a process of its own and hands its session the real clock",
    "simulators/clock.py": "the accelerated clock itself, which is handed to everything else",
}


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return f"{head}.{node.attr}" if head else None
    return None


def _reads(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and (name := _dotted(node)) in READS:
            yield node.lineno, name
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "time"):
            for alias in node.names:
                if f"{node.module}.{alias.name}" in READS:
                    yield node.lineno, f"from {node.module} import {alias.name}"


def test_only_the_composition_root_reads_clock_and_environment(package_files: list[Path], root: Path) -> None:
    found: dict[str, list[tuple[int, str]]] = {}
    for path in package_files:
        name = path.relative_to(root).as_posix()
        if path.suffix == ".py" and not name.startswith("api/") and (reads := list(_reads(path.read_text()))):
            found[name] = reads
    assert {name: reads for name, reads in found.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "reads nothing any more: take it off the list"


def test_the_guard_sees_a_planted_fault() -> None:
    assert list(_reads("import time\nnow = time.time()\n")) == [(2, "time.time")]
    assert list(_reads("from os import environ\n")) == [(1, "from os import environ")]
