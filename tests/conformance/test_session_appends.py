"""The suite over ADK's session services and ours: appending, staleness, redelivery."""

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from sqlalchemy.exc import IntegrityError

from tests.conformance.services import every_service, expecting
from tests.fakes.events import KEY, said, session_with_events, texts


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
    session = await session_with_events(service, [1000.0, 1001.0, 1002.0])
    window = await service.get_session(
        **KEY, session_id=session.id, config=GetSessionConfig(num_recent_events=1)
    )
    assert window is not None
    await service.append_event(window, said("3", timestamp=1003.0))
    assert texts(window) == ["2", "3"]
    assert texts(await service.get_session(**KEY, session_id=session.id)) == ["0", "1", "2", "3"]


@every_service
async def test_a_session_rebuilt_from_json_goes_on(service: BaseSessionService) -> None:
    session = await session_with_events(service, [1000.0, 1001.0])
    rebuilt = Session.model_validate_json(session.model_dump_json())
    await service.append_event(rebuilt, said("2", timestamp=1002.0))
    await service.append_event(rebuilt, said("3", timestamp=1003.0))
    assert texts(await service.get_session(**KEY, session_id=session.id)) == ["0", "1", "2", "3"]


@expecting(StaleSessionError, in_memory=(None, "never detects a stale writer"))
async def test_a_stale_session_rebuilt_from_json(
    service: BaseSessionService, expected: type[Exception] | None
) -> None:
    session = await session_with_events(service, [1000.0, 1001.0])
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
    session = await service.create_session(**KEY)
    await service.append_event(session, said("x"))
    await service.flush()
    assert texts(await service.get_session(**KEY, session_id=session.id)) == ["x"]
