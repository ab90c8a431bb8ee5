"""The memory services that one suite is run over, and what it needs to talk to them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import InMemoryVectorMemoryService, PgVectorMemoryService

KINDS = ("in_memory", "adk_sqlite", "adkpg", "adkpg_in_memory")
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


class EveryTextAlike:
    """An embedder to which all texts mean the same, and no question means any of them.

    So the search by vectors runs, and what is found is found by its words.
    """

    model = "alike"
    dimensions = 3
    floor = 0.5

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]

    async def embed_query(self, _text: str) -> list[float]:
        return [0.0, 1.0, 0.0]


@asynccontextmanager
async def service_of(kind: str, url: str, directory: Path) -> AsyncIterator[BaseMemoryService]:
    """Runs one of the services, on this test's own database or file where it needs one."""
    if kind == "in_memory":
        yield InMemoryMemoryService()
    elif kind == "adk_sqlite":
        theirs = SqliteMemoryService(directory / "memories.db")
        yield theirs
        await theirs.close()
    elif kind == "adkpg_in_memory":
        yield InMemoryVectorMemoryService(embedder=EveryTextAlike())
    else:
        async with PgVectorMemoryService(url, embedder=EveryTextAlike()) as ours:
            yield ours


def expecting(ours: Any, **others: tuple[Any, str]) -> pytest.MarkDecorator:
    """Parametrizes a test over the services; one that differs says what it does and why."""
    return pytest.mark.parametrize(
        ("kind", "expected"),
        [(kind, others.get(kind, (ours, ""))[0]) for kind in KINDS],
        ids=KINDS,
    )


def said(text: str, event_id: str = "", *, author: str = "user", **fields: Any) -> Event:
    """Returns an event with a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=event_id, author=author, content=content, **fields)


def session_of(
    *events: Event, session_id: str = "s", app_name: str = "app", user_id: str = "user"
) -> Session:
    """Returns a Session object as a runner holds it; it is stored nowhere."""
    return Session(id=session_id, app_name=app_name, user_id=user_id, events=list(events))


async def found(service: BaseMemoryService, query: str, **scope: str) -> list[str]:
    """Returns the texts a search finds, the best first."""
    response = await service.search_memory(**(USER | scope), query=query)
    return texts_of(response.memories)


def texts_of(memories: Sequence[Any]) -> list[str]:
    """Returns each memory's text."""
    return [
        " ".join(part.text for part in memory.content.parts or [] if part.text)
        for memory in memories
    ]


async def remember_apart(service: BaseMemoryService, *texts: str) -> None:
    """Remembers each text in a session of its own, so that none is another's neighbour."""
    for number, text in enumerate(texts):
        await service.add_session_to_memory(session_of(said(text), session_id=f"s{number}"))
