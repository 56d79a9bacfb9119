"""The disk spool of a service: where it lies, and that it is this service's and this store's alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from api.datadir import held
from api.settings import ConfigurationError, Settings
from ingest.spool import Spool, SpoolError
from store.ports import Store

__all__ = ["spool_held", "spool_opener"]

_STORE_ID: Final = "store_id"
_MARK: Final = "store"  # the file in the folder that names the store whose messages lie there


def spool_held(settings: Settings) -> AbstractContextManager[None]:
    """A spool outside the data directory is this service's alone, as the data directory is."""
    folder = settings.spool.dir
    return nullcontext() if folder is None else held(folder, what="the spool's directory")


def spool_opener(settings: Settings, store: Store) -> Callable[[int], Spool] | None:
    """Opens the disk spool for the number of the last message committed; None where none is wanted.

    The opener raises ConfigurationError where the folder cannot be used, or holds messages of another store: their
    numbers would say nothing here. A store that has taken nothing yet takes what it finds.
    """
    spool = settings.spool
    if not (settings.mqtt.enabled and spool.enabled):
        return None
    folder = spool.dir or settings.data_dir / "spool"

    def opened(taken: int) -> Spool:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _claim(folder, _identity(store), fresh=not taken)
            return Spool(folder, spool.max_bytes, taken=taken)
        except OSError as error:
            raise ConfigurationError([f"spool.dir: {folder}: cannot be used: {error.strerror}"]) from None
        except SpoolError as error:
            raise ConfigurationError([f"spool.dir: {error}"]) from None

    return opened


def _identity(store: Store) -> str:
    known = store.ledger.get_meta(_STORE_ID)
    if known is None:
        known = uuid.uuid4().hex
        with store.transaction():
            store.ledger.set_meta(_STORE_ID, known)
    return known


def _claim(folder: Path, identity: str, *, fresh: bool) -> None:
    mark = folder / _MARK
    owner = mark.read_text(encoding="ascii", errors="replace").strip() if mark.exists() else identity
    if owner != identity and not fresh and any(folder.glob("*.spool")):
        raise SpoolError(
            f"{folder} holds messages that another store has yet to take: run the service with that store's data_dir "
            "first, or choose another folder"
        )
    if owner != identity or not mark.exists():
        mark.write_text(f"{identity}\n", encoding="ascii")
