"""How large tables are, as the catalog of one server knows it."""

import asyncpg

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.operations import table_sizes
from tests.fakes.conversation import USER, entry, said


async def test_tables_are_as_large_as_the_catalog_says(
    database: Database,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    session = await sessions.create_session(**USER)
    for turn in range(4):
        await sessions.append_event(session, said(f"turn {turn}"))
    await memory.add_memory(**USER, memories=[entry("tea"), entry("coffee")])
    unseen = {each.name: each.rows for each in await table_sizes(database)}
    assert min(unseen["events"], unseen["memories"]) >= 1, "as they have pages"
    assert unseen["memory_provenance"] == 0
    await connection.execute("ANALYZE")
    found = await table_sizes(database)
    sizes = [each.bytes + each.index_bytes for each in found]
    assert sizes == sorted(sizes, reverse=True)
    by_name = {each.name: each for each in found}
    assert by_name.keys() >= {"events", "memories", "adkpg_version"}
    assert (by_name["events"].rows, by_name["memories"].rows) == (4, 2)
    assert by_name["events"].bytes == await connection.fetchval("SELECT pg_table_size('events')")
