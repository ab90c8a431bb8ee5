"""An embedding model is registered through any node, though the coordinator alone gives numbers."""

import asyncio

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import DatabaseUnavailable
from adkpg.memory.vectors.vectors import registered
from adkpg.tooling.models.service import Models
from tests.fakes.citus import Own
from tests.fakes.model_apps import remember
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.cluster


async def test_memories_are_embedded_with_a_model_that_any_node_is_the_first_to_see(
    nodes: list[str], connection: asyncpg.Connection
) -> None:
    """A worker draws no smallint from a sequence: the memories waited for their vectors."""
    assert len(nodes) == 3
    for number, url in enumerate(nodes):
        app = f"app {number}"
        async with Database(url) as database:
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder(f"o'new {number}"))
            await remember(memory, "the kitten", app=app)
            hits = await memory.search(app_name=app, user_id="user", query="kitten", mode="vector")
        assert [hit.reason.cosine is not None for hit in hits] == [True]
    models = await connection.fetch("SELECT model_id, name FROM embedding_models ORDER BY 1")
    assert [row["name"] for row in models] == [f"o'new {number}" for number in range(3)]
    assert await connection.fetchval("SELECT count(*) FROM memory_jobs") == 0


async def test_a_number_is_given_once_whichever_node_drops_its_model(nodes: list[str]) -> None:
    given = []
    for url in nodes:
        async with Database(url) as database:
            given.append(await registered(database, "passing", 3))
            assert await registered(database, "passing", 3) == given[-1]
            await Models(database).drop("passing")
    assert len(set(given)) == len(nodes)


@pytest.mark.fault
async def test_a_worker_says_that_the_coordinator_is_away(own: Own) -> None:
    _, worker, _ = await own.server.nodes_of(own.database)
    settings = Settings(retry_timeout_s=0.5)
    async with Database(worker, settings=settings) as database:
        await database.check()
        own.cluster.nodes[0].kill()
        with pytest.raises(DatabaseUnavailable, match="A node of the cluster") as raised:
            await registered(database, "new", 3)
        assert raised.value.written is None  # by the coordinator, if it went down later
        await own.cluster.nodes[0].start()
        assert await registered(database, "new", 3) == 1


@pytest.mark.fault
async def test_a_model_is_registered_when_the_node_that_was_away_is_back(own: Own) -> None:
    """Each node has all models: one that is away fails the coordinator, which passes."""
    lost = own.cluster.nodes[1]
    async with Database(own.url) as database:
        await database.check()
        lost.kill()
        registering = asyncio.create_task(registered(database, "new", 3))
        await lost.start()
        assert await registering == await registered(database, "new", 3)
