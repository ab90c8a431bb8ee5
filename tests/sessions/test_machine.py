"""Any sequence of calls does what ADK's in-memory service does.

Known differences of the model are met here: it never detects stale writers (every append goes
through a fresh handle), it filters by time from the end (timestamps only grow), and it keeps what
JSON cannot hold (values are JSON).
"""

import asyncio
import itertools
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import said

pytestmark = pytest.mark.property

apps = st.sampled_from(["app", "other app"])
users = st.sampled_from(["", "u", "ü"])
ids = st.sampled_from(["s", "t", " s "])
values = st.none() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.integers(0, 3))
keys = st.sampled_from(
    [scope + key for scope in ("", "app:", "user:", "temp:") for key in ("k", "l", "")]
)
deltas = st.dictionaries(keys, values | st.dictionaries(st.text(max_size=2), values), max_size=4)


def _described(session: Session | None) -> Any:
    """Returns what two services must agree on: all but the time of a session without events."""
    if session is None:
        return None
    return (
        session.id,
        session.user_id,
        session.state,
        session.events,
        session.last_update_time if session.events else None,
    )


def _key(session: Session) -> tuple[str, str]:
    return session.user_id, session.id


class SessionsMachine(RuleBasedStateMachine):
    """Runs every call on both services and compares all that can be seen."""

    runner: asyncio.Runner
    ours: DatabaseSessionService
    runs = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.run = f"run {next(self.runs)} "  # an app's name of its own keeps the examples apart
        self.model = InMemorySessionService()
        self.clock = 1_700_000_000.0
        self.users: set[tuple[str, str]] = set()

    def _both(self, call: str, *, app_name: str, **arguments: Any) -> tuple[Any, Any]:
        arguments["app_name"] = self.run + app_name
        model, ours = (
            self.runner.run(self._answer(service, call, arguments))
            for service in (self.model, self.ours)
        )
        return model, ours

    async def _answer(
        self, service: BaseSessionService, call: str, arguments: dict[str, Any]
    ) -> Any:
        try:
            return await getattr(service, call)(**arguments)
        except AlreadyExistsError:
            return AlreadyExistsError

    @rule(app=apps, user=users, session_id=ids, state=st.none() | deltas)
    def create(self, app: str, user: str, session_id: str, state: dict[str, Any] | None) -> None:
        model, ours = self._both(
            "create_session", app_name=app, user_id=user, session_id=session_id, state=state
        )
        if model is AlreadyExistsError:
            assert ours is AlreadyExistsError
        else:
            assert _described(ours) == _described(model)
        self.users.add((app, user))

    @rule(
        app=apps,
        user=users,
        session_id=ids,
        deltas=st.lists(deltas, min_size=1, max_size=3),
        ticks=st.sampled_from([0.0, 0.25, 60.0]),
        partial=st.sampled_from([None, None, None, True]),
    )
    def append(
        self,
        app: str,
        user: str,
        session_id: str,
        deltas: list[dict[str, Any]],
        ticks: float,
        partial: bool | None,
    ) -> None:
        handles = self._both("get_session", app_name=app, user_id=user, session_id=session_id)
        assert (handles[0] is None) is (handles[1] is None)
        if handles[0] is None:
            return
        for delta in deltas:
            self.clock += ticks
            event = said("x", state=dict(delta), timestamp=self.clock, partial=partial)
            for service, handle in zip((self.model, self.ours), handles, strict=True):
                self.runner.run(service.append_event(handle, event.model_copy(deep=True)))
        assert _described(handles[1]) == _described(handles[0])

    @rule(app=apps, user=users, session_id=ids)
    def redeliver(self, app: str, user: str, session_id: str) -> None:
        handles = self._both("get_session", app_name=app, user_id=user, session_id=session_id)
        if handles[0] is not None and handles[0].events:
            event = handles[0].events[0]
            for service, handle in zip((self.model, self.ours), handles, strict=True):
                self.runner.run(service.append_event(handle, event.model_copy(deep=True)))
            assert _described(handles[1]) == _described(handles[0])

    @rule(
        app=apps,
        user=users,
        session_id=ids,
        recent=st.none() | st.integers(0, 3),
        back=st.none() | st.sampled_from([0.0, 0.25, 60.0, 1e9]),
    )
    def get(
        self, app: str, user: str, session_id: str, recent: int | None, back: float | None
    ) -> None:
        config = GetSessionConfig(
            num_recent_events=recent, after_timestamp=None if back is None else self.clock - back
        )
        model, ours = self._both(
            "get_session", app_name=app, user_id=user, session_id=session_id, config=config
        )
        if model is not None:  # a window without events still has the time of the last one
            assert ours.last_update_time == model.last_update_time or not ours.events
        assert _described(ours) == _described(model)

    @rule(app=apps, user=users, session_id=ids)
    def delete(self, app: str, user: str, session_id: str) -> None:
        self._both("delete_session", app_name=app, user_id=user, session_id=session_id)

    @rule(app=apps, user=st.none() | users)
    def list_all(self, app: str, user: str | None) -> None:
        model, ours = self._both("list_sessions", app_name=app, user_id=user)
        assert {_key(session): _described(session) for session in ours.sessions} == {
            _key(session): _described(session) for session in model.sessions
        }

    @invariant()
    def user_states_agree(self) -> None:
        for app, user in getattr(self, "users", ()):
            model, ours = self._both("get_user_state", app_name=app, user_id=user)
            assert ours == model


def test_sessions_do_what_the_model_does(database_url: str) -> None:
    with asyncio.Runner() as runner:
        ours = DatabaseSessionService(database_url)
        machine = type("Machine", (SessionsMachine,), {"runner": runner, "ours": ours})
        run_state_machine_as_test(machine, settings=settings(stateful_step_count=25))
        runner.run(ours.close())
