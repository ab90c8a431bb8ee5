"""`flush` waits until nothing is due, and no longer."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import (
    Backlog,
    Database,
    DatabaseSessionService,
    Jobs,
    PgVectorMemoryService,
    Settings,
)
from adkpg.errors import (
    ModelNotActive,
)
from tests.fakes.conversation import conversation, entry, found, pending, said, wait
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder


async def test_flush_returns_when_nothing_waits(
    words: PgVectorMemoryService, memory: PgVectorMemoryService, jobs: Jobs
) -> None:
    await memory.flush()
    for user in ("a", "b"):
        await wait(words, "kitten", "hound", user=user)
    await memory.flush(app_name="other", timeout_s=30)
    assert (await jobs.backlog()).waiting == 4
    await memory.flush(app_name="app", timeout_s=30)
    assert (await jobs.backlog()).waiting == 0
    await wait(words, "again", user="c")
    await memory.flush(timeout_s=30)
    assert (await jobs.backlog()).waiting == 0


async def test_flush_of_an_app_comes_to_a_user_whose_id_is_empty(
    words: PgVectorMemoryService, memory: PgVectorMemoryService, jobs: Jobs
) -> None:
    for user in ("", "a"):
        await wait(words, "kitten", user=user)
    await memory.flush(app_name="app", timeout_s=30)
    assert (await jobs.backlog()).waiting == 0


async def test_flush_waits_for_another_worker(
    words: PgVectorMemoryService, memory: PgVectorMemoryService, database: Database, jobs: Jobs
) -> None:
    await wait(words, "kitten")
    gated = GatedEmbedder()
    other = asyncio.create_task(PgVectorMemoryService(database, embedder=gated).embed_pending())
    await gated.asked.wait()
    with pytest.raises(TimeoutError):
        await memory.flush(timeout_s=0.2)
    flush = asyncio.create_task(memory.flush(timeout_s=30))
    gated.gate.set()
    assert await other == 1
    await flush
    assert (await jobs.backlog()).waiting == 0


async def test_flush_does_not_wait_for_the_dead(database_url: str, jobs: Jobs) -> None:
    async def refuses(texts: list[str]) -> list[list[float]]:
        if any("kitten" in text for text in texts):
            raise ValueError("too long")
        return await ToyEmbedder().embed_documents(texts)

    async with Database(database_url, settings=Settings(job_max_attempts=1)) as database:
        memory = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=refuses))
        await memory.add_session_to_memory(conversation("kitten"))
        await memory.flush(timeout_s=30)
    assert await jobs.backlog() == Backlog("embed", 0, 0, 1, (await jobs.backlog()).error)


async def test_flush_tries_again_what_failed_once_it_is_due(
    database: Database, connection: asyncpg.Connection
) -> None:
    embedder = BrokenEmbedder()
    calls = 0

    async def fails_once(texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionResetError
        return await ToyEmbedder().embed_documents(texts)

    embedder.failure = fails_once
    memory = PgVectorMemoryService(database, embedder=embedder)
    await PgVectorMemoryService(database, mode="text").add_session_to_memory(conversation("kitten"))
    flush = asyncio.create_task(memory.flush(timeout_s=60))
    while not calls:
        await asyncio.sleep(0)
    await connection.execute("UPDATE memory_jobs SET due_at = now()")
    await flush
    assert calls == 2


async def test_flush_says_at_once_that_the_app_has_another_model(
    memory: PgVectorMemoryService, database: Database, words: PgVectorMemoryService
) -> None:
    await memory.add_session_to_memory(conversation("kitten"))
    await words.add_session_to_memory(conversation("hound", session_id="2"))
    other = PgVectorMemoryService(database, embedder=ToyEmbedder("other"))
    for scope in ({"app_name": "app"}, {}):
        with pytest.raises(ModelNotActive, match="'toy'"):
            await other.flush(**scope, timeout_s=30)
    # Its own apps come first, and nobody else's are needed for them.
    mine: dict[str, Any] = {"app_name": "mine", "user_id": "user"}
    await words.add_memory(**mine, memories=[entry("kitten")])
    with pytest.raises(ModelNotActive):
        await other.flush(timeout_s=30)
    assert await found(other, "feline", **mine) == ["kitten"]
    await other.flush(app_name="mine", timeout_s=30)


async def test_flush_without_an_embedder_waits_for_nobody(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await wait(words, "kitten")
    await words.flush()
    assert await pending(connection) == 1


async def test_appends_of_many_users_are_flushed(
    database: Database, memory: PgVectorMemoryService, embedder: ToyEmbedder
) -> None:
    sessions = DatabaseSessionService(database, remember=True)
    for user in range(12):
        session = await sessions.create_session(app_name="app", user_id=f"u{user}")
        for turn in range(3):
            await sessions.append_event(session, said(f"turn {turn}"))
    await memory.flush(timeout_s=60)
    assert sum(map(len, embedder.documents)) == 36
