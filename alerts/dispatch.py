"""The dispatcher: drains the outbox in its own thread, on real time, with back-off and jitter.

It reads and writes the outbox through two callables, so that writes can go through the service's one writer.
A crash between a delivery and its record delivers again under the same id: receivers know it by
``webhook-id``.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Protocol

import structlog

from alerts.channels import Channel, Outcome
from store.ports import StoreError
from store.records import OutboxItem

_log = structlog.get_logger("quarterline.dispatch")

#: Waits between attempts [s]; after the last one the item has failed.
BACK_OFF_S: Final = (5.0, 30.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
_JITTER: Final = 0.2


def next_attempt(item: OutboxItem, outcome: Outcome, now_us: int, chance: float) -> OutboxItem:
    """The item after one attempt; ``chance`` in [0, 1) spreads the wait by ± 20 %.

    A wait the receiver asked for is never cut short.
    """
    tried = replace(
        item, attempts=item.attempts + 1, error="" if outcome.word == "delivered" else outcome.detail
    )
    if outcome.word == "delivered":
        return replace(tried, state="delivered")
    if outcome.word in {"failed", "gone"} or item.attempts >= len(BACK_OFF_S):
        return replace(tried, state="failed")
    wait_s = BACK_OFF_S[item.attempts] * (1 + _JITTER * (2 * chance - 1))
    wait_s = max(wait_s, outcome.after_s or 0.0)
    return replace(tried, due_us=now_us + int(wait_s * 1e6))


class Due(Protocol):
    """Reads the outbox: waiting items whose time has come."""

    def __call__(self, now_us: int, *, limit: int) -> Sequence[OutboxItem]: ...


class Dispatcher:
    """Delivers what is due; one target's trouble does not hold up the others.

    Items of one target go in the order they were created; the next one waits while one is to be tried again.
    ``clock`` is real time [s].
    """

    def __init__(
        self,
        channels: Mapping[str, Channel],
        due: Due,
        put: Callable[[OutboxItem], None],
        *,
        clock: Callable[[], float],
        gone: Callable[[str], None] = lambda _: None,
        poll_s: float = 0.25,
        workers: int = 4,
        chance: random.Random | None = None,
    ) -> None:
        self._channels = channels
        self._due = due
        self._put = put
        self._clock = clock
        self._gone = gone
        self._poll_s = poll_s
        self._workers = workers
        self._chance = chance or random.Random()  # spreads retries; decides nothing
        self._lock = threading.Lock()
        self._busy: set[tuple[str, str]] = set()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dispatch", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Finish the attempts under way, then stop."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def wake(self) -> None:
        """Look at the outbox now."""
        self._wake.set()

    def counts(self) -> dict[tuple[str, str], int]:
        """Attempts so far by (channel, outcome): delivered, retry, failed, gone."""
        with self._lock:
            return dict(self._counts)

    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def drain_once(self) -> int:
        """Try everything due now in this thread; returns how many attempts were made."""
        return sum(self._deliver(key, items) for key, items in self._take().items())

    # ---- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        with ThreadPoolExecutor(self._workers, thread_name_prefix="deliver") as pool:
            while not self._stopping.is_set():
                for key, items in self._take().items():
                    pool.submit(self._deliver, key, items).add_done_callback(_report)
                self._wake.wait(self._poll_s)
                self._wake.clear()

    def _take(self) -> dict[tuple[str, str], list[OutboxItem]]:
        """Due items by (channel, target), of those that nobody is busy with; they count as busy from here."""
        try:
            items = self._due(int(self._clock() * 1e6), limit=200)
        except StoreError as error:
            _log.warning("outbox cannot be read", error=str(error))
            return {}
        groups: dict[tuple[str, str], list[OutboxItem]] = defaultdict(list)
        with self._lock:
            for item in sorted(items, key=lambda one: (one.created_us, one.id)):
                key = (item.channel, item.target)
                if key not in self._busy:
                    groups[key].append(item)
            self._busy.update(groups)
        return groups

    def _deliver(self, key: tuple[str, str], items: Sequence[OutboxItem]) -> int:
        attempts = 0
        try:
            wait_until: int | None = None
            for item in items:
                if wait_until is not None:
                    self._put(replace(item, due_us=wait_until))
                    continue
                after = self._attempt(item)
                attempts += 1
                if after.state == "waiting":
                    wait_until = after.due_us
        except StoreError as error:
            _log.warning("outbox cannot be written; delivered again later", target=key[1], error=str(error))
        finally:
            with self._lock:
                self._busy.discard(key)
        return attempts

    def _attempt(self, item: OutboxItem) -> OutboxItem:
        now_s = self._clock()
        channel = self._channels.get(item.channel)
        if channel is None:
            outcome = Outcome("failed", f"there is no channel {item.channel!r}")
        else:
            outcome = channel.deliver(item, now_s)
        with self._lock:
            self._counts[item.channel, outcome.word] += 1
            chance = self._chance.random()
        after = next_attempt(item, outcome, int(now_s * 1e6), chance)
        if outcome.word != "delivered":
            _log.warning(
                "not delivered", id=item.id, target=item.target, error=outcome.detail, attempt=after.attempts
            )
        self._put(after)
        if outcome.word == "gone":
            self._gone(item.target)
        return after


def _report(done: Future[int]) -> None:
    """A fault of ours in a delivery is told, never swallowed; its items are tried again."""
    error = done.exception()
    if error is not None:
        _log.error("delivery broke off", exc_info=error)
