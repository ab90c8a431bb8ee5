"""The suite over ADK's session services and ours: the scopes of state and its values."""

from collections.abc import Callable
from typing import Any

import pytest
from google.adk.sessions.base_session_service import BaseSessionService
from sqlalchemy.exc import DBAPIError

from tests.conformance.services import every_service, expecting, service_of
from tests.fakes.events import KEY, said, texts


@every_service
async def test_scopes_reach_whom_they_should(service: BaseSessionService) -> None:
    first = await service.create_session(
        **KEY, state={"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4}
    )
    assert first.state == {"a": 1, "user:b": 2, "app:c": 3}
    same_user = await service.create_session(**KEY)
    other_user = await service.create_session(app_name="app", user_id="other")
    other_app = await service.create_session(app_name="other", user_id="user")
    assert same_user.state == {"user:b": 2, "app:c": 3}
    assert other_user.state == {"app:c": 3}
    assert other_app.state == {}


@every_service
async def test_a_delta_is_applied_and_temp_is_not_stored(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY, state={"kept": 1, "changed": 1})
    event = said(
        "x", state={"changed": 2, "app:a": 1, "user:u": {"x": 1}, "temp:t": "now", "none": None}
    )
    returned = await service.append_event(session, event)
    assert returned is event
    assert event.actions.state_delta.keys() == {"changed", "app:a", "user:u", "none"}
    stored = {"kept": 1, "changed": 2, "app:a": 1, "user:u": {"x": 1}, "none": None}
    assert session.state == stored | {"temp:t": "now"}
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.state == stored
    assert again.events == [event]


@every_service
async def test_dicts_are_replaced_and_not_merged(service: BaseSessionService) -> None:
    session = await service.create_session(
        **KEY, state={"d": {"a": 1, "b": 1}, "user:d": {"a": 1}, "app:d": {"a": 1}}
    )
    delta = {"d": {"a": 2}, "user:d": {"z": 2}, "app:d": {"z": 2}}
    await service.append_event(session, said("x", state=dict(delta)))
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.state == delta


@every_service
async def test_direct_changes_to_the_state_are_not_stored(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    session.state["direct"] = 1
    await service.append_event(session, said("x", state={"said": 1}))
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.state == {"said": 1}


@every_service
async def test_the_user_state_outlives_sessions_and_is_a_copy(service: BaseSessionService) -> None:
    assert await service.get_user_state(**KEY) == {}
    session = await service.create_session(**KEY, state={"user:a": {"b": 1}, "app:c": 1, "d": 1})
    await service.delete_session(**KEY, session_id=session.id)
    state = await service.get_user_state(**KEY)
    assert state == {"a": {"b": 1}}
    state["a"]["b"] = 2
    assert await service.get_user_state(**KEY) == {"a": {"b": 1}}
    assert (await service.create_session(**KEY)).state == {"user:a": {"b": 1}, "app:c": 1}


@expecting(
    {"n": None},
    in_memory=({"n": float("inf")}, "keeps the live object"),
    adk_database=(DBAPIError, "writes a token that jsonb refuses; the event is lost"),
)
async def test_infinity_in_a_delta(service: BaseSessionService, expected: Any) -> None:
    session = await service.create_session(**KEY)
    event = said("x", state={"n": float("inf")})
    if expected is DBAPIError:
        with pytest.raises(DBAPIError):
            await service.append_event(session, event)
        return
    await service.append_event(session, event)
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.state == expected


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"], ids=["nul", "surrogate"])
@expecting(None, adk_database=(Exception, "jsonb holds neither; the event is lost"))
async def test_text_that_jsonb_refuses(
    service: BaseSessionService, expected: type[Exception] | None, text: str
) -> None:
    session = await service.create_session(**KEY)
    event = said(text, state={text: text, f"user:{text}": [text], f"app:{text}": {text: text}})
    if expected:
        with pytest.raises(Exception, match=r"Unicode escape|surrogates|utf-8"):
            await service.append_event(session, event)
        return
    await service.append_event(session, event)
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.state == {text: text, f"user:{text}": [text], f"app:{text}": {text: text}}
    assert texts(again) == [text]
    assert again.events == [event]


_TYPES: dict[str, Callable[[], Any]] = {
    "set": lambda: {1},
    "bytes": lambda: b"x",
    "call": lambda: len,
}


@pytest.mark.parametrize("name", _TYPES)
async def test_ours_stores_what_adk_stores(name: str, database_url: str) -> None:
    found = []
    for kind in ("adk_database", "adkpg"):
        async with service_of(kind, database_url) as service:
            session = await service.create_session(**KEY, state={"a": _TYPES[name]()})
            await service.append_event(session, said("x", state={"user:b": _TYPES[name]()}))
            again = await service.get_session(**KEY, session_id=session.id)
            assert again is not None
            found.append(again.state)
    assert found[0] == found[1]
