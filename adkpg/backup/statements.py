"""Statements around a backup: what is in a schema, and SQL of the script that restores. No I/O."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import Select, Text, bindparam, column, func, literal_column, select, table, text
from sqlalchemy.sql.elements import TextClause

from adkpg.sql import Statement


class PlaceParameters(TypedDict):
    """The name of the schema."""

    schema: str


def select_server_version() -> TextClause:
    """Reads the server's version as one number: 180006 of 18.6."""
    return text("SELECT current_setting('server_version_num')::int")


def select_tables(schema: str) -> TextClause:
    """Reads the names of the tables in a schema."""
    return text(
        "SELECT c.relname FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = :schema AND c.relkind IN ('r', 'p') ORDER BY 1"
    ).bindparams(schema=schema)


@cache
def select_cluster() -> Statement[PlaceParameters]:
    """Reads of a database with Citus: distributed (whether some table is), and coordinator."""
    return Statement(
        text(
            "SELECT (SELECT groupid = 0 FROM pg_dist_local_group) AS coordinator,"
            " EXISTS (SELECT FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = :schema) AS distributed"
        ).bindparams(bindparam("schema", type_=Text))
    )


def select_schema(schema: str) -> TextClause:
    """Reads whether there is a schema."""
    return text(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :schema)"
    ).bindparams(schema=schema)


def enter_every_scope(schema: str) -> TextClause:
    """Lets a transaction read everybody's rows, by a role that may."""
    return text(f'SELECT "{schema}".enter_every_scope()')


def count_rows(schema: str, name: str) -> Select[Any]:
    """Counts the rows of one table."""
    found = table(name, column("any"), schema=schema)
    return select(func.count(literal_column("*"))).select_from(found)


def begin(schema: str, *, exists: bool) -> str:
    """Returns what comes before a backup's own SQL: an empty schema, and pgvector.

    Privileges on the database are needed only for what is not there.
    """
    dropped = f"""
        SET lock_timeout = '30s';
        DO $adkpg$
        DECLARE each text;
        BEGIN
            FOR each IN SELECT pg_catalog.format('DROP TABLE IF EXISTS %s CASCADE', c.oid::regclass)
                FROM pg_catalog.pg_class c
                WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p')
            LOOP EXECUTE each; END LOOP;
            FOR each IN SELECT pg_catalog.format('DROP ROUTINE IF EXISTS %s', p.oid::regprocedure)
                FROM pg_catalog.pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace
            LOOP EXECUTE each; END LOOP;
        END $adkpg$;
    """  # noqa: S608 - the setting allows letters, digits and underscores
    made = f'CREATE SCHEMA "{schema}";'
    return f"BEGIN;\n{dropped if exists else made}\nCREATE EXTENSION IF NOT EXISTS vector;\n"


def end(schema: str, rows: Mapping[str, int]) -> str:
    """Returns what comes after: every table must hold what was read, else nothing is restored."""
    checks = "\n".join(
        f'IF (SELECT count(*) FROM "{schema}"."{name}") <> {count} THEN RAISE EXCEPTION'  # noqa: S608 - its own tables
        f" 'the table {name} does not hold the % rows of the backup', {count}; END IF;"
        for name, count in rows.items()
    )
    return f"DO $adkpg$ BEGIN\n{checks}\nEND $adkpg$;\nCOMMIT;\n"


def vacuum(schema: str, name: str) -> str:
    """Returns what makes a restored table as quick as the old one: its statistics and map."""
    return f'VACUUM (ANALYZE) "{schema}"."{name}"'
