"""Queries of the server's own catalogs: what is built, kept, set and allowed.

Their SQL is in catalog_statements.sql. They name a schema only as a parameter, so that they work on
any server that adkpg may meet. A table that is dropped while they run has no size any more: it is
0.
"""

from collections.abc import Iterator
from typing import Any, TypedDict

from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.schema import AddConstraint, CreateIndex

from adkpg.queries import Queries, Query
from adkpg.tables import SCHEMA, metadata

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped

_sql = Queries(__file__)


class Recovery(TypedDict):
    """Whether a server is a standby."""

    standby: bool


class Named(TypedDict):
    """A name."""

    name: str


class Extension(TypedDict):
    """The newest version of an extension that a server has."""

    version: str


class StoredIndex(TypedDict):
    """An index, and whether searches and writes may use it."""

    name: str
    valid: bool


class Size(TypedDict):
    """How large a table is; its rows are estimated."""

    name: str
    rows: int
    bytes: int
    index_bytes: int


class Vacuumed(TypedDict):
    """A table's pages, those in the visibility map, and whether autovacuum is on for it."""

    name: str
    seen: int
    pages: int
    vacuumed: bool


class Setting(TypedDict):
    """A setting of the server, and where it is set."""

    name: str
    setting: str
    unit: str | None
    context: str
    source: str


class Role(TypedDict):
    """Who asks in which database.

    Whether it is a superuser, is held back by no policy, may create schemas, may act as the owner
    of the tables, and sees in them only what policies let it.
    """

    role: str
    database: str
    super: bool
    bypasses: bool
    creates: bool
    owner: bool
    guarded: bool


class Admission(TypedDict):
    """The rights of a role to the scope of all users.

    Whether it is noted as admitted, has all rights and policies for it, and whether the role that
    asks is it or has its rights.
    """

    role: str
    admitted: bool
    equipped: bool
    own: bool


class Replay(TypedDict):
    """Whether a standby's replay is paused, and how far a vector is from itself."""

    is_paused: bool
    distance: float


class MissingRight(TypedDict):
    """A right, and the tables for which it is missing; USAGE, which is of the schema, has none."""

    right: str
    tables: list[str] | None


class MissingColumn(TypedDict):
    """A table's column that is not there; its name is null if all of the table is missing."""

    of: str
    name: str | None


@_sql.query()
def select_recovery() -> Query[Recovery]:
    """Reads whether the server is a standby."""


@_sql.query()
def select_schemas() -> Query[Named]:
    """Reads the names of the schemas that hold tables such as adkpg's, in this order."""


@_sql.query()
def select_pgvector() -> Query[Extension]:
    """Reads the newest pgvector that the server has; no row if it has none."""


@_sql.query()
def select_indexes(*, schema: str) -> Query[StoredIndex]:
    """Reads the indexes, and whether each is valid; by name."""


@_sql.query()
def select_sizes(*, schema: str) -> Query[Size]:
    """Reads how large each table is; largest first."""


@_sql.query()
def select_tables(*, schema: str) -> Query[Vacuumed]:
    """Reads what vacuum has seen of each table, by name."""


@_sql.query()
def select_settings(*, names: list[str]) -> Query[Setting]:
    """Reads settings of the server; those that it does not know have no row."""


@_sql.query()
def select_role(*, schema: str) -> Query[Role]:
    """Reads who asks, and what it may do; one row."""


@_sql.query()
def select_admissions(*, schema: str, every: str, register: str) -> Query[Admission]:
    """Reads the rights to the scope of all users, by role.

    The tables' owner is among them. There are no rows without row-level security. Policies that let
    a role into the scope of all users are named `every`, a space and the role; that of the table
    `register` says who is admitted.
    """


@_sql.query()
def select_replay() -> Query[Replay]:
    """Reads whether a standby's replay is paused; it compares a vector, so it needs pgvector."""


@_sql.query()
def select_missing_rights(
    *, schema: str, tables: list[str], rights: list[str]
) -> Query[MissingRight]:
    """Reads which rights on these tables of a schema the role lacks; by right."""


@_sql.query()
def select_missing_columns(
    *, schema: str, tables: list[str], columns: list[str]
) -> Query[MissingColumn]:
    """Reads which columns, each with its table, are not there; by both."""


def definitions(schema: str) -> Iterator[tuple[str, str]]:
    """Yields every index and unique key of adkpg by its name, with the SQL that makes it."""
    options: dict[str, Any] = {
        "schema_translate_map": {SCHEMA: schema},
        "render_schema_translate": True,
    }
    for table in metadata.sorted_tables:
        for index in table.indexes:
            made = CreateIndex(index).compile(dialect=_DIALECT, **options)
            yield str(index.name), " ".join(str(made).split())
        for constraint in table.constraints:
            if getattr(constraint, "columns", None) and constraint.__visit_name__ in (
                "primary_key_constraint",
                "unique_constraint",
            ):
                made = AddConstraint(constraint).compile(dialect=_DIALECT, **options)
                yield str(constraint.name), " ".join(str(made).split())
