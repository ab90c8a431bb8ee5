"""Checks of the server, and of what lies between: versions, schema, role, settings, pooler."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

from adkpg.database import LOOK, Database
from adkpg.database.migrating.migrations import ENCODING
from adkpg.database.row_security import quoted
from adkpg.errors import ConfigurationError, ExtensionMissing, SchemaError
from adkpg.tables import EVERY, REGISTER, metadata
from adkpg.tooling.operations import catalog_statements as statements
from adkpg.tooling.operations.findings import Finding, Status, Verdict

_GOOD_PGVECTOR = (0, 8, 4)  # before, vacuuming an HNSW index could lose or corrupt entries of it
_OLDEST_POSTGRES, _OLDEST_PGVECTOR = 15, (0, 8)
_LEAST_TIMEOUT_MS = 5_000
_RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE"]
_OTHER_DATABASE = "CREATE DATABASE agents ENCODING 'UTF8' TEMPLATE template0;   -- and use that one"
_OWN_SCHEMA = "export ADKPG_DATABASE_SCHEMA=another   # a schema of adkpg's own"
_OTHER_URL = "export ADKPG_DATABASE_URL=postgresql://...   # without client_encoding"
_NEWER_SERVER = "adkpg backup agents.backup   # then restore it into a newer server"
_OWN_ROLE = (
    "CREATE ROLE adkpg_app LOGIN;   "
    '-- then: adkpg db grants --role serve adkpg_app | psql "$OWNER_URL"'
)


_Row = Mapping[str, Any]


async def postgres(database: Database) -> Finding:
    """Whether the server is one that adkpg works with."""
    found = await database.installation.found()
    version = f"Postgres {found.postgres // 10_000}.{found.postgres % 10_000}"
    verdict = Verdict("postgres")
    if found.postgres < _OLDEST_POSTGRES * 10_000:
        verdict.add(
            "failure",
            f"{version} is older than {_OLDEST_POSTGRES}, the oldest that adkpg works with",
            _NEWER_SERVER,
        )
    if found.encoding != ENCODING:
        verdict.add(
            "failure",
            f"the database's encoding is {found.encoding}, and adkpg needs {ENCODING}",
            _OTHER_DATABASE,
        )
    if found.client_encoding != ENCODING:
        verdict.add(
            "failure",
            f"the connection's client_encoding is {found.client_encoding}, and adkpg needs "
            f"{ENCODING}",
            _OTHER_URL,
        )
    if (await database.run.fetch(statements.select_recovery(), policy=LOOK))[0]["standby"]:
        verdict.add(
            "failure",
            "it is a standby, where nothing can be written",
            "export ADKPG_DATABASE_URL=postgresql://...   # the primary",
        )
    return verdict.finding(version)


async def pgvector(database: Database) -> Finding:
    """Whether pgvector is there, and without the faults that lose entries of an index."""
    found = await database.installation.found()
    verdict = Verdict("pgvector")
    if found.encoding != ENCODING:
        return verdict.finding("not looked for in a database that cannot be used")
    rows = await database.run.fetch(statements.select_pgvector(), policy=LOOK)
    newest = rows[0]["version"] if rows else None
    there = found.pgvector
    (role,) = await database.run.fetch(statements.select_role(schema=database.schema), policy=LOOK)
    if there is None and database.auto_upgrade and role["super"]:
        there = newest
    if there is None and newest is None:
        verdict.add(
            "failure",
            "the server does not have it",
            f"apt-get install postgresql-{found.postgres // 10_000}-pgvector",
        )
    elif there is None:
        # Who may create it lets the migration do so, along with the tables.
        own = role["super"] and found.revision is None
        verdict.add(
            "failure",
            "the extension is not in this database",
            "adkpg db upgrade" if own else "CREATE EXTENSION vector;   -- as a superuser",
        )
    elif _numbers(there) < _GOOD_PGVECTOR:
        better = newest is not None and _numbers(newest) >= _GOOD_PGVECTOR
        too_old = _numbers(there) < _OLDEST_PGVECTOR
        verdict.add(
            "failure" if too_old else "warning",
            f"version {there}: adkpg needs 0.8 or later"
            if too_old
            else f"version {there}: before 0.8.4, vacuuming could damage an HNSW index",
            "ALTER EXTENSION vector UPDATE;"
            if better
            else "apt-get install --only-upgrade 'postgresql-*-pgvector' && psql -c"
            " 'ALTER EXTENSION vector UPDATE'",
        )
    elif not found.usable:
        verdict.add(
            "failure",
            f"it is in the schema {found.pgvector_schema}, which {found.role} may not use",
            f"GRANT USAGE ON SCHEMA {found.pgvector_schema} TO {found.role};   -- as its owner",
        )
    elif found.pgvector is not None and not found.visible:
        verdict.add(
            "failure",
            f"it is in the schema {found.pgvector_schema}, which is not in the search_path",
            f'ALTER ROLE {found.role} SET search_path = "$user", public, {found.pgvector_schema};',
        )
    to_come = "" if found.pgvector else ", which the first use installs"
    return verdict.finding(f"version {there}{to_come}")


async def schema(database: Database) -> Finding:
    """Whether the tables are those of this version."""
    verdict = Verdict("schema")
    found = await database.installation.found()
    try:
        await database.check()
    except ExtensionMissing:
        pass  # `pgvector` says so
    except ConfigurationError as exc:
        if found.postgres < _OLDEST_POSTGRES * 10_000:
            cure = _NEWER_SERVER
        elif found.encoding != ENCODING:
            cure = _OTHER_DATABASE
        elif found.client_encoding != ENCODING:
            cure = _OTHER_URL
        elif "Citus" in str(exc):
            cure = "export ADKPG_ROW_LEVEL_SECURITY=false"
        else:
            cure = _OWN_ROLE
        verdict.add("failure", str(exc), cure)
    except SchemaError as exc:
        if found.revision is not None:
            verdict.add("failure", str(exc), _cure_of_schema(database, str(exc)))
            return verdict.finding(f"revision {found.revision} in the schema {database.schema}")
        if found.taken:
            verdict.add("failure", str(exc), _OWN_SCHEMA)
            return verdict.finding("")
        (role,) = await database.run.fetch(
            statements.select_role(schema=database.schema), policy=LOOK
        )
        elsewhere = [
            row["name"]
            for row in await database.run.fetch(statements.select_schemas(), policy=LOOK)
        ]
        if elsewhere:
            verdict.add(
                "warning" if database.auto_upgrade and role["creates"] else "failure",
                f"there are no tables in the schema {database.schema}, and some in "
                f"{' and '.join(elsewhere)}",
                f"export ADKPG_DATABASE_SCHEMA={quote(elsewhere[0])}",
            )
        elif database.auto_upgrade and role["creates"]:
            return verdict.finding("no tables yet: the first use makes them, or: adkpg db upgrade")
        else:
            verdict.add("failure", str(exc), "adkpg db upgrade")
    else:
        if lacking := await _lacking(database):
            verdict.add(
                "failure",
                f"the revision is {found.revision}, and yet there is no "
                f"{_some(lacking, 'of these')} in the schema {database.schema}",
                "adkpg restore agents.backup   # what `adkpg backup` wrote last",
            )
    return verdict.finding(f"revision {found.revision} in the schema {database.schema}")


async def _lacking(database: Database) -> list[str]:
    """Returns the tables and columns that were dropped by hand: each as SQL names it."""
    of = [(table.name, column.name) for table in metadata.sorted_tables for column in table.columns]
    rows = await database.run.fetch(
        statements.select_missing_columns(
            schema=database.schema,
            tables=[table for table, _ in of],
            columns=[column for _, column in of],
        ),
        policy=LOOK,
    )
    return [".".join(filter(None, (row["of"], row["name"]))) for row in rows]


def _cure_of_schema(database: Database, said: str) -> str:
    if "upgrade the adkpg package" in said:
        return "pip install --upgrade adkpg"
    if "adkpg db distribute" in said:
        return "adkpg db distribute"
    if "no migration leads from them" not in said:
        return "adkpg db upgrade"
    if database.url == "embedded":
        return "export ADKPG_EMBEDDED_DIR=another   # a folder for a new server"
    if database.schema == "public":  # others' tables would go with adkpg's
        return _OWN_SCHEMA
    return (
        f"DROP SCHEMA {quoted(database.schema)} CASCADE;   -- with all that it holds\n"
        "adkpg db upgrade"
    )


async def pooler(database: Database) -> Finding:
    """What lies between here and the server."""
    behind = await database.connections.lies_behind()
    verdict = Verdict("pooler")
    if behind == "unprepared":
        verdict.add(
            "warning",
            "a pooler loses prepared statements: each statement takes two round trips",
            "psql -p 6432 pgbouncer -c 'SET max_prepared_statements = 200'   # PgBouncer 1.21",
        )
    if behind != "nothing" and database.settings.direct_url is None:
        verdict.add(
            "warning",
            "behind a pooler, watching sessions polls, and migrations go through it",
            "export ADKPG_DIRECT_URL=postgresql://...   # the server itself",
        )
    return verdict.finding(
        "none: the server answers itself"
        if behind == "nothing"
        else "one that keeps prepared statements"
    )


async def role(database: Database) -> Finding:
    """Whether the role may do what adkpg asks for, and no more."""
    verdict = Verdict("role")
    (found,) = await database.run.fetch(statements.select_role(schema=database.schema), policy=LOOK)
    missing = await database.run.fetch(
        statements.select_missing_rights(
            schema=database.schema,
            tables=[table.name for table in metadata.sorted_tables],
            rights=_RIGHTS,
        ),
        policy=LOOK,
    )
    name = found["role"]
    for row in missing:
        place = (
            f"the schema {database.schema}"
            if row["tables"] is None
            else _some(row["tables"], "tables")
        )
        verdict.add(
            "failure",
            f"{name} has no {row['right']} on {place}",
            f'adkpg db grants --role serve {quote(name)} | psql "$OWNER_URL"',
        )
    if (found["super"] or found["bypasses"]) and database.url != "embedded":
        why = "is a superuser" if found["super"] else "has BYPASSRLS"
        verdict.add(
            "failure" if database.settings.row_level_security else "warning",
            f"{name} {why}, which no policy and no missing right holds back",
            _OWN_ROLE,
        )
    kind = "owns the tables" if found["owner"] else "may read and write"
    seeing = await _admissions(database, verdict, found)
    return verdict.finding(f"{name} {kind}{seeing}")


async def _admissions(database: Database, verdict: Verdict, asking: _Row) -> str:
    """Adds what keeps roles out of all users' scope, or lets one in; returns who may enter it."""
    roles = await database.run.fetch(
        statements.select_admissions(schema=database.schema, every=EVERY, register=REGISTER),
        policy=LOOK,
    )
    if not roles:
        return ""
    if not database.settings.row_level_security:
        verdict.add(
            "failure" if asking["guarded"] else "warning",
            "the tables have row-level security, which this process was not told of",
            "export ADKPG_ROW_LEVEL_SECURITY=true",
        )
    upgrade = 'ADKPG_ROW_LEVEL_SECURITY=true adkpg db upgrade --database-url "$OWNER_URL"'
    for row in roles:
        if not (row["admitted"] and row["equipped"]):
            verdict.add(
                "failure",
                f"{row['role']} is {'' if row['admitted'] else 'not '}admitted to every scope, and "
                "its rights or policies say otherwise",
                upgrade,
            )
    if asking["guarded"] and not any(row["admitted"] and row["own"] for row in roles):
        verdict.add(
            "failure",
            f"{asking['role']} may not enter every scope, as operators' commands and workers do",
            'adkpg doctor --database-url "$OWNER_URL"   # or admit it: adkpg db grants --role work '
            f'{quote(asking["role"])} | psql "$OWNER_URL"',
        )
    admitted = ", ".join(row["role"] for row in roles if row["admitted"])
    return f"; into every scope may: {admitted}"


