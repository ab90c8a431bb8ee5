"""The check of the standby that reads go to, if there is one."""

import asyncio
import time

from adkpg.database import LOOK, Database
from adkpg.database.attempts import GLANCE
from adkpg.database.replicas.horizon import settled
from adkpg.database.replicas.statements import identify
from adkpg.errors import AdkpgError, SchemaError
from adkpg.tooling.operations.catalog_statements import select_replay, select_role
from adkpg.tooling.operations.findings import Finding, Verdict

_LONGEST_S = 2.0
_PAUSE_S = 0.05
_CLOCKS_MAY_DIFFER_S = 2.0  # the way to either server, too
_TOLERATED = 8192  # a primary at rest keeps records back that commit nothing, for some seconds


async def replica(database: Database) -> Finding:
    """Whether the standby is one of this database, has its tables, and keeps up."""
    standby = database.standby
    assert standby is not None, "it is not asked for without"
    verdict, there = Verdict("replica"), standby.connections.url
    cluster = await database.installation.cluster()
    if cluster is not None and cluster.is_distributed:
        verdict.add(
            "warning",
            f"the tables in {database.url} are distributed over the nodes of a cluster, so "
            f"{there} is not read",
            "unset ADKPG_READ_URL",
        )
        return verdict.finding("")
    primary = (await database.run.fetch(identify(), policy=GLANCE))[0]
    began = time.monotonic()
    try:
        found = (await standby.fetch(identify(), policy=LOOK))[0]
        if (found["cluster"], found["database"]) != (primary["cluster"], primary["database"]):
            verdict.add(
                "failure",
                f"{there} is another database than {database.url}, so it is not read",
                "export ADKPG_READ_URL=postgresql://...   # a standby of this server",
            )
            return verdict.finding("")
        await standby.installation.check()
        role = (await standby.fetch(select_role(schema=database.schema), policy=LOOK))[0]
        # Fails where pgvector's library is missing.
        (replay,) = await standby.fetch(select_replay(), policy=LOOK)
        if role["guarded"] and not database.settings.row_level_security:
            verdict.add(
                "failure",
                f"the tables have row-level security for the role {role['role']}, and this process "
                f"names no scope, so {there} is not read",
                "export ADKPG_ROW_LEVEL_SECURITY=true   # or name another role in ADKPG_READ_URL",
            )
            return verdict.finding("")
        clocks_differ_s = abs(found["clock_s"] - primary["clock_s"])
        if found["standby"] and _behind(primary["position"], found["position"]) < 0:
            later = (await database.run.fetch(identify(), policy=GLANCE))[0]
            if found["timeline"] == later["timeline"] and found["position"] > later["position"]:
                verdict.add(
                    "failure",
                    f"{there} has replayed changes that {database.url} does not have, so it is "
                    "not read: the primary was set back, as by a snapshot of its disk",
                    'pg_basebackup -D "$PGDATA" -R ...   # makes the standby anew',
                )
                return verdict.finding("")
        written = primary["position"] if primary["flushed"] is None else primary["flushed"]
        while _behind(written, found["position"]) > _TOLERATED:
            if time.monotonic() - began > _LONGEST_S:
                break
            await asyncio.sleep(_PAUSE_S)
            found = (await standby.fetch(identify(), policy=GLANCE))[0]
    except SchemaError as exc:
        verdict.add("warning", f"{there}: {exc}", "SELECT pg_wal_replay_resume();")
        return verdict.finding("")
    except AdkpgError as exc:
        verdict.add("failure", str(exc), f"pg_isready -d '{there}'")
        return verdict.finding("")
    behind = _behind(written, found["position"])
    if not found["standby"] and found["server"] != primary["server"]:
        verdict.add(
            "failure",
            f"{there} follows no primary, so it is not read",
            'pg_rewind -D "$PGDATA" -R --source-server=...   # then start it again',
        )
    elif not found["standby"]:
        verdict.add(
            "warning",
            f"{there} is the primary itself, so reads there take nothing off it",
            "export ADKPG_READ_URL=postgresql://...   # a standby of this server, or unset it",
        )
    elif found["timeline"] != primary["timeline"]:
        verdict.add(
            "warning",
            f"{there} is on timeline {found['timeline']} and the primary on "
            f"{primary['timeline']}, so it is not read; after a failover it says that it follows "
            "within checkpoint_timeout, unless it must be rewound",
            'pg_rewind -D "$PGDATA" -R --source-server=...   # then start it again',
        )
    elif behind > _TOLERATED:
        verdict.add(
            "warning",
            f"{there} is {behind:,} bytes behind for longer than {_LONGEST_S:g} s: the primary "
            "answers reads that need the missing data",
            "SELECT pg_wal_replay_resume();",
        )
    elif replay["is_paused"]:
        verdict.add(
            "warning",
            f"the replay of {there} is paused: the primary answers reads that need the missing "
            "data",
            "SELECT pg_wal_replay_resume();",
        )
    if found["standby"] and clocks_differ_s > _CLOCKS_MAY_DIFFER_S:
        verdict.add(
            "warning",
            f"the clocks of {there} and {database.url} differ by {clocks_differ_s:.1f} s: rows "
            "expire there by its own clock",
            "timedatectl timesync-status   # on both servers",
        )
    took_ms = 1000 * (time.monotonic() - began)
    return verdict.finding(f"{there} shows commits within {took_ms:.0f} ms")


def _behind(primary: int | None, standby: int | None) -> int:
    """How many bytes a standby lacks; of one that does not say, more than it may."""
    if primary is None or standby is None:
        return _TOLERATED + 1
    return settled(primary) - standby
