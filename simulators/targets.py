"""What is scored, and what must be reached: the rows of the table, each with its targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from simulators.bootstrap import Estimate
from simulators.tally import ALL, CLEAN

BAND: Final = (0.86, 0.94)
Statistic = Literal["mean", "rate", "count", "median", "p95", "gain"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a value must keep: not above ``most``, not below ``least``.

    ``touch`` holds the bootstrap interval to it instead of the value; ``enough`` is the least number of
    samples from which it can be judged.
    """

    least: float | None = None
    most: float | None = None
    touch: bool = False
    enough: int = 1

    def met(self, estimate: Estimate, count: int) -> bool | None:
        """Whether it is kept; None where too little was judged."""
        if count < self.enough:
            return None
        low = high = estimate.value
        if self.touch and estimate.low is not None and estimate.high is not None:
            low, high = estimate.low, estimate.high
        return (self.least is None or high >= self.least) and (self.most is None or low <= self.most)

    def in_words(self) -> str:
        """For a table: ``0.86 - 0.94``, ``>= 0.98``, ``<= 10``."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} - {self.most:g}"
        return f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: its samples in the tally, how they are summed up, and its targets.

    ``overall`` holds for everything together and for what no fault touched, ``each`` for every principle
    that ``own`` does not name, ``faulty`` under faults. A name in ``own`` ending in ``*`` is a beginning.
    """

    name: str
    samples: str
    statistic: Statistic
    unit: str = ""
    overall: Target | None = None
    each: Target | None = None
    own: Mapping[str, Target] = field(default_factory=dict)
    faulty: Target | None = None

    def target(self, group: str, principles: list[str]) -> Target | None:
        """What a group is held to."""
        if group in {ALL, CLEAN}:
            return self.overall
        if group not in principles:
            return self.faulty
        for name, target in self.own.items():
            if group == name or (name.endswith("*") and group.startswith(name[:-1])):
                return target
        return self.each


def _most(**own: float) -> dict[str, Target]:
    return {name: Target(most=value) for name, value in own.items()}


def _rods(own: Target) -> dict[str, Target]:
    return {"rod*": own}


def _share(name: str, samples: str, least: float, faulty: float | None = None) -> Metric:
    """A share that must be reached everywhere, under faults ``faulty`` of it."""
    plain = Target(least=least)
    under = plain if faulty is None else Target(least=faulty)
    return Metric(name, samples, "mean", overall=plain, each=plain, faulty=under)


_OVER_MEDIAN: Final = _most(interfaces=0.8, echo=1.0, depths=1.3) | _rods(Target(most=1.5))
_OVER_P95: Final = _most(interfaces=2.0, echo=2.0, depths=3.0) | _rods(Target(most=3.5))

METRICS: Final = (
    Metric("fog_mae", "fog", "mean", "mm", own=_most(rod=10.0, interfaces=4.0, depths=6.5, echo=3.0)),
    Metric("solids_mae", "solids", "mean", "mm", own=_most(rod=5.0, interfaces=3.0, depths=4.5, echo=6.0)),
    Metric("depths_known", "known", "mean"),
    Metric(
        "fraction_coverage_90", "inside", "mean",
        overall=Target(*BAND), each=Target(*BAND, touch=True), faulty=Target(least=0.80),
    ),
    Metric(
        "fraction_beyond_3_sd", "far", "mean",
        overall=Target(most=0.03), each=Target(most=0.03), own=_rods(Target(most=0.05)),
        faulty=Target(most=0.10),
    ),
    Metric(
        "crossing_coverage_90", "crossing", "mean",
        overall=Target(*BAND, enough=800), each=Target(*BAND, touch=True, enough=200),
        faulty=Target(least=0.80),
    ),
    Metric("crossing_known", "crossing_known", "mean"),
    Metric(
        "crossing_pinball_gain", "pinball", "gain",
        overall=Target(least=0.30), each=Target(least=0.30), own=_rods(Target(least=0.60)),
        faulty=Target(least=0.30),
    ),
    Metric("crossing_error_median", "crossing_error", "median", "day"),
    Metric("passage_coverage_90_at_10", "passage_10", "mean"),
    Metric("passage_coverage_90_at_15", "passage_15", "mean"),
    Metric("passage_coverage_90_at_20", "passage_20", "mean"),
    Metric("passage_coverage_90_at_25", "passage_25", "mean"),
    Metric("over_limit_excess_median", "over_excess", "median", "point", own=_OVER_MEDIAN),
    Metric("over_limit_excess_p95", "over_excess", "p95", "point", own=_OVER_P95),
    Metric("over_limit_delay_median", "over_delay", "median", "day"),
    Metric("over_limit_recall", "over_recall", "mean"),
    Metric(
        "over_limit_false", "over_false", "rate", "a year",
        overall=Target(most=0.4), each=Target(most=0.4), faulty=Target(most=0.4),
    ),
    Metric(
        "over_limit_false_below_23", "over_false_far", "rate", "a year",
        overall=Target(most=0.2), each=Target(most=0.2), faulty=Target(most=0.2),
    ),
    _share("pump_out_recall_complete", "recall_complete", 0.99),
    _share("pump_out_recall_partial", "recall_partial", 0.95),
    _share("pump_out_hidden_complete", "recall_complete_hidden", 0.98),
    _share("pump_out_hidden_partial", "recall_partial_hidden", 0.95),
    Metric("pump_out_recall_no_visible_fall", "recall_small", "mean"),
    _share("pump_out_precision", "precision", 0.98, 0.96),
    Metric("pump_out_invented", "invented", "rate", "a year", faulty=Target(most=0.2)),
    _share("hot_recall", "hot_recall", 0.98),
    _share("hot_recall_confirmed", "hot_recall_confirmed", 0.90),
    _share("hot_precision", "hot_precision", 0.93),
    _share("hot_precision_confirmed", "hot_precision_confirmed", 0.99),
    Metric(
        "hot_confirmed_by_tank_probe", "hot_by_tank", "count",
        overall=Target(most=0.0), each=Target(most=0.0),
    ),
    Metric("items_unaccounted", "unaccounted", "count", overall=Target(most=0.0)),
)  # fmt: skip
