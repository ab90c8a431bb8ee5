"""One suite over ADK's session services and ours: ids, reading, listing."""

from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from sqlalchemy.exc import DBAPIError

from tests.conformance.services import every_service, expecting
from tests.fakes.events import KEY, said, session_with_events, texts


async def _id_of(create: Any) -> str:
    session: Session = await create
    return session.id


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
    session = await session_with_events(service, [1000.0, 1001.0, 1002.0, 1003.0])
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
    session = await session_with_events(service, [1005.0, 1000.0, 1001.0])
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
