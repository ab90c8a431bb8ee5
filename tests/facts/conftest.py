"""Facts over a real database, with a model that follows a script."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.facts.llm import FactExtractor
from adkpg.facts.service import Facts
from tests.facts.model import FactsLlm, Script
from tests.memory.toys import ToyEmbedder


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def extractor(script: Script) -> FactExtractor:
    return FactExtractor(FactsLlm.following(script))


@pytest.fixture
def embedder() -> ToyEmbedder:
    return ToyEmbedder()


@pytest.fixture
def memory(database: Database, embedder: ToyEmbedder) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, embedder=embedder)


@pytest.fixture
async def facts(memory: PgVectorMemoryService, extractor: FactExtractor) -> Facts:
    """Facts of an app that has extraction switched on."""
    switched_on = Facts(memory, extractor)
    await switched_on.enable("app")
    return switched_on


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, with adkpg's schema on its path."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("SET search_path = adkpg, public")
    yield opened
    await opened.close()
