"""An ingest of an app whose model is known: it claims what it writes, and embeds it meanwhile."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import ModelUnavailable
from adkpg.tooling.models.service import Models
from tests.fakes.conversation import USER, conversation, entry, found, said, session_of
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder

MANY = [said(f"the kitten of day {number}", f"e{number}") for number in range(70)]
JOBS = "SELECT attempts, lease_expires_at IS NOT NULL AS claimed, error FROM memory_jobs"
VECTORS = "SELECT count(*) FROM memory_vectors"


async def known(memory: PgVectorMemoryService) -> PgVectorMemoryService:
    """Has the service see that its model is the app's."""
    await memory.add_memory(**USER | {"user_id": "first"}, memories=[entry("a hound")])
    return memory


async def add(memory: PgVectorMemoryService, events: list[Any], **options: Any) -> None:
    await memory.add_events_to_memory(**USER, session_id="s", events=events, **options)


@pytest.mark.direct("a pooler's connections take round trips of their own")
@pytest.mark.parametrize(("turns", "round_trips"), [(1, 2), (16, 2), (17, 3), (70, 3)])
async def test_it_takes_two_round_trips_or_three(
    proxy: Proxy, connection: asyncpg.Connection, turns: int, round_trips: int
) -> None:
    embedder = ToyEmbedder()
    async with Database(proxy.url) as database:
        memory = await known(PgVectorMemoryService(database, embedder=embedder))
        await add(memory, [said("warms up", "warm")])
        await add(memory, [said(f"warms {number}", f"w{number}") for number in range(17)])
        session = session_of(*MANY[:turns], session_id="other")
        before = proxy.round_trips
        await memory.add_session_to_memory(session)
        assert proxy.round_trips - before == round_trips
        before = proxy.round_trips
        await memory.add_session_to_memory(session)  # nothing is new
        assert proxy.round_trips - before == 1
    assert await connection.fetch(JOBS) == []
    assert await connection.fetchval(VECTORS) == 1 + 1 + 17 + turns
    assert sum(map(len, embedder.documents)) == 1 + 1 + 17 + turns


async def test_what_is_known_is_not_embedded_again(
    memory: PgVectorMemoryService, embedder: ToyEmbedder, connection: asyncpg.Connection
) -> None:
    await known(memory)
    for count in (20, 40, 40, 70):
        await add(memory, MANY[:count])
    assert sum(map(len, embedder.documents)) == 1 + 70
    assert await connection.fetchval(VECTORS) == 1 + 70
    assert await connection.fetch(JOBS) == []


async def test_many_are_embedded_while_they_are_written(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    embedder = GatedEmbedder()
    embedder.gate.set()
    memory = await known(PgVectorMemoryService(database, embedder=embedder))
    embedder.asked.clear()
    embedder.gate.clear()
    async with locked(database_url, "LOCK TABLE adkpg.memories IN SHARE MODE") as lock:
        adding = asyncio.create_task(add(memory, MANY))
        await lock.until_blocked(1)
        await embedder.asked.wait()
        embedder.gate.set()
        await lock.release()
        await adding
    assert await connection.fetchval(VECTORS) == 1 + 70
    assert await connection.fetch(JOBS) == []


@pytest.mark.parametrize("turns", [3, 70])
async def test_one_that_is_cancelled_as_it_embeds_has_written_and_claims_nothing(
    database: Database, connection: asyncpg.Connection, turns: int
) -> None:
    embedder = GatedEmbedder()
    embedder.gate.set()
    memory = await known(PgVectorMemoryService(database, embedder=embedder))
    embedder.asked.clear()
    embedder.gate.clear()
    adding = asyncio.create_task(add(memory, MANY[:turns]))
    await embedder.asked.wait()
    async with asyncio.timeout(30):
        while len(jobs := await connection.fetch(JOBS)) < turns:
            assert not adding.done()
    assert all(job["claimed"] for job in jobs)
    adding.cancel()
    assert isinstance((await asyncio.gather(adding, return_exceptions=True))[0], BaseException)
    assert [tuple(job) for job in await connection.fetch(JOBS)] == turns * [(0, False, None)]
    embedder.gate.set()
    assert await memory.embed_pending() == turns


@pytest.mark.parametrize("turns", [3, 70])
async def test_one_that_is_cancelled_as_it_writes_claims_nothing(
    database: Database, database_url: str, connection: asyncpg.Connection, turns: int
) -> None:
    memory = await known(PgVectorMemoryService(database, embedder=ToyEmbedder()))
    async with locked(database_url, "LOCK TABLE adkpg.memories IN SHARE MODE") as lock:
        adding = asyncio.create_task(add(memory, MANY[:turns]))
        await lock.until_blocked(1)
        adding.cancel()
        await lock.release()
        with pytest.raises(asyncio.CancelledError):
            await adding
    jobs = [tuple(job) for job in await connection.fetch(JOBS)]
    assert jobs == len(jobs) * [(0, False, None)]
    await add(memory, MANY[:turns])
    assert await connection.fetch(JOBS) == []
    assert await connection.fetchval(VECTORS) == 1 + turns


@pytest.mark.parametrize("turns", [3, 70])
async def test_an_embedder_that_fails_meanwhile_leaves_them_to_be_tried_again(
    database: Database, connection: asyncpg.Connection, turns: int
) -> None:
    embedder = BrokenEmbedder()
    memory = await known(PgVectorMemoryService(database, embedder=embedder))

    async def away(_: list[str]) -> list[list[float]]:
        raise ModelUnavailable("away for lunch")

    embedder.failure = away
    await add(memory, MANY[:turns])
    jobs = await connection.fetch(JOBS)
    assert [(job["claimed"], "for lunch" in job["error"]) for job in jobs] == turns * [
        (False, True)
    ]
    assert await found(memory, "day", mode="text")
    embedder.failure = None
    assert await memory.embed_pending() == turns
    assert await connection.fetch(JOBS) == []


async def test_what_waited_before_is_embedded_too(
    words: PgVectorMemoryService, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await known(memory)
    await words.add_session_to_memory(conversation("a kitten", "a car", session_id="before"))
    await add(memory, MANY[:2])
    assert await connection.fetch(JOBS) == []
    assert await connection.fetchval(VECTORS) == 1 + 2 + 2


async def test_an_app_that_has_another_model_by_now_is_left_alone(
    database: Database, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    memory = await known(PgVectorMemoryService(database, embedder=ToyEmbedder()))
    other = ToyEmbedder(model="other", dimensions=9)
    models = Models(database)
    await models.reembed(app_name="app", embedder=other)
    await add(memory, MANY[:2])
    assert "is searched with model 'other'" in caplog.text
    assert [tuple(job) for job in await connection.fetch(JOBS)] == 2 * [(0, False, None)]
    assert await PgVectorMemoryService(database, embedder=other).embed_pending() == 2


@pytest.mark.direct("what a pooler loses is not what the server's client loses")
async def test_a_lost_answer_loses_no_claim(proxy: Proxy, connection: asyncpg.Connection) -> None:
    async with Database(proxy.url) as database:
        memory = await known(PgVectorMemoryService(database, embedder=ToyEmbedder()))
        await add(memory, [said("warms up", "warm")])
        proxy.lose_answers = 1
        await add(memory, MANY[:3])
        assert proxy.lose_answers == 0
    assert await connection.fetch(JOBS) == []
    assert await connection.fetchval(VECTORS) == 1 + 1 + 3
