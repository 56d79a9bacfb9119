"""Records as rows and back: fields that are tuples or mappings are kept as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

R = TypeVar("R")


_STRUCTURED: Final[dict[type, frozenset[str]]] = {}


def _json_fields(kind: Any) -> frozenset[str]:
    known = _STRUCTURED.get(kind)
    if known is None:
        known = frozenset(f.name for f in fields(kind) if str(f.type).startswith(("tuple", "Json")))
        _STRUCTURED[kind] = known
    return known


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def as_row(record: Any) -> dict[str, Any]:
    """A record's fields by column."""
    structured = _json_fields(type(record))
    return {
        f.name: json.dumps(getattr(record, f.name), sort_keys=True, ensure_ascii=False)
        if f.name in structured
        else getattr(record, f.name)
        for f in fields(record)
    }


def as_record(kind: type[R], row: Mapping[str, Any]) -> R:
    """The record a row holds."""
    structured = _json_fields(kind)
    return kind(**{name: _tuples(json.loads(v)) if name in structured else v for name, v in row.items()})


def fetch(connection: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    """A query's rows by column, all of them."""
    return [dict(row) for row in connection.execute(query).mappings()]


def upsert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> bool:
    """Insert a row, or update the one with its primary key; False where it already was just so."""
    return connection.execute(_upsert(table, connection.dialect.name), dict(row)).rowcount > 0


def upsert_all(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update many rows of one table."""
    if rows:
        connection.execute(_upsert(table, connection.dialect.name), [dict(row) for row in rows])


@cache
def _upsert(table: sa.Table, dialect: str) -> sa.Insert:
    """The statement, made once a table: making it costs more than running it."""
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    statement = insert(table).values({column.name: sa.bindparam(column.name) for column in table.columns})
    rest = [column.name for column in table.columns if column.name not in keys]
    differs = sa.or_(*(table.c[name].is_distinct_from(statement.excluded[name]) for name in rest))
    return statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in rest}, where=differs
    )
