"""Bring a database to this program's schema; the migrations are shipped in the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from store.errors import translated
from store.ports import StoreError

if TYPE_CHECKING:
    from store.sql import SqlStore

_SCRIPTS: Final = Path(__file__).parent / "migrations"


def migrate(store: SqlStore) -> None:
    """Run the migrations that are missing, all or none.

    Raises
    ------
    StoreError
        The database is another program's, is newer than this program, or a migration failed.
    """
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    head = scripts.get_current_head()
    if _current(store) == head:
        return
    engine = store.migration_engine()
    try:
        with (
            translated(),
            engine.begin() as connection,
            EnvironmentContext(
                config, scripts, fn=lambda revision, _context: scripts._upgrade_revs("head", revision)
            ) as environment,
        ):
            _refuse_another_programs(store, connection)
            environment.configure(connection=connection)
            environment.run_migrations()
    except CommandError as error:
        raise StoreError(f"{store.file}: made by a newer version of this program: {error}") from None
    finally:
        engine.dispose()


def _current(store: SqlStore) -> str | None:
    with store.reading() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def _refuse_another_programs(store: SqlStore, connection: Connection) -> None:
    # asked inside the transaction: another process of ours may be making the same store
    tables = inspect(connection).get_table_names()
    if tables and "alembic_version" not in tables:
        raise StoreError(
            f"{store.file}: a database of another program (it has a table {tables[0]!r}); give another file"
        )
