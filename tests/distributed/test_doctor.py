"""The doctor on a cluster: all is well there, or something is that only a cluster can have."""

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.operations import examine, statistics, table_sizes
from adkpg.tooling.testing import said
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
    assert "fsync is off: " in found["settings"].detail


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


async def test_sizes_of_parts_and_the_health_of_nodes_are_left_to_citus(
    database: Database, connection: asyncpg.Connection
) -> None:
    assert await table_sizes(database) == ()
    sizes = await connection.fetch("SELECT * FROM citus_tables")
    assert "events" in {str(each["table_name"]) for each in sizes}
    answers = await connection.fetch("SELECT * FROM citus_check_cluster_node_health()")
    assert all(each["result"] for each in answers)
    assert len(answers) == 9, "each of three nodes of each"


async def test_a_missing_index_is_a_failure_and_mended(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute("DROP INDEX adkpg.memories_kind_idx")
    found = await find(database, "indexes")
    assert (found.status, found.detail) == ("failure", "memories_kind_idx is missing")
    await mend(connection, found)
    assert (await find(database, "indexes")).status == "ok"


@pytest.mark.fault
async def test_of_a_cluster_whose_node_is_away_the_checks_of_memories_name_it(own: Own) -> None:
    lost = own.cluster.nodes[1]
    async with Database(own.url, settings=Settings(retry_timeout_s=0)) as database:
        lost.kill()
        found = {each.check: each for each in (await examine(database)).findings}
        for check in ("vectors", "queue"):
            assert (found[check].status, str(lost.port) in found[check].detail) == ("warning", True)
            assert found[check].detail.startswith("could not be checked: ")
        with pytest.raises(DatabaseUnavailable, match=str(lost.port)):
            await statistics(database)
