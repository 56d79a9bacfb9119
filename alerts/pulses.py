"""Hot pulses that come as regularly as a machine's: a pattern for an inspector to look at, never a finding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from alerts.rules import Version
from store.records import HotDischargeRecord

NEWEST: Final = 12  # pulses looked at
LEAST_GAPS: Final = 5
ALIKE: Final = 0.25  # of the median gap; 17 % of the gaps of chance pulses (exponential) are as near
SHARE: Final = 0.7  # of the gaps; the nights between are the others
LONGEST_S: Final = 6 * 3600.0
BANNED: Final = "banned"


def regular_gap_s(records: Sequence[HotDischargeRecord]) -> float | None:
    """The usual time from one pulse's start to the next's [s]; None where they come by chance or are too few."""
    starts = sorted(one.start_us for one in records)[-NEWEST:]
    gaps = [(b - a) / 1e6 for a, b in pairwise(starts)]
    if len(gaps) < LEAST_GAPS:
        return None
    usual = median(gaps)
    alike = sum(abs(gap - usual) <= ALIKE * usual for gap in gaps)
    return usual if usual <= LONGEST_S and alike >= SHARE * len(gaps) else None


def pulse_remark(records: Sequence[HotDischargeRecord], version: Version) -> str:
    """The pattern in words, citing the rule against dishwashers where the ordinance has one; else empty."""
    gap_s = regular_gap_s(records)
    if gap_s is None:
        return ""
    clause = version.clause("dishwasher_to_device")
    cited = f" ({', '.join(clause.sections)})" if clause is not None and clause.value == BANNED else ""
    return (
        f"They come regularly, about every {spoken_span(gap_s)}: a pattern such as a dishwashing machine makes, "
        f"for an inspector to look at{cited}; the sensor does not know what made it. "
    )


def spoken_span(seconds: float) -> str:
    """A time span as people read it: 40 s, 2 min, 90 min."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
