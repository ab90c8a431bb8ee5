"""Which vectors are compared, and how well those of every size find what is nearest."""

from typing import Any

import asyncpg
import numpy as np
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import Busy, ConfigurationError, ModelNotActive
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from tests.fakes.conversation import USER, conversation, entry, found, remember_apart
from tests.fakes.locks import locked
from tests.fakes.toys import SeededEmbedder, ToyEmbedder


@pytest.mark.parametrize(
    "other",
    [ToyEmbedder(model="other"), ToyEmbedder(dimensions=9), ToyEmbedder("other", dimensions=1_400)],
    ids=["another model", "the model at another size", "a large one"],
)
async def test_vectors_of_another_model_are_never_compared(
    database: Database, connection: asyncpg.Connection, other: ToyEmbedder
) -> None:
    ours = PgVectorMemoryService(database, embedder=ToyEmbedder())
    theirs = PgVectorMemoryService(database, embedder=other)
    await remember_apart(ours, "the kitten sleeps")
    assert await found(theirs, "feline") == []
    await remember_apart(theirs, "the hound sleeps")
    assert await found(ours, "feline") == ["the kitten sleeps"]
    assert await found(theirs, "feline") == []
    hits = await theirs.search(**USER, query="sleeps")
    assert [hit.reason.cosine for hit in hits] == [None, None]
    with pytest.raises(ModelNotActive, match="adkpg reembed"):
        await theirs.search(**USER, query="feline", mode="vector")
    assert await ours.embed_pending() == 1
    assert (await found(ours, "puppy"))[0] == "the hound sleeps"


async def test_one_model_is_registered_once(
    database_url: str, connection: asyncpg.Connection
) -> None:
    for _ in range(3):
        async with PgVectorMemoryService(database_url, embedder=ToyEmbedder()) as memory:
            await remember_apart(memory, "the kitten sleeps")
    rows = await connection.fetch("SELECT name, dimensions FROM embedding_models")
    assert [tuple(row) for row in rows] == [("toy", 8)]


@pytest.mark.parametrize("dimensions", [384, 1_024, 1_025, 1_536, 3_072, 4_000])
async def test_any_size_of_vectors_finds_what_is_nearest(
    database: Database, connection: asyncpg.Connection, dimensions: int
) -> None:
    """Above 1,024 dimensions the signs choose whom the vectors rank; below, nothing is left out."""
    embedder = SeededEmbedder(dimensions=dimensions)
    memory = PgVectorMemoryService(database, embedder=embedder, mode="vector")
    texts = [f"turn {number}" for number in range(600)]
    await memory.add_memory(**USER, memories=[entry(text) for text in texts])
    large = await connection.fetchval("SELECT count(*) FROM memory_vectors WHERE bits IS NOT NULL")
    assert large == (600 if dimensions > 1_024 else 0)
    questions = [f"question {number}" for number in range(1_000, 1_010)]
    truth = embedder.nearest(questions, texts, 10)
    recalled = [
        len(set(await found(memory, question, top_k=10)) & nearest)
        for question, nearest in zip(questions, truth, strict=True)
    ]
    assert sum(recalled) >= 0.95 * 10 * len(questions)


async def test_cosines_are_those_of_the_vectors(database: Database) -> None:
    for embedder in (SeededEmbedder(dimensions=256), SeededEmbedder(dimensions=1_536)):
        memory = PgVectorMemoryService(database, embedder=embedder, mode="vector")
        user: dict[str, Any] = {"app_name": f"app {embedder.dimensions}", "user_id": "user"}
        await memory.add_memory(**user, memories=[entry("turn 1", "one"), entry("turn 2", "two")])
        for hit in await memory.search(**user, query="question 41"):
            text = {"one": "turn 1", "two": "turn 2"}[str(hit.memory.id)]
            a, b = np.array(embedder.vector(text)), np.array(embedder.vector("question 41"))
            cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
            assert hit.reason.cosine == pytest.approx(cosine, abs=2e-3)


@pytest.mark.parametrize("dimensions", [0, 4_001])
async def test_sizes_that_cannot_be_indexed_are_refused_at_once(
    database: Database, dimensions: int
) -> None:
    with pytest.raises(ConfigurationError, match="1 to 4000"):
        PgVectorMemoryService(database, embedder=SeededEmbedder(dimensions=dimensions))


