"""Whatever is done to a session, services that share events answer as one that does not.

On one database, one service keeps all that it reads, one has room for about three events, and one
keeps nothing. Writers append in both ways through objects of any age; somebody else deletes
events, restores another history, and writes what cannot be read.
"""

import asyncio
import itertools
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adkpg import Database, DatabaseSessionService
from adkpg.errors import EventConflict, SessionExists, SessionNotFound, StaleSession
from adkpg.sessions.cache import EVENT_BYTES, SharedEvents
from adkpg.tooling.testing import said

pytestmark = pytest.mark.property

ids = st.sampled_from(["s", "t"])
writers = st.sampled_from(["keeping", "tiny", "merging"])
deltas = st.dictionaries(
    st.sampled_from(["k", "app:k", "user:k", "temp:k"]), st.none() | st.integers(0, 9), max_size=2
)

_NEXT = """
WITH s AS (UPDATE adkpg.sessions SET revision = revision + 1
           WHERE app_name = $1 AND user_id = 'u' AND session_id = $2 RETURNING *)
INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
SELECT app_name, user_id, session_id, revision, $3, now(), $4::text::json FROM s
"""
_DELETE = "DELETE FROM adkpg.events WHERE app_name = $1 AND user_id = 'u' AND session_id = $2"
_OLDEST, _NEWEST, _ALL_BUT_NEWEST = (
    f"seq {place} FROM adkpg.events WHERE app_name = $1 AND session_id = $2)"
    for place in ("= (SELECT min(seq)", "= (SELECT max(seq)", "< (SELECT max(seq)")
)
_REVISION = "UPDATE adkpg.sessions SET revision = $3 WHERE app_name = $1 AND session_id = $2"


