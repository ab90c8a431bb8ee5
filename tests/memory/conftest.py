"""A memory service with a toy embedder, and a plain connection to look behind it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.queue.jobs import Jobs
from tests.memory.toys import ToyEmbedder


@pytest.fixture
def embedder() -> ToyEmbedder:
    return ToyEmbedder()


@pytest.fixture
def memory(database: Database, embedder: ToyEmbedder) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, embedder=embedder)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, with adkpg's schema on its path."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("SET search_path = adkpg, public")
    yield opened
    await opened.close()


@pytest.fixture
def outbox(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, remember=True)


@pytest.fixture
def jobs(database: Database) -> Jobs:
    return Jobs(database, "embed")


@pytest.fixture
def words(database: Database) -> PgVectorMemoryService:
    """A service that leaves all vectors to others."""
    return PgVectorMemoryService(database, mode="text")
