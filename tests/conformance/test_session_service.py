"""One suite over ADK's session services and ours: the contract, and where a built-in differs."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from sqlalchemy.exc import DBAPIError, IntegrityError

from tests.conformance.services import KEY, KINDS, expecting, said, service_of, texts


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of this test's own database, where the service needs one."""
    url: str = "" if kind == "in_memory" else request.getfixturevalue("database_url")
    return url


@pytest.fixture
async def service(kind: str, place: str) -> AsyncIterator[BaseSessionService]:
    async with service_of(kind, place) as running:
        yield running


every_service = pytest.mark.parametrize("kind", KINDS)


async def _id_of(create: Any) -> str:
    session: Session = await create
    return session.id


# Ids


@expecting("x", adk_database=("  x  ", "keeps ids verbatim; recorded upstream as a defect"))
async def test_a_padded_id_is_stripped(service: BaseSessionService, expected: str) -> None:
    session = await service.create_session(**KEY, session_id="  x  ")
    assert session.id == expected
    for session_id in ("  x  ", expected):
        assert await service.get_session(**KEY, session_id=session_id)
    await service.delete_session(**KEY, session_id="  x  ")
    assert await service.get_session(**KEY, session_id=expected) is None


@pytest.mark.parametrize("session_id", ["", " ", "\t\n"])
@expecting(True, adk_database=(False, "stores blank ids as they are"))
async def test_a_blank_id_generates_one(
    service: BaseSessionService, expected: bool, session_id: str
) -> None:
    session = await service.create_session(**KEY, session_id=session_id)
    assert bool(session.id.strip()) is expected


@every_service
async def test_ids_are_generated_apart(service: BaseSessionService) -> None:
    ids = {await _id_of(service.create_session(**KEY)) for _ in range(3)}
    assert len(ids) == 3


@every_service
async def test_generated_ids_follow_adks_provider(
    service: BaseSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.adk.platform.uuid.new_uuid", lambda: "given")
    monkeypatch.setattr("google.adk.platform.time.get_time", lambda: 1_700_000_000.5)
    session = await service.create_session(**KEY)
    assert (session.id, session.last_update_time) == ("given", 1_700_000_000.5)


@every_service
async def test_a_duplicate_id_is_refused(service: BaseSessionService) -> None:
    await service.create_session(**KEY, session_id="x", state={"a": 1})
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**KEY, session_id="x", state={"a": 2, "user:b": 2})
    session = await service.get_session(**KEY, session_id="x")
    assert session is not None
    assert session.state == {"a": 1}


@every_service
async def test_one_id_under_two_users_and_apps_is_three_sessions(
    service: BaseSessionService,
) -> None:
    places = [("app", "user"), ("app", "other"), ("other", "user")]
    for number, (app, user) in enumerate(places):
        session = await service.create_session(
            app_name=app, user_id=user, session_id="x", state={"n": number}
        )
        await service.append_event(session, said(f"{app} {user}", id="same event id"))
    await service.delete_session(app_name="app", user_id="other", session_id="x")
    for number, (app, user) in enumerate(places):
        found = await service.get_session(app_name=app, user_id=user, session_id="x")
        if user == "other":
            assert found is None
        else:
            assert found is not None
            assert (found.state, texts(found)) == ({"n": number}, [f"{app} {user}"])


@every_service
async def test_the_empty_user_is_a_user(service: BaseSessionService) -> None:
    await service.create_session(app_name="app", user_id="", session_id="x", state={"user:a": 1})
    await service.create_session(app_name="app", user_id="user", session_id="y")
    listed = await service.list_sessions(app_name="app", user_id="")
    assert [session.id for session in listed.sessions] == ["x"]
    everyone = await service.list_sessions(app_name="app")
    assert {session.id for session in everyone.sessions} == {"x", "y"}
    assert await service.get_user_state(app_name="app", user_id="") == {"a": 1}
    assert await service.get_user_state(app_name="app", user_id="user") == {}


