"""The examination of a database: each check, one after the other."""

from collections.abc import Awaitable, Callable

from adkpg.database import LOOK, Database
from adkpg.errors import (
    AdkpgError,
    DatabaseUnavailable,
    PermissionDenied,
    SchemaError,
    ScopeMissing,
)
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.operations import (
    memory_checks,
    replica_checks,
    server_checks,
    storage_checks,
)
from adkpg.tooling.operations.catalog_statements import select_recovery
from adkpg.tooling.operations.findings import Examination, Finding

Check = Callable[[Database], Awaitable[Finding]]

_OF_SERVER: tuple[Check, ...] = (
    server_checks.postgres,
    server_checks.pgvector,
    server_checks.schema,
    server_checks.role,
    server_checks.settings,
    server_checks.pooler,
)
_OF_TABLES: tuple[Check, ...] = (
    storage_checks.indexes,
    storage_checks.vacuum,
    memory_checks.vectors,
    memory_checks.queue,
)


@traced_function(on(""))
async def examine(database: Database) -> Examination:
    """Looks at what an operator can mend in a database; changes nothing.

    A check that cannot be made is a warning that says why. In a database without adkpg's tables
    only the server is examined. Where the first use makes them (the embedded server, and with
    ``auto_upgrade``), all may be well without. It reads the keys of all memories.

    Args:
      database: Where to look. A role that owns the tables, or works on all users' memories, sees
        all; another sees what it may.

    Returns:
      One finding of each check: postgres, pgvector, schema, role, settings, pooler, replica (with
      ``ADKPG_READ_URL``), indexes, vacuum, vectors, queue. On a cluster all except the last two are
      about the node that is asked, and vacuum is left out, since it has nothing to do there.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      DatabaseUnavailable: There is no connection, or none any more.
    """
    database.run.require_every_scope()
    there = distributed = False
    try:
        there = (await database.installation.found()).revision is not None
        cluster = await database.installation.cluster()
        distributed = cluster is not None and cluster.is_distributed
    except PermissionDenied:  # `role` names the right
        pass
    of_server = [*_OF_SERVER, *([replica_checks.replica] if database.standby else [])]
    findings = [await _made(check, database) for check in of_server]
    unusable = {each.check for each in findings if each.status == "failure"}
    if there and not unusable & {"postgres", "pgvector", "schema"}:
        of_tables = [c for c in _OF_TABLES if not (distributed and c is storage_checks.vacuum)]
        findings += [await _made(check, database) for check in of_tables]
    return Examination(tuple(findings))


async def _made(check: Check, database: Database) -> Finding:
    name = check.__name__
    try:
        return await check(database)
    except SchemaError as exc:
        return Finding(name, "failure", str(exc), "adkpg db upgrade")
    except AdkpgError as exc:
        if isinstance(exc, DatabaseUnavailable):  # gone, or too slow for this check alone
            await database.run.fetch(select_recovery(), policy=LOOK)
        return Finding(
            name,
            "warning",
            f"could not be checked: {exc}",
            "export ADKPG_ROW_LEVEL_SECURITY=true"
            if isinstance(exc, ScopeMissing)
            else "adkpg doctor --database-url OWNER_URL",
        )
