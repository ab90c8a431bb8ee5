"""Events as a Runner appends them, and what was said in a session."""

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types


def said(
    text: str, *, author: str = "user", state: dict[str, Any] | None = None, **fields: Any
) -> Event:
    """Returns an event with a text.

    Args:
      text: What is said.
      author: ``user``, or an agent's name.
      state: The changes of state that come with it.
      **fields: Further fields of the event, such as ``id``, ``timestamp`` (seconds since 1970) and
        ``invocation_id``.
    """
    return Event(
        author=author,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=state or {}),
        **fields,
    )


def texts(session: Session | None) -> list[str | None]:
    """Returns what was said in a session, in its order; None for an event without content.

    Raises:
      AssertionError: There is no session.
    """
    assert session is not None, "there is no such session"
    return [
        event.content.parts[0].text if event.content and event.content.parts else None
        for event in session.events
    ]
