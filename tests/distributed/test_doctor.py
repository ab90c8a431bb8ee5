"""The doctor on a cluster: all is well there, or something is that only a cluster can have."""

import asyncio

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import DatabaseUnavailable
from adkpg.operations import TableFigures, examine, statistics, table_sizes
from adkpg.testing import said
from tests.fakes.citus import Own
from tests.fakes.conversation import USER
from tests.fakes.findings import find, mend
from tests.fakes.roles import GUARDED

pytestmark = pytest.mark.cluster


async def test_of_a_healthy_cluster_all_checks_are_made(
    database: Database, memory: PgVectorMemoryService
) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("hello"))
    await memory.add_session_to_memory(session)
    found = {each.check: each for each in (await examine(database)).findings}
    ill = {name: each for name, each in found.items() if each.status != "ok"}
    # The servers of the tests keep nothing for certain, and a superuser asks.
    assert ill.keys() <= {"role", "settings", "pooler"}, ill
    assert found["nodes"].detail.startswith("3, all of them answer")
    assert "fsync is off on all nodes: " in found["settings"].detail


async def test_row_level_security_on_a_cluster_is_a_failure(database_url: str) -> None:
    async with Database(database_url, settings=GUARDED) as database:
        with adkpg.every_scope():
            found = await find(database, "schema")
    assert (found.status, found.cure) == ("failure", "export ADKPG_ROW_LEVEL_SECURITY=false")
    assert "Row-level security does not work where Citus" in found.detail


async def test_a_standby_that_is_never_read_is_a_warning(database_url: str) -> None:
    async with Database(database_url, read_url=f"{database_url}?application_name=b") as database:
        found = await find(database, "replica")
    assert (found.status, found.cure) == ("warning", "unset ADKPG_READ_URL")
    assert "are distributed over the nodes of a cluster, so" in found.detail


async def test_a_table_that_is_not_distributed_is_a_failure_and_mended(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("SELECT undistribute_table('adkpg.audit')")
    async with Database(database_url) as database:
        found = await find(database, "schema")
        assert (found.status, found.cure) == ("failure", "adkpg db distribute")
        assert "but audit in the schema adkpg not yet" in found.detail
        await database.distribute()
        assert (await find(database, "schema")).status == "ok"


async def _events(connection: asyncpg.Connection, count: int) -> None:
    """Stores events of a kilobyte each, of forty users."""
    await connection.execute(
        "INSERT INTO adkpg.sessions (app_name, user_id, session_id)"
        " SELECT 'a', 'u' || n, 's' FROM generate_series(0, 39) AS n"
    )
    await connection.execute(
        "INSERT INTO adkpg.events"
        " (app_name, user_id, session_id, seq, event_id, timestamp, payload)"
        " SELECT 'a', 'u' || n % 40, 's', n, 'e' || n, now(),"
        " json_build_object('x', repeat('y', 900))"
        f" FROM generate_series(1, {count}) AS n"
    )


async def _analysed(
    connection: asyncpg.Connection, database: Database, rows: int
) -> dict[str, TableFigures]:
    """Analyses until the nodes' processes have told all of the rows that they changed."""
    async with asyncio.timeout(60):
        while True:
            await connection.execute("ANALYZE adkpg.events, adkpg.app_states")
            sizes = {each.name: each for each in await table_sizes(database)}
            # A copy on each node is counted once.
            if (sizes["events"].rows, sizes["app_states"].rows) == (rows, 2):
                return sizes


async def test_what_the_parts_hold_is_counted_and_what_is_wrong_with_them_is_seen_and_mended(
    nodes: list[str], connection: asyncpg.Connection
) -> None:
    await _events(connection, 20_000)
    await connection.execute(
        "INSERT INTO adkpg.app_states (app_name, state) VALUES ('a', '{}'), ('b', '{}')"
    )
    for url in nodes[:2]:  # whichever is asked
        async with Database(url) as database:
            sizes = await _analysed(connection, database, 20_000)
            assert sizes["events"].bytes > 20_000 * 900
            assert not any(name.rpartition("_")[2].isdecimal() for name in sizes), "parts' names"
            assert (await find(database, "bloat")).status == "ok"
    await connection.execute("DELETE FROM adkpg.events WHERE seq > 1000")
    for url in nodes[:2]:
        async with Database(url) as database, asyncio.timeout(60):
            while "events has 19,000 dead" not in (await find(database, "autovacuum")).detail:
                await connection.execute("ANALYZE adkpg.events")
            bloat = await find(database, "bloat")
            assert "events takes " in bloat.detail
    async with Database(nodes[0]) as database:
        await mend(connection, bloat)
        await mend(connection, await find(database, "autovacuum"))
        for check in ("bloat", "autovacuum"):
            assert (await find(database, check)).status == "ok"


async def test_a_part_without_autovacuum_or_with_a_broken_index_is_a_failure(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "SELECT * FROM run_command_on_placements('adkpg.events',"
        " 'ALTER TABLE %s SET (autovacuum_enabled = false)')"
    )
    found = await find(database, "autovacuum")
    assert (found.status, found.detail) == ("failure", "it is off for events")
    await mend(connection, found)
    assert (await find(database, "autovacuum")).status == "ok"
    parts = await connection.fetch(
        "SELECT success FROM run_command_on_shards('adkpg.memory_jobs',"
        " $$DO 'BEGIN EXECUTE (SELECT format(''DROP INDEX %%s'', indexrelid::regclass)"
        " FROM pg_index WHERE indrelid = ''%s''::regclass AND NOT indisunique LIMIT 1); END'$$)"
    )
    assert all(each["success"] for each in parts)
    found = await find(database, "indexes")
    assert found.status == "failure"
    assert "is invalid" in found.detail


@pytest.mark.fault
async def test_a_node_that_is_away_is_a_failure_that_names_it(own: Own) -> None:
    lost = own.cluster.nodes[1]
    async with Database(own.url) as database:
        assert (await find(database, "nodes")).status == "ok"
        lost.kill()
        found = {each.check: each for each in (await examine(database)).findings}
        assert found["nodes"].status == "failure"
        assert f"127.0.0.1:{lost.port} does not answer" in found["nodes"].detail
        assert found["nodes"].cure is not None
        assert found["nodes"].cure.startswith(f"pg_isready -h 127.0.0.1 -p {lost.port} ")
        for check in ("settings", "indexes", "bloat", "autovacuum", "visibility", "queue"):
            assert (found[check].status, found[check].cure) == (
                "warning",
                "adkpg doctor   # once they do",
            )
            assert found[check].detail.startswith("was not looked at")
        with pytest.raises(DatabaseUnavailable, match=rf"not 127\.0\.0\.1:{lost.port} \(.*start"):
            await table_sizes(database)
        with pytest.raises(DatabaseUnavailable, match=str(lost.port)):
            await statistics(database)
