"""Scores of replays' public output against the truth of the scenarios they replayed.

Only lines of the public contract are read: ``assessment``, ``pump_out``, ``hot_discharge``, ``alert`` and
``summary``; and of the messages, who spoke when, and what a simple reader makes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from simulators.baselines import line_forecasts, oracle_forecasts
from simulators.heard import Gauge, Heard, listen
from simulators.score_events import score_events
from simulators.score_levels import Losses, score_gain, score_levels
from simulators.table import Table, make_table
from simulators.tally import Tally
from simulators.truth import Line
from simulators.truthbook import LIMIT, Book, read_truth

OUTCOMES: Final = ("stored", "duplicate", "quarantined", "retained", "heartbeat")
ROD: Final = "rod"
ROD_PITCH_M: Final = 0.05  # the pitch the targets speak of; finer rods are scored apart


@dataclass(frozen=True, slots=True)
class Judged:
    """The truth and what was heard of one scenario, for whoever wants to show it."""

    book: Book
    heard: Mapping[str, Heard]


class Score:
    """Gathers the scores of one scenario after another, all held against the same ``limit``.

    ``limit`` is one of :data:`simulators.truth.LEVELS`: truth tells of no other passages.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self._tally = Tally()
        self._limit = limit
        self._runs = 0

    def add(
        self,
        truth: Iterable[Line],
        output: Iterable[Line],
        fleet: Mapping[str, Gauge] | None = None,
        messages: Iterable[Line] = (),
    ) -> Judged:
        """Score one replay's output lines against truth lines.

        Parameters
        ----------
        truth, output
            Lines of a truth file and of a replay. Output of interceptors that the truth does not know is
            left out.
        fleet, messages
            The sensors (see :func:`simulators.heard.read_fleet`) and lines of the message file. Without
            them there are no baselines, and every pump-out counts as one that messages told of.

        Raises
        ------
        KeyError, ValueError
            A line lacks a key of the contract, or holds no time where one must be.
        """
        book = read_truth(truth, self._limit)
        heard = listen(fleet, messages) if fleet is not None else {}
        _tell_rods_apart(book, heard)
        self._runs += 1
        self._tally.begin(str(self._runs))
        lines: dict[str, list[Line]] = defaultdict(list)
        for line in output:
            if line.get("interceptor") in book.records:
                lines[line["type"]].append(line)
            elif line["type"] == "summary":
                lost = line["received"] - sum(line[name] for name in OUTCOMES)
                self._tally.add("unaccounted", "", "", (), float(lost))
        self._levels(book, heard, lines["assessment"])
        score_events(book, heard, lines, self._tally)
        return Judged(book, heard)

    def _levels(self, book: Book, heard: Mapping[str, Heard], assessments: list[Line]) -> None:
        tally = self._tally
        ours = score_levels(book, assessments, tally)
        if not heard:
            return
        line: Losses = score_levels(book, line_forecasts(book, heard), tally, "@line")
        oracle: Losses = score_levels(book, oracle_forecasts(book, heard), tally, "@oracle")
        score_gain(book.records, ours, line, tally)
        score_gain(book.records, oracle, line, tally, "@oracle")

    def table(self) -> Table:
        """Everything gathered so far, summed up."""
        return make_table(self._tally)


def score(
    truth: Iterable[Line],
    output: Iterable[Line],
    fleet: Mapping[str, Gauge] | None = None,
    messages: Iterable[Line] = (),
) -> Table:
    """Score a single scenario; see :meth:`Score.add`."""
    gathered = Score()
    gathered.add(truth, output, fleet, messages)
    return gathered.table()


def _tell_rods_apart(book: Book, heard: Mapping[str, Heard]) -> None:
    for name, record in book.records.items():
        one = heard.get(name)
        if one is not None and record.principle == ROD and abs(one.pitch_m - ROD_PITCH_M) > 1e-6:
            record.principle = f"{ROD}-{one.pitch_m * 1e3:g}mm"
