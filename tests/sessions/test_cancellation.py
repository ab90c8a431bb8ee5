"""Whenever an append is cancelled, storage and the live object agree and the next one works."""

import asyncio
import contextlib
from typing import Any

import anyio
import pytest

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.locks import locked

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
async def test_an_append_cancelled_anywhere(sessions: DatabaseSessionService, twice: bool) -> None:
    session = await sessions.create_session(**USER)
    for steps in range(40):
        event = said(str(steps), state={"n": steps, "user:n": steps})
        call = asyncio.ensure_future(sessions.append_event(session, event))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        if twice:
            await asyncio.sleep(0)
            call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert await sessions.get_session(**USER, session_id=session.id) == session
        await sessions.append_event(session, said("seal"))
        assert await sessions.get_session(**USER, session_id=session.id) == session


async def test_an_append_cancelled_while_the_server_works_on_it(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    async with locked(database_url) as lock:
        call = asyncio.ensure_future(sessions.append_event(session, said("x", state={"n": 1})))
        await lock.until_blocked(1)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0)
        assert not call.done()
        await lock.release()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert len(session.events) == 1
    assert await sessions.get_session(**USER, session_id=session.id) == session
    await sessions.append_event(session, said("seal"))


async def test_an_append_cancelled_in_the_queue_is_not_stored(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    async with locked(database_url) as lock:
        first = asyncio.ensure_future(sessions.append_event(session, said("first")))
        await lock.until_blocked(1)
        second = asyncio.ensure_future(sessions.append_event(session, said("second")))
        third = asyncio.ensure_future(sessions.append_event(session, said("third")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await lock.release()
        await asyncio.gather(first, third)
    assert [event.content.parts[0].text for event in session.events] == ["first", "third"]  # type: ignore[union-attr, index] # said() gives each a text
    assert await sessions.get_session(**USER, session_id=session.id) == session


async def test_other_calls_cancelled_anywhere_leave_the_pool_whole(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    for steps in range(40):
        for coroutine in (
            sessions.get_session(**USER, session_id=session.id),
            sessions.create_session(**USER),
            sessions.get_user_state(**USER),
        ):
            call = asyncio.ensure_future(coroutine)
            for _ in range(steps % 20):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
    async with asyncio.timeout(30):
        while sessions.database.connections.use()[0]:  # one that is being opened goes on
            await asyncio.sleep(0)
    assert await sessions.get_session(**USER, session_id=session.id) == session


async def test_the_cause_of_a_failure_is_not_lost_to_a_later_cancellation(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**USER)
    async with locked(database_url, "DELETE FROM adkpg.sessions") as lock:
        call = asyncio.ensure_future(sessions.append_event(session, said("x")))
        await lock.until_blocked(1)
        call.cancel()
        await lock.release()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert session.events == []


async def test_an_append_in_a_cancelled_scope_waits_without_spinning(
    sessions: DatabaseSessionService, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """anyio cancels again at each turn of the loop, for as long as a task of the scope waits."""
    session = await sessions.create_session(**USER)
    loop = asyncio.get_running_loop()
    call_soon, calls = loop.call_soon, 0

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        nonlocal calls
        calls += 1
        return call_soon(*args, **kwargs)

    async with locked(database_url) as lock:

        async def release() -> None:
            await lock.until_blocked(1)
            scope.cancel()
            await asyncio.sleep(0)
            monkeypatch.setattr(loop, "call_soon", counted)
            await asyncio.sleep(0.5)
            monkeypatch.undo()
            await lock.release()

        releasing = asyncio.create_task(release())
        with anyio.CancelScope() as scope:
            await sessions.append_event(session, said("x"))
        await releasing
    assert scope.cancelled_caught
    assert calls < 100
    assert len(session.events) == 1
    assert await sessions.get_session(**USER, session_id=session.id) == session
