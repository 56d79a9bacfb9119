"""Seeds kept for judging are named in one place, and nothing else is run on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PLACE = "docs/evaluation.md"
OWN = "tests/house/test_house_seeds.py"
NAMED = re.compile(r"\*\*Kept for judging:\*\* (\d+) – (\d+)")
CALLS = r"(?:seeds?|City|Scenario|SeedSequence|default_rng)\W{1,5}(?:\d+\W{1,3})*?"


def judged(root: Path) -> tuple[int, int]:
    (found,) = NAMED.findall((root / PLACE).read_text())
    return int(found[0]), int(found[1])


def used(text: str, first: int, last: int) -> list[str]:
    """Numbers from ``first`` to ``last`` that stand where a seed stands."""
    names = "|".join(str(number) for number in range(first, last + 1))
    return re.findall(rf"{CALLS}\b({names})\b(?!\.\d)", text)


def test_nothing_is_run_on_the_seeds_kept_for_judging(root: Path, tree_files: list[Path]) -> None:
    first, last = judged(root)
    hits = {}
    for path in tree_files:
        name = path.relative_to(root).as_posix()
        if name in {PLACE, OWN} or path.suffix not in {".py", ".toml", ".md", ".yml", ".sh", ""}:
            continue
        found = used(path.read_text(encoding="utf-8", errors="replace"), first, last)
        if found:
            hits[name] = found
    assert hits == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--seed 101 --seed 7", ["101"]),
        ("seed=110", ["110"]),
        ("Scenario(105, days=3)", ["105"]),
        ("City(103)", ["103"]),
        ('"seeds": [1, 2, 104]', ["104"]),
        ("seed = 100", []),
        ("seed = 111", []),
        ("seed=1, count=102", []),
    ],
)
def test_a_seed_is_noticed_wherever_it_stands(text: str, found: list[str]) -> None:
    assert used(text, 101, 110) == found
