"""Idle connections that a network device forgot: nobody's call fails for them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from adkpg.database import connections
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.testing import said, texts
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.fault

USERS = [f"user {number}" for number in range(6)]


def key(user_id: str) -> Any:
    return {"app_name": "app", "user_id": user_id}


async def warm(database: Database) -> None:
    """Fills the pool: each transaction holds a connection until all have one."""
    together = asyncio.Barrier(len(USERS))

    async def hold() -> None:
        async with database.run.transaction():
            await together.wait()

    await asyncio.gather(*(hold() for _ in USERS))


@pytest.fixture
async def own(proxy: Proxy) -> AsyncIterator[Database]:
    async with Database(proxy.url) as opened:
        yield opened


@pytest.fixture
async def live(own: Database, database_url: str) -> list[Session]:
    service = DatabaseSessionService(own)
    live = [await service.create_session(**key(user_id), session_id="s") for user_id in USERS]
    await warm(own)
    return live


@pytest.fixture
def doubting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every idle connection has been idle for long."""
    monkeypatch.setattr(connections, "_LONGEST_IDLE_S", 0)
    monkeypatch.setattr(connections, "_LONGEST_PING_S", 0.3)


async def test_appends_and_reads_are_sent_again(
    own: Database, live: list[Session], proxy: Proxy
) -> None:
    service = DatabaseSessionService(own)
    proxy.forget()
    await asyncio.gather(*(service.append_event(session, said("x")) for session in live))
    assert all(texts(session) == ["x"] for session in live)
    await warm(own)
    proxy.forget()
    reads = (service.get_session(**key(user_id), session_id="s") for user_id in USERS)
    assert [texts(each) for each in await asyncio.gather(*reads)] == [["x"]] * len(USERS)


async def test_transactions_begin_on_another_connection(
    own: Database, live: list[Session], proxy: Proxy
) -> None:
    proxy.forget()
    await warm(own)
    first = live[0]
    assert first == await DatabaseSessionService(own).get_session(
        app_name=first.app_name, user_id=first.user_id, session_id=first.id
    )


@pytest.mark.usefixtures("doubting")
@pytest.mark.parametrize("silently", [False, True])
async def test_connections_that_were_idle_for_long_are_asked_first(
    own: Database, live: list[Session], proxy: Proxy, silently: bool
) -> None:
    service = DatabaseSessionService(own)
    proxy.forget(silently=silently)
    creates = (service.create_session(**key(user_id), session_id="t") for user_id in USERS)
    assert len(await asyncio.gather(*creates)) == len(USERS)
    proxy.cut()


@pytest.mark.usefixtures("doubting")
async def test_a_cancelled_question_leaves_no_connection_behind(
    own: Database, live: list[Session], proxy: Proxy
) -> None:
    service = DatabaseSessionService(own)
    proxy.forget(silently=True)

    async def impatient(user_id: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await service.get_user_state(**key(user_id))

    await asyncio.gather(*map(impatient, USERS))
    proxy.cut()
    engine = await own.engine()
    pool: Any = engine.pool
    assert pool.checkedout() == 0


@pytest.mark.usefixtures("impatient")
async def test_an_append_that_a_network_cut_twice_is_not_sent_a_third_time(
    own: Database, live: list[Session], proxy: Proxy
) -> None:
    service = DatabaseSessionService(own)
    proxy.lose_answers = 2
    with pytest.raises(DatabaseUnavailable):
        await service.append_event(live[0], said("x"))
    assert live[0].events == []
