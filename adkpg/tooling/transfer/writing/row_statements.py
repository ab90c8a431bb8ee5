"""Queries that copy rows of any kind; their SQL is in row_statements.sql."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import Column
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import BYTEA, JSON, JSONB, UUID

from adkpg import jsontext
from adkpg.queries import Nothing, Queries, Query, Statement
from adkpg.tooling.transfer.kinds import KINDS, Kind

_sql = Queries(__file__)
_DIALECT: Any = postgresql.dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped


class Same(TypedDict):
    """The place, from 0 on, of a given row that is stored as it was given."""

    place: int


def insert_rows(kind: Kind, records: Sequence[Any]) -> Query[Nothing]:
    """Writes rows whose keys are free; what is there stays."""
    return Query(_of_kind("insert_rows", kind.type), _lists(kind, records))


def select_same(kind: Kind, records: Sequence[Any]) -> Query[Same]:
    """Reads which of some rows are stored as they are given."""
    lists = {"places": list(range(len(records))), **_lists(kind, records)}
    return Query(_of_kind("select_same", kind.type), lists)


def _lists(kind: Kind, records: Sequence[Any]) -> dict[str, Any]:
    columns = kind.rule.table.columns
    return {
        f"{name}s": [_given(columns[name], getattr(record, name)) for record in records]
        for name in kind.columns
    }


def _given(column: Column[Any], value: Any) -> Any:
    if value is None or isinstance(value, str) or not isinstance(column.type, JSON | JSONB):
        return value
    return jsontext.write(value)


@cache
def _of_kind(name: str, line: str) -> Statement:
    kind = KINDS[line]
    columns = [kind.rule.table.columns[each] for each in kind.columns]
    text = _sql.text(
        name,
        table=kind.rule.table.name,
        columns=", ".join(each.name for each in columns),
        lists=", ".join(f":{each.name}s::{_sent(each)}[]" for each in columns),
        values=", ".join(f"given.{each.name}::{_type(each)}" for each in columns),
        equal_keys=" AND ".join(
            f"t.{each} = given.{each}::{_type(kind.rule.table.columns[each])}"
            for each in kind.rule.key
        ),
        equal_columns=" AND ".join(_same(kind)),
    )
    return Statement(text, Nothing if name == "insert_rows" else Same)


def _same(kind: Kind) -> list[str]:
    """Conditions by which a row that is there is the given one."""
    columns = kind.rule.table.columns
    same = [_equal(columns[each]) for each in kind.compared or kind.columns]
    if kind.grows is not None:
        same.append(f"t.{kind.grows} >= given.{kind.grows}::{_type(columns[kind.grows])}")
    return same


def _type(column: Column[Any]) -> str:
    kind: str = column.type.compile(_DIALECT)
    return kind.partition(" COLLATE")[0]


def _sent(column: Column[Any]) -> str:
    """The type of a list of values; what the driver knows as text otherwise is sent as text."""
    return "text" if isinstance(column.type, JSON | JSONB | UUID) else _type(column)


def _equal(column: Column[Any]) -> str:
    stored, given = f"t.{column.name}", f"given.{column.name}"
    if isinstance(column.type, JSON) and not isinstance(column.type, JSONB):
        stored = f"{stored}::text"
    elif not isinstance(column.type, BYTEA):
        given = f"{given}::{_type(column)}"
    return f"{stored} IS NOT DISTINCT FROM {given}"
