"""Whichever call is cancelled, whenever: nothing of anybody else's is lost, and no lock stays."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from starlette.responses import StreamingResponse
from starlette.types import Message

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import forget
from adkpg.tooling.testing import said

pytestmark = pytest.mark.fault

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}

Scope = Callable[[Callable[[], Awaitable[object]], float], Awaitable[None]]


async def by_anyio(call: Callable[[], Awaitable[object]], after_s: float) -> None:
    """As ADK's server does when its client leaves: each await is cancelled again."""
    with anyio.move_on_after(after_s):
        await call()


async def by_asyncio(call: Callable[[], Awaitable[object]], after_s: float) -> None:
    try:
        async with asyncio.timeout(after_s):
            await call()
    except TimeoutError:
        return


def note(text: str, memory_id: str | None = None) -> MemoryEntry:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(id=memory_id, content=content)


async def left_open(url: str) -> list[str]:
    """What other connections to the database still hold, once those that end have ended."""
    connection = await asyncpg.connect(url)
    rows: list[asyncpg.Record] = []
    try:
        for _ in range(200):
            rows = await connection.fetch(
                "SELECT state, query FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            )
            if not rows:
                break
    finally:
        await connection.close()
    return [f"{row['state']}: {row['query']}" for row in rows]


Call = Callable[[DatabaseSessionService, PgVectorMemoryService, Session, str], Awaitable[object]]

CALLS: dict[str, Call] = {
    "add_session_to_memory": lambda _, memory, ana, __: memory.add_session_to_memory(ana),
    "add_events_to_memory": lambda _, memory, ana, __: memory.add_events_to_memory(
        **ANA, events=ana.events
    ),
    "add_memory": lambda _, memory, *__: memory.add_memory(**ANA, memories=[note("a plane")]),
    "update_memory": lambda _, memory, __, id_: memory.update_memory(
        **ANA, memory_id=id_, text="a bus"
    ),
    "delete_memory": lambda _, memory, __, id_: memory.delete_memory(**ANA, memory_id=id_),
    "search": lambda _, memory, *__: memory.search(**ANA, query="trains"),
    "delete_session": lambda sessions, _, ana, __: sessions.delete_session(
        **ANA, session_id=ana.id, forget=True
    ),
    "forget": lambda sessions, *_: forget(sessions.database, **ANA),
    "append_event": lambda sessions, _, ana, __: sessions.append_event(ana, said("x")),
    "create_session": lambda sessions, *_: sessions.create_session(**ANA),
    "get_session": lambda sessions, _, ana, __: sessions.get_session(**ANA, session_id=ana.id),
}


@pytest.mark.parametrize("scope", [by_anyio, by_asyncio])
@pytest.mark.parametrize("name", CALLS)
async def test_nobody_loses_what_they_say_after_a_cancelled_call(
    database: Database, database_url: str, name: str, scope: Scope
) -> None:
    sessions = DatabaseSessionService(database, remember=True)
    memory = PgVectorMemoryService(database, mode="text")
    bob = await sessions.create_session(**BOB)
    chance = random.Random(name)
    for round_ in range(25):
        ana = await sessions.create_session(**ANA)
        ana.events = [said(f"turn {i} about trains", id=f"{round_}.{i}") for i in range(20)]
        await memory.add_memory(**ANA, memories=[note("a train", f"n{round_}")])
        call = partial(CALLS[name], sessions, memory, ana, f"n{round_}")
        await scope(call, chance.random() * 0.03)
        await sessions.append_event(bob, said(str(round_), id=f"b{round_}"))
    async with Database(database_url) as elsewhere:
        stored = await DatabaseSessionService(elsewhere).get_session(**BOB, session_id=bob.id)
    assert stored is not None
    assert [event.id for event in stored.events] == [f"b{round_}" for round_ in range(25)]
    assert await left_open(database_url) == []


async def remembering(memory: PgVectorMemoryService, session: Session) -> AsyncIterator[str]:
    await memory.add_session_to_memory(session)
    yield "done"


async def leave(after_s: float) -> Message:
    await asyncio.sleep(after_s)
    return {"type": "http.disconnect"}


async def ignore(_message: Message) -> None:
    return None


async def test_a_client_that_leaves_a_streaming_response_costs_nobody_anything(
    database: Database, database_url: str
) -> None:
    sessions = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, mode="text")
    ana, bob = await sessions.create_session(**ANA), await sessions.create_session(**BOB)
    for round_ in range(20):
        ana.events = [said(f"turn {i}", id=f"{round_}.{i}") for i in range(20)]
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
        await StreamingResponse(remembering(memory, ana))(
            scope, partial(leave, round_ / 1000), ignore
        )
        await sessions.append_event(bob, said(str(round_)))
    connection = await asyncpg.connect(database_url)
    stored = await connection.fetchval(
        "SELECT count(*) FROM adkpg.events WHERE session_id = $1", bob.id
    )
    await connection.close()
    assert stored == 20
    assert await left_open(database_url) == []
