"""What memory tests say and read back."""

from typing import Any

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import PgVectorMemoryService

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def said(text: str, event_id: str = "", *, author: str = "user", **fields: Any) -> Event:
    """Returns an event with a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=event_id, author=author, content=content, **fields)


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
