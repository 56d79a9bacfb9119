"""`quarterline import`: recorded series into the history, by the same decoder, identity rules and quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from api.core import HISTORY_VERSION
from api.serve import load_rules
from api.settings import load_settings
from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.series import RowError, SeriesMapping, load_mapping, read_series
from store import open_store
from store.ports import Store
from store.records import CLOCK_REPLACED

_WINDOW: Final = 1000
_TOLD: Final = 20


class _DryRun(Exception):
    """Undoes the transaction of a dry run."""


@dataclass(slots=True)
class Imported:
    """What became of the rows."""

    rows: int = 0
    stored: int = 0
    duplicates: int = 0
    clock_replaced: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)  # file:line: why
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "rows": self.rows,
            "stored": self.stored,
            "duplicates": self.duplicates,
            "clock_replaced": self.clock_replaced,
            "quarantined": dict(self.quarantined),
            "refused": self.refused,
            "dry_run": self.dry_run,
        }


def import_series(
    files: Sequence[Path], mapping: Path, config: Path | None, *, dry_run: bool, say: Callable[[str], None]
) -> Imported:
    """Read every file by the mapping and commit its rows; a dry run is undone at the end.

    Raises
    ------
    ingest.series.SeriesError
        The mapping cannot be used; the text names file and key.
    """
    settings = load_settings(config)
    rules = load_rules(settings)
    known = load_mapping(mapping)
    result = Imported(dry_run=dry_run)
    store = open_store(settings.data_dir)
    try:
        decoder = Decoder({s.id: s for s in store.registry.sensors()}, rules.profiles)
        rows = _rows(files, known, result, say)
        if dry_run:
            try:
                with store.transaction():
                    _commit_all(store, decoder, rows, result)
                    raise _DryRun
            except _DryRun:
                return result
        _commit_all(store, decoder, rows, result)
        with store.transaction():
            # a running service folds the whole history again when it sees this
            version = int(store.ledger.get_meta(HISTORY_VERSION) or 0)
            store.ledger.set_meta(HISTORY_VERSION, str(version + 1))
    finally:
        store.close()
    return result


def _rows(
    files: Sequence[Path], mapping: SeriesMapping, result: Imported, say: Callable[[str], None]
) -> Iterator[RawMessage]:
    for file in files:
        for row in read_series(file, mapping):
            result.rows += 1
            if isinstance(row, RowError):
                result.refused.append(str(row))
                if len(result.refused) <= _TOLD:
                    say(str(row))
            else:
                yield row


def _commit_all(store: Store, decoder: Decoder, rows: Iterable[RawMessage], result: Imported) -> None:
    stream = iter(rows)
    while window := tuple(islice(stream, _WINDOW)):
        decoded = decoder.decode(window)
        committed = store.history.commit(decoded)
        result.stored += len(decoded.items) - committed.duplicates - _conflicts(committed.quarantined)
        result.duplicates += committed.duplicates
        result.clock_replaced += sum(1 for item in decoded.items if item.flags & CLOCK_REPLACED)
        result.quarantined.update(one.reason for one in committed.quarantined)


def _conflicts(quarantined: Iterable[Any]) -> int:
    return sum(1 for one in quarantined if one.reason == "conflict")


def in_words(result: Imported) -> str:
    """For a person."""
    head = "would store" if result.dry_run else "stored"
    text = f"{result.rows} rows: {head} {result.stored}, {result.duplicates} there already"
    if result.clock_replaced:
        text += f", {result.clock_replaced} with a clock that cannot be right (receipt time instead)"
    if result.quarantined:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(result.quarantined.items()))
        text += f", in quarantine: {reasons}"
    if result.refused:
        text += f", {len(result.refused)} rows not taken"
    return text
