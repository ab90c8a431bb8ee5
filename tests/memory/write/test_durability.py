"""Durable first: memories are committed and found by their words, whatever the embedder does."""

import asyncio
import logging
import math

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError, ModelError
from adkpg.outages.breaker import Breakers
from tests.fakes.clock import Clock
from tests.fakes.conversation import (
    USER,
    conversation,
    entry,
    found,
    pending,
    remember_apart,
    said,
    session_of,
)
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder, raises

pytestmark = pytest.mark.fault


async def times_out(_texts: list[str]) -> list[list[float]]:
    raise TimeoutError


async def too_few(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 8 for _ in texts[1:]]


async def too_short(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 7 for _ in texts]


async def not_a_number(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 7 + [math.nan] for _ in texts]


async def no_vector(texts: list[str]) -> list[list[float]]:
    return [[0.0] * 8 for _ in texts]


failures = pytest.mark.parametrize(
    "failure", [raises, times_out, too_few, too_short, not_a_number, no_vector]
)


@failures
async def test_memories_are_kept_when_the_embedder_fails(
    database: Database,
    connection: asyncpg.Connection,
    failure: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = BrokenEmbedder(failure=failure)  # type: ignore[arg-type] # parametrized
    memory = PgVectorMemoryService(database, embedder=embedder)
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        await memory.add_session_to_memory(conversation("my kitten sleeps", "noted"))
    (record,) = caplog.records
    assert "embed_pending()" in record.getMessage()
    assert await pending(connection) == 2
    assert await connection.fetchval("SELECT count(*) FROM memory_vectors") == 0
    assert await found(memory, "kitten") == ["my kitten sleeps", "noted"]
    assert await found(memory, "feline") == []

    with pytest.raises(ModelError):
        await memory.embed_pending()
    embedder.failure = None
    assert await memory.embed_pending() == 2
    assert await pending(connection) == 0
    assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_the_next_ingest_catches_up(
    database: Database, connection: asyncpg.Connection
) -> None:
    database.breakers = Breakers(clock := Clock())
    embedder = BrokenEmbedder(failure=raises)
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry("my kitten sleeps")])
    embedder.failure = None
    clock.now += 1
    await memory.add_events_to_memory(**USER, events=[said("unrelated")])
    assert await pending(connection) == 0
    assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_an_ingest_that_changes_nothing_catches_up(database: Database) -> None:
    database.breakers = Breakers(clock := Clock())
    embedder = BrokenEmbedder(failure=raises)
    memory = PgVectorMemoryService(database, embedder=embedder)
    session = conversation("my kitten sleeps")
    await memory.add_session_to_memory(session)
    embedder.failure = None
    clock.now += 1
    await memory.add_session_to_memory(session)
    assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_one_apps_pending_memories_are_embedded_alone(database: Database) -> None:
    embedder = BrokenEmbedder(failure=raises)
    memory = PgVectorMemoryService(database, embedder=embedder)
    for app in ("app", "other"):
        for user in ("a", None):
            await memory.add_memory(app_name=app, user_id=user, memories=[entry("x"), entry("y")])
    embedder.failure = None
    assert await memory.embed_pending(app_name="app") == 4
    assert await memory.embed_pending(app_name="app") == 0
    assert await memory.embed_pending() == 4


async def test_batches_have_the_size_that_is_set(database_url: str) -> None:
    embedder = BrokenEmbedder(failure=raises)
    settings = Settings(embedding_batch_size=4)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(database, embedder=embedder)
        await memory.add_session_to_memory(conversation(*(f"turn {n}" for n in range(10))))
        embedder.failure = None
        assert await memory.embed_pending() == 10
    assert [len(batch) for batch in embedder.documents] == [4, 4, 2]
    # What failed before comes last, so that it holds nothing up.
    asked = [text for batch in embedder.documents for text in batch]
    assert embedder.documents[0] == [f"user: turn {n}" for n in range(4, 8)]
    assert sorted(asked) == [f"user: turn {n}" for n in range(10)]


