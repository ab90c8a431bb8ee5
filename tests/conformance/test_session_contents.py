"""Whatever an event or a state holds comes back as it was, and the session goes on."""

import asyncio
import json
import logging
import math
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types
from hypothesis import given, settings

from adkpg import DatabaseSessionService
from adkpg.errors import InvalidInput
from adkpg.jsontext import UNREADABLE, mended
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.strategies import an_event, any_json, any_text, nested


async def _stored(sessions: DatabaseSessionService, session: Session) -> Session:
    found = await sessions.get_session(**USER, session_id=session.id)
    assert found is not None
    return found


async def _goes_on(sessions: DatabaseSessionService, session: Session) -> None:
    await sessions.append_event(session, said("goes on"))
    found = await _stored(sessions, session)
    assert texts(found)[-1] == "goes on"
    assert len(found.events) == len(session.events)


def _of(part: types.Part) -> Event:
    return Event(author="user", content=types.Content(role="user", parts=[part]))


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(said("ä" * 4_000_000), id="8 MB text"),
        pytest.param(
            _of(types.Part.from_bytes(data=bytes(range(256)) * 16_384, mime_type="a/b")),
            id="4 MB blob",
        ),
        pytest.param(said("nul \x00 in \x00\x00 text"), id="NUL"),
        pytest.param(said("lone \ud800 and \udfff, a pair \U0001f600"), id="surrogates"),
        pytest.param(said("the escape's own \x1a0000 mark \x1a"), id="mark"),
        pytest.param(said("\\u0000 \\ud800 spelled out"), id="spelled"),
        pytest.param(
            _of(types.Part.from_function_response(name="f", response=nested(200))), id="200 deep"
        ),
        pytest.param(
            _of(types.Part.from_function_call(name="f", args={"n": 10**300, "m": -(2**70)})),
            id="big integers",
        ),
        pytest.param(Event(author="user"), id="nothing"),
    ],
)
async def test_any_content_comes_back(sessions: DatabaseSessionService, event: Event) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, event)
    assert (await _stored(sessions, session)).events == [event]
    await _goes_on(sessions, session)


def test_any_event_comes_back(database_url: str) -> None:
    with asyncio.Runner() as runner:
        service = DatabaseSessionService(database_url)
        session = runner.run(service.create_session(**USER))

        @settings(max_examples=20)
        @given(an_event)
        def run(event: Event) -> None:
            runner.run(service.append_event(session, event))
            page = runner.run(
                service.get_session(
                    **USER, session_id=session.id, config=GetSessionConfig(num_recent_events=1)
                )
            )
            assert page is not None
            assert page.events == [event]

        run()
        whole = runner.run(service.get_session(**USER, session_id=session.id))
        assert whole is not None
        assert whole.events == session.events
        runner.run(service.close())


def _survives_jsonb(value: Any) -> bool:
    """Whether jsonb keeps it: it forgets -0.0."""
    if isinstance(value, float):
        return not (value == 0 and math.copysign(1, value) < 0)
    if isinstance(value, dict):
        return all(map(_survives_jsonb, value.values()))
    return not isinstance(value, list) or all(map(_survives_jsonb, value))


def test_any_json_state_comes_back(database_url: str) -> None:
    with asyncio.Runner() as runner:
        service = DatabaseSessionService(database_url)

        @settings(max_examples=20)
        @given(any_text, any_json.filter(_survives_jsonb))
        def run(key: str, value: Any) -> None:
            delta = {f"k{key}": value, f"user:{key}": value, f"app:{key}": value}
            session = runner.run(service.create_session(**USER, state=delta))
            runner.run(service.append_event(session, said("x", state=dict(delta))))
            found = runner.run(_stored(service, session))
            state = {name: found.state[name] for name in mended(delta)}
            # As text, since 1.0 equals 1: what was a float is one again.
            assert json.dumps(state, sort_keys=True) == json.dumps(mended(delta), sort_keys=True)
            assert found == runner.run(_stored(service, session))

        run()
        runner.run(service.close())


async def test_deep_states_come_back(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER, state={"deep": nested(200)})
    await sessions.append_event(session, said("x", state={"user:deep": nested(200)}))
    assert (await _stored(sessions, session)).state == {
        "deep": nested(200),
        "user:deep": nested(200),
    }


