"""Sites, interceptors, sensors, haulers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from store import schema
from store.ports import StoreError
from store.records import Hauler, Interceptor, Sensor, Site
from store.rows import as_record, as_row, fetch, upsert

if TYPE_CHECKING:
    from store.sql import SqlStore

R = TypeVar("R")
_VERSION: Final = "registry_version"


class SqlRegistry:
    """The registry port over SQLAlchemy."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def sites(self) -> list[Site]:
        """All sites, by id."""
        return self._all(Site, schema.sites)

    def interceptors(self) -> list[Interceptor]:
        """All interceptors, by id."""
        return self._all(Interceptor, schema.interceptors)

    def sensors(self) -> list[Sensor]:
        """All sensors, by id."""
        return self._all(Sensor, schema.sensors)

    def haulers(self) -> list[Hauler]:
        """All haulers, by id."""
        return self._all(Hauler, schema.haulers)

    def put_fleet(
        self,
        *,
        sites: Iterable[Site] = (),
        interceptors: Iterable[Interceptor] = (),
        sensors: Iterable[Sensor] = (),
        haulers: Iterable[Hauler] = (),
    ) -> int:
        """Insert or update these objects; returns how many rows changed."""
        with self._store.transaction():
            changed = sum(self._put(schema.haulers, one) for one in haulers)
            changed += sum(self._put(schema.sites, one) for one in sites)
            for interceptor in interceptors:
                what = f"interceptor {interceptor.id!r}"
                self._needs(what, "site", schema.sites, interceptor.site)
                if interceptor.hauler is not None:
                    self._needs(what, "hauler", schema.haulers, interceptor.hauler)
                changed += self._put(schema.interceptors, interceptor)
            for sensor in sensors:
                self._needs(f"sensor {sensor.id!r}", "interceptor", schema.interceptors, sensor.interceptor)
                changed += self._put(schema.sensors, sensor)
            if changed:
                upsert(self._store.writer, schema.meta, {"name": _VERSION, "value": str(self.version() + 1)})
        return changed

    def version(self) -> int:
        """Grows with every change."""
        query = sa.select(schema.meta.c.value).where(schema.meta.c.name == _VERSION)
        with self._store.reading() as connection:
            value = connection.execute(query).scalar()
        return 0 if value is None else int(value)

    def _all(self, kind: type[R], table: sa.Table) -> list[R]:
        with self._store.reading() as connection:
            rows = fetch(connection, sa.select(table).order_by(table.c.id))
        return [as_record(kind, row) for row in rows]

    def _put(self, table: sa.Table, record: Any) -> bool:
        return upsert(self._store.writer, table, as_row(record))

    def _needs(self, what: str, key: str, table: sa.Table, identity: str) -> None:
        found = self._store.writer.execute(sa.select(table.c.id).where(table.c.id == identity)).scalar()
        if found is None:
            raise StoreError(f"{what}: {key}: {identity!r} does not exist; add it first")