# By name: the value that hurts, how much, why, and what to set instead.
_HURTING: dict[str, tuple[str, Status, str, str]] = {
    "fsync": ("off", "failure", "a crash of the machine can destroy the database", "on"),
    "full_page_writes": ("off", "failure", "a crash can leave torn pages", "on"),
    "synchronous_commit": ("off", "warning", "a crash loses the last events", "on"),
    "default_transaction_read_only": ("on", "failure", "nothing can be written", "off"),
    "autovacuum": ("off", "failure", "tables grow, and searches slow down", "on"),
    "track_counts": ("off", "failure", "autovacuum does nothing without it", "on"),
    "session_replication_role": (
        "replica",
        "failure",
        "triggers do not fire, so the words of deleted memories stay",
        "origin",
    ),
}
_CUTTING_OFF = ("statement_timeout", "transaction_timeout")


async def settings(database: Database) -> Finding:
    """Whether the server's settings lose data, or stop what adkpg does."""
    names = [*_HURTING, *_CUTTING_OFF, "max_connections"]
    rows = await database.run.fetch(statements.select_settings(names=names), policy=LOOK)
    found = {row["name"]: row for row in rows}
    (role,) = await database.run.fetch(statements.select_role(schema=database.schema), policy=LOOK)
    verdict = Verdict("settings")
    for name, (value, status, why, better) in _HURTING.items():
        if found[name]["setting"] == value:
            cure = _cure_of_setting(found[name], better, role["role"], role["database"])
            verdict.add(status, f"{name} is {value}: {why}", cure)
    for name in _CUTTING_OFF:  # Postgres has the second since 17
        if name in found and 0 < int(found[name]["setting"]) < _LEAST_TIMEOUT_MS:
            cure = _cure_of_setting(found[name], "'30s'", role["role"], role["database"])
            ill = f"{name} is {found[name]['setting']} ms: long searches are cut off"
            verdict.add("warning", ill, cure)
    most = int(found["max_connections"]["setting"])
    wanted = database.settings.pool_size
    if wanted * 2 > most:
        verdict.add(
            "warning",
            f"one process may open {wanted} of {most} connections, so two find no place",
            f"export ADKPG_POOL_SIZE={max(most // 10, 1)}",
        )
    return verdict.finding("none that hurts")


def _cure_of_setting(row: _Row, better: str, role: str, database: str) -> str:
    """Sets it where what is set goes before what it is set to now."""
    name, source = row["name"], row["source"]
    if row["context"] in ("user", "superuser"):
        if source == "client":
            return f"export ADKPG_DATABASE_URL=postgresql://...   # without {name}"
        whose = {
            "user": f"ROLE {quoted(role)}",
            "database user": f"ROLE {quoted(role)} IN DATABASE {quoted(database)}",
        }.get(source, f"DATABASE {quoted(database)}")
        return f"ALTER {whose} SET {name} = {better};"
    system = f"ALTER SYSTEM SET {name} = {better};"
    if source == "command line":
        return f"{system}   -- then restart the server without the option -c {name}"
    if row["context"] == "postmaster":
        return f"{system}   -- then restart the server"
    return f"{system}\nSELECT pg_reload_conf();"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _some(names: list[str], what: str) -> str:
    more = f" and {len(names) - 3} more {what}" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