@expecting(None, adk_database=(DBAPIError, "VARCHAR(128) columns"))
async def test_long_ids(service: BaseSessionService, expected: type[Exception] | None) -> None:
    async def use() -> None:
        session = await service.create_session(app_name="a" * 500, user_id="u" * 500)
        await service.append_event(session, said("hello", id="e" * 500))
        again = await service.get_session(
            app_name="a" * 500, user_id="u" * 500, session_id=session.id
        )
        assert texts(again) == ["hello"]

    if expected:
        with pytest.raises(expected):
            await use()
    else:
        await use()


ODD = ["a/b", "a'b\"c", "Ünïcödé 🙂", "%s $1 :name ;--", "{}", "\\", "a\nb", "\x01"]


@pytest.mark.parametrize("odd", ODD)
@every_service
async def test_odd_characters_in_ids(service: BaseSessionService, odd: str) -> None:
    session = await service.create_session(app_name=odd, user_id=odd, session_id=odd)
    await service.append_event(session, said("hi", id=odd, state={f"user:{odd}": odd, odd: odd}))
    again = await service.get_session(app_name=odd, user_id=odd, session_id=odd)
    assert texts(again) == ["hi"]
    assert again is not None
    assert again.state == {f"user:{odd}": odd, odd: odd}


# State


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


# Reading


@every_service
async def test_a_missing_session_is_none(service: BaseSessionService) -> None:
    assert await service.get_session(**KEY, session_id="x") is None
    config = GetSessionConfig(num_recent_events=0)
    assert await service.get_session(**KEY, session_id="x", config=config) is None
    assert (await service.list_sessions(**KEY)).sessions == []
    assert (await service.list_sessions(app_name="app")).sessions == []


@every_service
async def test_a_created_session_is_what_get_returns(service: BaseSessionService) -> None:
    created = await service.create_session(**KEY, state={"a": 1, "user:b": [1], "app:c": None})
    assert await service.get_session(**KEY, session_id=created.id) == created


@every_service
async def test_an_appended_session_is_what_get_returns(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    for number in range(3):
        await service.append_event(
            session, said(str(number), timestamp=1_700_000_000.123456 + number, state={"n": number})
        )
    again = await service.get_session(**KEY, session_id=session.id)
    assert again == session
    assert session.last_update_time == 1_700_000_002.123456


async def _with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY, state={"state": "whole"})
    for number, time in enumerate(times):
        await service.append_event(session, said(str(number), timestamp=time))
    return session


CONFIGS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["0", "1", "2", "3"]),
    ({"num_recent_events": 2}, ["2", "3"]),
    ({"num_recent_events": 9}, ["0", "1", "2", "3"]),
    ({"num_recent_events": 0}, []),
    ({"after_timestamp": 1002.0}, ["2", "3"]),
    ({"after_timestamp": 1002.5}, ["3"]),
    ({"after_timestamp": 0.0}, ["0", "1", "2", "3"]),
    ({"after_timestamp": 2000.0}, []),
    ({"num_recent_events": 3, "after_timestamp": 1002.0}, ["2", "3"]),
    ({"num_recent_events": 1, "after_timestamp": 1002.0}, ["3"]),
    ({"num_recent_events": 0, "after_timestamp": 1002.0}, []),
]


@pytest.mark.parametrize(("config", "events"), CONFIGS)
@every_service
async def test_filters(
    service: BaseSessionService, config: dict[str, Any], events: list[str]
) -> None:
    session = await _with_events(service, [1000.0, 1001.0, 1002.0, 1003.0])
    part = await service.get_session(
        **KEY, session_id=session.id, config=GetSessionConfig(**config)
    )
    assert texts(part) == events
    assert part is not None
    assert part.state == {"state": "whole"}


@expecting(
    ["0", "1", "2"],
    adk_database=(["1", "2", "0"], "orders by the client's clock, not by append"),
)
async def test_events_are_in_append_order(service: BaseSessionService, expected: list[str]) -> None:
    session = await _with_events(service, [1005.0, 1000.0, 1001.0])
    assert texts(await service.get_session(**KEY, session_id=session.id)) == expected


