"""`quarterline retention`: what would go, without touching it."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from api.caretaker import keep_of
from api.core import Core
from api.retention import Outlook, Retention
from api.serve import load_rules
from api.settings import load_settings
from store import open_store
from store.backup import copy_file
from store.sql import FILE_NAME


def outlook(config: Path | None) -> list[Outlook]:
    """What would go now of each interceptor's readings; looked up in a copy, so that nobody waits.

    Raises
    ------
    StoreError
    """
    settings = load_settings(config)
    keep = keep_of(settings.retention)
    if keep.raw_us is None:
        return []
    open_store(settings.data_dir).close()  # makes it where there is none
    now_us = time.time_ns() // 1000
    with TemporaryDirectory(dir=settings.data_dir, prefix=".dry-run-") as folder:
        copy_file(settings.data_dir / FILE_NAME, Path(folder) / FILE_NAME)
        with closing(open_store(folder, durable=False)) as store:
            core = Core(store, load_rules(settings), start_us=now_us)
            return list(Retention(core, keep).outlook(now_us))


def in_words(rows: list[Outlook]) -> str:
    """For a person."""
    if not rows:
        return "[retention] raw_days is not set, or there is no interceptor: every reading is kept"
    hourly, daily, gone = (
        sum(getattr(one, name) for one in rows) for name in ("to_hourly", "to_daily", "deleted")
    )
    held = sum(one.held for one in rows)
    return (
        f"{len(rows)} interceptors, {held} on hold: {hourly} readings would go for one an hour, {daily} for one a "
        f"day, {gone} would be deleted. Records (alerts, orders, pump-outs, papers, decisions) stay."
    )
