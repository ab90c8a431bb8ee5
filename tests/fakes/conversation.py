"""What memory tests say and read back."""

from typing import Any

import asyncpg
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.search.options import Mode

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def said(text: str, event_id: str = "", *, author: str = "user", **fields: Any) -> Event:
    """Returns an event with a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=event_id, author=author, content=content, **fields)


def calls_a_tool(word: str) -> Event:
    """Returns an event of an agent that asks a tool for a word, and says nothing."""
    call = types.FunctionCall(id="c", name="look_up", args={"word": word})
    return Event(author="agent", content=types.Content(parts=[types.Part(function_call=call)]))


def session_of(*events: Event, session_id: str = "s", user_id: str = "user") -> Session:
    """Returns a Session object as a runner holds it; it is stored nowhere."""
    return Session(id=session_id, app_name="app", user_id=user_id, events=list(events))


def conversation(*texts: str, session_id: str = "s") -> Session:
    """Returns a session of events e0, e1, … in one author's words."""
    return session_of(
        *(said(text, f"e{number}") for number, text in enumerate(texts)), session_id=session_id
    )


def entry(text: str, memory_id: str | None = None, **fields: Any) -> MemoryEntry:
    """Returns a memory entry with a text."""
    return MemoryEntry(id=memory_id, content=types.Content(parts=[types.Part(text=text)]), **fields)


async def remember_apart(memory: PgVectorMemoryService, *texts: str) -> None:
    """Remembers texts that are no neighbours of each other."""
    await memory.add_memory(**USER, memories=[entry(text) for text in texts])


def text_of(memory: MemoryEntry) -> str:
    """Returns an entry's text."""
    return " ".join(part.text for part in memory.content.parts or [] if part.text)


async def found(memory: PgVectorMemoryService, query: str, **options: Any) -> list[str]:
    """Returns the texts a search finds, the best first."""
    hits = await memory.search(**{**USER, **options}, query=query)
    return [text_of(hit.memory) for hit in hits]


async def bodies(connection: asyncpg.Connection) -> list[str]:
    """Returns what is remembered, by position."""
    rows = await connection.fetch("SELECT body FROM memories ORDER BY user_id, position")
    return [row["body"] for row in rows]


async def whole(sessions: DatabaseSessionService, session_id: str = "s") -> Session:
    """Returns a session as it is stored."""
    stored = await sessions.get_session(**USER, session_id=session_id)
    assert stored is not None
    return stored


async def wait(words: PgVectorMemoryService, *texts: str, user: str = "user") -> None:
    """Makes texts of one session wait for vectors."""
    events = [said(text, f"e{number}") for number, text in enumerate(texts)]
    await words.add_session_to_memory(session_of(*events, user_id=user))


async def pending(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM memory_jobs")
    return count