@expecting(True, adk_database=(False, "orders equal timestamps by random id"))
async def test_equal_timestamps_keep_append_order(
    service: BaseSessionService, expected: bool
) -> None:
    session = await service.create_session(**KEY)
    for event_id in "dacb":
        await service.append_event(session, said(event_id, id=event_id, timestamp=1000.0))
    order = texts(await service.get_session(**KEY, session_id=session.id))
    assert (order == ["d", "a", "c", "b"]) is expected


@every_service
async def test_lists_have_whole_states_and_no_events_oldest_first(
    service: BaseSessionService,
) -> None:
    for user, session_id, time in [("v", "c", 1003.0), ("u", "a", 1002.0), ("v", "b", 1001.0)]:
        session = await service.create_session(
            app_name="app",
            user_id=user,
            session_id=session_id,
            state={"id": session_id, f"user:{user}": 1, "app:a": 1},
        )
        await service.append_event(session, said("x", timestamp=time))
    listed = (await service.list_sessions(app_name="app")).sessions
    assert [session.id for session in listed] == ["b", "a", "c"]
    for session in listed:
        assert session.events == []
        assert session.state == {"id": session.id, f"user:{session.user_id}": 1, "app:a": 1}
    mine = (await service.list_sessions(app_name="app", user_id="v")).sessions
    assert [session.id for session in mine] == ["b", "c"]


@every_service
async def test_ties_in_lists_are_by_user_and_id(service: BaseSessionService) -> None:
    for user, session_id in [("v", "a"), ("u", "b"), ("v", "B"), ("u", "a")]:
        session = await service.create_session(app_name="app", user_id=user, session_id=session_id)
        await service.append_event(session, said("x", timestamp=1000.0))
    listed = (await service.list_sessions(app_name="app")).sessions
    assert [(session.user_id, session.id) for session in listed] == [
        ("u", "a"),
        ("u", "b"),
        ("v", "B"),
        ("v", "a"),
    ]


@every_service
async def test_returned_objects_are_fresh(service: BaseSessionService) -> None:
    created = await service.create_session(**KEY, state={"d": {"a": 1}, "user:l": [1]})
    created.state["d"]["a"] = 2
    created.state["user:l"].append(2)
    first = await service.get_session(**KEY, session_id=created.id)
    assert first is not None
    first.state["d"]["a"] = 3
    listed = (await service.list_sessions(**KEY)).sessions[0]
    listed.state["user:l"].append(3)
    again = await service.get_session(**KEY, session_id=created.id)
    assert again is not None
    assert again.state == {"d": {"a": 1}, "user:l": [1]}


# Appending


