"""A damaged store at the start: set aside whole, what can be read carried over, and everybody told."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from alerts.lines import alert_line
from api.datadir import STORE_FILES
from store import open_store
from store.ports import Store
from store.records import Alert
from store.salvage import damage, salvage
from store.sql import FILE_NAME

PREFIX: Final = "damaged-"
KIND: Final = "store_damaged"
_FRESH: Final = "fresh"  # where the new store is made, beside the damaged one, until it is whole
_GUIDE: Final = "docs/deploy.md, “The store is damaged”"
_log = structlog.get_logger("quarterline.store")


@dataclass(frozen=True, slots=True)
class SetAside:
    """Where the damaged files lie, what was wrong, and what could not be carried over."""

    folder: Path
    wrong: str
    lost: tuple[str, ...]

    @property
    def reason(self) -> str:
        """For a person."""
        lost = "readings and quarantine" + (f", and {', '.join(self.lost)}" if self.lost else "")
        return (
            f"The store was damaged ({self.wrong[:200]}). It was set aside in {self.folder}, and a fresh one takes "
            f"what comes from now on. Not carried over: {lost}. Restore a backup: {_GUIDE}."
        )


def set_aside_if_damaged(data_dir: Path, now_us: int) -> SetAside | None:
    """Look at the store before it is used; where it is damaged, put it aside and begin a fresh one.

    Only whoever holds the data directory may call this.

    Raises
    ------
    StoreError
        The file cannot be read for another reason, or nothing can be written.
    """
    _go_on(data_dir)
    wrong = damage(data_dir / FILE_NAME)
    if wrong is None:
        return None
    at = datetime.fromtimestamp(now_us // 1_000_000, tz=UTC)
    folder = data_dir / f"{PREFIX}{at:%Y%m%dT%H%M%SZ}"
    number = 1
    while folder.exists():
        number += 1
        folder = data_dir / f"{PREFIX}{at:%Y%m%dT%H%M%SZ}-{number}"
    folder.mkdir(mode=0o700)
    open_store(folder / _FRESH).close()
    _, lost = salvage(data_dir / FILE_NAME, folder / _FRESH / FILE_NAME)
    found = SetAside(folder, wrong, tuple(lost))
    store = open_store(folder / _FRESH)
    try:
        _tell(store, found, now_us)
    finally:
        store.close()
    _exchange(data_dir, folder)
    _log.error("the store is damaged", set_aside=str(folder), wrong=wrong, lost=lost, guide=_GUIDE)
    return found


def _exchange(data_dir: Path, folder: Path) -> None:
    """The damaged files into the folder, the whole fresh store into their place."""
    for name in STORE_FILES:
        if (data_dir / name).exists():
            (data_dir / name).rename(folder / name)
    (folder / _FRESH / FILE_NAME).rename(data_dir / FILE_NAME)
    shutil.rmtree(folder / _FRESH)


def _go_on(data_dir: Path) -> None:
    """Finish what a start that was killed on the way had begun, or clear it away: it is begun again."""
    for fresh in sorted(data_dir.glob(f"{PREFIX}*/{_FRESH}")):
        if not (data_dir / FILE_NAME).exists() and (fresh / FILE_NAME).exists():
            _exchange(data_dir, fresh.parent)
            continue
        shutil.rmtree(fresh)
        with suppress(OSError):  # the damaged store lies in it already
            fresh.parent.rmdir()


def _tell(store: Store, found: SetAside, now_us: int) -> None:
    alert = Alert(
        id=f"store-{found.folder.name.removeprefix(PREFIX).lower()}",
        interceptor=None,
        kind=KIND,
        state="firing",
        severity="critical",
        reason=found.reason,
        citation=None,
        basis="device",
        sensor=None,
        flag=None,
        since_us=now_us,
        changed_us=now_us,
    )
    with store.transaction():
        store.ledger.put_alert(alert)
        store.ledger.append(now_us, "alert", None, alert_line(alert))
