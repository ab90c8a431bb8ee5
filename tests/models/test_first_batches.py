"""First batches of an app side by side: each user's is embedded, whoever sets the app's model."""

import asyncio

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.memory.vectors.vectors import Vectors
from tests.fakes.locks import locked
from tests.fakes.model_apps import active, asked_of, jobs, remember, vectors
from tests.fakes.toys import GatedEmbedder, ToyEmbedder

pytestmark = pytest.mark.race

ALL_CLAIMS = "LOCK TABLE adkpg.memory_jobs IN EXCLUSIVE MODE"


async def embedded(memory: PgVectorMemoryService, user_id: str) -> int:
    """Embeds what a user has waiting; returns how many vectors that stored."""
    assert memory.embedder is not None
    return await Vectors(memory.database, memory.embedder).embed_user("app", user_id, eager=True)


async def race(
    database_url: str, winner: PgVectorMemoryService, loser: PgVectorMemoryService
) -> tuple[int, int]:
    """Lets one service set the app's model after another saw none, but before that one's claim.

    Args:
      database_url: The tests' database.
      winner: Embeds user a; its embedder is a GatedEmbedder.
      loser: Embeds user b.

    Returns:
      How many vectors each stored.
    """
    assert isinstance(winner.embedder, GatedEmbedder)
    first = asyncio.create_task(embedded(winner, "a"))
    await winner.embedder.asked.wait()  # it has claimed
    async with locked(database_url, ALL_CLAIMS) as lock:
        second = asyncio.create_task(embedded(loser, "b"))
        await lock.until_blocked(1)  # it saw no model, and is about to claim
        winner.embedder.gate.set()
        await lock.until_blocked(2)  # the model is set; the first job is about to end
        await lock.release()
        return await first, await second


@pytest.fixture
async def waiting(database: Database) -> None:
    """Two users of one app without a model wait for vectors."""
    words = PgVectorMemoryService(database, mode="text")
    for user in ("a", "b"):
        await remember(words, "the kitten", "the hound", user=user)


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("services", [1, 2])
async def test_first_batches_of_two_users_at_once_are_both_embedded(
    database: Database, database_url: str, connection: asyncpg.Connection, services: int
) -> None:
    """The second claimed nothing, for its model was no model yet when it looked."""
    gated = GatedEmbedder("new")
    embedders: list[ToyEmbedder] = [gated, ToyEmbedder("new")][:services]
    winner, *others = (PgVectorMemoryService(database, embedder=each) for each in embedders)
    assert await race(database_url, winner, [winner, *others][-1]) == (2, 2)
    assert (await jobs(connection), await vectors(connection, "new")) == (0, 4)
    assert len(asked_of(*embedders)) == 4


@pytest.mark.usefixtures("waiting")
async def test_a_first_batch_that_comes_second_to_another_model_is_given_back_untried(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    winner = PgVectorMemoryService(database, embedder=GatedEmbedder("new"))
    loser = PgVectorMemoryService(database, embedder=ToyEmbedder("late"))
    assert await race(database_url, winner, loser) == (2, 0)
    assert await active(connection) == "new"
    assert await vectors(connection, "late") == 0
    left = await connection.fetch("SELECT user_id, attempts, lease_expires_at FROM memory_jobs")
    assert [tuple(row) for row in left] == [("b", 0, None)] * 2
    assert await winner.embed_pending() == 2
