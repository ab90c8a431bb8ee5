"""The story that session services of all versions and languages wrote, and what is to be read."""

import json
from pathlib import Path
from typing import Any

from google.adk.events.event import Event

from adkpg import Database, DatabaseSessionService

FIXTURES = Path(__file__).parent.parent / "transfer" / "fixtures"
STORY: list[dict[str, Any]] = json.loads((FIXTURES / "story.json").read_text())

# The states as all the events leave them.
STATES = {
    ("travel", "ana", "winter-and-summer"): {
        "trip": "Wien",
        "back": True,
        "nested": {"list": [1, 2.5, None, True]},
        "user:language": "de",
        "user:seat": "window",
        "app:season": "summer",
    },
    ("travel", "ana", "winter"): {
        "user:language": "de",
        "user:seat": "window",
        "app:season": "summer",
    },
    ("travel", "ben", "empty"): {"only": "state", "user:quiet": True, "app:season": "summer"},
    ("other", "ana", "winter"): {"app:of": "another"},
}


def told(session_id: str, app_name: str = "travel") -> list[Event]:
    """The events of one session, as they were given to the writer."""
    (found,) = (
        each for each in STORY if (each["app_name"], each["session_id"]) == (app_name, session_id)
    )
    return [Event.model_validate(fields) for fields in found["events"]]


async def require_story(
    database: Database, *, milliseconds: bool = False, without: frozenset[str] = frozenset()
) -> None:
    """Asserts that the whole story is stored, instants, order, contents and states included.

    Args:
      database: Where.
      milliseconds: Whether the writer knew no finer time.
      without: Fields of an event that the writer never held.
    """
    service = DatabaseSessionService(database)
    for (app_name, user_id, session_id), state in STATES.items():
        session = await service.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        assert session is not None
        assert session.state == state
        wanted = told(session_id, app_name)
        assert [event.id for event in session.events] == [event.id for event in wanted]
        for stored, given in zip(session.events, wanted, strict=True):
            if milliseconds:
                given.timestamp = round(given.timestamp * 1000) / 1000
            assert (stored.id, stored.timestamp) == (given.id, given.timestamp)
            assert _plain(stored, without) == _plain(given, without)
        if wanted:
            assert session.last_update_time == wanted[-1].timestamp


def _plain(event: Event, without: frozenset[str]) -> dict[str, Any]:
    fields = event.model_dump(exclude_none=True, exclude=set(without))
    # Writers differ in whether an empty collection is none.
    return {name: value for name, value in fields.items() if value not in (set(), {}, [])}
