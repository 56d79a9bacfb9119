"""The store over SQLAlchemy: one writer's connection, one reading connection a thread, SQLite's pragmas.

A thread inside :meth:`SqlStore.transaction` reads what it has written; every other thread sees the last commit.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from store.errors import translated
from store.history import SqlHistory
from store.ledger import SqlLedger
from store.migrate import migrate
from store.ports import History, Ledger, Registry, Store, StoreError
from store.registry import SqlRegistry

FILE_NAME: Final = "quarterline.sqlite3"
_BUSY_S: Final = 10.0


def open_store(path: str | Path, *, durable: bool = True) -> Store:
    """Open the store of a data directory, or a file; it is made and brought to the newest schema.

    ``durable=False`` leaves flushing to the operating system: for replays, whose store is thrown away.

    Raises
    ------
    StoreError
        The file is no store of ours, is newer than this program, or cannot be written.
    """
    place = Path(path)
    file = place if place.suffix in {".sqlite3", ".db"} else place / FILE_NAME
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror}") from None
    store = SqlStore(file, durable=durable)
    try:
        migrate(store)
    except BaseException:
        store.close()
        raise
    return store


class SqlStore:
    """One SQLite file. Its parts share the writer's connection and its transaction."""

    def __init__(self, file: Path, *, durable: bool) -> None:
        self.file = file
        self._durable = durable
        self._engine = sa.create_engine(
            f"sqlite:///{file}", poolclass=NullPool, connect_args={"timeout": _BUSY_S}
        )
        sa.event.listen(self._engine, "connect", self._prepare)
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._local = threading.local()
        self._readers_lock = threading.Lock()
        self._readers: list[sa.Connection] = []
        with translated():
            self._writer = self._connect()
        self.history: History = SqlHistory(self)
        self.registry: Registry = SqlRegistry(self)
        self.ledger: Ledger = SqlLedger(self)

    def _prepare(self, raw: sqlite3.Connection, _record: Any) -> None:
        raw.isolation_level = None  # transactions are begun by us alone, IMMEDIATE
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {'FULL' if self._durable else 'OFF'}",
            "foreign_keys = ON",
            "wal_autocheckpoint = 16000",  # a larger checkpoint halves the price of random inserts
            "journal_size_limit = 67108864",
            "cache_size = -65536",
            "temp_store = MEMORY",
        ):
            raw.execute(f"PRAGMA {pragma}")

    def _connect(self) -> sa.Connection:
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    # ---- for the parts -------------------------------------------------------------------------------

    @property
    def reader(self) -> sa.Connection:
        """The connection this thread reads by: the writer's inside its transaction, else one of its own."""
        if self._owner == threading.get_ident():
            return self._writer
        mine: sa.Connection | None = getattr(self._local, "connection", None)
        if mine is None:
            mine = self._connect()
            self._local.connection = mine
            with self._readers_lock:  # not the writer's: a reader never waits for a transaction
                self._readers.append(mine)
        return mine

    @property
    def writer(self) -> sa.Connection:
        """The writer's connection; only inside :meth:`transaction`."""
        if self._owner != threading.get_ident():
            raise RuntimeError("a write outside a transaction")
        return self._writer

    def raw(self, connection: sa.Connection) -> sqlite3.Connection:
        """The driver's own connection, for the paths where every microsecond counts."""
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        return driver

    def migration_engine(self) -> sa.Engine:
        """An engine whose transactions begin IMMEDIATE, schema changes included: for migrations only."""
        engine = sa.create_engine(
            f"sqlite:///{self.file}", poolclass=NullPool, connect_args={"timeout": _BUSY_S}
        )
        sa.event.listen(engine, "connect", self._prepare)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine

    # ---- the port ------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE … COMMIT; nested calls join the outer one."""
        with self._lock:
            if self._owner is not None:
                yield
                return
            raw = self.raw(self._writer)
            with translated():
                raw.execute("BEGIN IMMEDIATE")
            self._owner = threading.get_ident()
            try:
                with translated():
                    yield
                    raw.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    if raw.in_transaction:
                        raw.execute("ROLLBACK")
                self.history_rolled_back()
                raise
            finally:
                self._owner = None

    def history_rolled_back(self) -> None:
        """What the history remembers of an undone transaction is forgotten."""
        assert isinstance(self.history, SqlHistory)
        self.history.forget()

    def integrity(self) -> str:
        """``ok``, or what SQLite's own check says."""
        with translated():
            rows = self.reader.exec_driver_sql("PRAGMA quick_check").scalars().all()
        return "; ".join(str(row) for row in rows[:5])

    def close(self) -> None:
        """Fold the log into the file and close every connection."""
        with self._lock:
            for connection in self._readers:  # first: the checkpoint waits for whoever still reads
                connection.invalidate()
                connection.close()
            self._readers.clear()
            with suppress(sqlite3.Error):
                self.raw(self._writer).execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._writer.invalidate()
            self._writer.close()
            self._engine.dispose()
