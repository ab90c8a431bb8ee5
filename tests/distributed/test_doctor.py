"""The doctor on a cluster: all is well there, or something is that only a cluster can have."""

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.operations import examine
from adkpg.testing import said
from tests.fakes.conversation import USER
from tests.fakes.findings import find
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


async def test_row_level_security_on_a_cluster_is_a_failure(database_url: str) -> None:
    async with Database(database_url, settings=GUARDED) as database:
        with adkpg.every_scope():
            found = await find(database, "schema")
    assert (found.status, found.cure) == ("failure", "export ADKPG_ROW_LEVEL_SECURITY=false")
    assert "Row-level security does not work where Citus" in found.detail


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
