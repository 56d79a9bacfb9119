"""The store over SQLAlchemy: one connection that writes, a few that read, SQLite's pragmas.

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
from store.keeping import SqlKeeping
from store.ledger import SqlLedger
from store.migrate import migrate
from store.ports import History, Keeping, Ledger, Registry, Store, StoreError
from store.readers import Readers, end
from store.registry import SqlRegistry

FILE_NAME: Final = "quarterline.sqlite3"
_BUSY_S: Final = 10.0


def open_store(path: str | Path, *, durable: bool = True) -> Store:
    """Open the store of a data directory, or a file; it is made and brought to the newest schema.

    ``path`` may be a URL (``sqlite:////var/lib/quarterline``) as well. ``durable=False`` leaves flushing to the
    operating system: for replays, whose store is thrown away.

    Raises
    ------
    StoreError
        The file is no store of ours, is newer than this program, or cannot be written.
    """
    place = _place(path)
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


def _place(path: str | Path) -> Path:
    if isinstance(path, Path) or "://" not in path:
        return Path(path)
    scheme, _, rest = path.partition("://")
    if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        raise StoreError(
            f"{scheme}://…: no store of this kind; give a directory, a file, or sqlite:///relative, sqlite:////absolute"
        )
    return Path(rest[1:])


class SqlStore:
    """One SQLite file. Its parts share the writer's connection and its transaction."""

    def __init__(self, file: Path, *, durable: bool) -> None:
        self.file = file
        self._durable = durable
        self._engine = self._new_engine()
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._depth = 0
        self._closed = False
        self._history = SqlHistory(self)
        self.history: History = self._history
        self.registry: Registry = SqlRegistry(self)
        self.ledger: Ledger = SqlLedger(self)
        self.keeping: Keeping = SqlKeeping(self)
        self._readers = Readers(self._connect_reader)
        with translated():
            self._writer = self._connect()

    def _new_engine(self) -> sa.Engine:
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.file)),
            poolclass=NullPool,
            connect_args={"timeout": _BUSY_S, "cached_statements": 256},
        )
        sa.event.listen(engine, "connect", self._prepare)
        return engine

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

    def _connect_reader(self) -> sa.Connection:
        connection = self._connect()
        connection.exec_driver_sql("PRAGMA query_only = ON")
        connection.exec_driver_sql("PRAGMA cache_size = -8192")
        return connection

    # ---- for the parts -------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for one read: the writer's inside this thread's transaction, else a reader's."""
        with translated():
            if self._owner == threading.get_ident():
                yield self.writer
                return
            with self._readers.borrowed() as connection:
                yield connection

    @property
    def writer(self) -> sa.Connection:
        """The writer's connection; only inside :meth:`transaction`."""
        if self._owner != threading.get_ident():
            raise RuntimeError("a write outside a transaction")
        self._check_under_way()
        return self._writer

    def _check_under_way(self) -> None:
        # after some errors the engine undoes everything: what followed would be kept without the rest
        if not self.raw(self._writer).in_transaction:
            raise StoreError("the transaction was undone by an earlier error; nothing of it is kept")

    def raw(self, connection: sa.Connection) -> sqlite3.Connection:
        """The driver's own connection, for the paths where every microsecond counts."""
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        return driver

    def migration_engine(self) -> sa.Engine:
        """An engine whose transactions begin IMMEDIATE, schema changes included: for migrations only."""
        engine = self._new_engine()
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine

    # ---- the port ------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE … COMMIT; a nested one joins the outer, or undoes its own part alone when it fails."""
        with self._lock, translated():
            if self._closed:
                raise StoreError("the store is closed")
            if self._owner is None:
                self._owner = threading.get_ident()
                try:
                    with self._undone_on_error("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
                        yield
                finally:
                    self._owner = None
                return
            self._check_under_way()
            point = f"part_{self._depth}"
            with self._undone_on_error(
                f"SAVEPOINT {point}", f"RELEASE {point}", f"ROLLBACK TO {point}", f"RELEASE {point}"
            ):
                yield

    @contextmanager
    def _undone_on_error(self, begin: str, keep: str, *undo: str) -> Iterator[None]:
        raw = self.raw(self._writer)
        raw.execute(begin)
        self._depth += 1
        try:
            yield
            self._check_under_way()
            raw.execute(keep)
        except BaseException:
            with suppress(sqlite3.Error):
                for statement in undo if raw.in_transaction else ():
                    raw.execute(statement)
            self._history.forget()
            raise
        finally:
            self._depth -= 1

    def integrity(self) -> str:
        """``ok``, or what SQLite's own check says."""
        with self.reading() as connection:
            rows = connection.exec_driver_sql("PRAGMA quick_check").scalars().all()
        return "; ".join(str(row) for row in rows[:5])

    def close(self) -> None:
        """Fold the log into the file and close every connection; closing twice is no fault."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._readers.close()  # first: the checkpoint waits for whoever still reads
            with suppress(sqlite3.Error):
                self.raw(self._writer).execute("PRAGMA wal_checkpoint(TRUNCATE)")
            end(self._writer)
            self._engine.dispose()
