"""``delete_session(forget=True)``: a session with everything that came from it."""

import asyncio

import asyncpg
from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
)
from adkpg.remember.policy import RememberPolicy
from tests.fakes.conversation import conversation, entry, found
from tests.fakes.life import (
    add_drawn,
    event,
    fact_writer,
    live_through,
    rows_of,
    scope_of,
)
from tests.fakes.locks import locked, waits_for_a_lock

ALICE = scope_of("alice")


async def memory_ids(connection: asyncpg.Connection, where: str = "true") -> set[str]:
    rows = await connection.fetch(f"SELECT memory_id FROM memories WHERE {where}")
    return {row["memory_id"] for row in rows}


async def test_memories_outlive_their_session_by_default(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    before = await memory_ids(connection)
    await DatabaseSessionService(database).delete_session(**ALICE, session_id="s1")
    assert await memory_ids(connection) == before
    assert await connection.fetchval("SELECT count(*) FROM memory_tombstones") == 1


async def test_a_forgotten_session_takes_along_what_came_from_it(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    await live_through(database, memory, connection, "bob")
    bobs = await rows_of(connection, "bob")
    kept = await memory_ids(connection, "user_id = 'alice' AND session_id <> 's1'")
    (source,) = await memory_ids(connection, "user_id = 'alice' AND event_id = 's1-1'")
    summary = await add_drawn(memory, connection, ALICE, "wants tea", source, kind="summary")

    await DatabaseSessionService(database).delete_session(**ALICE, session_id=" s1 ", forget=True)

    left = await memory_ids(connection, "user_id = 'alice'")
    assert left == kept - {"fact: has a cat"}
    assert summary not in left
    rows = await rows_of(connection, "alice")
    assert (rows["sessions"], rows["events"], rows["user_states"]) == (1, 3, 1)
    assert (rows["memory_tombstones"], rows["memory_provenance"]) == (0, 0)
    assert rows["memory_jobs"] == 4
    vectors = "SELECT count(*) FROM memory_vectors WHERE user_id = 'alice' AND passage = 0"
    assert await connection.fetchval(vectors) == 4
    assert rows["memory_vectors"] > 4, "the note's passages"
    assert await rows_of(connection, "bob") == bobs
    assert await found(memory, "has", user_id="alice") == []


async def test_it_is_idempotent_and_finds_sessions_that_were_deleted_before(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    sessions = DatabaseSessionService(database)
    await sessions.delete_session(**ALICE, session_id="s1")
    for _ in range(2):
        await sessions.delete_session(**ALICE, session_id="s1", forget=True)
        assert await memory_ids(connection, "session_id = 's1'") == set()


async def test_files_of_a_session_that_another_service_stores_go_with_its_memories(
    database: Database, memory: PgVectorMemoryService, sessions: DatabaseSessionService
) -> None:
    files = DatabaseArtifactService(database)
    place = {**ALICE, "session_id": "elsewhere"}
    for name in ("a.txt", "user:a.txt"):
        await files.save_artifact(**place, filename=name, artifact=types.Part(text="oolong"))
    await sessions.delete_session(**place)
    assert await files.list_artifact_keys(**place) == ["a.txt", "user:a.txt"]
    await sessions.delete_session(**place, forget=True)
    assert await files.list_artifact_keys(**place) == ["user:a.txt"]


async def test_no_session_is_not_the_place_of_all_notes(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    """Memories without a session are stored under '', which an id of blanks becomes."""
    await memory.add_memory(**ALICE, memories=[entry("oolong", "note")])
    await sessions.delete_session(**ALICE, session_id=" ", forget=True)
    assert await memory_ids(connection) == {"note"}


async def test_an_id_that_cannot_be_stored_is_no_session(
    sessions: DatabaseSessionService,
) -> None:
    await sessions.delete_session(**ALICE, session_id="a\x00b", forget=True)
    assert (await sessions.list_sessions(app_name="app")).sessions == []


async def test_a_remembered_append_that_is_waited_for_goes_too(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    remembering = DatabaseSessionService(database, remember=RememberPolicy())
    session = await remembering.create_session(**ALICE, session_id="s", state={"user:a": 1})
    async with locked(database_url, "SELECT FROM adkpg.user_states FOR UPDATE") as lock:
        append = asyncio.create_task(
            remembering.append_event(session, event("oolong", "e", {"user:a": 2}))
        )
        await lock.until_blocked(1)
        deleting = asyncio.create_task(
            remembering.delete_session(**ALICE, session_id="s", forget=True)
        )
        await lock.until_blocked(2)
        await lock.release()
        await asyncio.gather(append, deleting)
    rows = await rows_of(connection, "alice")
    assert {table for table, count in rows.items() if count} == {"audit", "user_states"}


async def test_a_fact_that_is_being_written_goes_too(
    database: Database,
    database_url: str,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    session = conversation("oolong").model_copy(update={"user_id": "alice"})
    await memory.add_session_to_memory(session)
    (turn,) = await memory_ids(connection)
    async with fact_writer(database_url, turn) as writer:
        deleting = asyncio.create_task(
            DatabaseSessionService(database).delete_session(**ALICE, session_id="s", forget=True)
        )
        await waits_for_a_lock(connection)
        await writer.finish()
        await deleting
    assert await memory_ids(connection) == set()
