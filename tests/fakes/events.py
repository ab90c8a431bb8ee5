"""Whose the sessions of most tests are, and a session with events."""

from typing import Any

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from adkpg.testing.events import said, texts

__all__ = ["KEY", "said", "session_with_events", "texts"]

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user"}


async def session_with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY, state={"state": "whole"})
    for number, time in enumerate(times):
        await service.append_event(session, said(str(number), timestamp=time))
    return session
