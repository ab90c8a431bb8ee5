"""The session services that one suite is run over, and what it needs to talk to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import (
    DatabaseSessionService as AdkDatabaseSessionService,
)
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import DatabaseSessionService

KINDS = ("in_memory", "adk_database", "adkpg")
KEY: dict[str, Any] = {"app_name": "app", "user_id": "user"}


@asynccontextmanager
async def service_of(kind: str, url: str) -> AsyncIterator[BaseSessionService]:
    """Runs one of the services, on this test's own database where it needs one."""
    if kind == "in_memory":
        yield InMemorySessionService()
    elif kind == "adk_database":
        engine_url = url.replace("postgresql://", "postgresql+asyncpg://", 1)
        async with AdkDatabaseSessionService(engine_url) as theirs:
            yield theirs
    else:
        async with DatabaseSessionService(url) as ours:
            yield ours


def expecting(ours: Any, **others: tuple[Any, str]) -> pytest.MarkDecorator:
    """Parametrizes a test over the services; one that differs says what it does and why."""
    return pytest.mark.parametrize(
        ("kind", "expected"),
        [(kind, others.get(kind, (ours, ""))[0]) for kind in KINDS],
        ids=KINDS,
    )


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


every_service = pytest.mark.parametrize("kind", KINDS)


async def session_with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY, state={"state": "whole"})
    for number, time in enumerate(times):
        await service.append_event(session, said(str(number), timestamp=time))
    return session