@every_service
async def test_a_partial_event_changes_nothing(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    before = session.model_copy(deep=True)
    event = said("part", state={"a": 1, "temp:b": 1}, partial=True)
    assert await service.append_event(session, event) is event
    assert event.actions.state_delta == {"a": 1, "temp:b": 1}
    assert session == before
    assert await service.get_session(**KEY, session_id=session.id) == before


@every_service
async def test_append_takes_keywords_too(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    event = await service.append_event(session=session, event=said("x"))
    assert session.events == [event]


@every_service
async def test_an_event_without_an_invocation(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    await service.append_event(session, said("x"))
    again = await service.get_session(**KEY, session_id=session.id)
    assert again is not None
    assert again.events[0].invocation_id == ""


@every_service
async def test_append_to_a_deleted_session(service: BaseSessionService) -> None:
    session = await service.create_session(**KEY)
    await service.delete_session(**KEY, session_id=session.id)
    await service.delete_session(**KEY, session_id=session.id)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("x", state={"user:a": 1}))
    assert session.events == []
    assert await service.get_user_state(**KEY) == {}


@every_service
async def test_append_to_an_unknown_session(service: BaseSessionService) -> None:
    session = Session(id="never", app_name="app", user_id="user")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("x"))
    assert session.events == []


@expecting(StaleSessionError, in_memory=(None, "never detects a stale writer"))
async def test_a_stale_writer(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    first = await service.create_session(**KEY)
    second = await service.get_session(**KEY, session_id=first.id)
    assert second is not None
    await service.append_event(first, said("first", timestamp=1000.0))
    late = said("second", timestamp=1001.0, state={"a": 1, "user:b": 1, "temp:c": 1})
    if expected is None:
        await service.append_event(second, late)
        return
    with pytest.raises(expected, match="modified in storage"):
        await service.append_event(second, late)
    assert second.events == []
    assert second.state == {"temp:c": 1}
    reloaded = await service.get_session(**KEY, session_id=first.id)
    assert reloaded == first
    assert await service.get_user_state(**KEY) == {}


@expecting(
    StaleSessionError,
    in_memory=(None, "never detects a stale writer"),
    adk_database=(None, "its marker is the event's timestamp"),
)
async def test_a_stale_writer_with_the_same_timestamp(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    first = await service.create_session(**KEY)
    await service.append_event(first, said("zeroth", timestamp=1000.0))
    second = await service.get_session(**KEY, session_id=first.id)
    assert second is not None
    await service.append_event(first, said("first", timestamp=1000.0))
    if expected is None:
        await service.append_event(second, said("second", timestamp=1000.0))
        return
    with pytest.raises(expected, match="modified in storage"):
        await service.append_event(second, said("second", timestamp=1000.0))


@expecting(
    None,
    adk_database=(IntegrityError, "every redelivery breaks its primary key"),
)
async def test_redelivery_of_an_equal_event(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    session = await service.create_session(**KEY)
    event = said("x", state={"a": 1, "user:b": 1})
    await service.append_event(session, event)
    before = session.model_copy(deep=True)
    if expected:
        with pytest.raises(expected):
            await service.append_event(session, event.model_copy(deep=True))
        return
    returned = await service.append_event(session, event.model_copy(deep=True))
    assert returned == event
    assert session == before
    assert await service.get_session(**KEY, session_id=session.id) == before


@expecting(
    AlreadyExistsError,
    in_memory=(None, "keeps distinct events of one id"),
    adk_database=(IntegrityError, "lets the driver's error through"),
)
async def test_another_event_of_the_same_id(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    session = await service.create_session(**KEY)
    await service.append_event(session, said("x", id="e"))
    if expected is None:
        await service.append_event(session, said("y", id="e"))
        return
    with pytest.raises(expected):
        await service.append_event(session, said("y", id="e", state={"a": 1}))
    assert texts(session) == ["x"]
    again = await service.get_session(**KEY, session_id=session.id)
    assert texts(again) == ["x"]
    assert again is not None
    assert again.state == {}


@every_service
async def test_a_windowed_session_goes_on(service: BaseSessionService) -> None:
    session = await _with_events(service, [1000.0, 1001.0, 1002.0])
    window = await service.get_session(
        **KEY, session_id=session.id, config=GetSessionConfig(num_recent_events=1)
    )
    assert window is not None
    await service.append_event(window, said("3", timestamp=1003.0))
    assert texts(window) == ["2", "3"]
    assert texts(await service.get_session(**KEY, session_id=session.id)) == ["0", "1", "2", "3"]


@every_service
async def test_a_session_rebuilt_from_json_goes_on(service: BaseSessionService) -> None:
    session = await _with_events(service, [1000.0, 1001.0])
    rebuilt = Session.model_validate_json(session.model_dump_json())
    await service.append_event(rebuilt, said("2", timestamp=1002.0))
    await service.append_event(rebuilt, said("3", timestamp=1003.0))
    assert texts(await service.get_session(**KEY, session_id=session.id)) == ["0", "1", "2", "3"]


@expecting(StaleSessionError, in_memory=(None, "never detects a stale writer"))
async def test_a_stale_session_rebuilt_from_json(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    session = await _with_events(service, [1000.0, 1001.0])
    rebuilt = Session.model_validate_json(session.model_dump_json())
    await service.append_event(session, said("2", timestamp=1002.0))
    if expected is None:
        await service.append_event(rebuilt, said("late", timestamp=1003.0))
        return
    with pytest.raises(expected, match="modified in storage"):
        await service.append_event(rebuilt, said("late", timestamp=1003.0))
    assert texts(rebuilt) == ["0", "1"]


@every_service
async def test_flush_is_there(service: BaseSessionService) -> None:
    await service.flush()


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
