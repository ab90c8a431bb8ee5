"""An app with memories under one model, and what another knows of it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.models.service import Models
from tests.memory.toys import ToyEmbedder


@pytest.fixture
def models(database: Database) -> Models:
    return Models(database)


@pytest.fixture
def old(database: Database) -> PgVectorMemoryService:
    """The service that set the app's active model."""
    return PgVectorMemoryService(database, embedder=ToyEmbedder("old"))


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, with adkpg's schema on its path."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("SET search_path = adkpg, public")
    yield opened
    await opened.close()


@pytest.fixture
def by_threes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three texts in a batch."""
    settings = database.settings.model_copy(update={"embedding_batch_size": 3})
    monkeypatch.setattr(database, "settings", settings)
