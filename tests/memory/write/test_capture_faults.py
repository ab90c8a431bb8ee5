"""Appends that remember, cut or cancelled anywhere: event and memory are both there or neither."""

import asyncio
import contextlib

import asyncpg
import pytest

from adkpg import DatabaseSessionService, Settings
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.locks import locked
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.fault

GIVES_UP = Settings(retry_timeout_s=0)  # after a second try, which needs no pause


async def both(url: str) -> tuple[list[str], list[str]]:
    """The ids of the events that are stored, and of those that are remembered, in order."""
    connection = await asyncpg.connect(url)
    try:
        events = await connection.fetch("SELECT event_id FROM adkpg.events ORDER BY seq")
        memories = await connection.fetch("SELECT event_id FROM adkpg.memories ORDER BY position")
    finally:
        await connection.close()
    return [row["event_id"] for row in events], [row["event_id"] for row in memories]


async def test_an_append_cut_in_the_middle_remembers_nothing_until_it_is_repeated(
    database_url: str,
) -> None:
    async with DatabaseSessionService(database_url, remember=True, settings=GIVES_UP) as sessions:
        session = await sessions.create_session(**USER, state={"app:n": 0})
        event = said("x", id="e1", state={"app:n": 1})
        async with locked(database_url, "SELECT FROM adkpg.app_states FOR UPDATE") as lock:
            call = asyncio.ensure_future(sessions.append_event(session, event))
            for _ in range(2):  # the first time it is sent again
                (pid,) = await lock.until_blocked(1)
                await lock.cut(pid)
            with pytest.raises(DatabaseUnavailable):
                await call
        assert await both(database_url) == ([], [])
        await sessions.append_event(session, event)
        await sessions.append_event(session, said("y", id="e2"))
    assert await both(database_url) == (["e1", "e2"], ["e1", "e2"])


@pytest.mark.prepared
async def test_an_append_whose_answer_was_lost_is_remembered_once(
    proxy: Proxy, database_url: str
) -> None:
    async with DatabaseSessionService(proxy.url, remember=True, settings=GIVES_UP) as sessions:
        session = await sessions.create_session(**USER)
        await sessions.append_event(session, said("first", id="e1"))
        event = said("second", id="e2")
        proxy.lose_answers = 2
        with pytest.raises(DatabaseUnavailable):
            await sessions.append_event(session, event)
        assert await both(database_url) == (["e1", "e2"], ["e1", "e2"])
        await sessions.append_event(session, event)
        await sessions.append_event(session, said("third", id="e3"))
    assert await both(database_url) == (["e1", "e2", "e3"], ["e1", "e2", "e3"])


async def test_an_append_cancelled_anywhere_is_remembered_if_it_is_stored(
    database_url: str,
) -> None:
    async with DatabaseSessionService(database_url, remember=True) as sessions:
        session = await sessions.create_session(**USER)
        for steps in range(40):
            call = asyncio.ensure_future(
                sessions.append_event(session, said(str(steps), id=f"e{steps}"))
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            await sessions.append_event(session, said("seal", id=f"seal{steps}"))
        events, memories = await both(database_url)
        assert events == memories == [event.id for event in session.events]
        assert len(events) >= 40
        engine = await sessions.database.engine()
        assert engine.sync_engine.pool.checkedout() == 0  # type: ignore[attr-defined] # QueuePool has it
