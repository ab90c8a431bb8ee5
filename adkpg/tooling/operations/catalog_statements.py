"""Statements on the server's own catalogs: what is built, kept, set and allowed. No I/O.

They name no schema, so that they work on any server that adkpg may meet. What somebody drops while
they run has no size any more: it is 0.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.schema import AddConstraint, CreateIndex

from adkpg.sql import NoParameters, Statement
from adkpg.tables import EVERY, REGISTER, SCHEMA, metadata

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_SCHEMA = bindparam("schema", type_=Text)
_OF_SCHEMA = "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = :schema"


class SchemaParameters(TypedDict):
    """The name of the schema."""

    schema: str


class SettingsParameters(TypedDict):
    """Names of the server's settings."""

    names: list[str]


class RightsParameters(SchemaParameters):
    """Names of tables in a schema, and the rights that are asked for."""

    tables: list[str]
    rights: list[str]


class ColumnsParameters(SchemaParameters):
    """Columns that a schema should have, each with its table."""

    tables: list[str]
    columns: list[str]


@cache
def select_recovery() -> Statement[NoParameters]:
    """Reads whether the server is a standby."""
    return Statement(text("SELECT pg_is_in_recovery() AS standby"))


@cache
def select_schemas() -> Statement[NoParameters]:
    """Reads the names of the schemas that hold tables such as adkpg's."""
    return Statement(
        text(
            "SELECT n.nspname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname IN ('alembic_version', 'sessions', 'memory_lexemes')"
            " AND c.relkind IN ('r', 'p') GROUP BY 1 HAVING count(*) = 3 ORDER BY 1"
        )
    )


@cache
def select_pgvector() -> Statement[NoParameters]:
    """Reads the newest pgvector that the server has: version; no row if it has none."""
    return Statement(
        text("SELECT default_version AS version FROM pg_available_extensions WHERE name = 'vector'")
    )


@cache
def select_indexes() -> Statement[SchemaParameters]:
    """Reads the indexes, and whether each is valid; by name."""
    return Statement(
        text(
            "SELECT c.relname AS name, i.indisvalid AND i.indisready AND i.indislive AS valid"  # noqa: S608 - our own words
            f" FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid {_OF_SCHEMA} ORDER BY 1"
        ).bindparams(_SCHEMA)
    )


@cache
def select_sizes() -> Statement[SchemaParameters]:
    """Reads how large each table is: name, rows (estimated), bytes, index_bytes; largest first."""
    return Statement(
        text(
            "SELECT c.relname AS name,"  # noqa: S608 - our own words
            " greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint AS rows,"
            " coalesce(pg_table_size(c.oid), 0) AS bytes,"
            " coalesce(pg_indexes_size(c.oid), 0) AS index_bytes"
            f" FROM pg_class c {_OF_SCHEMA} WHERE c.relkind IN ('r', 'p')"
            " ORDER BY pg_total_relation_size(c.oid) DESC NULLS LAST, 1"
        ).bindparams(_SCHEMA)
    )


@cache
def select_tables() -> Statement[SchemaParameters]:
    """Reads what vacuum has seen of each table, by name.

    Returns name, pages, seen (pages in the visibility map), vacuumed (whether autovacuum is on).
    """
    return Statement(
        text(
            "SELECT c.relname AS name, c.relallvisible AS seen,"  # noqa: S608 - our own words
            " coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS pages,"
            " coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions)"
            " WHERE option_name = 'autovacuum_enabled')::bool, true) AS vacuumed"
            f" FROM pg_class c {_OF_SCHEMA} WHERE c.relkind = 'r' ORDER BY 1"
        ).bindparams(_SCHEMA)
    )


@cache
def select_settings() -> Statement[SettingsParameters]:
    """Reads settings of the server: name, setting, unit, context, source."""
    return Statement(
        text(
            "SELECT name, setting, unit, context, source FROM pg_settings WHERE name = ANY(:names)"
        ).bindparams(bindparam("names", type_=ARRAY(Text)))
    )


@cache
def select_role() -> Statement[SchemaParameters]:
    """Reads who asks: role, database, super, bypasses, creates, owner, guarded.

    They say whether it may create schemas, act as the owner of the tables, and see in them only
    what policies let it.
    """
    return Statement(
        text(
            "SELECT r.rolname AS role, current_database() AS database, r.rolsuper AS super,"  # noqa: S608 - our own words
            " r.rolbypassrls AS bypasses,"
            " has_database_privilege(current_database(), 'CREATE') AS creates,"
            " coalesce((SELECT pg_has_role(c.relowner, 'USAGE')"
            f" FROM pg_class c {_OF_SCHEMA} WHERE c.relname = 'sessions'), false) AS owner,"
            " coalesce((SELECT row_security_active(c.oid)"
            f" FROM pg_class c {_OF_SCHEMA} WHERE c.relname = 'sessions'), false) AS guarded"
            " FROM pg_roles r WHERE r.rolname = current_user"
        ).bindparams(_SCHEMA)
    )


