"""An extractor that hangs or is away."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest
from google.adk.models.llm_response import LlmResponse

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ModelUnavailable
from adkpg.facts.extractor import Extraction, KnownFact, Turn
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Extracting, Facts
from adkpg.memory.queue.worker import Worker
from adkpg.outages.breaker import Breakers
from tests.fakes.clock import Clock
from tests.fakes.conversation import USER
from tests.fakes.facts_llm import Script, add, operations
from tests.fakes.people import known, remember

pytestmark = pytest.mark.fault

UNCLAIMED = (
    "SELECT count(*) FROM memory_jobs "
    "WHERE work = 'extract' AND lease_expires_at IS NULL AND attempts = 0"
)


class Hanging:
    """An extractor that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.calls = 0

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        self.calls += 1
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
async def hasty(database_url: str) -> AsyncIterator[PgVectorMemoryService]:
    """A service that waits for no extractor for long."""
    settings = Settings(extraction_timeout_s=0.05)
    async with Database(database_url, settings=settings) as database:
        yield PgVectorMemoryService(database, mode="text")


async def test_an_extractor_that_hangs_is_given_up_and_not_asked_for_the_next_user(
    hasty: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    hanging = Hanging()
    facts = Facts(hasty, extractor=hanging)
    await facts.enable("app")
    for user in range(3):
        await remember(hasty, 1, "I have a cat.", user_id=f"user{user}")
    report = await facts.extract(app_name="app", user_id="user0")
    assert report.unavailable
    assert "ADKPG_EXTRACTION_TIMEOUT_S" in report.errors[0]
    report = await facts.extract_pending()
    assert report.unavailable
    assert "is away and not asked" in report.errors[0]
    with pytest.raises(ModelUnavailable, match="is away and not asked"):
        await Extracting(facts).work("app", "user1")
    assert hanging.calls == 1
    assert await connection.fetchval(UNCLAIMED) == 3


async def test_a_worker_whose_extractor_hangs_stops_and_gives_the_turns_back(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    hanging, stop = Hanging(), asyncio.Event()
    facts = Facts(memory, extractor=hanging)
    await facts.enable("app")
    await remember(memory, 1, "I have a cat.")
    run = asyncio.create_task(Worker([Extracting(facts)], stop_timeout_s=0.05).run(stop))
    await hanging.asked.wait()
    stop.set()
    assert await asyncio.wait_for(run, 30) == 0
    assert await connection.fetchval(UNCLAIMED) == 1


async def test_a_model_that_is_down_pauses_extraction_for_all_users(
    database: Database,
    memory: PgVectorMemoryService,
    extractor: FactExtractor,
    script: Script,
    connection: asyncpg.Connection,
) -> None:
    database.breakers = Breakers(clock := Clock())
    facts = Facts(memory, extractor=extractor)
    await facts.enable("app")
    for number in range(6):
        await remember(memory, 1, "I have a cat.", user_id=f"user{number}")
    await remember(memory, 1, "I have a cat.")
    script.says(*[LlmResponse(error_code="503")] * 3)
    extracting, stop = Extracting(facts), asyncio.Event()
    run = asyncio.create_task(Worker([extracting], poll_interval_s=0.001, concurrency=1).run(stop))
    for outage in range(1, 4):
        async with asyncio.timeout(30):
            while len(script.requests) < outage or not extracting.pause_s():
                await asyncio.sleep(0.001)
        assert len(script.requests) == outage
        assert extracting.pause_s() >= 2.0 ** (outage - 1) / 2
        await connection.execute("UPDATE memory_jobs SET due_at = now()")
        script.says(*[operations(add("Ana has a cat.", "t1"))] * (7 if outage == 3 else 0))
        clock.now += 2.0 ** (outage - 1)
    async with asyncio.timeout(60):
        while await connection.fetchval("SELECT count(*) FROM memory_jobs WHERE work = 'extract'"):
            await connection.execute("UPDATE memory_jobs SET due_at = now()")
    stop.set()
    assert await run == 7
    assert await known(facts, **USER) == ["Ana has a cat."]
