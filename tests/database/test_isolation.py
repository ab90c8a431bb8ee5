"""Servers whose default is a stricter isolation than READ COMMITTED, which the statements need."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.testing import said, texts
from tests.fakes.locks import locked

pytestmark = pytest.mark.race

WRITERS = 6


@pytest.fixture(params=["repeatable read", "serializable"])
async def strict(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Database]:
    admin = await asyncpg.connect(database_url)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(
        f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{request.param}'"
    )
    await admin.close()
    async with Database(database_url) as opened:
        yield opened


async def test_writers_of_one_state(strict: Database, database_url: str) -> None:
    service = DatabaseSessionService(strict)
    live = [
        await service.create_session(app_name="app", user_id=f"u{number}", state={"app:n": 0})
        for number in range(WRITERS)
    ]
    async with locked(database_url, "SELECT FROM adkpg.app_states FOR UPDATE") as lock:
        appends = [
            asyncio.ensure_future(service.append_event(session, said("x", state={f"app:{n}": n})))
            for n, session in enumerate(live)
        ]
        await lock.until_blocked(WRITERS)
        await lock.release()
        await asyncio.gather(*appends)
    created = await service.create_session(app_name="app", user_id="new")
    assert created.state == {"app:n": 0, **{f"app:{n}": n for n in range(WRITERS)}}


async def test_writers_that_merge_into_one_session(strict: Database, database_url: str) -> None:
    service = DatabaseSessionService(strict, on_conflict="merge")
    session = await service.create_session(app_name="app", user_id="u", session_id="s")
    copies = [session.model_copy(deep=True) for _ in range(WRITERS)]
    async with locked(database_url) as lock:
        appends = [
            asyncio.ensure_future(service.append_event(copy, said(str(n))))
            for n, copy in enumerate(copies)
        ]
        await lock.until_blocked(WRITERS)
        await lock.release()
        await asyncio.gather(*appends)
    found = await service.get_session(app_name="app", user_id="u", session_id="s")
    assert set(texts(found)) == set(map(str, range(WRITERS)))


async def test_an_event_that_is_delivered_many_times_at_once(
    strict: Database, database_url: str
) -> None:
    service = DatabaseSessionService(strict)
    session = await service.create_session(app_name="app", user_id="u", session_id="s")
    copies = [session.model_copy(deep=True) for _ in range(WRITERS)]
    event = said("once", id="e")
    async with locked(database_url) as lock:
        appends = [
            asyncio.ensure_future(service.append_event(copy, event.model_copy(deep=True)))
            for copy in copies
        ]
        await lock.until_blocked(WRITERS)
        await lock.release()
        await asyncio.gather(*appends)
    found = await service.get_session(app_name="app", user_id="u", session_id="s")
    assert texts(found) == ["once"]
    assert all(texts(copy) == ["once"] for copy in copies)
