"""Locks held by a test, so that what it races against stands still where the test wants it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from adkpg.tables import metadata

_OF_ALL = re.compile(r"SELECT FROM adkpg\.(\w+)(?: WHERE (.+))? FOR (UPDATE|(?:KEY )?SHARE)")
_PERSONAL = {table.name for table in metadata.tables.values() if "user_id" in table.c}
_WAITING = (
    "SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0"
)
_MOST_PIDS = 2**22
_WAITING_ON_NODES = (
    "SELECT global_pid AS pid, max(query_start) AS query_start FROM citus_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' GROUP BY global_pid"
)


class Lock:
    """A transaction of the test's own that holds rows; ends with `release` or the context."""

    def __init__(
        self, connection: asyncpg.Connection, watcher: asyncpg.Connection, waiting: str = _WAITING
    ) -> None:
        self.connection = connection
        self._watcher = watcher  # a transaction sees one pg_stat_activity, the first
        self._waiting = waiting

    async def until_blocked(self, count: int) -> list[int]:
        """Waits until so many other connections wait for a lock; returns their process ids.

        On a cluster those that Citus gives them, for all of its nodes.
        """
        return await _blocked(self._watcher, self._waiting, count)

    async def until_unblocked(self) -> None:
        """Waits until no other connection waits for a lock."""
        async with asyncio.timeout(30):
            while await self._watcher.fetch(self._waiting):
                await asyncio.sleep(0)

    async def cut(self, pid: int) -> None:
        """Ends a connection that waits, and returns once it has ended."""
        kind = "int8" if pid > _MOST_PIDS else "int4"  # Citus's own numbers, or the server's
        await self.connection.execute(f"SELECT pg_terminate_backend($1::{kind}, 30000)", pid)

    async def release(self) -> None:
        await self.connection.execute("COMMIT")


@asynccontextmanager
async def locked(
    url: str, sql: str = "SELECT FROM adkpg.sessions FOR UPDATE"
) -> AsyncIterator[Lock]:
    """Runs a statement in a transaction that stays open, by default one that locks all sessions.

    On a cluster, where only one user's rows can be locked at once, user by user.
    """
    connection, watcher = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        on_nodes = await _is_on_nodes(connection)
        await connection.execute("BEGIN")
        of_all = _OF_ALL.fullmatch(sql)
        if on_nodes and of_all and of_all[1] in _PERSONAL:
            table, condition, strength = of_all.groups()
            users = await connection.fetch(f"SELECT DISTINCT user_id FROM adkpg.{table}")
            own = f"user_id = $1 AND ({condition or 'true'}) FOR {strength}"
            for user in users:
                await connection.execute(
                    f"SELECT FROM adkpg.{table} WHERE {own}",
                    user["user_id"],
                )
        else:
            await connection.execute(sql)
        yield Lock(connection, watcher, _WAITING_ON_NODES if on_nodes else _WAITING)
    finally:
        await connection.close()
        await watcher.close()


async def _is_on_nodes(connection: asyncpg.Connection) -> bool:
    found: bool = await connection.fetchval("SELECT to_regclass('citus_stat_activity') IS NOT NULL")
    return found


async def advisory_locks(connection: asyncpg.Connection) -> int:
    """Counts who holds advisory locks of this database, on all nodes of a cluster."""
    counted = (
        "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        " AND objsubid = 1 AND database = (SELECT oid FROM pg_database"
        " WHERE datname = current_database())"
    )
    if await _is_on_nodes(connection):
        counted = f"SELECT sum(result::int) FROM run_command_on_all_nodes($${counted}$$)"
    count: int = await connection.fetchval(counted)
    return count


async def connections_of(url: str) -> int:
    """Counts the other client connections to a database."""
    connection = await asyncpg.connect(url)
    try:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND application_name NOT LIKE 'citus_internal%'"
        )
    finally:
        await connection.close()
    return count


async def until_connections(url: str, count: int) -> None:
    """Waits until so many other client connections are left; the server ends them in its time."""
    async with asyncio.timeout(30):
        while await connections_of(url) != count:
            pass


async def waits_for_a_lock(connection: asyncpg.Connection, count: int = 1) -> None:
    """Returns once so many other connections of this database wait for a lock."""
    waiting = _WAITING_ON_NODES if await _is_on_nodes(connection) else _WAITING
    await _blocked(connection, waiting, count)


async def _blocked(watcher: asyncpg.Connection, waiting: str, count: int) -> list[int]:
    """Waits until so many wait for a lock, each seen in the same statement by looks in a row.

    Who waits for something else, such as room in a table or one who commits, waits for a moment
    only. On a cluster, where nobody says for whom, that is longer than from one look to the next.
    """
    looks = 4 if waiting == _WAITING_ON_NODES else 2
    seen: dict[asyncpg.Record, int] = {}
    async with asyncio.timeout(30):
        while True:
            seen = {row: seen.get(row, 0) + 1 for row in await watcher.fetch(waiting)}
            held = [row["pid"] for row, times in seen.items() if times >= looks]
            if len(held) >= count:
                return held
