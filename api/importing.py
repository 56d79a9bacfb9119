"""`quarterline import`: recorded series into the history, by the same decoder and identity rules as live ones.

What was recorded is history and calls nobody: it says nothing of whether a sensor speaks now, and what cannot be
taken stays in its file, named by line, so that importing again finds the same rows and stores nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from api.core import HISTORY_VERSION
from api.jsonlines import is_json_lines, numbered_json_lines
from api.serve import load_rules
from api.settings import load_settings
from ingest.decode import Decoder
from ingest.instants import AHEAD_US
from ingest.message import RawMessage
from ingest.series import RowError, SeriesError, SeriesMapping, load_mapping, numbered_series
from store import open_store
from store.backup import copy_file
from store.identity import KEPT_BYTES
from store.ports import Store
from store.records import CLOCK_REPLACED, CommitResult, IngestWindow, Item, Quarantined
from store.sql import FILE_NAME

_WINDOW: Final = 1000
_Place = tuple[str, int]  # topic, reception [us]


@dataclass(slots=True)
class Imported:
    """What became of the rows."""

    rows: int = 0
    stored: int = 0
    duplicates: int = 0
    without_value: int = 0
    clock_replaced: int = 0
    ignored: Counter[str] = field(default_factory=Counter)  # fields of unknown names
    reasons: Counter[str] = field(default_factory=Counter)  # of what was not taken
    refused: list[str] = field(default_factory=list)  # file:line: why
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "rows": self.rows,
            "stored": self.stored,
            "duplicates": self.duplicates,
            "without_value": self.without_value,
            "clock_replaced": self.clock_replaced,
            "ignored": dict(self.ignored),
            "reasons": dict(self.reasons),
            "refused": self.refused,
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told: each row not taken in a sentence, and how many bytes of all files were read."""

    say: Callable[[str], None] = lambda _: None
    bytes_read: Callable[[int], None] = lambda _: None


class Importer:
    """Brings files into one store, a window of rows a transaction."""

    def __init__(self, store: Store, decoder: Decoder, now_us: int, watch: Watch) -> None:
        self._store = store
        self._decoder = decoder
        self._latest_us = now_us + AHEAD_US
        self._watch = watch
        self._own_clock = False
        self.result = Imported()

    def run(self, files: Sequence[Path], mapping: SeriesMapping | None) -> Imported:
        """Read every file in its own order; what is stored stays stored where a later file fails.

        Raises
        ------
        SeriesError
            A file cannot be read, or needs a mapping and has none.
        StoreError
        """
        kinds = [(file, is_json_lines(file)) for file in files]
        for file, is_json in kinds:
            if not is_json and mapping is None:
                raise SeriesError(f"{file}: a CSV file needs --mapping: which column is which quantity")
        # no row of such a series says another time than its reception, and none is older than the mapping allows
        self._own_clock = mapping is not None and mapping.received is None
        before = 0
        with self._told_to_a_running_service():
            for file, is_json in kinds:
                at = self._from(before)
                rows = (
                    numbered_json_lines(file, mapping, at)
                    if is_json
                    else numbered_series(file, _given(mapping), at)
                )
                self._commit_all(rows, str(file))
                before += file.stat().st_size
                self._watch.bytes_read(before)
        return self.result

    def _from(self, before: int) -> Callable[[int], None]:
        return lambda count: self._watch.bytes_read(before + count)

    @contextmanager
    def _told_to_a_running_service(self) -> Iterator[None]:
        """A running service folds the history again when it sees this version grow."""
        try:
            yield
        finally:
            with self._store.transaction():
                version = int(self._store.ledger.get_meta(HISTORY_VERSION) or 0)
                self._store.ledger.set_meta(HISTORY_VERSION, str(version + 1))

    def _commit_all(self, rows: Iterator[tuple[int, RawMessage | RowError]], name: str) -> None:
        taken = self._taken(rows, name)
        while window := tuple(islice(taken, _WINDOW)):
            self._commit(window, name)

    def _taken(
        self, rows: Iterator[tuple[int, RawMessage | RowError]], name: str
    ) -> Iterator[tuple[int, RawMessage]]:
        for number, row in rows:
            self.result.rows += 1
            if isinstance(row, RowError):
                self._refuse(str(row), "unreadable")
            elif row.received_us > self._latest_us:
                self._refuse(
                    f"{name}:{number}: time: lies in the future; correct the year or the zone", "future"
                )
            elif row.retain:
                self._refuse(f"{name}:{number}: retain: a retained message is no reading", "retained")
            else:
                yield number, row

    def _commit(self, numbered: Sequence[tuple[int, RawMessage]], name: str) -> None:
        window = self._decoder.decode([row for _, row in numbered])
        lines = _Lines(numbered, name)
        for one in window.quarantined:
            self._refuse(f"{lines.where(one)}: {one.detail}", one.reason)
        items = tuple(self._by_its_time(item) for item in window.items)
        # connectivity and contacts are of today: a series of last year must not make its sensor silent
        kept = replace(window, items=items, quarantined=(), statuses=(), contacts=(), unknown_fields=())
        committed, conflicts = self._without_conflicts(kept)
        for one in conflicts:
            self._refuse(f"{lines.where(one)}: {one.detail}", one.reason)
        result = self.result
        result.stored += len(items) - len(conflicts) - committed.duplicates
        result.duplicates += committed.duplicates
        result.without_value += window.heartbeats
        for _, name_of_field, count in window.unknown_fields:
            result.ignored[name_of_field] += count
        result.clock_replaced += sum(1 for item in items if item.flags & CLOCK_REPLACED)

    def _by_its_time(self, item: Item) -> Item:
        """An item without time or counter stands at its reception: importing again finds it there.

        Live, such an item is known again for ten minutes and only from a repetition; a file can be read any time
        later. An old series whose only clock is its own has no wrong one.
        """
        if self._own_clock and item.flags & CLOCK_REPLACED:
            return msgspec.structs.replace(
                item, flags=item.flags & ~CLOCK_REPLACED, key=None, check_key=False
            )
        if item.key is None or item.check_key:
            return item
        return msgspec.structs.replace(item, key=None)

    def _without_conflicts(self, window: IngestWindow) -> tuple[CommitResult, list[Quarantined]]:
        """Commit; items that contradict what is stored are left out, where live ones go to quarantine."""
        out: list[Quarantined] = []
        while True:
            try:
                with self._store.transaction():
                    result = self._store.history.commit(window)
                    if result.quarantined:
                        raise _ConflictsError(result.quarantined)
                return result, out
            except _ConflictsError as found:
                out += found.items
                window = replace(window, items=_left(window.items, found.items))

    def _refuse(self, text: str, reason: str) -> None:
        self.result.refused.append(text)
        self.result.reasons[reason] += 1
        self._watch.say(text)


