"""An ingest is one call of a function where only new memories come, as a plan would write them."""

import random
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.errors import InvalidInput
from adkpg.memory.drafts import drafts_of_events
from adkpg.memory.write import apply
from tests.fakes.conversation import USER, conversation, said
from tests.fakes.proxy import Proxy

ROWS = """
SELECT session_id, event_id, body, row_number() OVER w AS place,
       (SELECT count(*) FROM adkpg.memory_lexemes l
         WHERE (l.app_name, l.user_id, l.position) = (m.app_name, m.user_id, m.position)) AS words,
       (SELECT count(*) FROM adkpg.memory_jobs j
         WHERE (j.app_name, j.user_id, j.position) = (m.app_name, m.user_id, m.position)) AS jobs,
       position + 1 - (SELECT s.memory_position FROM adkpg.sessions s
         WHERE (s.app_name, s.user_id, s.session_id) = (m.app_name, m.user_id, m.session_id))
         AS before_next
FROM adkpg.memories m WHERE user_id = $1 WINDOW w AS (PARTITION BY session_id ORDER BY position)
ORDER BY session_id, position
"""


@pytest.mark.prepared
@pytest.mark.parametrize(("events", "trips"), [(2, 1), (16, 1), (17, 2), (500, 2), (501, None)])
async def test_a_whole_session_is_one_round_trip_or_two(
    proxy: Proxy, events: int, trips: int | None
) -> None:
    async with PgVectorMemoryService(Database(proxy.url), mode="text") as memory:
        await memory.add_session_to_memory(conversation("warm", session_id="w"))
        await memory.add_session_to_memory(conversation("warm", "up", session_id="w"))
        session = conversation(*(f"turn {number}" for number in range(events)))
        before = proxy.round_trips
        await memory.add_session_to_memory(session)
        if trips is not None:
            assert proxy.round_trips - before == trips
        session.events.append(said("one more", "more"))
        before = proxy.round_trips
        await memory.add_session_to_memory(session)
        assert proxy.round_trips - before == 1
        before = proxy.round_trips
        await memory.add_events_to_memory(**USER, session_id="t", events=session.events[:500])
        assert proxy.round_trips - before == 1
        assert await memory.count_memories(**USER) == 2 + events + 1 + min(events + 1, 500)
        await memory.database.close()


@pytest.mark.parametrize("seed", range(12))
async def test_the_function_writes_what_the_plan_does(
    database: Database, connection: asyncpg.Connection, seed: int
) -> None:
    """Whatever was there, is given, was deleted, and is still among the session's events."""
    chance = random.Random(seed)
    settings = Settings()
    sessions = DatabaseSessionService(database)
    memory = PgVectorMemoryService(database, mode="text")
    stored = chance.random() < 0.7
    pool = [said(f"turn {number}", f"e{number}") for number in range(24)]
    for user in ("call", "plan"):
        if stored:
            live = await sessions.create_session(app_name="app", user_id=user, session_id="s")
            for event in pool[:12]:
                await sessions.append_event(live, event.model_copy(deep=True))
    for step in range(12):
        whole = chance.random() < 0.6
        start = chance.randrange(0, 12)
        given = pool[start : start + chance.randrange(0, 14)]
        if whole and chance.random() < 0.5:
            given = pool[: 2 + 2 * step]
        if chance.random() < 0.15:
            given = given[::-1]
        if given and chance.random() < 0.2:
            changed = given[0].model_copy(deep=True)
            changed.content = said(f"changed {step}").content
            given = [*given, changed]
        drafts = drafts_of_events(given, "s")
        call: Any = {"app_name": "app", "user_id": "call", "session_id": "s"}
        plan: Any = {**call, "user_id": "plan"}
        await apply.ingest_turns(database, call, drafts, whole=whole)
        async with database.run.transaction() as transaction:
            await apply.ingest(transaction, plan, drafts, whole=whole, settings=settings)
        if chance.random() < 0.4:
            found = await connection.fetch(
                "SELECT event_id FROM adkpg.memories WHERE user_id = 'call' ORDER BY event_id"
            )
            if found:
                gone = chance.choice(found)["event_id"]
                for user in ("call", "plan"):
                    memory_id = await connection.fetchval(
                        "SELECT memory_id FROM adkpg.memories WHERE user_id = $1 AND event_id = $2",
                        user,
                        gone,
                    )
                    await memory.delete_memory(app_name="app", user_id=user, memory_id=memory_id)
        rows = [
            [tuple(row) for row in await connection.fetch(ROWS, user)] for user in ("call", "plan")
        ]
        assert rows[0] == rows[1], step


async def test_what_is_too_large_by_now_but_stored_does_not_matter(database: Database) -> None:
    words = PgVectorMemoryService(database, mode="text")
    session = conversation("x" * 1_100_000, "short")
    await words.add_session_to_memory(session)
    session.events.append(said("new", "new"))
    small = Database(str(database.url), settings=Settings(max_event_mb=1))
    async with PgVectorMemoryService(small, mode="text") as memory:
        await memory.add_session_to_memory(session)
        assert await memory.count_memories(**USER) == 3
        session.events.append(said("y" * 1_100_000, "large"))
        with pytest.raises(InvalidInput, match="ADKPG_MAX_EVENT_MB"):
            await memory.add_session_to_memory(session)
        assert await memory.count_memories(**USER) == 3
        await small.close()
