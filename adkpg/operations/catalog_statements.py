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

from adkpg.operations.nodes.statements import SchemaParameters, forms, on_each_node
from adkpg.sql import NoParameters, Statement
from adkpg.tables import EVERY, REGISTER, SCHEMA, metadata

_DIALECT: Any = dialect()  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
_SCHEMA = bindparam("schema", type_=Text)
_OF_SCHEMA = "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = :schema"


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
def select_clock() -> Statement[NoParameters]:
    """Reads the server's clock."""
    return Statement(text("SELECT clock_timestamp() AS now"))


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
    """Reads the indexes, by name.

    Returns name, valid, scans, bytes, part_bytes (of the largest part), unique, writes (of its
    table).
    """
    here, over_nodes = forms(
        lambda relations: (
            "SELECT r.name, r.copied, r.whole AND"  # noqa: S608 - our own words
            " coalesce(i.indisvalid AND i.indisready AND i.indislive, false) AS valid,"
            " coalesce(pg_stat_get_numscans(r.oid), 0) AS scans,"
            " coalesce(pg_relation_size(r.oid), 0) AS bytes,"
            " coalesce(pg_relation_size(r.oid), 0) AS part_bytes,"
            " coalesce(i.indisunique, false) AS unique,"
            " coalesce(pg_stat_get_tuples_inserted(r.of)"
            " + pg_stat_get_tuples_updated(r.of), 0) AS writes"
            f" FROM {relations.indexes} LEFT JOIN pg_index i ON i.indexrelid = r.oid ORDER BY 1"
        )
    )
    return Statement(here, over_nodes=over_nodes)


@cache
def select_tables() -> Statement[SchemaParameters]:
    """Reads what vacuum has done of each table, by name.

    Returns name, pages, seen (pages in the visibility map), live, dead, inserted (since the last
    vacuum), dead_limit and inserted_limit (when autovacuum is due), vacuumed (whether it is on).
    """
    numbers = ", ".join(
        f"coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions)"  # noqa: S608 - our own words
        f" WHERE option_name = 'autovacuum_{name}')::{kind}, current_setting('autovacuum_{name}')::{kind}) AS {label}"  # noqa: E501
        for name, kind, label in (
            ("vacuum_threshold", "float8", "dead_base"),
            ("vacuum_scale_factor", "float8", "dead_scale"),
            ("vacuum_insert_threshold", "float8", "inserted_base"),
            ("vacuum_insert_scale_factor", "float8", "inserted_scale"),
        )
    )
    here, over_nodes = forms(
        lambda relations: (
            "SELECT name, copied, pages, seen, live, dead, inserted, vacuumed,"  # noqa: S608 - our own words
            " dead_base + dead_scale * live AS dead_limit,"
            " inserted_base + inserted_scale * live AS inserted_limit"
            " FROM (SELECT r.name, r.copied, coalesce(pg_relation_size(c.oid), 0)"
            " / current_setting('block_size')::int AS pages,"
            " c.relallvisible AS seen, greatest(pg_stat_get_live_tuples(c.oid), 0) AS live,"
            " pg_stat_get_dead_tuples(c.oid) AS dead,"
            " pg_stat_get_ins_since_vacuum(c.oid) AS inserted, coalesce((SELECT option_value FROM"
            " pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_enabled')::bool,"
            f" true) AS vacuumed, {numbers} FROM {relations.tables}"
            " JOIN pg_class c ON c.oid = r.oid AND c.relkind = 'r') AS found ORDER BY name"
        )
    )
    return Statement(here, over_nodes=over_nodes)


@cache
def select_bloat() -> Statement[SchemaParameters]:
    """Estimates how much of tables and B-trees their rows need: name, kind, bytes, needed.

    From what ANALYZE last saw of the columns; what it has not seen, or may not be read, is left
    out.
    """
    here, over_nodes = forms(
        lambda relations: (
            "SELECT r.name, r.copied, 'table' AS kind,"  # noqa: S608 - our own words
            " coalesce(pg_relation_size(c.oid), 0) AS bytes,"
            " greatest(c.reltuples, pg_stat_get_live_tuples(c.oid)) * (28 + w.width) / coalesce("
            "(SELECT option_value FROM pg_options_to_table(c.reloptions)"
            " WHERE option_name = 'fillfactor')::float8 / 100, 1) AS needed"
            f" FROM {relations.tables} JOIN pg_class c ON c.oid = r.oid"
            " CROSS JOIN LATERAL (SELECT"
            " sum(s.avg_width * (1 - s.null_frac)) AS width FROM pg_stats s"
            " WHERE s.schemaname = {schema} AND s.tablename = c.relname) AS w"
            " WHERE c.relkind = 'r' AND c.reltuples >= 0 AND w.width IS NOT NULL"
            " UNION ALL SELECT r.name, r.copied, 'index', coalesce(pg_relation_size(c.oid), 0),"
            " greatest(c.reltuples, CASE WHEN i.indpred IS NULL THEN"
            " pg_stat_get_live_tuples(i.indrelid) END) * (12 + w.width) / 0.9"
            f" FROM {relations.indexes} JOIN pg_index i ON i.indexrelid = r.oid"
            " JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree'"
            " JOIN pg_class t ON t.oid = i.indrelid CROSS JOIN LATERAL (SELECT"
            " sum(s.avg_width * (1 - s.null_frac)) AS width FROM pg_attribute a JOIN pg_stats s"
            " ON s.attname = a.attname AND s.schemaname = {schema} AND s.tablename = t.relname"
            " WHERE a.attrelid = c.oid) AS w"
            " WHERE i.indisvalid AND c.reltuples >= 0 AND w.width IS NOT NULL ORDER BY 3 DESC, 1"
        )
    )
    return Statement(here, over_nodes=over_nodes)


@cache
def select_settings() -> Statement[SettingsParameters]:
    """Reads settings of the server: name, setting, unit, context, source.

    On a cluster its rows are those of `on_each_node`.
    """
    names = bindparam("names", type_=ARRAY(Text))
    read = "SELECT name, setting, unit, context, source FROM pg_settings WHERE name = ANY({})"
    return Statement(
        text(read.format(":names")).bindparams(names),
        over_nodes=on_each_node(read.format("{names}::text[]"), names),
    )


@cache
def select_nodes() -> Statement[NoParameters]:
    """Asks each node of a cluster what it is, as `on_each_node` says.

    Of each: postgres, citus and pgvector (versions; NULL without), and clock_s, its time.
    """
    return Statement(
        on_each_node(
            "SELECT current_setting('server_version') AS postgres,"
            " (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS citus,"
            " (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,"
            " extract(epoch FROM clock_timestamp()) AS clock_s",
        )
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
