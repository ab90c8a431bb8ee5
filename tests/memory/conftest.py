"""Services that remember what is appended, that embed nothing, and the queue between them."""

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.queue.jobs import Jobs


@pytest.fixture
def outbox(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, remember=True)


@pytest.fixture
def jobs(database: Database) -> Jobs:
    return Jobs(database, task="embed")


@pytest.fixture
def words(database: Database) -> PgVectorMemoryService:
    """A service that leaves all vectors to others."""
    return PgVectorMemoryService(database, mode="text")