async def test_batches_before_a_failure_stay_embedded(database_url: str) -> None:
    async def fails_at_the_third(texts: list[str]) -> list[list[float]]:
        if "user: turn 8" in texts:
            raise RuntimeError("no quota")
        return await ToyEmbedder().embed_documents(texts)

    settings = Settings(embedding_batch_size=4)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(
            database, embedder=BrokenEmbedder(failure=fails_at_the_third)
        )
        await memory.add_session_to_memory(conversation(*(f"turn {n}" for n in range(10))))
        (hit,) = [
            hit
            for hit in await memory.search(**USER, query="turn 3", top_k=10)
            if hit.memory.content.parts and hit.memory.content.parts[0].text == "turn 3"
        ]
        assert hit.reason.cosine is not None
        with pytest.raises(ModelError):
            await memory.embed_pending()


async def test_a_cancelled_ingest_leaves_the_memories_pending(
    database: Database, connection: asyncpg.Connection
) -> None:
    embedder = GatedEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    ingest = asyncio.create_task(memory.add_session_to_memory(conversation("my kitten sleeps")))
    await embedder.asked.wait()
    ingest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ingest
    assert await pending(connection) == 1
    assert await found(memory, "kitten") == ["my kitten sleeps"]
    embedder.gate.set()
    assert await memory.embed_pending() == 1


async def test_nothing_is_open_while_the_embedder_works(
    database: Database, connection: asyncpg.Connection
) -> None:
    embedder = GatedEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    ingest = asyncio.create_task(memory.add_session_to_memory(conversation("my kitten sleeps")))
    await embedder.asked.wait()
    others = await connection.fetch(
        "SELECT state, query FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    assert [row["state"] for row in others] == ["idle"] * len(others)
    assert len(others) >= 1
    assert await connection.fetchval("SELECT body FROM memories") == "user: my kitten sleeps"
    embedder.gate.set()
    await ingest


async def test_an_embedder_may_use_the_only_connection(database_url: str) -> None:
    settings = Settings(pool_size=1, pool_timeout_s=5)
    async with Database(database_url, settings=settings) as database:

        class Reader(ToyEmbedder):
            async def embed_documents(self, texts: list[str]) -> list[list[float]]:
                assert await database.current() is not None
                return await super().embed_documents(texts)

            async def embed_query(self, text: str) -> list[float]:
                assert await database.current() is not None
                return await super().embed_query(text)

        memory = PgVectorMemoryService(database, embedder=Reader())
        await memory.add_session_to_memory(conversation("my kitten sleeps"))
        assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_a_memory_that_changes_while_it_is_embedded_gets_its_own_vector(
    database: Database,
) -> None:
    gated = GatedEmbedder()
    slow = PgVectorMemoryService(database, embedder=gated)
    broken = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=raises))
    ingest = asyncio.create_task(slow.add_session_to_memory(session_of(said("kitten", "e"))))
    await gated.asked.wait()
    await broken.add_session_to_memory(session_of(said("hound", "e")))
    gated.gate.set()
    await ingest
    await slow.embed_pending()
    assert await found(slow, "feline") == []
    assert await found(slow, "puppy") == ["hound"]


async def test_a_hybrid_search_without_its_embedder_answers_by_words(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class Mute(ToyEmbedder):
        async def embed_query(self, _text: str) -> list[float]:
            raise RuntimeError("no quota")

    memory = PgVectorMemoryService(database, embedder=Mute())
    await remember_apart(memory, "my kitten sleeps")
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        assert await found(memory, "kitten") == ["my kitten sleeps"]
    assert "by words alone" in caplog.text
    with pytest.raises(ModelError, match="RuntimeError"):
        await memory.search(**USER, query="kitten", mode="vector")


async def test_a_question_with_a_wrong_vector_is_answered_by_words(database: Database) -> None:
    class Long(ToyEmbedder):
        async def embed_query(self, _text: str) -> list[float]:
            return [1.0] * 9

    memory = PgVectorMemoryService(database, embedder=Long())
    await remember_apart(memory, "my kitten sleeps")
    assert await found(memory, "kitten") == ["my kitten sleeps"]
    with pytest.raises(ModelError):
        await memory.search(**USER, query="kitten", mode="vector")


async def test_without_an_embedder_there_is_nothing_to_catch_up_with(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    for call in (memory.embed_pending(), memory.index_large_scopes()):
        with pytest.raises(ConfigurationError, match="embedder"):
            await call
