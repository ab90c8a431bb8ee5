"""Changing an app's model on a cluster, where nobody holds the app's settings meanwhile."""

import asyncio

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.tooling.models.service import Models
from tests.fakes.locks import locked
from tests.fakes.model_apps import TEXTS, active, covered, remember
from tests.fakes.toys import ToyEmbedder

pytestmark = [pytest.mark.cluster, pytest.mark.race]

# Whoever stores the late one's vector waits for this one, when it has seen the active model.
_ITS_VECTOR = (
    "INSERT INTO adkpg.memory_vectors (app_name, user_id, position, passage, model_id)"
    " SELECT app_name, user_id, position, 0, 1 FROM adkpg.memories"
    " WHERE user_id = 'user' AND body = 'the late kitten'"
)


async def test_a_vector_of_the_old_model_on_its_way_leaves_no_memory_without_a_job(
    database: Database, connection: asyncpg.Connection, database_url: str
) -> None:
    """It ends the memory's job, for the old model was active when it began."""
    models = Models(database)
    old = PgVectorMemoryService(database, embedder=ToyEmbedder("old"))
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    await remember(PgVectorMemoryService(database, mode="text"), "the late kitten")
    async with locked(database_url, _ITS_VECTOR) as lock:
        embedding = asyncio.create_task(old.embed_pending())
        await lock.until_blocked(1)
        activating = asyncio.create_task(models.activate("new", app_name="app", force=True))
        await lock.until_blocked(2)
        await lock.connection.execute("ROLLBACK")
        await embedding
        assert await activating == len(TEXTS) + 1
    assert await active(connection) == "new"
    assert await covered(connection)
