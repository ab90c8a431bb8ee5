"""Checks of the server, and of what lies between: versions, clock, pooler, role and settings."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import ceil
from shlex import quote

from adkpg.database import Database
from adkpg.database.row_security import quoted
from adkpg.errors import ConfigurationError, ExtensionMissing, SchemaError
from adkpg.operations import catalog_statements as statements
from adkpg.operations.findings import Finding, Status, Verdict
from adkpg.operations.nodes.measures import Row, are_several, ask, measure
from adkpg.tables import metadata

_GOOD_PGVECTOR = (0, 8, 4)  # before, vacuuming an HNSW index could lose or corrupt entries of it
_OLDEST_POSTGRES, _OLDEST_PGVECTOR = 15, (0, 8)
_SKEW_S, _LARGE_SKEW_S = 1.0, 60.0
_ASKED = 3
_LEAST_BUFFERS_KB, _LEAST_MEMORY_KB = 128 * 1024, 4 * 1024
_RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE"]
_HNSW = "memory_vectors_hnsw_"
_MOST_TO_BUILD_MB = 8 * 1024  # of a larger index only some machines could hold all
_NEWER_SERVER = "adkpg backup agents.backup   # then restore it into a newer server"
_OWN_ROLE = "CREATE ROLE adkpg_app LOGIN;   -- then: adkpg db grants --role serve adkpg_app | psql"


async def postgres(database: Database) -> Finding:
    """Whether the server is one that adkpg works with."""
    found = await database.found()
    version = f"Postgres {found.postgres // 10_000}.{found.postgres % 10_000}"
    verdict = Verdict("postgres")
    if found.postgres < _OLDEST_POSTGRES * 10_000:
        verdict.add(
            "failure",
            f"{version} is older than {_OLDEST_POSTGRES}, the oldest that adkpg works with",
            _NEWER_SERVER,
        )
    if (await database.look(statements.select_recovery(), {}))[0]["standby"]:
        verdict.add(
            "failure",
            "it is a standby, where nothing can be written",
            "export ADKPG_DATABASE_URL=postgresql://...   # the primary",
        )
    return verdict.finding(version)


async def pgvector(database: Database) -> Finding:
    """Whether pgvector is there, and without the faults that lose entries of an index."""
    found = await database.found()
    verdict = Verdict("pgvector")
    rows = await database.look(statements.select_pgvector(), {})
    newest = rows[0]["version"] if rows else None
    there = found.pgvector
    role = (await database.look(statements.select_role(), {"schema": database.schema}))[0]
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
    found = await database.found()
    try:
        await database.check()
    except ExtensionMissing:
        pass  # `pgvector` says so
    except ConfigurationError as exc:
        if found.postgres < _OLDEST_POSTGRES * 10_000:
            cure = _NEWER_SERVER
        elif "Citus" in str(exc):
            cure = "export ADKPG_ROW_LEVEL_SECURITY=false"
        else:
            cure = _OWN_ROLE
        verdict.add("failure", str(exc), cure)
    except SchemaError as exc:
        if found.revision is not None:
            verdict.add("failure", str(exc), _cure_of_schema(database, str(exc)))
            return verdict.finding(f"revision {found.revision} in the schema {database.schema}")
        role = (await database.look(statements.select_role(), {"schema": database.schema}))[0]
        elsewhere = [row["name"] for row in await database.look(statements.select_schemas(), {})]
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
    """Returns the tables and columns that somebody has dropped: each as SQL names it."""
    of = [(table.name, column.name) for table in metadata.sorted_tables for column in table.columns]
    rows = await database.look(
        statements.select_missing_columns(),
        {
            "schema": database.schema,
            "tables": [table for table, _ in of],
            "columns": [column for _, column in of],
        },
    )
    return [".".join(filter(None, (row["of"], row["name"]))) for row in rows]


def _cure_of_schema(database: Database, said: str) -> str:
    if "upgrade the adkpg package" in said:
        return "pip install --upgrade adkpg"
    if "adkpg db distribute" in said:
        return "adkpg db distribute"
    if "nothing migrates them" not in said:
        return "adkpg db upgrade"
    if database.url == "embedded":
        return "export ADKPG_EMBEDDED_DIR=another   # a folder for a new server"
    return (
        f"DROP SCHEMA {quoted(database.schema)} CASCADE;   -- with all that it holds\n"
        "adkpg db upgrade"
    )


async def clock(database: Database) -> Finding:
    """Whether the server's clock tells the same time as this machine's."""
    best: tuple[float, float] | None = None
    for _ in range(_ASKED):
        before, began = datetime.now(UTC), time.monotonic()
        rows = await database.look(statements.select_clock(), {})
        took_s = time.monotonic() - began
        ahead_s = (rows[0]["now"] - before).total_seconds() - took_s / 2
        if best is None or took_s < best[1]:
            best = ahead_s, took_s
    assert best is not None
    ahead_s, took_s = best
    verdict = Verdict("clock")
    sure_s = max(abs(ahead_s) - took_s / 2, 0.0)
    if sure_s > _SKEW_S:
        verdict.add(
            "failure" if sure_s > _LARGE_SKEW_S else "warning",
            f"the server's clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} "
            "this machine's: expiry and the order of turns are off by as much",
            "timedatectl set-ntp true   # on both machines",
        )
    return verdict.finding(f"within {max(abs(ahead_s), 0.001):.3f} s of this machine's")


async def pooler(database: Database) -> Finding:
    """What lies between here and the server."""
    behind = await database.lies_behind()
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
    found = (await database.look(statements.select_role(), {"schema": database.schema}))[0]
    missing = await database.look(
        statements.select_missing_rights(),
        {
            "schema": database.schema,
            "tables": [table.name for table in metadata.sorted_tables],
            "rights": _RIGHTS,
        },
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


async def _admissions(database: Database, verdict: Verdict, asking: Row) -> str:
    """Adds what keeps roles out of everybody's scope, or lets one in; returns who may enter it."""
    roles = await database.look(statements.select_admissions(), {"schema": database.schema})
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


