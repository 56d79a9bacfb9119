"""docs/field_reports.md: every report of the transport has a test that exists, or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The numbers of section A of the log, and those of sections B and C that touch session, queue, clock or store.
NUMBERS = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 19, 20, 21, 22, 23, 25),
    *(26, 28, 29, 31, 32, 34, 37, 38, 46, 50, 52, 53, 56, 58, 59),
    *(61, 62, 64, 65, 67, 68, 70, 71, 73, 74, 76, 77),
)


def _rows() -> dict[int, str]:
    text = (ROOT / "docs" / "field_reports.md").read_text()
    return {int(number): here for number, here in re.findall(r"^\| L(\d+) \|[^|]*\| (.*) \|$", text, re.M)}


def test_every_report_has_a_row() -> None:
    assert sorted(_rows()) == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_row_names_a_test_that_exists_or_a_reason(number: int) -> None:
    here = _rows()[number]
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", here)
    assert named or re.match(r"(cannot happen|not told apart): .{20,}", here)
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
