"""Appends that remember, at once with each other, with ingests and with deletions."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from google.adk.events.event_actions import EventActions

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from tests.fakes.conversation import USER, bodies, calls_a_tool, said, whole
from tests.fakes.locks import locked

pytestmark = pytest.mark.race


async def test_many_writers_of_one_session_are_remembered_in_the_order_of_their_events(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with Database(database_url) as one, Database(database_url) as two:
        services = [
            DatabaseSessionService(each, on_conflict="merge", remember=True) for each in (one, two)
        ]
        await services[0].create_session(**USER, session_id="s")

        async def write(number: int) -> None:
            service = services[number % 2]
            session = await whole(service)
            for turn in range(8):
                event = (
                    calls_a_tool("swordfish") if turn == 3 else said(f"writer {number} turn {turn}")
                )
                await service.append_event(session, event)

        await asyncio.gather(*(write(number) for number in range(8)))
    rows = await connection.fetch(
        "SELECT m.position - min(m.position) OVER () AS place,"
        " row_number() OVER (ORDER BY e.seq) - 1 AS expected"
        " FROM memories m JOIN events e USING (app_name, user_id, session_id, event_id)"
    )
    assert len(rows) == 56
    assert [row["place"] for row in rows] == [row["expected"] for row in rows]
    following = await connection.fetchval(
        "SELECT s.memory_position - max(m.position) FROM sessions s"
        " JOIN memories m USING (app_name, user_id, session_id) GROUP BY s.memory_position"
    )
    assert following == 1


@pytest.fixture
async def both(database_url: str) -> AsyncIterator[tuple[DatabaseSessionService, Any]]:
    """Services on pools of their own, as two processes have them."""
    async with Database(database_url) as one, Database(database_url) as two:
        yield (
            DatabaseSessionService(one, on_conflict="merge", remember=True),
            PgVectorMemoryService(two, mode="text"),
        )


async def test_an_append_waits_for_the_ingest_and_goes_behind_it(
    both: tuple[DatabaseSessionService, PgVectorMemoryService],
    database_url: str,
    connection: asyncpg.Connection,
) -> None:
    sessions, memory = both
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("one", "e1"))
    reordered = session.model_copy(deep=True)
    reordered.events.insert(0, said("before one", "e0"))  # all places are dealt anew
    async with locked(
        database_url, "LOCK TABLE adkpg.memory_vectors IN ACCESS EXCLUSIVE MODE"
    ) as lock:
        ingest = asyncio.create_task(memory.add_session_to_memory(reordered))
        await lock.until_blocked(1)
        append = asyncio.create_task(sessions.append_event(session, said("two", "e2")))
        await lock.until_blocked(2)
        await lock.release()
        await asyncio.gather(ingest, append)
    assert await bodies(connection) == ["user: before one", "user: one", "user: two"]
    places = [row[0] for row in await connection.fetch("SELECT position FROM memories ORDER BY 1")]
    assert places == list(range(places[0], places[0] + 3))


async def test_an_ingest_waits_for_the_append_and_keeps_what_it_wrote(
    both: tuple[DatabaseSessionService, PgVectorMemoryService],
    database_url: str,
    connection: asyncpg.Connection,
) -> None:
    sessions, memory = both
    session = await sessions.create_session(**USER, session_id="s", state={"app:n": 0})
    await sessions.append_event(session, said("one", "e1"))
    known = session.model_copy(deep=True)
    state = EventActions(state_delta={"app:n": 1})  # merged after the session's row is locked
    async with locked(database_url, "SELECT FROM adkpg.app_states FOR UPDATE") as lock:
        append = asyncio.create_task(
            sessions.append_event(session, said("two", "e2", actions=state))
        )
        await lock.until_blocked(1)
        ingest = asyncio.create_task(memory.add_session_to_memory(known))
        added = asyncio.create_task(
            memory.add_events_to_memory(**USER, events=[said("two", "e2")], session_id="s")
        )
        await lock.until_blocked(3)
        await lock.release()
        await asyncio.gather(append, ingest, added)
    assert await bodies(connection) == ["user: one", "user: two"]


async def test_appends_ingests_and_deletions_at_once_lose_nothing_and_never_deadlock(
    both: tuple[DatabaseSessionService, PgVectorMemoryService], connection: asyncpg.Connection
) -> None:
    sessions, memory = both
    await sessions.create_session(**USER, session_id="s")
    chance = random.Random(3)
    deleted: set[str] = set()

    async def append(writer: int) -> None:
        session = await whole(sessions)
        for turn in range(6):
            await sessions.append_event(session, said(f"{writer} {turn}", f"{writer}/{turn}"))

    async def ingest() -> None:
        for _ in range(5):
            await memory.add_session_to_memory(await whole(sessions))

    async def add() -> None:
        for _ in range(5):
            events = (await whole(sessions)).events
            some = chance.sample(events, min(4, len(events)))
            await memory.add_events_to_memory(**USER, events=some, session_id="s")

    async def delete() -> None:
        for _ in range(6):
            page = await memory.list_memories(**USER, limit=50)
            if page.items:
                chosen = chance.choice(page.items)
                await memory.delete_memory(**USER, memory_id=chosen.id)
                deleted.add(str(chosen.event_id))

    async with asyncio.timeout(60):
        await asyncio.gather(
            *(append(writer) for writer in range(4)), ingest(), ingest(), add(), add(), delete()
        )
    stored = await whole(sessions)
    assert len(stored.events) == 24
    rows = await connection.fetch("SELECT event_id FROM memories")
    assert {row["event_id"] for row in rows} == {event.id for event in stored.events} - deleted
    assert len(rows) == 24 - len(deleted)
    await memory.add_session_to_memory(stored)
    rows = await connection.fetch("SELECT event_id FROM memories ORDER BY position")
    expected = [event.id for event in stored.events if event.id not in deleted]
    assert [row["event_id"] for row in rows] == expected
    orphans = await connection.fetchval(
        "SELECT count(*) FROM memory_lexemes l WHERE NOT EXISTS (SELECT FROM memories m WHERE"
        " m.app_name = l.app_name AND m.user_id = l.user_id AND m.position = l.position)"
    )
    assert orphans == 0
    waiting = await connection.fetchval("SELECT count(*) FROM memory_jobs")
    assert waiting == len(expected)
