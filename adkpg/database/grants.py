"""Grants: the SQL that gives a role the rights of what it is for, and no more."""

from collections.abc import Iterator
from typing import Literal

from adkpg.database import row_security
from adkpg.database.row_security import quoted
from adkpg.tables import FUNCTIONS, READING, metadata

Purpose = Literal["migrate", "serve", "read", "work"]


def script(schema: str, purpose: Purpose, role: str, *, row_level_security: bool) -> str:
    """Returns the SQL, for psql or any other client; running it again changes nothing.

    Args:
      schema: Of adkpg's tables.
      purpose: What the role is for: to own and migrate the tables, to serve users, to read only,
        or to work on everybody's memories.
      role: Its name.
      row_level_security: Whether a role for work must pass the policies.
    """
    lines = list(
        _migrating(schema, role) if purpose == "migrate" else _granted(schema, purpose, role)
    )
    if purpose == "work" and row_level_security:
        lines += row_security.admitting(schema, role)
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
    yield f'GRANT SELECT ON "{schema}".alembic_version TO {grantee}'
    # Citus refuses one GRANT of distributed tables and of what they refer to, and in a transaction
    # the latter after the former.
    for table in sorted(metadata.sorted_tables, key=lambda each: "user_id" in each.c):
        yield f'GRANT {rights} ON "{schema}".{table.name} TO {grantee}'
    called = READING if purpose == "read" else FUNCTIONS
    functions = ", ".join(f'"{schema}".{name}' for name in called)
    yield f"GRANT EXECUTE ON FUNCTION {functions} TO {grantee}"
    # The tables and functions of later revisions, which the owner of today's will make.
    owner = (
        "SELECT rolname FROM pg_class JOIN pg_roles ON pg_roles.oid = relowner"  # noqa: S608 - our own name
        f" WHERE pg_class.oid = '{schema}.sessions'::regclass"
    )
    later = [f"{rights} ON TABLES"] + ["EXECUTE ON FUNCTIONS"] * (purpose != "read")
    for each in later:
        yield _dynamic(
            f"ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT {each} TO %I",
            f"({owner}), {_literal(schema)}, {_literal(role)}",
        )


def _on_this_database(rights: str, role: str) -> str:
    return _dynamic(f"GRANT {rights} ON DATABASE %I TO %I", f"current_database(), {_literal(role)}")


def _dynamic(sql: str, values: str) -> str:
    return f"DO $adkpg$ BEGIN EXECUTE format('{sql}', {values}); END $adkpg$"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
