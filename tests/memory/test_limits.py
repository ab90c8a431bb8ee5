"""Limits of memories and questions, and the longest ids in every key of memory."""

import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, SearchFilters, Settings
from adkpg.documents import Documents
from adkpg.errors import InvalidInput
from adkpg.keys import MAX_BYTES, MAX_SCOPE_BYTES, MAX_SOURCE_BYTES
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, entry
from tests.fakes.toys import ToyEmbedder

MEGABYTE = 1_000_000


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[Database]:
    settings = Settings(max_event_mb=1, max_query_kb=1, max_results=3)
    async with Database(database_url, settings=settings, remember=True) as database:
        yield database


async def test_memories_above_the_limit_whatever_the_way(
    small: Database, connection: asyncpg.Connection
) -> None:
    memory = PgVectorMemoryService(small, embedder=ToyEmbedder())
    sessions = DatabaseSessionService(small)
    session = await sessions.create_session(**USER)
    large = "word " * (MEGABYTE // 5 + 1)
    event = said(large, id="big")
    metadata = {"note": "x" * MEGABYTE}
    await memory.add_memory(**USER, memories=[MemoryEntry(id="m", content=_text("old"))])
    for call in (
        memory.add_memory(**USER, memories=[entry("small"), entry(large)]),
        memory.add_memory(**USER, memories=[entry("small")], custom_metadata=metadata),
        memory.add_events_to_memory(**USER, events=[said("small"), event]),
        memory.add_events_to_memory(**USER, events=[said("small")], custom_metadata=metadata),
        memory.update_memory(**USER, memory_id="m", text=large),
        memory.update_memory(**USER, memory_id="m", custom_metadata=metadata),
        sessions.append_event(session, event),
        Documents(memory).add(app_name="app", source="book.txt", text=large),
    ):
        with pytest.raises(InvalidInput, match=r"has 1,000,.* bytes, and ADKPG_MAX_EVENT_MB=1"):
            await call
    stored = await connection.fetch("SELECT memory_id, body FROM memories")
    assert [tuple(row) for row in stored] == [("m", "old")]
    assert await connection.fetchval("SELECT count(*) FROM events") == 0
    await sessions.append_event(session, said("goes on"))


async def test_a_question_above_the_limit(small: Database) -> None:
    memory = PgVectorMemoryService(small, embedder=ToyEmbedder())
    await memory.add_memory(**USER, memories=[entry("tea")])
    assert len((await memory.search_memory(**USER, query="tea " * 250)).memories) == 1
    filters = SearchFilters(authors=["x" * 600], metadata={"k": "y" * 500})
    for call in (
        memory.search_memory(**USER, query="tea " * 251),
        memory.search(**USER, query="tea " * 251),
        memory.search(**USER, query="tea", filters=filters),
    ):
        with pytest.raises(InvalidInput, match=r"The question has .*ADKPG_MAX_QUERY_KB=1 "):
            await call


async def test_more_results_than_the_limit(small: Database) -> None:
    memory = PgVectorMemoryService(small, embedder=ToyEmbedder())
    await memory.add_memory(**USER, memories=[entry(f"tea {number}") for number in range(5)])
    assert len((await memory.search_memory(**USER, query="tea")).memories) == 3
    with pytest.raises(InvalidInput, match="top_k=4 is above ADKPG_MAX_RESULTS=3"):
        await memory.search(**USER, query="tea", top_k=4)
    page = await memory.list_memories(**USER, limit=4)
    rest = await memory.list_memories(**USER, limit=4, cursor=page.next_cursor)
    assert [len(page.items), len(rest.items)] == [3, 2]


def _noise(seed: int, size: int) -> str:
    """Text of so many bytes that nothing compresses."""
    characters = random.Random(seed).choices(range(0x10000, 0x10FFFF), k=size // 4)
    return "".join(map(chr, characters))


async def test_every_key_has_room_for_the_longest_ids(
    database: Database, connection: asyncpg.Connection
) -> None:
    user: dict[str, Any] = {
        "app_name": _noise(1, MAX_SCOPE_BYTES - MAX_BYTES),
        "user_id": _noise(2, MAX_BYTES),
    }
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder(dimensions=1_024))
    sessions = DatabaseSessionService(database, remember=True)
    session_id, event_id, memory_id = (_noise(number, MAX_BYTES) for number in (3, 4, 5))
    session = await sessions.create_session(
        **user, session_id=session_id, state={"app:k": 1, "user:k": 1}
    )
    word = "".join(random.Random(6).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2_040))
    event = said(f"tea {word}", id=event_id, invocation_id=_noise(7, MAX_BYTES))
    await sessions.append_event(session, event)
    note = MemoryEntry(id=memory_id, content=_text("tea too"))
    await memory.add_memory(**user, memories=[note], custom_metadata={"ttl": 3600})
    await memory.add_session_to_memory(session)
    await Documents(memory).add(**user, source=_noise(8, MAX_SOURCE_BYTES), text="tea as well")
    found = await memory.search(**user, query="tea", exclude_invocation_id="none")
    assert len(found) == 3
    positions = "SELECT count(DISTINCT position) FROM memory_vectors"
    assert await connection.fetchval(positions) == 3
    await memory.delete_memory(**user, memory_id=found[0].memory.id)
    await sessions.delete_session(**user, session_id=session_id, forget=True)


async def test_a_scope_that_memory_has_no_room_for(database: Database) -> None:
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    user: dict[str, Any] = {"app_name": "a" * 100, "user_id": "u" * MAX_BYTES}
    remembering = DatabaseSessionService(database, remember=True)
    session = await remembering.create_session(**user)
    for call in (
        memory.add_memory(**user, memories=[entry("tea")]),
        memory.add_events_to_memory(**user, events=[said("tea")]),
        Documents(memory).add(**user, source="tea.txt", text="tea"),
        remembering.append_event(session, said("tea")),
    ):
        with pytest.raises(InvalidInput, match="app_name and user_id have 612 bytes together"):
            await call
    assert await memory.search(**user, query="tea") == []
    await DatabaseSessionService(database, remember=False).append_event(session, said("tea"))


def _text(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])
