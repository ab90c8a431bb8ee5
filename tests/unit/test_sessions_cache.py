"""What is kept of sessions that were read: how much, and which go first."""

from typing import Any

import pytest
from google.adk.events.event import Event

from adkpg import Database, DatabaseSessionService
from adkpg.adk import SessionService
from adkpg.errors import ConfigurationError
from adkpg.jsontext import UNREADABLE
from adkpg.sessions.cache import EVENT_BYTES, SharedEvents, again
from adkpg.sessions.history import History

ROOM = 3 * (EVENT_BYTES + 500)  # three events with short texts


def _key(session_id: str) -> tuple[str, str, str]:
    return "app", "user", session_id


def _keep(shared: SharedEvents, session_id: str, *events: Event, **row: Any) -> None:
    """Keeps events as of their first reading."""
    read = {
        "incarnation": "i",
        "revision": len(events),
        "revision_token": events[-1].id if events else None,
    }
    shared.keep(_key(session_id), read | row, None, _history(*events))


def _history(*events: Event) -> History:
    return History(
        list(events), sum(len(event.model_dump_json(exclude_none=True)) for event in events)
    )


def _kept(shared: SharedEvents, *session_ids: str) -> list[str]:
    return [session_id for session_id in session_ids if shared.get(_key(session_id)) is not None]


def test_the_session_unused_for_longest_goes_first() -> None:
    shared = SharedEvents(ROOM)
    for session_id in "abc":
        _keep(shared, session_id, Event(author="a"))
    assert shared.get(_key("a")) is not None
    _keep(shared, "d", Event(author="a"))
    assert _kept(shared, *"abcd") == ["a", "c", "d"]


def test_a_large_session_displaces_as_many_as_it_must() -> None:
    shared = SharedEvents(ROOM)
    for session_id in "abc":
        _keep(shared, session_id, Event(author="a"))
    _keep(shared, "d", Event(author="a"), Event(author="a"))
    assert _kept(shared, *"abcd") == ["c", "d"]


def test_a_session_too_large_by_itself_displaces_no_other() -> None:
    shared = SharedEvents(ROOM)
    _keep(shared, "a", Event(author="a"))
    _keep(shared, "b", Event(author="a", error_message="long " * 4_000))
    assert _kept(shared, *"ab") == ["a"]


def test_a_session_that_grows_too_large_is_not_kept_as_it_was() -> None:
    shared = SharedEvents(ROOM)
    _keep(shared, "a", Event(author="a"))
    _keep(shared, "a", *(Event(author="a") for _ in range(9)))
    assert _kept(shared, "a") == []


def test_keeping_again_frees_what_was_kept() -> None:
    shared = SharedEvents(ROOM)
    for _ in range(9):
        _keep(shared, "a", Event(author="a"))
    for session_id in "bc":
        _keep(shared, session_id, Event(author="a"))
    assert _kept(shared, *"abc") == ["a", "b", "c"]


def test_dropping_frees_its_room_and_is_idempotent() -> None:
    shared = SharedEvents(ROOM)
    for session_id in "abc":
        _keep(shared, session_id, Event(author="a"))
    for _ in range(2):
        shared.drop(_key("b"))
    _keep(shared, "d", Event(author="a"))
    assert _kept(shared, *"abcd") == ["a", "c", "d"]


def test_new_events_are_put_behind_those_there_were() -> None:
    shared = SharedEvents(ROOM)
    first, second = Event(author="a"), Event(author="b")
    _keep(shared, "a", first)
    row = {
        "incarnation": "i",
        "revision": 2,
        "revision_token": "of second",
    }
    shared.keep(_key("a"), row, shared.get(_key("a")), _history(second))
    prefix = shared.get(_key("a"))
    assert prefix is not None
    assert prefix.events == (first, second)
    assert again(("app", "user", "s"), prefix).parameters == {
        "app_name": "app",
        "user_id": "user",
        "session_id": "s",
        "incarnation": "i",
        "revision": 2,
        "revision_token": "of second",
        "count": 2,
    }


@pytest.mark.parametrize(
    ("events", "row"),
    [
        ([], {}),
        ([Event(author="a")], {"revision_token": None}),
        ([Event(author="a", error_code=UNREADABLE), Event(author="a")], {}),
    ],
    ids=["no event", "the last event was deleted", "an event could not be read"],
)
def test_what_cannot_be_kept_ends_what_was_kept(events: list[Event], row: dict[str, Any]) -> None:
    shared = SharedEvents(ROOM)
    _keep(shared, "a", Event(author="a"))
    _keep(shared, "a", *events, **row)
    assert _kept(shared, "a") == []


def test_nothing_is_known_of_nothing() -> None:
    asked = again(("app", "user", "s"), None).parameters
    assert set(asked.values()) == {"app", "user", "s", None}


def test_a_negative_size_is_refused() -> None:
    database = Database("postgresql://localhost/db")
    with pytest.raises(ConfigurationError, match="shared_events_mb=-1 is below 0"):
        DatabaseSessionService(database, shared_events_mb=-1)


def test_adk_commands_may_share_them_too() -> None:
    url = "adkpg://localhost/db"
    assert SessionService(url)._shared is None
    assert SessionService(url, shared_events_mb=1)._shared is not None
