"""A thread that lets the writer thin the history, a small piece at a time between its other work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from api.commands import Commands
from api.core import Core
from api.retention import DAY_US, Keep, Retention
from api.settings import Retention as RetentionSettings
from store.ports import StoreError

T = TypeVar("T")
_EVERY_S: Final = 3600.0
_BREATH_S: Final = 0.02  # between two pieces: what comes in goes first
_log = structlog.get_logger("quarterline.retention")


def keep_of(settings: RetentionSettings) -> Keep:
    """The settings' rule in microseconds."""

    def days(value: int | None) -> int | None:
        return None if value is None else value * DAY_US

    return Keep(
        days(settings.raw_days),
        days(settings.hourly_days),
        days(settings.delete_days),
        frozenset(settings.hold),
    )


class Caretaker:
    """Asks the writer for one piece after the other, then rests an hour; what fails is tried again then."""

    def __init__(self, core: Core, submit: Callable[[Callable[[Commands], bool]], bool], keep: Keep) -> None:
        self._retention = Retention(core, keep)
        self._submit = submit
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._wanted = keep.raw_us is not None

    def start(self) -> None:
        """Begin, where anything is to be thinned at all."""
        if self._wanted:
            self._thread.start()

    def stop(self) -> None:
        """End after the piece under way; the next start goes on from there."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                pieces = self._round()
            except StoreError as error:
                _log.warning("thinning waits", reason=str(error))
            else:
                if pieces:
                    _log.info("thinned the history", pieces=pieces)
            self._stopping.wait(_EVERY_S)

    def _round(self) -> int:
        pieces = 0
        for interceptor in self._retention.interceptors():
            while not self._stopping.is_set() and self._submit(
                lambda commands, i=interceptor: self._retention.step(i, commands.now_us)  # type: ignore[misc]
            ):
                pieces += 1
                self._stopping.wait(_BREATH_S)
        return pieces
