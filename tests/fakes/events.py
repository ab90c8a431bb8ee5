"""Events as a Runner appends them, and what was said in a session."""

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def said(text: str, *, author: str = "user", **fields: Any) -> Event:
    """Returns an event with a text; ``state=`` is its delta."""
    delta = fields.pop("state", None)
    return Event(
        author=author,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta or {}),
        **fields,
    )


def texts(session: Session | None) -> list[str | None]:
    """Returns what was said in a session, in order."""
    assert session is not None
    return [
        event.content.parts[0].text if event.content and event.content.parts else None
        for event in session.events
    ]


async def session_with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY, state={"state": "whole"})
    for number, time in enumerate(times):
        await service.append_event(session, said(str(number), timestamp=time))
    return session
