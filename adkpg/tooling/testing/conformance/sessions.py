"""What ADK expects of a session service, as a suite to inherit."""

from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session

from adkpg.tooling.testing.events import said, texts

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user"}
_ODD = ["a/b", "a'b\"c", "Ünïcödé 🙂", "%s $1 :name ;--", "{}", "\\", "a\nb", "\x01"]
_CONFIGS: list[tuple[dict[str, Any], list[str]]] = [
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


class SessionServiceConformance:
    """Tests of a session service; inherit them and give the fixture ``service``.

    Each test wants a service without sessions. They say what ADK's documentation and services say.
    Where ADK's services disagree, they say what a service on a database can keep: append order, one
    writer at a time, an event stored once, whatever text it holds. A service that differs on
    purpose overrides that test and says why::

        class TestMySessions(SessionServiceConformance):
            @pytest.fixture
            def service(self):
                return MySessionService()

    The tests are coroutines. With pytest-asyncio in strict mode mark the class
    ``pytest.mark.asyncio``, with anyio's plugin ``pytest.mark.anyio``.
    """

    @pytest.fixture
    def service(self) -> BaseSessionService:
        """The service under test, without sessions: to be overridden."""
        raise NotImplementedError("Override the fixture `service`: it returns what is tested.")

    async def test_a_padded_id_is_stripped(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY, session_id="  x  ")
        assert session.id == "x"
        for session_id in ("  x  ", "x"):
            assert await service.get_session(**KEY, session_id=session_id)
        await service.delete_session(**KEY, session_id="  x  ")
        assert await service.get_session(**KEY, session_id="x") is None

    async def test_a_blank_id_generates_one(self, service: BaseSessionService) -> None:
        for session_id in ("", " ", "\t\n"):
            session = await service.create_session(**KEY, session_id=session_id)
            assert session.id.strip()

    async def test_ids_are_generated_apart(self, service: BaseSessionService) -> None:
        made = [await service.create_session(**KEY) for _ in range(3)]
        assert len({session.id for session in made}) == 3

    async def test_generated_ids_follow_adks_provider(
        self, service: BaseSessionService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("google.adk.platform.uuid.new_uuid", lambda: "given")
        monkeypatch.setattr("google.adk.platform.time.get_time", lambda: 1_700_000_000.5)
        session = await service.create_session(**KEY)
        assert (session.id, session.last_update_time) == ("given", 1_700_000_000.5)

    async def test_a_duplicate_id_is_refused(self, service: BaseSessionService) -> None:
        await service.create_session(**KEY, session_id="x", state={"a": 1})
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**KEY, session_id="x", state={"a": 2, "user:b": 2})
        session = await service.get_session(**KEY, session_id="x")
        assert session is not None
        assert session.state == {"a": 1}

    async def test_one_id_under_two_users_and_apps_is_three_sessions(
        self,
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

    async def test_the_empty_user_is_a_user(self, service: BaseSessionService) -> None:
        await service.create_session(
            app_name="app", user_id="", session_id="x", state={"user:a": 1}
        )
        await service.create_session(app_name="app", user_id="user", session_id="y")
        listed = await service.list_sessions(app_name="app", user_id="")
        assert [session.id for session in listed.sessions] == ["x"]
        everyone = await service.list_sessions(app_name="app")
        assert {session.id for session in everyone.sessions} == {"x", "y"}
        assert await service.get_user_state(app_name="app", user_id="") == {"a": 1}
        assert await service.get_user_state(app_name="app", user_id="user") == {}

    async def test_long_ids(self, service: BaseSessionService) -> None:
        session = await service.create_session(app_name="a" * 500, user_id="u" * 500)
        await service.append_event(session, said("hello", id="e" * 500))
        again = await service.get_session(
            app_name="a" * 500, user_id="u" * 500, session_id=session.id
        )
        assert texts(again) == ["hello"]

    @pytest.mark.parametrize("odd", _ODD)
    async def test_odd_characters_in_ids(self, service: BaseSessionService, odd: str) -> None:
        session = await service.create_session(app_name=odd, user_id=odd, session_id=odd)
        await service.append_event(
            session, said("hi", id=odd, state={f"user:{odd}": odd, odd: odd})
        )
        again = await service.get_session(app_name=odd, user_id=odd, session_id=odd)
        assert texts(again) == ["hi"]
        assert again is not None
        assert again.state == {f"user:{odd}": odd, odd: odd}

    async def test_a_missing_session_is_none(self, service: BaseSessionService) -> None:
        assert await service.get_session(**KEY, session_id="x") is None
        config = GetSessionConfig(num_recent_events=0)
        assert await service.get_session(**KEY, session_id="x", config=config) is None
        assert (await service.list_sessions(**KEY)).sessions == []
        assert (await service.list_sessions(app_name="app")).sessions == []

    async def test_a_created_session_is_what_get_returns(self, service: BaseSessionService) -> None:
        created = await service.create_session(**KEY, state={"a": 1, "user:b": [1], "app:c": None})
        assert await service.get_session(**KEY, session_id=created.id) == created

    async def test_an_appended_session_is_what_get_returns(
        self, service: BaseSessionService
    ) -> None:
        session = await service.create_session(**KEY)
        for number in range(3):
            await service.append_event(
                session,
                said(str(number), timestamp=1_700_000_000.123456 + number, state={"n": number}),
            )
        again = await service.get_session(**KEY, session_id=session.id)
        assert again == session
        assert session.last_update_time == 1_700_000_002.123456

    @pytest.mark.parametrize(("config", "events"), _CONFIGS)
    async def test_filters(
        self, service: BaseSessionService, config: dict[str, Any], events: list[str]
    ) -> None:
        session = await _session_with_events(service, [1000.0, 1001.0, 1002.0, 1003.0])
        part = await service.get_session(
            **KEY, session_id=session.id, config=GetSessionConfig(**config)
        )
        assert texts(part) == events
        assert part is not None
        assert part.state == {"state": "whole"}

    async def test_events_are_in_append_order(self, service: BaseSessionService) -> None:
        session = await _session_with_events(service, [1005.0, 1000.0, 1001.0])
        assert texts(await service.get_session(**KEY, session_id=session.id)) == ["0", "1", "2"]

    async def test_equal_timestamps_keep_append_order(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        for event_id in "dacb":
            await service.append_event(session, said(event_id, id=event_id, timestamp=1000.0))
        again = await service.get_session(**KEY, session_id=session.id)
        assert texts(again) == ["d", "a", "c", "b"]

    async def test_lists_have_whole_states_and_no_events_oldest_first(
        self,
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

    async def test_ties_in_lists_are_by_user_and_id(self, service: BaseSessionService) -> None:
        for user, session_id in [("v", "a"), ("u", "b"), ("v", "B"), ("u", "a")]:
            session = await service.create_session(
                app_name="app", user_id=user, session_id=session_id
            )
            await service.append_event(session, said("x", timestamp=1000.0))
        listed = (await service.list_sessions(app_name="app")).sessions
        assert [(session.user_id, session.id) for session in listed] == [
            ("u", "a"),
            ("u", "b"),
            ("v", "B"),
            ("v", "a"),
        ]

    async def test_returned_objects_are_fresh(self, service: BaseSessionService) -> None:
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

    async def test_a_partial_event_changes_nothing(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        before = session.model_copy(deep=True)
        event = said("part", state={"a": 1, "temp:b": 1}, partial=True)
        assert await service.append_event(session, event) is event
        assert event.actions.state_delta == {"a": 1, "temp:b": 1}
        assert session == before
        assert await service.get_session(**KEY, session_id=session.id) == before

    async def test_append_takes_keywords_too(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        event = await service.append_event(session=session, event=said("x"))
        assert session.events == [event]

    async def test_an_event_without_an_invocation(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        await service.append_event(session, said("x"))
        again = await service.get_session(**KEY, session_id=session.id)
        assert again is not None
        assert again.events[0].invocation_id == ""

    async def test_append_to_a_deleted_session(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        await service.delete_session(**KEY, session_id=session.id)
        await service.delete_session(**KEY, session_id=session.id)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("x", state={"user:a": 1}))
        assert session.events == []
        assert await service.get_user_state(**KEY) == {}

    async def test_append_to_an_unknown_session(self, service: BaseSessionService) -> None:
        session = Session(id="never", app_name="app", user_id="user")
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("x"))
        assert session.events == []

    async def test_a_stale_writer_is_refused(self, service: BaseSessionService) -> None:
        first = await service.create_session(**KEY)
        second = await service.get_session(**KEY, session_id=first.id)
        assert second is not None
        await service.append_event(first, said("first", timestamp=1000.0))
        late = said("second", timestamp=1001.0, state={"a": 1, "user:b": 1, "temp:c": 1})
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await service.append_event(second, late)
        assert second.events == []
        assert second.state == {"temp:c": 1}
        reloaded = await service.get_session(**KEY, session_id=first.id)
        assert reloaded == first
        assert await service.get_user_state(**KEY) == {}

    async def test_a_stale_writer_of_the_same_timestamp_is_refused(
        self, service: BaseSessionService
    ) -> None:
        first = await service.create_session(**KEY)
        await service.append_event(first, said("zeroth", timestamp=1000.0))
        second = await service.get_session(**KEY, session_id=first.id)
        assert second is not None
        await service.append_event(first, said("first", timestamp=1000.0))
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await service.append_event(second, said("second", timestamp=1000.0))

    async def test_an_equal_event_delivered_again_changes_nothing(
        self, service: BaseSessionService
    ) -> None:
        session = await service.create_session(**KEY)
        event = said("x", state={"a": 1, "user:b": 1})
        await service.append_event(session, event)
        before = session.model_copy(deep=True)
        returned = await service.append_event(session, event.model_copy(deep=True))
        assert returned == event
        assert session == before
        assert await service.get_session(**KEY, session_id=session.id) == before

    async def test_another_event_of_a_stored_id_is_refused(
        self, service: BaseSessionService
    ) -> None:
        session = await service.create_session(**KEY)
        await service.append_event(session, said("x", id="e"))
        with pytest.raises(AlreadyExistsError):
            await service.append_event(session, said("y", id="e", state={"a": 1}))
        assert texts(session) == ["x"]
        again = await service.get_session(**KEY, session_id=session.id)
        assert texts(again) == ["x"]
        assert again is not None
        assert again.state == {}

    async def test_a_windowed_session_goes_on(self, service: BaseSessionService) -> None:
        session = await _session_with_events(service, [1000.0, 1001.0, 1002.0])
        window = await service.get_session(
            **KEY, session_id=session.id, config=GetSessionConfig(num_recent_events=1)
        )
        assert window is not None
        await service.append_event(window, said("3", timestamp=1003.0))
        assert texts(window) == ["2", "3"]
        assert texts(await service.get_session(**KEY, session_id=session.id)) == [
            "0",
            "1",
            "2",
            "3",
        ]

    async def test_a_session_rebuilt_from_json_goes_on(self, service: BaseSessionService) -> None:
        session = await _session_with_events(service, [1000.0, 1001.0])
        rebuilt = Session.model_validate_json(session.model_dump_json())
        await service.append_event(rebuilt, said("2", timestamp=1002.0))
        await service.append_event(rebuilt, said("3", timestamp=1003.0))
        assert texts(await service.get_session(**KEY, session_id=session.id)) == [
            "0",
            "1",
            "2",
            "3",
        ]

    async def test_a_stale_session_rebuilt_from_json_is_refused(
        self, service: BaseSessionService
    ) -> None:
        session = await _session_with_events(service, [1000.0, 1001.0])
        rebuilt = Session.model_validate_json(session.model_dump_json())
        await service.append_event(session, said("2", timestamp=1002.0))
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await service.append_event(rebuilt, said("late", timestamp=1003.0))
        assert texts(rebuilt) == ["0", "1"]

    async def test_flush_is_there(self, service: BaseSessionService) -> None:
        session = await service.create_session(**KEY)
        await service.append_event(session, said("x"))
        await service.flush()
        assert texts(await service.get_session(**KEY, session_id=session.id)) == ["x"]

    # States

    async def test_scopes_reach_whom_they_should(self, service: BaseSessionService) -> None:
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

    async def test_a_delta_is_applied_and_temp_is_not_stored(
        self, service: BaseSessionService
    ) -> None:
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

    async def test_dicts_are_replaced_and_not_merged(self, service: BaseSessionService) -> None:
        session = await service.create_session(
            **KEY, state={"d": {"a": 1, "b": 1}, "user:d": {"a": 1}, "app:d": {"a": 1}}
        )
        delta = {"d": {"a": 2}, "user:d": {"z": 2}, "app:d": {"z": 2}}
        await service.append_event(session, said("x", state=dict(delta)))
        again = await service.get_session(**KEY, session_id=session.id)
        assert again is not None
        assert again.state == delta

    async def test_direct_changes_to_the_state_are_not_stored(
        self, service: BaseSessionService
    ) -> None:
        session = await service.create_session(**KEY)
        session.state["direct"] = 1
        await service.append_event(session, said("x", state={"said": 1}))
        again = await service.get_session(**KEY, session_id=session.id)
        assert again is not None
        assert again.state == {"said": 1}

    async def test_the_user_state_outlives_sessions_and_is_a_copy(
        self, service: BaseSessionService
    ) -> None:
        assert await service.get_user_state(**KEY) == {}
        session = await service.create_session(
            **KEY, state={"user:a": {"b": 1}, "app:c": 1, "d": 1}
        )
        await service.delete_session(**KEY, session_id=session.id)
        state = await service.get_user_state(**KEY)
        assert state == {"a": {"b": 1}}
        state["a"]["b"] = 2
        assert await service.get_user_state(**KEY) == {"a": {"b": 1}}
        assert (await service.create_session(**KEY)).state == {"user:a": {"b": 1}, "app:c": 1}

    async def test_any_text_is_kept(self, service: BaseSessionService) -> None:
        text = "a\x00b"
        state = {text: text, f"user:{text}": [text], f"app:{text}": {text: text}}
        session = await service.create_session(**KEY)
        event = said(text, state=dict(state))
        await service.append_event(session, event)
        again = await service.get_session(**KEY, session_id=session.id)
        assert again is not None
        assert again.state == state
        assert texts(again) == [text]
        assert again.events == [event]

    async def test_half_a_character_becomes_a_mark(self, service: BaseSessionService) -> None:
        """Nothing that holds one can be sent, to a client or a model, so it becomes U+FFFD."""
        half, mark = "cut \ud83d", "cut \ufffd"
        session = await service.create_session(**KEY, state={"user:nick": half})
        assert session.state == {"user:nick": mark}
        given = {half: half, f"app:{half}": [half], "temp:said": half}
        session.state.update(given)  # as a callback does
        event = said(half, state=given)
        assert await service.append_event(session, event) is event
        again = await service.get_session(**KEY, session_id=session.id)
        assert again is not None
        state = {"user:nick": mark, mark: mark, f"app:{mark}": [mark]}
        assert again.state == state
        assert session.state == {**state, "temp:said": mark}
        assert texts(again) == texts(session) == [mark]
        assert again.events == [event]
        partial = await service.append_event(session, said(half, partial=True))
        for sent in (session, again, partial):
            assert sent.model_dump_json()


async def _session_with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY, state={"state": "whole"})
    for number, time in enumerate(times):
        await service.append_event(session, said(str(number), timestamp=time))
    return session
