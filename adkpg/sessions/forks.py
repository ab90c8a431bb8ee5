"""Forks: a session copied up to an event, with its own state as it was there."""

from collections.abc import Sequence
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.sessions.session import Session

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import ConstraintViolated, InvalidInput, SessionExists, SessionNotFound
from adkpg.keys import SessionKey
from adkpg.limits import bytes_of
from adkpg.sessions import life_statements, statements
from adkpg.sessions.expiry import Expiry
from adkpg.sessions.records import Marker
from adkpg.sessions.state import refuse_large, split
from adkpg.timestamps import clamped


async def fork(
    database: Database, source: Session, *, fork_id: str, event_id: str | None, end: Expiry
) -> None:
    """Copies a session that was read whole.

    Raises:
      SessionNotFound: It is gone.
      SessionExists: A session of the new id exists.
      InvalidInput: It has no such event.
    """
    place: SessionKey = {
        "app_name": source.app_name,
        "user_id": source.user_id,
        "session_id": source.id,
    }
    marker = Marker.of(source)
    assert marker is not None
    number = _number(source, event_id)
    last = source.events[number - 1] if number else None
    revision = marker.revision - len(source.events) + number
    select_initial = life_statements.select_initial_state(**place, incarnation=marker.incarnation)
    found = await database.run.fetch_one(select_initial)
    if found is None:
        raise _gone(source)
    initial = jsontext.read_state(found["state"])
    own = _own_state(source, number, initial)
    now = platform_time.get_time()
    fork_place: SessionKey = {**place, "session_id": fork_id}
    copy = life_statements.fork_session(
        **place,
        incarnation=marker.incarnation,
        revision=revision,
        fork_id=fork_id,
        fork_incarnation=str(uuid4()),
        state=jsontext.write_state(own),
        initial_state=found["state"],
        state_limit=bytes_of(database.settings, "max_state_mb"),
        timestamp=clamped(now),
        updated_at=clamped(last.timestamp if last is not None else now),
        ttl=end.ttl,
        expires_at=end.expires_at,
    )
    await database.run.fetch(statements.delete_expired_session(**fork_place))
    try:
        made = await database.run.fetch_one(copy)
    except ConstraintViolated as exc:
        refuse_large(exc, database.settings)
        raise
    if made is None:
        if await database.run.fetch_one(select_initial) is None:
            raise _gone(source)
        raise SessionExists(f"Session with id {fork_id} already exists; give the fork another id.")


def _number(source: Session, event_id: str | None) -> int:
    """Returns how many of the events are copied."""
    if event_id is None:
        return len(source.events)
    for number, event in enumerate(source.events, start=1):
        if event.id == event_id:
            return number
    raise InvalidInput(
        f"Session {source.id} has no event {event_id!r}; list_events_page names those that it has."
    )


def _own_state(source: Session, number: int, initial: dict[str, object]) -> dict[str, object]:
    """Returns the session's own state after some of its events.

    A key that no event has set is as it always was. What later events have set is as events before
    have, or as the session began; if events were pruned that had set it, it is missing.
    """
    whole = split(source.state).session
    now = jsontext.read_state(whole)
    before = _deltas(source.events[:number])
    later = _deltas(source.events[number:])
    state = {key: value for key, value in now.items() if key not in later}
    state |= {key: value for key, value in initial.items() if key in later}
    return state | before


def _deltas(events: Sequence[Event]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for event in events:
        if event.actions.state_delta:
            merged |= jsontext.read_state(split(event.actions.state_delta).session)
    return merged


def _gone(source: Session) -> SessionNotFound:
    return SessionNotFound(f"Session {source.id} not found; it was deleted while it was copied.")
