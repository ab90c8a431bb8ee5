"""A memory service whose embedder hangs, lies or is away: nothing is lost, no one waits long."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.embedding import CallableEmbedder, OpenAIEmbedder
from adkpg.errors import ModelUnavailable
from adkpg.outages.breaker import Breakers
from tests.fakes.clock import Clock
from tests.fakes.conversation import (
    USER,
    conversation,
    entry,
    found,
    pending,
    remember_apart,
    text_of,
    wait,
)
from tests.fakes.embedding_functions import DIMENSIONS, embedder_of
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request, vector_of
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.fault

SHORT_S = 0.05
NOT_ASKED = "is away and not asked for another"


@dataclass
class HangingEmbedder(ToyEmbedder):
    """Never answers, until it is mended by letting `hangs` be False; keeps what it was asked."""

    hangs: bool = True
    asked: list[str] = field(default_factory=list)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        if self.hangs:
            await asyncio.Event().wait()
        return await super().embed_documents(texts)

    async def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        if self.hangs:
            await asyncio.Event().wait()
        return await super().embed_query(text)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def hasty(database_url: str, clock: Clock) -> AsyncIterator[Database]:
    """A database whose services wait for no embedder for long, and pause by the test's clock."""
    settings = Settings(search_timeout_s=SHORT_S, embedding_timeout_s=SHORT_S)
    async with Database(database_url, settings=settings) as database:
        database.breakers = Breakers(clock)
        yield database


@pytest.fixture
async def searching(database_url: str, clock: Clock) -> AsyncIterator[Database]:
    """As `hasty`, but batches have time."""
    async with Database(database_url, settings=Settings(search_timeout_s=SHORT_S)) as database:
        database.breakers = Breakers(clock)
        yield database


async def test_searches_answer_by_words_while_the_embedder_hangs_and_say_so(
    searching: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await remember_apart(PgVectorMemoryService(searching, mode="text"), "my kitten sleeps")
    embedder = HangingEmbedder()
    memory = PgVectorMemoryService(searching, embedder=embedder)
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        for query in ("kitten", "kitten?", "my kitten", "sleeps"):
            (hit,) = await memory.search(**USER, query=query)
            assert text_of(hit.memory) == "my kitten sleeps"
            assert hit.reason.cosine is None
            assert hit.reason.words_alone is not None
            assert "gave no answer within 0.05 s" in hit.reason.words_alone
    assert embedder.asked == ["kitten"]
    assert caplog.text.count("answers by words alone") == 1
    with pytest.raises(ModelUnavailable, match=NOT_ASKED):
        await memory.search(**USER, query="feline", mode="vector")
    (hit,) = await memory.search(**USER, query="kitten", mode="text")
    assert hit.reason.words_alone is None, "nobody asked for vectors"


async def test_a_search_for_vectors_alone_fails_in_time(hasty: Database) -> None:
    memory = PgVectorMemoryService(hasty, embedder=HangingEmbedder())
    with pytest.raises(ModelUnavailable, match="ADKPG_SEARCH_TIMEOUT_S"):
        await memory.search(**USER, query="feline", mode="vector")


async def test_searches_ask_again_after_a_pause_and_find_by_meaning_when_it_is_back(
    hasty: Database, clock: Clock
) -> None:
    await remember_apart(PgVectorMemoryService(hasty, embedder=ToyEmbedder()), "my kitten sleeps")
    embedder = HangingEmbedder()
    memory = PgVectorMemoryService(hasty, embedder=embedder)
    assert await found(memory, "feline") == []
    embedder.hangs = False
    assert await found(memory, "feline") == []
    clock.now += 10
    assert await found(memory, "feline") == ["my kitten sleeps"]
    (hit,) = await memory.search(**USER, query="kitten")
    assert hit.reason.words_alone is None


async def test_ingests_end_in_time_and_lose_nothing(
    hasty: Database, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = HangingEmbedder()
    memory = PgVectorMemoryService(hasty, embedder=embedder)
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        await memory.add_session_to_memory(conversation("my kitten sleeps"))
        await memory.add_memory(**USER, memories=[entry("a hound")])
    assert embedder.asked == ["user: my kitten sleeps"]
    assert caplog.text.count("wait for vectors") == 1
    rows = await connection.fetch("SELECT attempts, lease_expires_at FROM memory_jobs")
    assert [tuple(row) for row in rows] == [(0, None)] * 2
    assert await found(memory, "kitten") == ["my kitten sleeps"]
    embedder.hangs = False
    assert await memory.embed_pending() == 2, "who asks for it has it asked again"
    assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_flush_ends_with_its_time_while_the_embedder_hangs(
    hasty: Database, connection: asyncpg.Connection
) -> None:
    memory = PgVectorMemoryService(hasty, embedder=HangingEmbedder())
    await wait(memory, "kitten")
    with pytest.raises(TimeoutError):
        await memory.flush(timeout_s=0.3)
    assert await pending(connection) == 1


async def test_a_function_that_blocks_its_thread_holds_up_nobody(hasty: Database) -> None:
    release = threading.Event()

    def blocks(texts: list[str]) -> list[list[float]]:
        release.wait()
        return [vector_of(text, DIMENSIONS) for text in texts]

    memory = PgVectorMemoryService(hasty, embedder=embedder_of(blocks))
    try:
        await memory.add_memory(**USER, memories=[entry("my kitten sleeps")])
        assert await found(memory, "kitten") == ["my kitten sleeps"]
    finally:
        release.set()


async def test_an_embedder_that_swallows_its_cancellation_is_left_behind(hasty: Database) -> None:
    release = asyncio.Event()

    async def stubborn(_texts: list[str]) -> list[list[float]]:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return []

    embedder = CallableEmbedder(stubborn, model="stubborn", dimensions=DIMENSIONS)
    memory = PgVectorMemoryService(hasty, embedder=embedder)
    try:
        await memory.add_memory(**USER, memories=[entry("my kitten sleeps")])
        assert await found(memory, "kitten") == ["my kitten sleeps"]
    finally:
        release.set()


async def test_warming_asks_the_embedder_before_the_first_search(hasty: Database) -> None:
    embedder = HangingEmbedder()
    memory = PgVectorMemoryService(hasty, embedder=embedder)
    with pytest.raises(ModelUnavailable):
        await memory.warm()
    embedder.hangs = False
    await memory.warm(timeout_s=30)
    assert len(embedder.asked) == 2
    await PgVectorMemoryService(hasty, mode="text").warm()


def answer(request: Request) -> Reply:
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, DIMENSIONS)}
        for index, text in enumerate(request.body["input"])
    ]
    return Reply({"object": "list", "model": "m", "data": data, "usage": {}})