@dataclass(frozen=True)
class _Hurts:
    """A setting that hurts in some values.

    Attributes:
      status: How much.
      hurts: Whether a value does.
      why: What it costs.
      better: What to set instead.
    """

    status: Status
    hurts: Callable[[str], bool]
    why: str
    better: str


def _is(bad: str, value: str) -> bool:
    return value == bad


def _below(least: int, value: str) -> bool:
    return int(value) < least


_OFF, _ON = partial(_is, "off"), partial(_is, "on")
_PLANS = _Hurts("warning", _OFF, "searches are planned without what their speed rests on", "on")
_CUTS_OFF = _Hurts(
    "warning", lambda value: 0 < int(value) < 5_000, "long searches are cut off", "'30s'"
)
_HURTING = {
    "fsync": _Hurts("failure", _OFF, "a crash of the machine can destroy the database", "on"),
    "full_page_writes": _Hurts("failure", _OFF, "a crash can leave torn pages", "on"),
    "synchronous_commit": _Hurts("warning", _OFF, "a crash loses the last events", "on"),
    "default_transaction_read_only": _Hurts("failure", _ON, "nothing can be written", "off"),
    "autovacuum": _Hurts("failure", _OFF, "tables grow, and searches slow down", "on"),
    "track_counts": _Hurts("failure", _OFF, "autovacuum does nothing without it", "on"),
    "shared_buffers": _Hurts(  # in blocks of 8 kB
        "warning",
        partial(_below, _LEAST_BUFFERS_KB // 8),
        "too little is kept in memory",
        "'512MB'",
    ),
    "work_mem": _Hurts(
        "warning", partial(_below, _LEAST_MEMORY_KB), "sorts go to the disk", "'4MB'"
    ),
    "plan_cache_mode": _Hurts(
        "warning", partial(_is, "force_custom_plan"), "each statement is planned again", "auto"
    ),
    "statement_timeout": _CUTS_OFF,
    "transaction_timeout": _CUTS_OFF,
    "default_transaction_isolation": _Hurts(
        "warning",
        lambda value: value in ("repeatable read", "serializable"),
        "what meets another writer runs twice",
        "'read committed'",
    ),
    "session_replication_role": _Hurts(
        "failure",
        partial(_is, "replica"),
        "triggers do not fire, so the words of deleted memories stay",
        "origin",
    ),
    "enable_indexscan": _PLANS,
    "enable_indexonlyscan": _PLANS,
    "enable_bitmapscan": _PLANS,
    "enable_nestloop": _PLANS,
    "enable_sort": _PLANS,
}


async def settings(database: Database) -> Finding:
    """Whether the server's settings lose data, or cost much."""
    asked: statements.SettingsParameters = {"names": [*_HURTING, "max_connections"]}
    of_nodes = await read_settings(database, asked)
    verdict = Verdict("settings")
    role = (await database.look(statements.select_role(), {"schema": database.schema}))[0]
    for setting, hurts in _HURTING.items():
        ills: dict[tuple[str, str], list[str]] = {}
        for node, found in of_nodes.items():
            row = found.get(setting)
            if row is None or not hurts.hurts(row["setting"]):
                continue
            ill = f"{setting} is {_value(row['setting'], row['unit'])}"
            cure = _cure_of_setting(row, hurts.better, role["role"], role["database"])
            ills.setdefault((ill, cure), []).append(node)
        for (ill, cure), nodes in ills.items():
            where = "all nodes" if len(nodes) == len(of_nodes) else ", ".join(nodes)
            where = f" on {where}" if len(of_nodes) > 1 else ""
            verdict.add(hurts.status, f"{ill}{where}: {hurts.why}", _said_on(cure, where))
    indexes = await measure(database, statements.select_indexes())
    hnsw = [row for row in indexes if row["name"].startswith(_HNSW)]
    if largest := max(hnsw, key=lambda row: row["part_bytes"], default=None):
        await warn_of_slow_building(database, verdict, largest["name"], largest["part_bytes"])
    most = min(int(found["max_connections"]["setting"]) for found in of_nodes.values())
    wanted = database.settings.pool_size
    if wanted * 2 > most:
        verdict.add(
            "warning",
            f"one process may open {wanted} of {most} connections, so two find no place",
            f"export ADKPG_POOL_SIZE={max(most // 10, 1)}",
        )
    return verdict.finding("none that hurts")


async def read_settings(
    database: Database, asked: statements.SettingsParameters
) -> dict[str, dict[str, Row]]:
    """Returns settings by name, of each node by its host and port; one server has no such name."""
    if await are_several(database):
        answers = await ask(database, statements.select_settings(), asked)
    else:
        answers = {"": list(await database.look(statements.select_settings(), asked))}
    return {node: {row["name"]: row for row in rows} for node, rows in answers.items()}


def _said_on(cure: str, where: str) -> str:
    """Adds to a cure's first line on which nodes it is to be said."""
    first, *others = cure.splitlines()
    mark = "," if "   -- " in first or "   # " in first else "   --"
    return "\n".join([f"{first}{mark}{where}" if where else first, *others])


def _cure_of_setting(row: Row, better: str, role: str, database: str) -> str:
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


async def warn_of_slow_building(
    database: Database, verdict: Verdict, index: str, needed_bytes: float
) -> None:
    """Adds to a verdict that an HNSW index has more bytes than the server builds it in memory."""
    of_nodes = await read_settings(database, {"names": ["maintenance_work_mem"]})
    has_kb = min(int(found["maintenance_work_mem"]["setting"]) for found in of_nodes.values())
    if has_kb * 1024 >= min(needed_bytes, _MOST_TO_BUILD_MB << 20):
        return
    role = (await database.look(statements.select_role(), {"schema": database.schema}))[0]
    better_mb = min(ceil(1.25 * needed_bytes / (1 << 20)), _MOST_TO_BUILD_MB)
    verdict.add(
        "warning",
        f"maintenance_work_mem is {has_kb / 1024:.3g} MB, and {index} takes "
        f"{needed_bytes / (1 << 20):.3g} MB: building it takes several times as long",
        f"ALTER DATABASE {quoted(role['database'])} SET maintenance_work_mem = '{better_mb}MB';",
    )


def _value(setting: str, unit: str | None) -> str:
    if unit == "8kB":
        return f"{int(setting) * 8 // 1024} MB"
    if unit == "kB":
        return f"{int(setting)} kB"
    return f"{setting} {unit}" if unit else setting


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _some(names: list[str], what: str) -> str:
    more = f" and {len(names) - 3} more {what}" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
