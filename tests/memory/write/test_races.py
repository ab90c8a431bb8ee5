"""Many tasks and services at once: nothing twice, nothing lost, no deadlock."""

import asyncio

import asyncpg
import pytest
from google.adk.sessions.session import Session

from adkpg import Database, PgVectorMemoryService
from adkpg.memory.write import statements
from tests.fakes.conversation import USER, conversation, entry, found, pending, said, session_of
from tests.fakes.locks import locked, waits_for_a_lock
from tests.fakes.toys import BrokenEmbedder, ToyEmbedder, raises

pytestmark = pytest.mark.race


async def counts(connection: asyncpg.Connection) -> tuple[int, int, int]:
    row = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM memory_vectors), "
        "(SELECT count(*) FROM memory_jobs)"
    )
    assert row is not None
    return row[0], row[1], row[2]


def long_session(events: int = 20) -> Session:
    return conversation(*(f"turn {number}" for number in range(events)))


async def test_one_session_added_by_many_tasks_is_remembered_once(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await asyncio.gather(*(memory.add_session_to_memory(long_session()) for _ in range(8)))
    assert await counts(connection) == (20, 20, 0)
    rows = await connection.fetch("SELECT event_id FROM memories ORDER BY position")
    assert [row["event_id"] for row in rows] == [f"e{number}" for number in range(20)]


async def test_one_session_added_by_two_services_is_remembered_once(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with (
        PgVectorMemoryService(database_url, embedder=ToyEmbedder()) as one,
        PgVectorMemoryService(database_url, embedder=ToyEmbedder()) as two,
    ):
        await asyncio.gather(
            *(service.add_session_to_memory(long_session()) for service in (one, two) * 4),
            *(
                service.add_events_to_memory(
                    **USER, events=long_session().events[10:], session_id="s"
                )
                for service in (one, two)
            ),
        )
    assert await counts(connection) == (20, 20, 0)


async def test_growing_handles_of_one_session_lose_nothing(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    session = long_session()
    await asyncio.gather(
        *(
            memory.add_events_to_memory(**USER, events=[event], session_id="s")
            for event in session.events
        )
    )
    assert await counts(connection) == (20, 20, 0)


async def test_pending_memories_embedded_by_many_tasks_are_stored_once(
    database: Database, connection: asyncpg.Connection
) -> None:
    broken = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=raises))
    for user in ("a", "b", "c"):
        await broken.add_session_to_memory(
            session_of(*(said(f"turn {number}") for number in range(100)), user_id=user)
        )
    services = [PgVectorMemoryService(database, embedder=ToyEmbedder()) for _ in range(2)]
    await asyncio.gather(*(service.embed_pending() for service in services * 2))
    assert await counts(connection) == (300, 300, 0)


async def test_adding_races_deleting(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Whoever comes first, what was deleted is gone and stays gone."""
    session = long_session()
    await memory.add_session_to_memory(session)
    rows = await connection.fetch("SELECT memory_id FROM memories")
    changed = [
        session_of(*(said(f"turn {number} again {run}", f"e{number}") for number in range(20)))
        for run in range(4)
    ]
    await asyncio.gather(
        *(memory.add_session_to_memory(version) for version in changed),
        *(memory.delete_memory(**USER, memory_id=row["memory_id"]) for row in rows[::2]),
        memory.embed_pending(),
    )
    await memory.add_session_to_memory(changed[0])
    assert await counts(connection) == (10, 10, 0)
    assert len(await found(memory, "turn", top_k=50)) == 10


async def test_a_deletion_waits_for_the_ingest_that_rewrites_its_memory(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await memory.add_session_to_memory(session_of(said("oolong", "e")))
    memory_id = await connection.fetchval("SELECT memory_id FROM memories")
    async with database.run.transaction() as ingest:
        await ingest.fetch(statements.lock_session(**USER, session_id="s"))
        deletion = asyncio.create_task(memory.delete_memory(**USER, memory_id=memory_id))
        await waits_for_a_lock(connection)
    await deletion
    assert await counts(connection) == (0, 0, 0)
    await memory.add_session_to_memory(session_of(said("oolong", "e")))
    assert await counts(connection) == (0, 0, 0)


async def test_replacing_a_memory_waits_for_the_session_it_came_from(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, database: Database
) -> None:
    await memory.add_session_to_memory(session_of(said("oolong", "e")))
    memory_id = await connection.fetchval("SELECT memory_id FROM memories")
    async with database.run.transaction() as ingest:
        await ingest.fetch(statements.lock_session(**USER, session_id="s"))
        replacing = asyncio.create_task(
            memory.add_memory(**USER, memories=[entry("sencha", memory_id)])
        )
        await waits_for_a_lock(connection)
        (row,) = await ingest.fetch(statements.select_by_ids(**USER, memory_ids=[memory_id]))
        # As an ingest does that puts an event before this one.
        await ingest.fetch(
            statements.move_positions(**USER, froms=[row["position"]], tos=[row["position"] + 100])
        )
    await replacing
    assert await found(memory, "sencha oolong") == ["sencha"]


async def test_replacing_memories_races_their_sessions(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    sessions = [
        conversation(*(f"turn {number}" for number in range(5)), session_id=f"s{place}")
        for place in range(4)
    ]
    for session in sessions:
        await memory.add_session_to_memory(session)
    rows = await connection.fetch("SELECT memory_id FROM memories ORDER BY random()")
    entries = [entry("replaced", row["memory_id"]) for row in rows]
    await asyncio.gather(
        memory.add_memory(**USER, memories=entries),
        memory.add_memory(**USER, memories=entries[::-1]),
        *(memory.add_session_to_memory(session) for session in sessions),
    )
    assert await counts(connection) == (20, 20, 0)


async def test_embedding_never_waits_for_a_writer(
    database: Database, connection: asyncpg.Connection
) -> None:
    """It once stored the vector and then waited for the memory's row, while the row's deletion
    waited for the pending mark that it had taken: a deadlock."""
    broken = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=raises))
    await broken.add_session_to_memory(conversation("one", "two"))
    memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
    async with connection.transaction():
        await connection.execute(
            "SELECT FROM memories WHERE user_id = 'user' AND event_id = 'e0' FOR UPDATE"
        )
        assert await memory.embed_pending() == 1
        await connection.execute("DELETE FROM memories WHERE event_id = 'e0'")
    assert await memory.embed_pending() == 0
    assert await counts(connection) == (1, 1, 0)


async def test_embedding_does_not_spin_on_a_locked_memory(
    database: Database, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=raises))
    await broken.add_session_to_memory(conversation("one"))
    monkeypatch.setattr(
        database, "settings", database.settings.model_copy(update={"embedding_batch_size": 1})
    )
    embedder = ToyEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    async with connection.transaction():
        await connection.execute("SELECT FROM memories WHERE user_id = 'user' FOR UPDATE")
        assert await memory.embed_pending() == 0
    assert len(embedder.documents) == 1
    assert await pending(connection) == 1
    assert await memory.embed_pending() == 1


async def test_no_word_stays_of_a_memory_that_is_deleted_while_it_moves(
    memory: PgVectorMemoryService, database_url: str, connection: asyncpg.Connection
) -> None:
    """The deletion's own snapshot has the words where they were before the move."""
    await memory.add_memory(**USER, memories=[entry("a secret")])
    (hit,) = await memory.search(**USER, query="secret")
    move = """
        WITH words AS
               (UPDATE adkpg.memory_lexemes SET position = position + 1000 WHERE user_id = 'user'),
             vectors AS
               (UPDATE adkpg.memory_vectors SET position = position + 1000 WHERE user_id = 'user'),
             jobs AS
               (UPDATE adkpg.memory_jobs SET position = position + 1000 WHERE user_id = 'user')
        UPDATE adkpg.memories SET position = position + 1000 WHERE user_id = 'user'
    """
    async with locked(database_url, move) as moving:
        deleting = asyncio.create_task(memory.delete_memory(**USER, memory_id=hit.memory.id))
        await moving.until_blocked(1)
        await moving.release()
        await deleting
    assert await counts(connection) == (0, 0, 0)
    assert await connection.fetchval("SELECT count(*) FROM memory_lexemes") == 0