@pytest.mark.parametrize(
    ("timestamp", "updated_at"),
    [
        (math.inf, 253402128000.0),
        (-math.inf, -62135510400.0),
        (math.nan, 0.0),
        (1e18, 253402128000.0),
        (-1e18, -62135510400.0),
        (-1.5, -1.5),
        (0.0, 0.0),
        (1_700_000_000.123456, 1_700_000_000.123456),
    ],
)
async def test_a_timestamp_is_clamped_in_the_column_and_exact_in_the_event(
    sessions: DatabaseSessionService, timestamp: float, updated_at: float
) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("x", timestamp=timestamp))
    assert session.last_update_time == updated_at
    found = await _stored(sessions, session)
    assert found.last_update_time == updated_at
    assert found.events[0].timestamp == timestamp or math.isnan(timestamp)
    assert math.isnan(found.events[0].timestamp) is math.isnan(timestamp)
    for after in (timestamp, -math.inf):
        config = GetSessionConfig(after_timestamp=after)
        part = await sessions.get_session(**USER, session_id=session.id, config=config)
        assert texts(part) == ["x"]
    await _goes_on(sessions, session)


async def test_nan_in_a_state_becomes_null_with_a_warning(
    sessions: DatabaseSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="adkpg"):
        session = await sessions.create_session(**USER, state={"n": math.nan, "user:n": [math.inf]})
        await sessions.append_event(session, said("x", state={"app:n": {"m": -math.inf}}))
    assert (await _stored(sessions, session)).state == {
        "n": None,
        "user:n": [None],
        "app:n": {"m": None},
    }
    assert caplog.text.count("NaN or infinity") >= 3
    await _goes_on(sessions, session)


async def test_what_cannot_be_stored_is_refused_and_the_session_goes_on(
    sessions: DatabaseSessionService,
) -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    session = await sessions.create_session(**USER, state={"a": 1})
    before = session.model_copy(deep=True)
    event = Event(author="a", actions=EventActions(state_delta={"b": 1, "endless": circle}))
    with pytest.raises(InvalidInput, match="endless"):
        await sessions.append_event(session, event)
    assert session == before
    assert await _stored(sessions, session) == before
    await _goes_on(sessions, session)


@pytest.mark.parametrize("name", ["app_name", "user_id", "session_id"])
@pytest.mark.parametrize("value", ["a\x00b", "\ud800"], ids=["nul", "surrogate"])
async def test_ids_that_no_column_holds(
    sessions: DatabaseSessionService, name: str, value: str
) -> None:
    key: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s", name: value}
    with pytest.raises(InvalidInput, match=name):
        await sessions.create_session(**key)
    assert await sessions.get_session(**key) is None
    await sessions.delete_session(**key)
    session = Session(id=key["session_id"], app_name=key["app_name"], user_id=key["user_id"])
    with pytest.raises(InvalidInput, match=name):
        await sessions.append_event(session, said("x"))
    page = await sessions.list_events_page(**key)
    assert page.items == []
    if name != "session_id":
        place: dict[str, Any] = {"app_name": key["app_name"], "user_id": key["user_id"]}
        assert (await sessions.list_sessions(**place)).sessions == []
        assert (await sessions.list_sessions_page(**place)).items == []
        assert await sessions.get_user_state(**place) == {}


async def test_an_event_id_that_no_column_holds(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    with pytest.raises(InvalidInput, match="event_id"):
        await sessions.append_event(session, said("x", id="\x00"))
    assert session.events == []
    await _goes_on(sessions, session)


POISON = {
    "fields of a newer ADK": '{"id":"p","author":"a","actions":{"invented_later":1}}',
    "what no ADK reads": '{"id":"p","author":"a","content":7}',
    "no event": "[]",
    "lone surrogate": '{"id":"p","author":"a","error_message":"\\ud800 \\uD83D\\uDE00 \\\\ud800"}',
    "deep nesting": json.dumps({"id": "p", "author": "a", "custom_metadata": nested(300)}),
}


@pytest.mark.parametrize("name", POISON)
async def test_one_poisoned_event_costs_its_neighbours_nothing(
    sessions: DatabaseSessionService, database_url: str, name: str
) -> None:
    session = await sessions.create_session(**USER)
    for text in ("before", "poisoned", "after"):
        await sessions.append_event(session, said(text))
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE adkpg.events SET payload = $1 WHERE seq = 2", POISON[name])
    await connection.close()
    found = await _stored(sessions, session)
    assert [found.events[0], found.events[2]] == [session.events[0], session.events[2]]
    unreadable = name in ("what no ADK reads", "no event")
    assert (found.events[1].error_code == UNREADABLE) is unreadable
    if name == "lone surrogate":  # as it was stored before
        assert found.events[1].error_message == "\ufffd \U0001f600 \\ud800"
    page = await sessions.list_events_page(**USER, session_id=session.id, limit=2)
    assert page.items[0] == session.events[0]
    await sessions.append_event(found, said("goes on"))
    assert len((await _stored(sessions, session)).events) == 4


async def test_blanks_around_an_id_do_not_count(sessions: DatabaseSessionService) -> None:
    await sessions.create_session(**USER, session_id=" \tx\n ")
    for session_id in ("x", " x", "x\n"):
        found = await sessions.get_session(**USER, session_id=session_id)
        assert found is not None
        assert found.id == "x"
