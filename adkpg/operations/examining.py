"""The examination of a database: every check, one after the other."""

from collections.abc import Awaitable, Callable

from adkpg.database import Database
from adkpg.errors import (
    AdkpgError,
    DatabaseUnavailable,
    PermissionDenied,
    SchemaError,
    ScopeMissing,
)
from adkpg.operations import (
    memory_checks,
    replica_checks,
    server_checks,
    storage_checks,
)
from adkpg.operations.catalog_statements import select_clock
from adkpg.operations.findings import Examination, Finding
from adkpg.operations.nodes.check import nodes
from adkpg.operations.nodes.measures import are_several
from adkpg.telemetry.calls import on, traced_function

Check = Callable[[Database], Awaitable[Finding]]

_OF_SERVER: tuple[Check, ...] = (
    server_checks.postgres,
    server_checks.pgvector,
    server_checks.schema,
    server_checks.role,
    server_checks.settings,
    server_checks.pooler,
    server_checks.clock,
)
_OF_TABLES: tuple[Check, ...] = (
    storage_checks.indexes,
    storage_checks.visibility,
    storage_checks.bloat,
    storage_checks.autovacuum,
    memory_checks.vectors,
    memory_checks.queue,
    memory_checks.recall,
)
_OF_ALL_NODES = frozenset({server_checks.settings, *_OF_TABLES})


@traced_function(on(""))
async def examine(database: Database) -> Examination:
    """Looks at everything that may be wrong with a database; changes nothing.

    A check that cannot be made is a warning that says why. Of a database without adkpg's tables,
    only the server is examined; where the first use makes them (the embedded server, and with
    ``auto_upgrade``), all may be well without. It reads the keys of all memories.

    Args:
      database: Where to look. A role that owns the tables, or works on everybody's memories, sees
        all; another sees what it may.

    Returns:
      One finding of each check: nodes (of a cluster), postgres, pgvector, schema, role, settings,
      pooler, clock, replica (with ``ADKPG_READ_URL``), indexes, visibility, bloat, autovacuum,
      vectors, queue, recall. Of a cluster, settings and all from indexes on are of every node, and
      what `nodes` does not compare is of the node that is asked.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      DatabaseUnavailable: There is no connection, or none any more.
    """
    database.require_every_scope()
    there = several = False
    try:
        there = (await database.found()).revision is not None
        several = await are_several(database)
    except PermissionDenied:  # `role` names the right
        pass
    of_server = [*_OF_SERVER, *([replica_checks.replica] if database.standby else [])]
    findings = [await _made(nodes, database)] if several else []
    away = any(each.status == "failure" for each in findings)
    findings += [await _made(check, database, away=away) for check in of_server]
    unusable = {each.check for each in findings if each.status == "failure"}
    if there and not unusable & {"postgres", "pgvector", "schema"}:
        findings += [await _made(check, database, away=away) for check in _OF_TABLES]
    return Examination(tuple(findings))


async def _made(check: Check, database: Database, *, away: bool = False) -> Finding:
    name = check.__name__
    if away and check in _OF_ALL_NODES:  # it would wait for that node, and then say what it says
        return Finding(
            name,
            "warning",
            "was not looked at, since not all nodes of the cluster answer",
            "adkpg doctor   # once they do",
        )
    try:
        return await check(database)
    except SchemaError as exc:
        return Finding(name, "failure", str(exc), "adkpg db upgrade")
    except AdkpgError as exc:
        if isinstance(exc, DatabaseUnavailable):  # gone, or too slow for this check alone
            await database.look(select_clock(), {})
        return Finding(
            name,
            "warning",
            f"could not be checked: {exc}",
            "export ADKPG_ROW_LEVEL_SECURITY=true"
            if isinstance(exc, ScopeMissing)
            else "adkpg doctor --database-url OWNER_URL",
        )
