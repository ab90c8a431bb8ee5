"""Writers that meet those who forget, move, or erase the same memories."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.documents import Documents
from adkpg.erasure import forget
from adkpg.memory.drafts import drafts_of_events, drafts_of_memories
from adkpg.memory.write import apply, statements
from tests.fakes.conversation import USER, conversation, entry, said
from tests.fakes.locks import advisory_locks, locked, waits_for_a_lock
from tests.fakes.toys import ToyEmbedder

PLACE: Any = {**USER, "session_id": "s"}


async def ingested(transaction: Any) -> None:
    drafts = drafts_of_events([said("my password is swordfish", "e")], "s")
    await apply.ingest(transaction, PLACE, drafts, whole=False, settings=Settings())


async def added_without_session(transaction: Any) -> None:
    drafts = drafts_of_events([said("my password is swordfish", "e")], "")
    place: Any = {**USER, "session_id": ""}
    await apply.ingest(transaction, place, drafts, whole=False, settings=Settings())


async def noted(transaction: Any) -> None:
    drafts = drafts_of_memories([entry("my password is swordfish")], None, 0.0)
    scope: Any = USER
    await apply.write_by_id(transaction, scope, drafts, settings=Settings())


@pytest.mark.parametrize("write", [ingested, added_without_session, noted])
async def test_forgetting_waits_for_who_writes_memories_of_no_stored_session(
    database: Database,
    connection: asyncpg.Connection,
    write: Callable[[Any], Awaitable[None]],
) -> None:
    async with database.run.transaction() as transaction:
        await write(transaction)
        forgetting = asyncio.create_task(forget(database, **USER))
        await waits_for_a_lock(connection)
    assert (await forgetting).rows["memories"] == 1
    assert await connection.fetchval("SELECT count(*) FROM memories") == 0


async def test_writers_of_one_person_do_not_wait_for_each_other(
    database: Database, connection: asyncpg.Connection
) -> None:
    async with database.run.transaction() as one, database.run.transaction() as other:
        await one.fetch(statements.lock_session(**PLACE))
        await other.fetch(statements.lock_session(**{**PLACE, "session_id": "t"}))
        assert await advisory_locks(connection) == 2


async def test_a_vector_that_comes_while_a_memory_moves_moves_too(
    database: Database, database_url: str, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    """It was not in the snapshot of the statement that waited for it to be committed."""
    memory = PgVectorMemoryService(database, embedder=embedder)
    words = PgVectorMemoryService(database, mode="text")
    session = conversation("kitten", "hound")
    await words.add_session_to_memory(session)
    await memory.add_memory(**USER, memories=[entry("oolong")])
    await connection.execute("DELETE FROM memory_vectors")
    other = await connection.fetchrow(
        "SELECT position, (SELECT model_id FROM embedding_models) AS model_id"
        " FROM memories WHERE event_id = 'e1'"
    )
    assert other is not None
    session.events.insert(1, said("said in between", "new"))
    vector = [1.0] + [0.0] * 7
    sql = (
        "INSERT INTO adkpg.memory_vectors (app_name, user_id, model_id, position, embedding)"
        f" VALUES ('app', 'user', {other['model_id']}, {other['position']}, '{vector}')"
    )
    async with locked(database_url, sql) as lock:
        moving = asyncio.create_task(words.add_session_to_memory(session))
        await lock.until_blocked(1)
        await lock.release()
    await moving
    left = await connection.fetchval(
        "SELECT count(*) FROM memory_vectors v JOIN memories m USING (app_name, user_id, position)"
        " WHERE m.event_id = 'e1'"
    )
    assert left == 1


async def test_two_memories_that_share_facts_are_erased_at_once(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """The shared facts are locked in one order, whatever order provenance names them in."""
    for run in range(4):
        facts = [entry(f"fact {number}", f"f{run}.{number}") for number in range(150)]
        await words.add_memory(**USER, memories=[*facts, entry("a", "a"), entry("b", "b")])
        for origin, order in (("a", ""), ("b", "DESC")):
            await connection.execute(
                "INSERT INTO memory_provenance SELECT app_name, user_id, memory_id, $1"
                " FROM memories WHERE memory_id LIKE 'f%' ORDER BY position " + order,
                origin,
            )
        await asyncio.gather(
            words.delete_memory(**USER, memory_id="a"), words.delete_memory(**USER, memory_id="b")
        )
        assert await connection.fetchval("SELECT count(*) FROM memories") == 0


async def test_a_documents_pieces_wait_for_nobody_forgetting_another(
    database: Database, words: PgVectorMemoryService
) -> None:
    async with database.run.transaction() as transaction:
        await transaction.fetch(statements.lock_person(app_name="app", user_id="other"))
        report = await Documents(words).add(app_name="app", source="a.md", text="Oolong is a tea.")
    assert report.added == 1
