"""Statements that read some pages of a large table in place of all of it. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
)

from adkpg.sql import Statement
from adkpg.tables import (
    app_states,
    artifacts,
    memories,
    memory_jobs,
    memory_vectors,
    sessions,
)

SAMPLED = 4_000
"""Pages that a sample has: 32 MB, so that it takes as long however large the table is."""

LARGE = 4 * SAMPLED
"""A table of more pages is sampled; another is read whole."""

FEW = 20_000
"""So many rows of an app are counted one by one; of one that has more a sample tells enough."""


_ALL_FEW = 100_000
"""So many rows of all apps together."""

MOST_APPS = 1_000
"""Apps that are named at most."""

_APP = bindparam("app_name", type_=Text)
_ONE = literal_column("1", BigInteger)


class AppNamesParameters(TypedDict):
    """An app, null is all; and how many apps at most are named."""

    app_name: str | None
    limit: int


class PagesParameters(TypedDict):
    """The name of the schema."""

    schema: str


class SampleParameters(TypedDict):
    """How much of the table is read."""

    percent: float


@cache
def select_pages() -> Statement[PagesParameters]:
    """Reads how many pages each table has: name, pages. Of a distributed one, none."""
    return Statement(
        text(
            "SELECT c.relname AS name,"
            " coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS pages"
            " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = :schema AND c.relkind = 'r'"
        ).bindparams(bindparam("schema", type_=Text))
    )


def percent(pages: int) -> float | None:
    """Returns how much of a table is read; None is all of it."""
    return None if pages <= LARGE else 100 * SAMPLED / pages


def some(table: Table) -> Any:
    """Some pages of a table, the same ones each time. Parameters: percent."""
    return table.tablesample(
        func.system(bindparam("percent")), name="sample", seed=literal_column("1")
    )


def page_of(source: Any) -> Any:
    """Which page of its table a row is in."""
    return literal_column(f"split_part({source.name}.ctid::text, ',', 1)", Text)


def few_of(apps: int) -> int:
    """Returns how many rows of each app are counted one by one."""
    return max(1, min(FEW, _ALL_FEW // max(apps, 1)))


@cache
def select_app_names() -> Statement[AppNamesParameters]:
    """Reads the apps that have anything, by name: app_name.

    Each is looked up in a table's key after the one before, so no table is read through.
    """
    limit = bindparam("limit", type_=Integer)
    tables = (
        sessions,
        memories,
        memory_vectors,
        artifacts,
        memory_jobs,
        app_states,
    )

    def walked(table: Table) -> Select[Any]:
        begin: ColumnElement[bool] = table.c.app_name >= func.coalesce(
            _APP, literal_column("''", Text)
        )
        first = select(func.min(table.c.app_name).label("app_name"), _ONE.label("number"))
        names = first.where(begin).cte(f"names_of_{table.name}", recursive=True)
        following = (
            select(func.min(table.c.app_name))
            .where(table.c.app_name > names.c.app_name)
            .correlate(names)
            .scalar_subquery()
        )
        names = names.union_all(
            select(following, names.c.number + _ONE).where(
                names.c.app_name.is_not(None),
                names.c.number < limit,
                or_(_APP.is_(None), names.c.app_name < _APP),
            )
        )
        return select(names.c.app_name).where(names.c.app_name.is_not(None))

    def found(each: Any) -> Select[Any]:
        every = each.subquery("every")
        return (
            select(every.c.app_name)
            .where(or_(_APP.is_(None), every.c.app_name == _APP))
            .distinct()
            .order_by(every.c.app_name)
            .limit(limit)
        )

    return Statement(
        found(union_all(*map(walked, tables))),
        over_nodes=found(union_all(*(select(table.c.app_name).distinct() for table in tables))),
    )