@cache
def select_admissions() -> Statement[SchemaParameters]:
    """Reads who has what of everybody's scope: role, admitted, equipped, own; by role.

    They say whether it is noted as admitted, has all rights and policies for it, and whether the
    role that asks is it or has its rights. The tables' owner is among them; there are no rows
    without row-level security.
    """
    return Statement(
        text(
            "WITH forced AS ("  # noqa: S608 - our own words
            f"SELECT c.oid, c.relowner FROM pg_class c {_OF_SCHEMA} WHERE c.relforcerowsecurity"
            "), letting AS ("
            "SELECT c.relname, p.polrelid, unnest(p.polroles) AS role"
            f" FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid {_OF_SCHEMA}"
            f" WHERE starts_with(p.polname::text, '{EVERY} ')"
            "), calling AS ("
            "SELECT a.grantee AS role FROM pg_proc p"
            " CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
            " WHERE p.proname = 'enter_every_scope' AND p.pronamespace ="
            " (SELECT oid FROM pg_namespace WHERE nspname = :schema)"
            ") SELECT coalesce(r.rolname, 'PUBLIC')::text AS role,"
            " EXISTS (SELECT FROM letting l WHERE l.role = u.role AND l.relname ="
            f" '{REGISTER}') AS admitted,"
            " u.role IN (SELECT role FROM calling) AND NOT EXISTS (SELECT FROM forced f WHERE"
            " NOT EXISTS (SELECT FROM letting l WHERE l.polrelid = f.oid AND l.role = u.role)"
            ") AS equipped,"
            " coalesce(pg_has_role(r.oid, 'USAGE'), true) AS own"
            " FROM (SELECT role FROM letting UNION SELECT role FROM calling"
            " UNION SELECT relowner FROM forced) u LEFT JOIN pg_roles r ON r.oid = u.role"
            " WHERE EXISTS (SELECT FROM forced) ORDER BY 1"
        ).bindparams(_SCHEMA)
    )


@cache
def select_replay() -> Statement[NoParameters]:
    """Reads whether a standby's replay is paused, and compares a vector: is_paused, distance."""
    return Statement(
        text(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END"
            " AS is_paused, CAST('[1]' AS vector) <-> CAST('[1]' AS vector) AS distance"
        )
    )


@cache
def select_missing_rights() -> Statement[RightsParameters]:
    """Reads which rights the role lacks: right, tables; by right. USAGE is of the schema."""
    return Statement(
        text(
            "SELECT p.name AS right, array_agg(c.relname::text ORDER BY c.relname) AS tables"  # noqa: S608 - our own words
            f" FROM pg_class c {_OF_SCHEMA} CROSS JOIN unnest(:rights) AS p(name)"
            " WHERE c.relname = ANY(:tables) AND c.relkind IN ('r', 'p')"
            " AND NOT has_table_privilege(c.oid, p.name) GROUP BY 1"
            " UNION ALL SELECT 'USAGE', NULL FROM pg_namespace WHERE nspname = :schema"
            " AND NOT has_schema_privilege(oid, 'USAGE') ORDER BY 1"
        ).bindparams(
            _SCHEMA, bindparam("tables", type_=ARRAY(Text)), bindparam("rights", type_=ARRAY(Text))
        )
    )


@cache
def select_missing_columns() -> Statement[ColumnsParameters]:
    """Reads which columns are not there: of, name (NULL: all of the table); by both."""
    return Statement(
        text(
            "SELECT DISTINCT w.of, CASE WHEN c.oid IS NOT NULL THEN w.name END AS name"
            " FROM unnest(:tables, :columns) AS w(of, name) LEFT JOIN pg_class c"
            " ON c.relname = w.of AND c.relkind IN ('r', 'p') AND c.relnamespace ="
            " (SELECT oid FROM pg_namespace WHERE nspname = :schema)"
            " LEFT JOIN pg_attribute a"
            " ON a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped"
            " WHERE a.attname IS NULL ORDER BY 1, 2"
        ).bindparams(
            _SCHEMA, bindparam("tables", type_=ARRAY(Text)), bindparam("columns", type_=ARRAY(Text))
        )
    )


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
