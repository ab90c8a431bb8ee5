"""Facts in a worker."""

import asyncpg
from google.adk.models.llm_response import LlmResponse

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Extracting, Facts
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from tests.fakes.conversation import USER, said
from tests.fakes.facts_llm import Script, add, operations
from tests.fakes.people import ANA, known, remember, waiting


async def test_a_worker_draws_facts_from_what_appends_remember(
    database: Database,
    memory: PgVectorMemoryService,
    facts: Facts,
    script: Script,
    connection: asyncpg.Connection,
) -> None:
    sessions = DatabaseSessionService(database, remember=True)
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("I have a cat.", "e1"))
    assert await waiting(connection) == 1
    assert memory.embedder is not None
    embedding = Embedding(Vectors(database, memory.embedder))
    worker = Worker([embedding, Extracting(facts)])
    script.says("no", "no")
    assert await worker.run_once() == 1, "embedded, and its extraction failed"
    await connection.execute("UPDATE memory_jobs SET due_at = now()")
    script.says(operations(add("Ana has a cat.", "t1")))
    while await worker.run_once():
        pass
    assert await known(facts) == ["Ana has a cat."]
    assert await waiting(connection) == await waiting(connection, "embed") == 0


async def test_a_model_that_is_down_is_asked_once_not_for_each_user(
    memory: PgVectorMemoryService, facts: Facts, script: Script
) -> None:
    for number in range(6):
        await remember(memory, 1, "I have a cat.", user_id=f"user{number}")
    script.says(*[LlmResponse(error_code="503")] * 6)
    worker = Worker([Extracting(facts)], concurrency=1)
    assert await worker.run_once() == 0
    assert len(script.requests) == 1


async def test_a_batch_of_one_user_does_not_hold_up_the_others(
    memory: PgVectorMemoryService, extractor: FactExtractor, script: Script
) -> None:
    facts = Facts(memory, extractor=extractor, batch_turns=2)
    await facts.enable("app")
    await remember(memory, 1, "One.", "Two.", "Three.")
    extracting = Extracting(facts)
    assert await extracting.due_users() == [ANA]
    assert [await extracting.work(*ANA) for _ in range(3)] == [2, 1, 0]
    assert await extracting.due_users() == []