class SharedEventsMachine(RuleBasedStateMachine):
    """Changes two sessions in every way and reads them on all services."""

    runner: asyncio.Runner
    connection: asyncpg.Connection
    services: dict[str, DatabaseSessionService]
    runs = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.app = f"run {next(self.runs)}"
        self.handles: list[Session] = []
        self.said = itertools.count()

    def _place(self, session_id: str) -> dict[str, Any]:
        return {"app_name": self.app, "user_id": "u", "session_id": session_id}

    def _get(self, name: str, session_id: str) -> Session | None:
        return self.runner.run(self.services[name].get_session(**self._place(session_id)))

    def _execute(self, sql: str, *arguments: Any) -> None:
        self.runner.run(self.connection.execute(sql, self.app, *arguments))

    def _event(self, delta: dict[str, Any]) -> Event:
        return said(str(next(self.said)), invocation_id="i", state=dict(delta))

    @rule(name=writers, session_id=ids, state=deltas)
    def create(self, name: str, session_id: str, state: dict[str, Any]) -> None:
        creating = self.services[name].create_session(**self._place(session_id), state=state)
        try:
            self.handles.append(self.runner.run(creating))
        except SessionExists:
            return

    @rule(name=writers, session_id=ids)
    def take(self, name: str, session_id: str) -> None:
        session = self._get(name, session_id)
        if session is not None:
            self.handles.append(session)

    @rule(name=writers, session_id=ids, deltas=st.lists(deltas, min_size=1, max_size=3))
    def talk(self, name: str, session_id: str, deltas: list[dict[str, Any]]) -> None:
        """A turn of a session that is there."""
        session = self._get(name, session_id)
        if session is None:
            creating = self.services[name].create_session(**self._place(session_id))
            session = self.runner.run(creating)
        for delta in deltas:
            self.runner.run(self.services[name].append_event(session, self._event(delta)))

    @precondition(lambda self: self.handles)
    @rule(
        data=st.data(),
        name=writers,
        deltas=st.lists(deltas, min_size=1, max_size=3),
        rewind=st.booleans(),
    )
    def append(
        self, data: st.DataObject, name: str, deltas: list[dict[str, Any]], rewind: bool
    ) -> None:
        handle = data.draw(st.sampled_from(self.handles), label="handle")
        for delta in deltas:
            event = self._event(delta)
            if rewind:
                event.actions = EventActions(rewind_before_invocation_id="i", state_delta=delta)
            self._append(name, handle, event)

    @precondition(lambda self: any(handle.events for handle in self.handles))
    @rule(data=st.data(), name=writers)
    def redeliver(self, data: st.DataObject, name: str) -> None:
        handles = [handle for handle in self.handles if handle.events]
        event = data.draw(st.sampled_from([e for handle in handles for e in handle.events]))
        handle = data.draw(st.sampled_from(self.handles))
        self._append(name, handle, event.model_copy(deep=True))

    def _append(self, name: str, handle: Session, event: Event) -> None:
        try:
            self.runner.run(self.services[name].append_event(handle, event))
        except (SessionNotFound, StaleSession, EventConflict):
            return

    @rule(name=writers, session_id=ids, forget=st.booleans())
    def delete(self, name: str, session_id: str, forget: bool) -> None:
        deleting = self.services[name].delete_session(**self._place(session_id), forget=forget)
        self.runner.run(deleting)

    @rule(
        session_id=ids,
        which=st.sampled_from([_OLDEST, _ALL_BUT_NEWEST, _NEWEST, "true"]),
    )
    def retain(self, session_id: str, which: str) -> None:
        self._execute(f"{_DELETE} AND {which}", session_id)

    @rule(session_id=ids, revision=st.integers(0, 4), again=st.integers(0, 4))
    def restore(self, session_id: str, revision: int, again: int) -> None:
        """An older copy takes over, and history goes on from there."""
        self._execute(f"{_DELETE} AND seq > $3", session_id, revision)
        left = self.runner.run(
            self.connection.fetchval(
                "SELECT coalesce(max(seq), 0) FROM adkpg.events"
                " WHERE app_name = $1 AND session_id = $2",
                self.app,
                session_id,
            )
        )
        self._execute(_REVISION, session_id, left)
        for _ in range(again):
            event = self._event({})
            self._execute(_NEXT, session_id, event.id, event.model_dump_json(exclude_none=True))

    @rule(
        session_id=ids,
        payload=st.sampled_from(['{"author": 1}', '{"author": "\\ud800"}', '{"from": "newer"}']),
    )
    def write_what_cannot_be_read(self, session_id: str, payload: str) -> None:
        self._execute(_NEXT, session_id, f"odd {next(self.said)}", payload)

    @rule(
        session_id=ids,
        recent=st.none() | st.integers(0, 3),
        after=st.none() | st.sampled_from([0.0, 9e9]),
    )
    def window(self, session_id: str, recent: int | None, after: float | None) -> None:
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        found = [
            self.runner.run(service.get_session(**self._place(session_id), config=config))
            for service in self.services.values()
        ]
        assert all(_seen(session) == _seen(found[0]) for session in found)

    @rule(session_id=ids, name=st.sampled_from(["keeping", "tiny"]))
    def spoil(self, session_id: str, name: str) -> None:
        """A caller does what it likes with its list and its state."""
        session = self._get(name, session_id)
        if session is not None:
            session.events.reverse()
            session.events.append(said("mine"))
            session.state["k"] = session.state["app:k"] = "mine"

    @invariant()
    def all_services_agree(self) -> None:
        for session_id in ("s", "t") if hasattr(self, "app") else ():
            plain = _seen(self._get("merging", session_id))
            for name in ("keeping", "tiny", "both"):
                assert _seen(self._get(name, session_id)) == plain, name


def _seen(session: Session | None) -> Any:
    """Returns all that can be seen, but for what is made up anew for an event without an id."""
    if session is None:
        return None
    events = [event.model_dump(exclude={"id", "timestamp"}) for event in session.events]
    whole = [(event.id, event.timestamp) for event in session.events if not _odd(event)]
    return session.model_copy(update={"events": []}), session._storage_update_marker, events, whole


def _odd(event: Event) -> bool:
    return event.content is None and not event.actions.rewind_before_invocation_id


def test_services_that_share_events_answer_as_one_that_does_not(database_url: str) -> None:
    with asyncio.Runner() as runner:
        database = Database(database_url)
        services = {
            "keeping": DatabaseSessionService(database, shared_events_mb=100),
            "tiny": DatabaseSessionService(database, shared_events_mb=1),
            "both": DatabaseSessionService(database, shared_events_mb=100, on_conflict="merge"),
            "merging": DatabaseSessionService(database, on_conflict="merge"),
        }
        services["tiny"]._shared = SharedEvents(3 * (EVENT_BYTES + 500))
        connection = runner.run(asyncpg.connect(database_url))
        machine = type(
            "Machine",
            (SharedEventsMachine,),
            {"runner": runner, "services": services, "connection": connection},
        )
        run_state_machine_as_test(machine, settings=settings(stateful_step_count=25))
        runner.run(connection.close())
        runner.run(database.close())