@dataclass
class Mood:
    """What a server answers until further notice; None embeds."""

    reply: Reply | None

    def __call__(self, request: Request) -> Reply:
        return self.reply or answer(request)


@pytest.fixture
def mood() -> Mood:
    return Mood(Reply({"error": {"message": "quota"}}, 429, {"retry-after": "600"}))


@pytest.fixture
def remote(mood: Mood) -> Iterator[EmbeddingServer]:
    remote = EmbeddingServer(mood)
    yield remote
    remote.close()


def openai(remote: EmbeddingServer) -> OpenAIEmbedder:
    url = f"{remote.url}/v1"
    return OpenAIEmbedder("m", dimensions=DIMENSIONS, api_key="key", base_url=url)


async def test_a_service_out_of_quota_is_asked_once_a_pause_by_searches_and_ingests(
    database_url: str, remote: EmbeddingServer, mood: Mood, clock: Clock
) -> None:
    async with Database(database_url) as database:
        database.breakers = Breakers(clock)
        memory = PgVectorMemoryService(database, embedder=openai(remote))
        for number in range(5):
            await memory.add_memory(**USER, memories=[entry(f"turn {number}")])
            assert len(await found(memory, f"turn {number}")) == number + 1
        assert len(remote.requests) == 1
        clock.now += 290
        await found(memory, "turn")
        assert len(remote.requests) == 1, "as long as the server asks, up to five minutes"
        mood.reply = None
        clock.now += 20
        await memory.add_memory(**USER, memories=[entry("it is back")])
        hits = await memory.search(**USER, query="back")
        assert all(hit.reason.cosine is not None for hit in hits)


async def test_a_service_that_keeps_silent_costs_one_deadline(
    hasty: Database, remote: EmbeddingServer, mood: Mood, connection: asyncpg.Connection
) -> None:
    mood.reply = Reply(silent=True)
    memory = PgVectorMemoryService(hasty, embedder=openai(remote))
    for number in range(3):
        await memory.add_memory(**USER, memories=[entry(f"turn {number}")])
        assert len(await found(memory, f"turn {number}")) == number + 1
    # A deadline so short may pass before the request is sent.
    assert len(remote.requests) <= 1
    assert await pending(connection) == 3
