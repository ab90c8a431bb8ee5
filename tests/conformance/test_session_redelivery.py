"""Redelivery: an append that is repeated, because its answer was lost or by mistake."""

import asyncio

import pytest
from google.adk.sessions.session import Session

from adkpg import DatabaseSessionService
from adkpg.errors import DatabaseUnavailable, EventConflict, SessionExists, StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy


async def _stored(sessions: DatabaseSessionService, session: Session) -> Session:
    found = await sessions.get_session(**USER, session_id=session.id)
    assert found is not None
    return found


@pytest.mark.prepared
@pytest.mark.usefixtures("impatient")
async def test_an_append_whose_answer_was_lost_is_repeated(
    proxy: Proxy, sessions: DatabaseSessionService
) -> None:
    async with DatabaseSessionService(proxy.url) as service:
        session = await service.create_session(**USER)
        await service.append_event(session, said("first", state={"n": 1, "user:u": 0}))
        event = said("second", state={"n": 2, "user:u": 1, "temp:t": 1})
        proxy.lose_answers = 2
        with pytest.raises(DatabaseUnavailable):
            await service.append_event(session, event)
        assert texts(session) == ["first"]
        assert texts(await _stored(sessions, session)) == ["first", "second"]
        await service.append_event(session, event)
        assert texts(session) == ["first", "second"]
        assert session.state == {"n": 2, "user:u": 1, "temp:t": 1}
        del session.state["temp:t"]
        assert await _stored(sessions, session) == session
        await service.append_event(session, said("third"))
        assert await _stored(sessions, session) == session


@pytest.mark.prepared
@pytest.mark.usefixtures("impatient")
async def test_a_lost_create_says_that_the_session_exists(
    proxy: Proxy, sessions: DatabaseSessionService
) -> None:
    async with DatabaseSessionService(proxy.url) as service:
        await service.create_session(**USER)
        proxy.lose_answers = 2
        with pytest.raises(DatabaseUnavailable):
            await service.create_session(**USER, session_id="x")
        with pytest.raises(SessionExists):
            await service.create_session(**USER, session_id="x")
    assert await sessions.get_session(**USER, session_id="x")


async def test_an_old_delta_does_not_come_back_by_redelivery(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    old = said("old", state={"n": "old", "user:n": "old", "app:n": "old"})
    await sessions.append_event(session, old)
    new = {"n": "new", "user:n": "new", "app:n": "new"}
    await sessions.append_event(session, said("new", state=dict(new)))
    for handle in (session, await _stored(sessions, session)):
        before = handle.model_copy(deep=True)
        await sessions.append_event(handle, old.model_copy(deep=True))
        assert handle == before
    assert (await _stored(sessions, session)).state == new
    await sessions.append_event(session, said("goes on"))


async def test_redelivery_through_a_windowed_session(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    event = said("x", state={"n": 1})
    await sessions.append_event(session, event)
    window = await _stored(sessions, session)
    window.events.clear()
    await sessions.append_event(window, event.model_copy(deep=True))
    await sessions.append_event(window, said("y"))
    assert texts(await _stored(sessions, session)) == ["x", "y"]


async def test_an_old_delta_does_not_come_back_to_a_windowed_session(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    old = said("old", state={"n": "old"})
    await sessions.append_event(session, old)
    await sessions.append_event(session, said("new", state={"n": "new"}))
    window = await _stored(sessions, session)
    window.events.clear()
    before = window.model_copy(deep=True)
    await sessions.append_event(window, old.model_copy(deep=True))
    assert window == before


@pytest.mark.parametrize("after", [0, 1])
async def test_a_session_rebuilt_from_json_catches_up_to_what_it_repeats(
    sessions: DatabaseSessionService, after: int
) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("first"))
    rebuilt = Session.model_validate_json(session.model_dump_json())
    event = said("lost", state={"n": 1})
    await sessions.append_event(session, event.model_copy(deep=True))
    for _ in range(after):
        await sessions.append_event(session, said("by another"))
    await sessions.append_event(rebuilt, event)
    assert (texts(rebuilt), rebuilt.state) == (["first", "lost"], {"n": 1})
    if after:
        with pytest.raises(StaleSession):
            await sessions.append_event(rebuilt, said("goes on"))
    else:
        assert rebuilt == session
        await sessions.append_event(rebuilt, said("goes on"))


async def test_one_event_delivered_at_once_through_many_objects_is_stored_once(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    event = said("x", state={"n": 1})
    handles = [session.model_copy(deep=True) for _ in range(8)]
    await asyncio.gather(
        *(sessions.append_event(handle, event.model_copy(deep=True)) for handle in handles)
    )
    stored = await _stored(sessions, session)
    assert texts(stored) == ["x"]
    for handle in handles:
        assert handle == stored


async def test_another_event_of_a_stored_id_is_refused_and_the_session_goes_on(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("x", id="e"))
    with pytest.raises(EventConflict, match="id e is already stored"):
        await sessions.append_event(session, said("y", id="e", state={"n": 1}))
    await sessions.append_event(session, said("z"))
    stored = await _stored(sessions, session)
    assert (texts(stored), stored.state) == (["x", "z"], {})
