"""Grants: the SQL that gives a role the rights of what it is for, and no more."""

from collections.abc import Iterator
from typing import Literal

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.database import row_security
from adkpg.database.row_security import literal, quoted
from adkpg.tables import REGISTER, metadata

Purpose = Literal["migrate", "serve", "read", "work"]


def script(schema: str, purpose: Purpose, role: str) -> str:
    """Returns the SQL, for psql or any other client; running it again changes nothing.

    Args:
      schema: That of adkpg's tables.
      purpose: What the role is for: to own and migrate the tables, to serve users, to read only,
        or to work on all users' memories.
      role: Its name.
    """
    lines = _migrating(schema, role) if purpose == "migrate" else _granted(schema, purpose, role)
    return "".join(f"{line};\n" for line in lines)


def _migrating(schema: str, role: str) -> Iterator[str]:
    yield "CREATE EXTENSION IF NOT EXISTS vector"
    yield _on_this_database("CONNECT, CREATE", role)
    yield f'CREATE SCHEMA IF NOT EXISTS "{schema}" AUTHORIZATION {quoted(role)}'


def _granted(schema: str, purpose: Purpose, role: str) -> Iterator[str]:
    grantee = quoted(role)
    rights = "SELECT" if purpose == "read" else "SELECT, INSERT, UPDATE, DELETE"
    yield _on_this_database("CONNECT", role)
    yield f'GRANT USAGE ON SCHEMA "{schema}" TO {grantee}'
    yield f'GRANT SELECT ON "{schema}".{REGISTER} TO {grantee}'
    if purpose == "work":
        yield row_security.admitting(schema, role)
    # Citus refuses one GRANT of distributed tables and of what they refer to, and in a transaction
    # the latter after the former.
    for table in sorted(metadata.sorted_tables, key=lambda each: "user_id" in each.c):
        yield f'GRANT {rights} ON "{schema}".{table.name} TO {grantee}'
    # The tables of later revisions, which the owner of today's will make.
    owner = (
        "SELECT rolname FROM pg_class JOIN pg_roles ON pg_roles.oid = relowner"  # noqa: S608 - our own name
        f" WHERE pg_class.oid = '{schema}.sessions'::regclass"
    )
    yield _dynamic(
        f"ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT {rights} ON TABLES TO %I",
        f"({owner}), {literal(schema)}, {literal(role)}",
    )


def _on_this_database(rights: str, role: str) -> str:
    return _dynamic(f"GRANT {rights} ON DATABASE %I TO %I", f"current_database(), {literal(role)}")


def _dynamic(sql: str, values: str) -> str:
    return f"DO $adkpg$ BEGIN EXECUTE format('{sql}', {values}); END $adkpg$"


async def open_functions(engine: AsyncEngine, schema: str) -> None:
    """Lets each role call the functions, which act with its own rights on the tables.

    Postgres does so itself, unless its administrator has changed what functions have by default.
    `row_security` grants the function that enters the scope of all users.
    """
    async with engine.connect() as connection:
        await connection.run_sync(_open_functions, schema)


def _open_functions(connection: Connection, schema: str) -> None:
    for name in connection.scalars(_CLOSED, {"schema": schema}).all():
        connection.exec_driver_sql(f"GRANT EXECUTE ON FUNCTION {name} TO PUBLIC")
    connection.commit()


_CLOSED = text(
    "SELECT p.oid::regprocedure::text FROM pg_proc p"
    " WHERE p.pronamespace = to_regnamespace(quote_ident(:schema))"
    " AND p.proname <> 'enter_every_scope'"
    " AND NOT has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1"
)