class _ConflictsError(Exception):
    """Undoes a window that would have put items into quarantine."""

    def __init__(self, items: Sequence[Quarantined]) -> None:
        super().__init__()
        self.items = items


class _Lines:
    """Which line of the file an item of a window came from."""

    def __init__(self, numbered: Sequence[tuple[int, RawMessage]], name: str) -> None:
        self._name = name
        self._at: dict[_Place, list[tuple[int, bytes]]] = defaultdict(list)
        self._told: Counter[tuple[str, int, bytes]] = Counter()
        for number, row in numbered:
            self._at[row.topic, row.received_us].append((number, row.payload))

    def where(self, one: Quarantined) -> str:
        """``file:line``; of lines that say the very same, each in its turn."""
        rows = self._at[one.topic, one.received_us]
        numbers = [n for n, payload in rows if one.payload in payload] or [rows[0][0]]
        turn = self._told[one.topic, one.received_us, one.payload]
        self._told[one.topic, one.received_us, one.payload] += 1
        return f"{self._name}:{numbers[min(turn, len(numbers) - 1)]}"


def _left(items: Sequence[Item], conflicts: Sequence[Quarantined]) -> tuple[Item, ...]:
    out = Counter((one.topic, one.received_us, one.payload) for one in conflicts)
    kept = []
    for item in reversed(items):  # of the very same items the later ones are the conflicts
        key = (item.topic, item.received_us, item.raw[:KEPT_BYTES])
        if out[key]:
            out[key] -= 1
        else:
            kept.append(item)
    return tuple(reversed(kept))


def _given(mapping: SeriesMapping | None) -> SeriesMapping:
    assert mapping is not None  # asked before any file was read
    return mapping


def in_words(result: Imported) -> str:
    """For a person."""
    head = "would store" if result.dry_run else "stored"
    text = f"{result.rows} rows: {head} {result.stored}, {result.duplicates} there already"
    if result.without_value:
        text += f", {result.without_value} without a value"
    if result.clock_replaced:
        text += f", {result.clock_replaced} with a clock that cannot be right (receipt time instead)"
    if result.ignored:
        text += f", fields of unknown names ignored: {', '.join(sorted(result.ignored)[:10])}"
    if result.reasons:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(result.reasons.items()))
        text += f"; not taken: {reasons}"
    return text


def import_series(
    files: Sequence[Path],
    mapping: Path | None,
    config: Path | None,
    *,
    dry_run: bool,
    watch: Watch | None = None,
) -> Imported:
    """Read every file and commit its rows; a dry run does it on a copy of the store, which is thrown away.

    Raises
    ------
    SeriesError
        A file or the mapping cannot be used; the text names file and key.
    StoreError
    """
    settings = load_settings(config)
    rules = load_rules(settings)
    known = None if mapping is None else load_mapping(mapping)
    with _store(settings.data_dir, dry_run=dry_run) as store:
        decoder = Decoder({s.id: s for s in store.registry.sensors()}, rules.profiles)
        importer = Importer(store, decoder, time.time_ns() // 1000, watch or Watch())
        importer.result.dry_run = dry_run
        return importer.run(files, known)


@contextmanager
def _store(data_dir: Path, *, dry_run: bool) -> Iterator[Store]:
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(data_dir)))
        if dry_run:
            # not undone in place: a transaction that long would keep a running service from its store
            folder = Path(stack.enter_context(TemporaryDirectory(dir=data_dir, prefix=".dry-run-")))
            copy_file(data_dir / FILE_NAME, folder / FILE_NAME)
            store = stack.enter_context(closing(open_store(folder, durable=False)))
        yield store
