"""Services that remember what is appended, that embed nothing, and the queue between them."""

import pytest

from adkpg import Database, DatabaseSessionService, Jobs, PgVectorMemoryService
from adkpg.memory.queue.claims import Claims


@pytest.fixture
def outbox(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, remember=True)


@pytest.fixture
def jobs(database: Database) -> Jobs:
    return Jobs(database, work="embed")


@pytest.fixture
def claims(database: Database) -> Claims:
    return Claims(database, work="embed")


@pytest.fixture
def words(database: Database) -> PgVectorMemoryService:
    """A service that leaves all vectors to others."""
    return PgVectorMemoryService(database, mode="text")
