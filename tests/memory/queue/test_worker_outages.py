"""Workers whose embedder hangs or is away, and whose other errors pass."""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError
from adkpg.memory.queue.worker import Worker
from adkpg.memory.vectors.vectors import Vectors
from adkpg.memory.vectors.work import Embedding
from adkpg.outages.breaker import Breakers
from tests.fakes.clock import Clock
from tests.fakes.conversation import wait
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder, ToyEmbedder

pytestmark = pytest.mark.fault


def embedding(database: Database, embedder: ToyEmbedder) -> Embedding:
    return Embedding(Vectors(database, embedder))


async def jobs(connection: asyncpg.Connection) -> list[tuple[bool, int]]:
    """Whether each job is claimed, and how often it was."""
    rows = await connection.fetch("SELECT lease_expires_at, attempts FROM memory_jobs")
    return [(row["lease_expires_at"] is not None, row["attempts"]) for row in rows]


async def test_a_worker_whose_embedder_hangs_stops_and_gives_back_what_it_has_claimed(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for user in range(4):
        await wait(words, "kitten", user=f"u{user}")
    gated, stop = GatedEmbedder(), asyncio.Event()
    worker = Worker([embedding(database, gated)], poll_interval_s=0.01, stop_timeout_s=0.05)
    run = asyncio.create_task(worker.run(stop))
    await gated.asked.wait()
    stop.set()
    assert await asyncio.wait_for(run, 30) == 0
    assert await jobs(connection) == [(False, 0)] * 4


async def test_run_worker_stops_though_its_embedder_never_answers(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await wait(words, "kitten")
    gated, stop = GatedEmbedder(), asyncio.Event()
    run = asyncio.create_task(PgVectorMemoryService(database, embedder=gated).run_worker(stop))
    await gated.asked.wait()
    stop.set()
    assert await asyncio.wait_for(run, 30) == 0
    assert await jobs(connection) == [(False, 0)]


async def test_a_worker_asks_an_embedder_that_is_away_once_a_pause_and_uses_up_no_attempt(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    asked = 0

    async def down(_texts: list[str]) -> list[list[float]]:
        nonlocal asked
        asked += 1
        raise ConnectionRefusedError

    for user in range(10):
        await wait(words, "kitten", user=f"u{user}")
    database.breakers = Breakers(clock := Clock())
    embedder, stop = BrokenEmbedder(failure=down), asyncio.Event()
    work = embedding(database, embedder)
    worker = Worker([work], poll_interval_s=0.001, concurrency=1)
    run = asyncio.create_task(worker.run(stop))
    for outage in range(1, 6):
        async with asyncio.timeout(30):
            while asked < outage or not work.pause_s():
                await asyncio.sleep(0.001)
        assert asked == outage
        assert work.pause_s() >= 2.0 ** (outage - 1) / 2
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
        clock.now += 2.0 ** (outage - 1)
    embedder.failure = None
    clock.now += 60
    async with asyncio.timeout(60):
        while await connection.fetchval("SELECT count(*) FROM memory_jobs"):
            assert all(attempts <= 1 for _, attempts in await jobs(connection))
            await connection.execute("UPDATE memory_jobs SET due_at = now()")
    stop.set()
    assert await run == 10


class ClientError(Exception):
    """As botocore's."""

    response: ClassVar = {"ResponseMetadata": {"HTTPStatusCode": 503}}


class VoyageError(Exception):
    http_status = 503


class BadRequest(Exception):
    """Also what a wrong key or the name of no model is answered with."""

    status_code = 400


@pytest.mark.parametrize("error", [ClientError, VoyageError, BadRequest, RuntimeError, KeyError])
async def test_an_outage_in_whatever_words_uses_up_no_attempt_and_is_over_when_it_is_over(
    database_url: str, connection: asyncpg.Connection, error: type[Exception]
) -> None:
    asked = 0

    async def down(_texts: list[str]) -> list[list[float]]:
        nonlocal asked
        asked += 1
        raise error("away")

    settings = Settings(job_max_attempts=1)
    async with Database(database_url, settings=settings) as database:
        words = PgVectorMemoryService(database, mode="text")
        for user in "abcd":
            await wait(words, *(f"kitten {n}" for n in range(5)), user=user)
        embedder = BrokenEmbedder(failure=down)
        worker = Worker([embedding(database, embedder)], concurrency=1)
        for round_ in range(1, 6):
            assert await worker.run_once() == 0
            assert asked == 2 * round_, "one batch, and whether it answers anything"
            assert await jobs(connection) == [(False, 0)] * 20
            await connection.execute("UPDATE memory_jobs SET due_at = now()")
        embedder.failure = None
        assert await worker.run_once() == 20


async def test_a_text_that_is_at_fault_holds_up_no_other_and_is_given_up_alone(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async def refuses(texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise RuntimeError("cannot be read")
        return await ToyEmbedder().embed_documents(texts)

    settings = Settings(job_max_attempts=2)
    async with Database(database_url, settings=settings) as database:
        words = PgVectorMemoryService(database, mode="text")
        await wait(words, "kitten", "poison", "puppy")
        worker = Worker([embedding(database, BrokenEmbedder(failure=refuses))])
        await worker.run_once()
        assert await jobs(connection) == [(False, 1)], "the others have their vectors"
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
        await worker.run_once()
        assert await connection.fetchval("SELECT dead FROM memory_jobs")


@dataclass
class Failing:
    """Work whose users cannot be read a few times."""

    failures: list[Exception] = field(default_factory=list)
    asked: int = 0
    name: str = "failing"

    def pause_s(self) -> float:
        return 0.0

    def forgive(self) -> None:
        """It is never away."""

    async def due_users(self) -> list[tuple[str, str]]:
        self.asked += 1
        if self.failures:
            raise self.failures.pop()
        return []

    async def work(self, app_name: str, user_id: str) -> int:
        raise AssertionError


async def test_no_error_of_ours_ends_a_worker_but_a_wrong_schema(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work, stop = Failing([ConfigurationError("It cannot work now.")] * 2), asyncio.Event()
    run = asyncio.create_task(Worker([work], poll_interval_s=0.001).run(stop))
    async with asyncio.timeout(30):
        while work.asked < 4:
            await asyncio.sleep(0.001)
    stop.set()
    assert await run == 0
    assert caplog.text.count("It cannot work now.") == 2
