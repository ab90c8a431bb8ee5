"""Models of every size beside each other: what is nearest is found, exactly and by the index."""

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.tooling.models.service import Models
from tests.fakes.conversation import found
from tests.fakes.model_apps import remember
from tests.fakes.toys import SeededEmbedder, ToyEmbedder

TURNS = [f"turn {number}" for number in range(450)]
QUESTIONS = [f"question {number}" for number in range(1_000, 1_008)]


async def recall(memory: PgVectorMemoryService, embedder: SeededEmbedder) -> float:
    """The share of the ten nearest, as numpy knows them, that a search finds."""
    truth = embedder.nearest(QUESTIONS, TURNS, 10)
    hits = [
        len(set(await found(memory, question, top_k=10, mode="vector")) & nearest)
        for question, nearest in zip(QUESTIONS, truth, strict=True)
    ]
    return sum(hits) / 10 / len(QUESTIONS)


@pytest.mark.parametrize("dimensions", [384, 768, 1_536, 3_072, 4_000])
async def test_any_size_finds_what_is_nearest(
    database_url: str, connection: asyncpg.Connection, dimensions: int
) -> None:
    """Above 1,024 dimensions the signs leave out all but 400, and the vectors rank those."""
    settings = Settings(exact_limit=400, embedding_batch_size=150)
    async with Database(database_url, settings=settings) as database:
        await remember(PgVectorMemoryService(database, embedder=ToyEmbedder("old")), *TURNS)
        embedder = SeededEmbedder(dimensions=dimensions)
        models = Models(database)
        (done,) = await models.reembed(embedder, app_name="app")
        assert done.embedded == 450
        stored = await connection.fetchrow(
            "SELECT count(embedding), count(bits), count(large) FROM memory_vectors"
            " WHERE model_id = (SELECT model_id FROM app_settings)"
        )
        assert stored is not None
        assert tuple(stored) == ((450, 0, 0) if dimensions <= 1_024 else (0, 450, 450))
        memory = PgVectorMemoryService(database, embedder=embedder)
        assert await recall(memory, embedder) >= 0.97
        assert await models.index(embedder.model) == 450
        await found(memory, "question 1", mode="vector")
        assert await recall(memory, embedder) >= 0.95
