"""One round trip per call once warm, counted between driver and server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

Call = Callable[[DatabaseSessionService, str], Awaitable[Any]]
ALL = {"a": 1, "user:b": 2, "app:c": 3}


@pytest.fixture
async def service(proxy: Proxy) -> AsyncIterator[DatabaseSessionService]:
    async with DatabaseSessionService(proxy.url) as running:
        yield running


async def _append(service: DatabaseSessionService, session_id: str) -> None:
    session = await service.get_session(**USER, session_id=session_id)
    assert session is not None
    await service.append_event(session, said("x", state=dict(ALL)))


CALLS: dict[str, tuple[Call, int]] = {
    "create": (lambda service, _: service.create_session(**USER), 1),
    "create with all scopes": (lambda service, _: service.create_session(**USER, state=ALL), 1),
    "get": (lambda service, id_: service.get_session(**USER, session_id=id_), 1),
    "get none": (
        lambda service, id_: service.get_session(
            **USER, session_id=id_, config=GetSessionConfig(num_recent_events=0)
        ),
        1,
    ),
    "get a window": (
        lambda service, id_: service.get_session(
            **USER,
            session_id=id_,
            config=GetSessionConfig(num_recent_events=3, after_timestamp=1000.0),
        ),
        1,
    ),
    "get and append with all scopes": (_append, 2),
    "get_user_state": (lambda service, _: service.get_user_state(**USER), 1),
    "delete": (lambda service, id_: service.delete_session(**USER, session_id=id_), 1),
    "list": (lambda service, _: service.list_sessions(**USER), 1),
    "list page": (lambda service, _: service.list_sessions_page(**USER), 1),
    "list events": (lambda service, id_: service.list_events_page(**USER, session_id=id_), 1),
}


@pytest.mark.prepared
@pytest.mark.parametrize("name", CALLS)
async def test_round_trips(service: DatabaseSessionService, proxy: Proxy, name: str) -> None:
    call, expected = CALLS[name]
    counted = []
    for number in range(8):  # past the fifth execution, when Postgres may change to a generic plan
        await service.create_session(**USER, session_id=str(number), state=ALL)
        before = proxy.round_trips
        await call(service, str(number))
        counted.append(proxy.round_trips - before)
    assert counted[1:] == [expected] * 7


@pytest.mark.prepared
async def test_appends_of_one_turn(service: DatabaseSessionService, proxy: Proxy) -> None:
    session = await service.create_session(**USER)
    for delta in ({}, {"a": 1}, ALL):
        await service.append_event(session, said("warm", state=dict(delta)))
    before = proxy.round_trips
    for delta in ({}, {"a": 1}, ALL, {}, ALL):
        await service.append_event(session, said("x", state=dict(delta)))
    assert proxy.round_trips - before == 5
