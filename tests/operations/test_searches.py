"""Slow searches: those that run, and those that the server has counted."""

import asyncio

import asyncpg

from adkpg import Database, PgVectorMemoryService
from adkpg.operations import slow_searches
from tests.fakes.conversation import entry


async def test_a_search_that_runs_is_seen_and_past_ones_where_they_are_counted(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(app_name="app", user_id="ana", memories=[entry("my kitten", "one")])
    found = await slow_searches(database)
    assert (found.running, found.past) == ((), None)
    await connection.execute("BEGIN; LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
    searching = asyncio.create_task(
        memory.search(app_name="app", user_id="ana", query="where is my kitten?")
    )
    while not (found := await slow_searches(database, least_s=0)).running or not (
        found.running[0].waits
    ):
        await asyncio.sleep(0)
    await connection.execute("ROLLBACK")
    assert found.running[0].waits.startswith("Lock")
    assert await searching
