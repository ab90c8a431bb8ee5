"""Pages: keyset pages of sessions and events, and the cursors between them."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from adkpg.errors import InvalidInput


@dataclass(frozen=True)
class SessionsPage:
    """Some sessions, newest first, without events.

    Attributes:
      sessions: At most `limit` of them.
      next: Give it as `after` to get the following page; None at the end.
    """

    sessions: list[Session]
    next: str | None


@dataclass(frozen=True)
class EventsPage:
    """Some events of a session, in append order.

    Attributes:
      events: At most `limit` of them.
      next: Give it as `after` to get the following page; None at the end.
    """

    events: list[Event]
    next: str | None


def session_cursor(moment: datetime, user_id: str, session_id: str) -> str:
    """Returns the cursor behind a session of a listing."""
    key = [moment.astimezone(UTC).isoformat(), user_id, session_id]
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def read_session_cursor(cursor: str) -> tuple[datetime, str, str]:
    """Reads what `session_cursor` wrote.

    Raises:
      InvalidInput: The cursor did not come from a page.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        moment, user_id, session_id = json.loads(base64.b64decode(padded, b"-_", validate=True))
        return datetime.fromisoformat(moment), str(user_id), str(session_id)
    except (binascii.Error, UnicodeDecodeError, ValueError, TypeError, RecursionError) as exc:
        raise _unknown(cursor) from exc


def read_event_cursor(cursor: str) -> int:
    """Reads the cursor behind an event: its place in the session.

    Raises:
      InvalidInput: The cursor did not come from a page.
    """
    if not cursor.isdecimal() or len(cursor) > 18:
        raise _unknown(cursor)
    return int(cursor)


def _unknown(cursor: str) -> InvalidInput:
    return InvalidInput(f"after={cursor!r} is not a cursor; give the `next` of the page before.")
