"""Pages of sessions and events."""

from dataclasses import dataclass

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import ListSessionsResponse
from google.adk.sessions.session import Session


@dataclass(frozen=True)
class SessionsPage:
    """Some sessions, newest first, without events.

    Attributes:
      sessions: At most `limit` of them.
      next_cursor: Give it as `cursor` to get the following page; None at the end.
    """

    sessions: list[Session]
    next_cursor: str | None


@dataclass(frozen=True)
class EventsPage:
    """Some events of a session, in append order.

    Attributes:
      events: At most `limit` of them.
      next_cursor: Give it as `cursor` to get the following page; None at the end.
    """

    events: list[Event]
    next_cursor: str | None


class ListedSessions(ListSessionsResponse):
    """ADK's response, with the name of the following page that ADK is about to add.

    Attributes:
      next_page_token: Give it as `page_token` to get the following page; None at the end.
    """

    next_page_token: str | None = None
