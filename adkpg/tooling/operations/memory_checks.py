"""Checks of memories: what waits, and what lacks a vector or an index."""

from shlex import quote

from adkpg.database import Database
from adkpg.tooling.operations import memory_statements as statements
from adkpg.tooling.operations.findings import Finding, Verdict

_LONGEST_WAIT_S = 600.0


async def queue(database: Database) -> Finding:
    """Whether work waits for long, or there are dead letters."""
    verdict = Verdict("queue")
    waiting = 0
    database.run.require_every_scope()
    for row in await database.run.fetch(statements.select_queue()):
        waiting += row["waiting"]
        extract = " --extract MODEL" if row["work"] == "extract" else ""
        if row["dead"]:
            verdict.add(
                "failure",
                f"{row['dead']} dead {'letter' if row['dead'] == 1 else 'letters'} "
                f"({row['work']}): {(row['error'] or '')[:200]}",
                f"adkpg worker --once --revive{extract}",
            )
        if row["waiting"] and row["oldest_s"] > _LONGEST_WAIT_S:
            verdict.add(
                "warning",
                f"{row['waiting']} memories wait ({row['work']}), the first for "
                f"{row['oldest_s'] / 60:.0f} minutes",
                f"adkpg worker{extract}",
            )
    return verdict.finding(f"{waiting} wait, none for long; no dead letters")


async def vectors(database: Database) -> Finding:
    """Whether every memory has a vector of the model that its app is searched with."""
    verdict = Verdict("vectors")
    database.run.require_every_scope()
    timeout_s = database.settings.migration_timeout_s
    rows = await database.run.fetch(statements.select_lacking(), timeout_s=timeout_s)
    for row in rows:
        if row["unqueued"] > 0:
            verdict.add(
                "warning",
                f"{row['unqueued']} of {row['memories']} memories of app {row['app_name']!r} have "
                f"no vector of {row['name']!r}, and none is on its way: only words find them",
                f"adkpg models activate {quote(row['name'])} --dimensions {row['dimensions']} "
                f"--app {quote(row['app_name'])} --force && adkpg worker --once",
            )
    exact_limit = database.settings.exact_limit
    (counted,) = await database.run.fetch(
        statements.count_large(exact_limit=exact_limit), timeout_s=timeout_s
    )
    if large := counted["large"]:
        verdict.add(
            "warning",
            f"{large} users have more than {exact_limit} vectors and no index",
            "adkpg memory index",
        )
    named = ", ".join(sorted({f"{row['name']} ({row['dimensions']})" for row in rows}))
    lacking = sum(row["lacking"] for row in rows)
    said = f"; {lacking} are on their way" if lacking else ""
    return verdict.finding(f"{named or 'no app has a model yet'}{said}")