@pytest.mark.parametrize(
    "scale", [1e-14, 1e-7, 70_000.0, 1e14], ids=["tiny", "small", "beyond halfvec", "huge"]
)
async def test_vectors_of_any_length_are_compared_by_their_direction(
    database: Database, scale: float
) -> None:
    class Scaled(ToyEmbedder):
        def vector(self, text: str, *, nothing: int) -> list[float]:
            return [value * scale for value in super().vector(text, nothing=nothing)]

    memory = PgVectorMemoryService(database, embedder=Scaled())
    await remember_apart(memory, "the kitten sleeps", "the hound sleeps")
    assert await found(memory, "feline") == ["the kitten sleeps"]
    (hit,) = await memory.search(**USER, query="feline")
    assert hit.reason.cosine == pytest.approx(1, abs=1e-3)


async def test_numbers_too_small_for_halfvec_count_as_nothing(database: Database) -> None:
    class Faint(ToyEmbedder):
        def vector(self, text: str, *, nothing: int) -> list[float]:
            vector = super().vector(text, nothing=nothing)
            return [value or 1e-320 for value in vector[:-2]] + [1e-30, 5e-324]

    memory = PgVectorMemoryService(database, embedder=Faint())
    await remember_apart(memory, "the kitten sleeps")
    assert await found(memory, "feline") == ["the kitten sleeps"]


async def test_a_memory_written_again_has_the_vector_of_its_last_words(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_session_to_memory(conversation("the kitten sleeps"))
    await memory.add_session_to_memory(conversation("the hound sleeps"))
    assert await found(memory, "feline") == []
    assert await found(memory, "puppy") == ["the hound sleeps"]
    assert await connection.fetchval("SELECT count(*) FROM memory_vectors") == 1


async def test_texts_are_embedded_with_their_author_and_nothing_after(
    memory: PgVectorMemoryService, embedder: ToyEmbedder
) -> None:
    await memory.add_memory(
        **USER,
        memories=[entry("the kitten sleeps", author="alice"), entry("\ud800 x\x00y")],
        custom_metadata={"k": "v"},
    )
    assert sorted(embedder.documents[0]) == ["alice: the kitten sleeps", "\ufffd x y"]


async def test_a_vector_that_cannot_be_stored_holds_up_no_other_and_is_not_made_again_soon(
    database: Database, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A paid embedder was asked for the whole batch again, each second, for ever."""
    for made in (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no room for it'; END $$",
        "SET citus.enable_unsafe_triggers = on",
        "CREATE TRIGGER refuse BEFORE INSERT ON memory_vectors FOR EACH ROW"
        " WHEN (NEW.position % 2 = 1) EXECUTE FUNCTION refuse()",
    ):
        await connection.execute(made)
    embedder = ToyEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_session_to_memory(conversation("kitten", "hound", "car", "tea"))
    assert "no room for it" in caplog.text
    assert await connection.fetchval("SELECT count(*) FROM memory_vectors") == 2
    refused = await connection.fetch(
        "SELECT attempts, dead, error, due_at > now() FROM memory_jobs"
    )
    assert len(embedder.documents) == 1
    assert [(row[0], row[1], "no room" in row[2], row[3]) for row in refused] == 2 * [
        (1, False, True, True)
    ]
    worker = Worker([Embedding(Vectors(database, embedder))])
    assert await worker.run_once() == 0
    assert len(embedder.documents) == 1


@pytest.mark.direct("the pooler refuses settings of the server in startup parameters")
async def test_a_database_in_trouble_uses_up_no_attempt(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    await remember_apart(PgVectorMemoryService(database, mode="text"), "kitten", "hound")
    embedder = ToyEmbedder()
    # On a cluster another node waits, by its own lock_timeout.
    impatient = {"server_settings": {"statement_timeout": "2s"}}
    async with Database(database_url, connect_args=impatient) as own:
        memory = PgVectorMemoryService(own, embedder=embedder)
        await memory.search(**USER, query="kitten")
        async with locked(database_url, "LOCK TABLE adkpg.memory_vectors"):
            with pytest.raises(Busy):
                await memory.embed_pending()
        jobs = await connection.fetch("SELECT attempts, lease_expires_at, error FROM memory_jobs")
        assert [(row[0], row[1], "Busy" in row[2]) for row in jobs] == 2 * [(0, None, True)]
        assert len(embedder.documents) == 1
        assert await memory.embed_pending() == 2


@pytest.mark.parametrize("dimensions", [1_024, 1_280, 1_536])
async def test_long_ids_have_room_beside_any_vector(database: Database, dimensions: int) -> None:
    """They did not fit into one entry of the index beside a vector of 1,280 dimensions."""
    user: dict[str, Any] = {"app_name": "a" * 200, "user_id": "\u00fc" * 150}
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder(dimensions=dimensions))
    await memory.add_memory(**user, memories=[entry("kitten")])
    assert await found(memory, "feline", **user) == ["kitten"]
