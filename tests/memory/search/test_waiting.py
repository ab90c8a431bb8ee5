"""A search says once that memories wait for a worker which does not come."""

import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import USER, said
from tests.fakes.toys import ToyEmbedder

_OLD = "UPDATE adkpg.memory_jobs SET created_at = now() - interval '2 minutes'"


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def remembered(
    database: Database, outbox: DatabaseSessionService, caplog: pytest.LogCaptureFixture
) -> PgVectorMemoryService:
    """One memory without a vector, and the service that is to find it."""
    session = await outbox.create_session(**USER)
    await outbox.append_event(session, said("the kitten sleeps"))
    caplog.set_level(logging.WARNING, "adkpg")
    return PgVectorMemoryService(database, embedder=ToyEmbedder())


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
async def test_what_waits_for_long_is_said_once(
    remembered: PgVectorMemoryService,
    admin: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mode: Mode,
) -> None:
    await remembered.search(**USER, query="feline", mode=mode)
    assert not caplog.records, "it has just been said"
    await admin.execute(_OLD)
    await remembered.search(**USER, query="feline", mode=mode)
    assert not caplog.records, "a search looks once a minute"
    monkeypatch.setattr("adkpg.memory.search.search.KEPT_S", 0.0)
    for _ in range(2):
        assert await remembered.search(**USER, query="feline", mode=mode) == []
    (record,) = caplog.records
    assert "run adkpg worker, or memory.run_worker()" in record.getMessage()
    await remembered.flush()
    assert len(await remembered.search(**USER, query="feline")) == 1


@pytest.mark.parametrize(
    "change", ["attempts = 1", "error = 'The embedder is away.'", "work = 'extract'"]
)
async def test_what_a_worker_came_to_is_not(
    remembered: PgVectorMemoryService,
    admin: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    change: str,
) -> None:
    await admin.execute(f"{_OLD}, {change}")
    await remembered.search(**USER, query="kitten")
    assert not caplog.records


async def test_other_users_work_is_not_theirs(
    remembered: PgVectorMemoryService, admin: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await admin.execute(_OLD)
    await remembered.search(app_name=USER["app_name"], user_id="other", query="kitten")
    assert not caplog.records
