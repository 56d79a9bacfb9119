"""The table of an evaluation: values, targets and bootstrap intervals, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simulators import bootstrap
from simulators.bootstrap import Estimate
from simulators.tally import ALL, CLEAN, FAULTY, Samples, Tally
from simulators.targets import METRICS, Metric, Statistic

SOURCES: Final = ("", "@line", "@oracle")
PARTS: Final = {"median": 0.5, "p95": 0.95}
#: metrics shown for every kind of fault; the others are in the JSON
UNDER_FAULTS: Final = (
    "fog_mae", "solids_mae", "fraction_coverage_90", "fraction_beyond_3_sd", "crossing_coverage_90",
    "crossing_pinball_gain", "over_limit_false", "pump_out_recall_complete", "pump_out_precision",
    "pump_out_invented", "hot_recall", "hot_precision_confirmed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One score of one group of interceptors or of what one kind of fault touched.

    ``value`` is None where there was nothing to judge, ``count`` says out of how many; ``low`` and ``high``
    are the 95% cluster bootstrap interval; ``met`` is None without a target or with too little to judge.
    ``line`` and ``oracle`` are the baselines' values.
    """

    metric: str
    group: str
    value: float | None
    count: int
    unit: str
    low: float | None = None
    high: float | None = None
    target: str | None = None
    met: bool | None = None
    line: float | None = None
    oracle: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Scores in the order in which they are best read."""

    rows: tuple[Row, ...]
    principles: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def value(self, metric: str, group: str = ALL) -> float | None:
        """One score.

        Raises
        ------
        KeyError
            There is no such row.
        """
        return self.row(metric, group).value

    def row(self, metric: str, group: str = ALL) -> Row:
        """One row, with its count.

        Raises
        ------
        KeyError
            There is no such row.
        """
        for row in self.rows:
            if row.metric == metric and row.group == group:
                return row
        raise KeyError(f"{metric} for {group}")

    @property
    def missed(self) -> list[Row]:
        """Rows whose target is not met."""
        return [row for row in self.rows if row.met is False]

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain objects."""
        return [{name: getattr(row, name) for name in Row.__dataclass_fields__} for row in self.rows]

    def as_text(self) -> str:
        """For a person: every metric by principle, then some of them by fault."""
        whole = (ALL, CLEAN) if self.kinds else (ALL,)
        lines = [_line(HEAD), *self._block((*whole, *self.principles))]
        if self.kinds:
            lines += ["", "Under faults", _line(HEAD)]
            lines += self._block((CLEAN, FAULTY, *self.kinds), UNDER_FAULTS)
        judged = [row for row in self.rows if row.met is not None]
        lines += ["", f"{len(judged) - len(self.missed)} of {len(judged)} targets met"]
        return "\n".join(lines)

    def _block(self, groups: Sequence[str], metrics: Sequence[str] | None = None) -> Iterator[str]:
        for metric in METRICS:
            if metrics is not None and metric.name not in metrics:
                continue
            found = [row for row in self.rows if row.metric == metric.name and row.group in groups]
            found = [row for row in found if row.value is not None]
            title = f"{metric.name} [{metric.unit}]" if metric.unit else metric.name
            for place, row in enumerate(sorted(found, key=lambda row: groups.index(row.group))):
                yield _line(_cells(title if place == 0 else "", row))


HEAD: Final = ("", "", "value", "95% interval", "n", "target", "met", "line", "oracle")
WIDTHS: Final = (35, 15, -9, -18, -7, -13, 4, -8, -8)


def _line(cells: Sequence[str]) -> str:
    parts = [
        cell.rjust(-width) if width < 0 else cell.ljust(width)
        for cell, width in zip(cells, WIDTHS, strict=True)
    ]
    return " ".join(parts).rstrip()


def _cells(title: str, row: Row) -> tuple[str, ...]:
    span = "" if row.low is None else f"{_number(row.low)} … {_number(row.high)}"
    verdict = {True: "yes", False: "NO", None: "few" if row.target else ""}[row.met]
    return (
        title, row.group, _number(row.value), span, str(row.count), row.target or "", verdict,
        _number(row.line), _number(row.oracle),
    )  # fmt: skip


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) >= 10.0 else f"{value:.3f}"


def make_table(tally: Tally) -> Table:
    """Sum up everything that was tallied."""
    groups, principles = list(tally.groups()), tally.principles
    rows = [_row(tally, metric, group, principles) for metric in METRICS for group in groups]
    return Table(tuple(rows), tuple(principles), tuple(tally.kinds))


def _row(tally: Tally, metric: Metric, group: str, principles: list[str]) -> Row:
    own, line, oracle = (tally.of(metric.samples + source, group) for source in SOURCES)
    estimate = summed(own, metric.statistic)
    target = metric.target(group, principles)
    words = None if target is None else target.in_words()
    count = own.size if metric.statistic != "rate" else int(own.top.sum())
    beside = [_plain(other, metric.statistic) for other in (line, oracle)]
    if estimate is None:
        return Row(metric.name, group, None, count, metric.unit, target=words)
    return Row(
        metric.name,
        group,
        estimate.value,
        count,
        metric.unit,
        estimate.low,
        estimate.high,
        words,
        None if target is None else target.met(estimate, own.size),
        *beside,
    )


def summed(samples: Samples, statistic: Statistic) -> Estimate | None:
    """A statistic of samples with its interval; None where there is nothing to sum up."""
    if statistic in PARTS:
        return bootstrap.quantile(samples.cluster, samples.top, samples.bottom, PARTS[statistic])
    if statistic == "count":
        return Estimate(float(samples.top.sum()), None, None) if samples.size else None
    found = bootstrap.ratio(samples.cluster, samples.top, samples.bottom)
    if found is None or statistic != "gain":
        return found
    low = None if found.high is None else 1.0 - found.high
    high = None if found.low is None else 1.0 - found.low
    return Estimate(1.0 - found.value, low, high)


def _plain(samples: Samples, statistic: Statistic) -> float | None:
    """The statistic alone, as quickly as it can be had."""
    if samples.size == 0:
        return None
    one = Samples(np.zeros_like(samples.cluster), samples.top, samples.bottom)
    found = summed(one, statistic)
    return None if found is None else found.value
