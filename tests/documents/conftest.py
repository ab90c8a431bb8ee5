"""A memory service with a toy embedder, its documents, and a connection to look behind them."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.documents.service import Documents
from tests.memory.toys import ToyEmbedder


@pytest.fixture
def embedder() -> ToyEmbedder:
    return ToyEmbedder()


@pytest.fixture
def memory(database: Database, embedder: ToyEmbedder) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, embedder=embedder)


@pytest.fixture
def documents(memory: PgVectorMemoryService) -> Documents:
    return Documents(memory)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, with adkpg's schema on its path."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("SET search_path = adkpg, public")
    yield opened
    await opened.close()
