"""Words of the pages that stand on their own."""

from __future__ import annotations

import pytest

from api.pages.words import cadence


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (30.0, "30 s"),
        (90.0, "1.5 min"),
        (900.0, "15 min"),
        (5400.0, "90 min"),
        (21_600.0, "6 h"),
        (604_800.0, "7 d"),
    ],
)
def test_an_interval_is_told_in_the_largest_unit_that_says_it_well(seconds: float, told: str) -> None:
    assert cadence(seconds) == told
