"""Tidying: what is over goes, in bounded steps, and nothing that somebody needs."""

import asyncio
from itertools import product
from uuid import uuid4

import asyncpg
import pytest
from google.adk.sessions import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import Tidied, erase_expired, retention, tidy
from adkpg.erasure.retention_statements import select_over
from adkpg.memory.write.statements import lock_session
from adkpg.rules import BY_TABLE
from tests.fakes.conversation import entry, said, session_of
from tests.fakes.life import PERSONAL, add_drawn, earlier, live_through, scope_of
from tests.fakes.locks import locked
from tests.fakes.query_plans import explain, rows_read, scans

ALICE = scope_of("alice")
MARKS = "SELECT count(*) FROM memory_tombstones"
AGE = f"UPDATE memory_tombstones SET {earlier('needed_at', '{}')}"


@pytest.fixture
def words(database: Database) -> PgVectorMemoryService:
    return PgVectorMemoryService(database, mode="text")


async def remembered(sessions: DatabaseSessionService, session_id: str, texts: int = 1) -> Session:
    session = await sessions.create_session(**ALICE, session_id=session_id)
    for number in range(texts):
        await sessions.append_event(session, said("oolong", f"{session_id} {number}"))
    return session


async def delete_all(words: PgVectorMemoryService) -> None:
    for each in (await words.list_memories(**ALICE)).items:
        await words.delete_memory(**ALICE, memory_id=each.id)


async def bodies(words: PgVectorMemoryService) -> int:
    return await words.count_memories(**ALICE)


async def test_a_mark_stays_as_long_as_its_event(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    session = await remembered(DatabaseSessionService(database, remember=True), "s", 2)
    await delete_all(words)
    for _ in range(2):
        await connection.execute(AGE.format("100 days"))
        assert await tidy(database) == Tidied(memories=0, tombstones=0)
    await words.add_session_to_memory(session)
    assert await bodies(words) == 0
    fresh = "SELECT count(*) FROM memory_tombstones WHERE needed_at > now() - interval '1 hour'"
    assert await connection.fetchval(fresh) == 2


async def test_marks_of_a_deleted_session_stay_for_a_month(
    database: Database,
    sessions: DatabaseSessionService,
    words: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    """Whoever still holds the session may add it again."""
    session = await remembered(DatabaseSessionService(database, remember=True), "s")
    await delete_all(words)
    await connection.execute(AGE.format("100 days"))
    await sessions.delete_session(**ALICE, session_id="s")
    await connection.execute(AGE.format("29 days"))
    assert await tidy(database) == Tidied(0, 0)
    await words.add_session_to_memory(session)
    assert await bodies(words) == 0
    await connection.execute(AGE.format("31 days"))
    assert await tidy(database) == Tidied(0, 1)
    assert await connection.fetchval(MARKS) == 0


@pytest.mark.parametrize("whole", [True, False])
async def test_marks_of_a_session_elsewhere_stay_while_it_is_given(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection, whole: bool
) -> None:
    """A session that another service stores may go on for years."""
    session = session_of(said("oolong", "e"), session_id="elsewhere", user_id="alice")

    async def give() -> None:
        if whole:
            await words.add_session_to_memory(session)
        else:
            await words.add_events_to_memory(**ALICE, session_id="elsewhere", events=session.events)

    await give()
    await delete_all(words)
    for _ in range(3):
        await connection.execute(AGE.format("29 days"))
        await give()
        assert await tidy(database) == Tidied(0, 0)
    assert await bodies(words) == 0
    await connection.execute(AGE.format("31 days"))
    assert await tidy(database) == Tidied(0, 1)


async def test_a_session_with_the_same_events_keeps_the_marks_of_the_deleted_one(
    database: Database,
    sessions: DatabaseSessionService,
    words: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    remembering = DatabaseSessionService(database, remember=True)
    await remembered(remembering, "s")
    await delete_all(words)
    await sessions.delete_session(**ALICE, session_id="s")
    session = await remembered(remembering, "s")
    await connection.execute(AGE.format("100 days"))
    assert await tidy(database) == Tidied(0, 0)
    await words.add_session_to_memory(session)
    assert await bodies(words) == 0


async def test_a_setting_says_how_long_marks_stay(
    database_url: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_TOMBSTONE_DAYS", "0.5")
    async with Database(database_url) as database:
        words = PgVectorMemoryService(database, mode="text")
        await words.add_session_to_memory(
            session_of(said("oolong", "e"), session_id="s", user_id="alice")
        )
        await delete_all(words)
        await connection.execute(AGE.format("11 hours"))
        assert await tidy(database) == Tidied(0, 0)
        await connection.execute(AGE.format("2 hours"))
        assert await tidy(database) == Tidied(0, 1)


async def test_more_than_one_batch_goes_at_once(
    database: Database,
    words: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "_BATCH", 3)
    for user in ("alice", "bob"):
        session = session_of(
            *(said("oolong", f"{number}") for number in range(5)), session_id="s", user_id=user
        )
        await words.add_session_to_memory(session)
    await connection.execute(
        "UPDATE memories SET expires_at = now() - interval '1 hour' WHERE event_id <> '4'"
    )
    assert await tidy(database) == Tidied(memories=8, tombstones=0)
    assert await connection.fetchval(MARKS) == 8
    await connection.execute(AGE.format("31 days"))
    assert await tidy(database) == Tidied(memories=0, tombstones=8)
    assert await connection.fetchval("SELECT count(*) FROM memories") == 2


async def test_what_a_writer_holds_is_passed_over_and_the_rest_goes(
    database: Database,
    words: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "_BATCH", 1)
    for session_id in ("s1", "s2", "s3"):
        await words.add_session_to_memory(
            session_of(said("oolong", session_id), session_id=session_id, user_id="alice")
        )
    await connection.execute("UPDATE memories SET expires_at = now()")
    async with database.run.transaction() as writer:
        await writer.fetch(lock_session(**ALICE, session_id="s1"))
        assert await tidy(database) == Tidied(2, 0)
    assert await tidy(database) == Tidied(1, 0)
    await connection.execute(AGE.format("31 days"))
    async with connection.transaction():
        await connection.execute(
            "SELECT FROM memory_tombstones WHERE user_id = 'alice' AND event_id = 's2' FOR UPDATE"
        )
        assert await tidy(database) == Tidied(0, 2)
    assert await tidy(database) == Tidied(0, 1)


async def test_superseded_facts_are_kept_and_not_looked_at(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**ALICE, memories=[entry("oolong", "note")])
    await add_drawn(memory, connection, ALICE, "likes tea", "note")
    await connection.execute(
        "UPDATE memories SET expires_at = now(), superseded_by = 'x' WHERE kind = 'fact'"
    )
    assert await erase_expired(database) == 0
    await connection.execute("UPDATE memories SET expires_at = now() WHERE kind = 'note'")
    assert await erase_expired(database) == 2


@pytest.mark.race
async def test_many_may_tidy_at_once(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for user in ("alice", "bob", "carol"):
        await live_through(database, memory, connection, user)
    await connection.execute("UPDATE memories SET expires_at = now() WHERE kind = 'turn'")
    before = await connection.fetchval("SELECT count(*) FROM memories")
    done = await asyncio.gather(*(tidy(database) for _ in range(4)))
    done.append(await tidy(database))
    left = await connection.fetchval("SELECT count(*) FROM memories")
    assert sum(each.memories for each in done) == before - left
    assert left == 3  # each user's note
    await connection.execute("DELETE FROM sessions")
    marks = await connection.fetchval(MARKS)
    await connection.execute(AGE.format("31 days"))
    done = await asyncio.gather(*(tidy(database) for _ in range(4)))
    assert sum(each.tombstones for each in done) == marks


async def test_nobody_elses_rows_are_touched(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in PERSONAL)
    before = await connection.fetch(counts)
    assert await tidy(database) == Tidied(0, 0)
    assert await connection.fetch(counts) == before


async def test_results_go_when_their_key_has_expired(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database)
    await sessions.create_session(app_name="app", user_id="ana", session_id="s")
    for key in ("a", "b", "c"):
        async with sessions.invocation(app_name="app", user_id="ana", session_id="s", key=key):
            pass
    await connection.execute(
        "UPDATE invocation_results SET expires_at = now() WHERE idempotency_key < 'c'"
    )
    held = "SELECT FROM adkpg.invocation_results WHERE idempotency_key = 'a' FOR UPDATE"
    async with locked(database_url, held):
        assert await tidy(database) == Tidied(0, 0, results=1)
    assert await tidy(database) == Tidied(0, 0, results=1)
    left = await connection.fetch("SELECT idempotency_key FROM invocation_results")
    assert [row["idempotency_key"] for row in left] == ["c"]


@pytest.mark.plan
async def test_each_batch_is_found_through_an_index(
    database: Database, connection: asyncpg.Connection
) -> None:
    """However many memories and marks there are that stay."""
    await connection.execute(
        "INSERT INTO memory_tombstones (app_name, user_id, session_id, event_id)"
        " SELECT 'app', 'u' || n % 100, 's', 'e' || n FROM generate_series(1, 20000) n"
    )
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, timestamp,"
        " content, body, length, digest, expires_at) SELECT 'app', 'u' || n % 100, n, 'm' || n,"
        " 'note', '', now(), '{}', 'tea', 1, 'd', now() + interval '1 day' * (1 + n % 30)"
        " FROM generate_series(1, 20000) n"
    )
    await connection.execute(
        "INSERT INTO sessions (app_name, user_id, session_id)"
        " SELECT 'app', 'u' || n, 's' FROM generate_series(1, 100) n"
    )
    await connection.execute(
        "INSERT INTO invocation_results (app_name, user_id, session_id, idempotency_key, holder,"
        " result, expires_at) SELECT 'app', 'u' || (1 + n % 100), 's', 'k' || n, gen_random_uuid(),"
        " 'null', now() + interval '1 minute' * n FROM generate_series(1, 20000) n"
    )
    await connection.execute(
        "INSERT INTO audit (app_name, user_id, audit_id, changed_at, actor, action, outcome)"
        " SELECT 'app', 'u' || n % 100, gen_random_uuid(), now() - interval '1 minute' * n, 'Bea',"
        " 'delete_memory', 'done' FROM generate_series(1, 100000) n"
    )
    await connection.execute(
        "ANALYZE memories, memory_tombstones, events, invocation_results, audit"
    )
    days = {"memory_tombstones": 30.0, "audit": 365.0}
    last = {"app_name": "app", "user_id": "u", "session_id": "s", "event_id": "e", "position": 1}
    last |= {"idempotency_key": "k", "audit_id": str(uuid4())}
    for table in ("memories", "memory_tombstones", "invocation_results", "audit"):
        rule = BY_TABLE[table]
        assert rule.order is not None
        begun = await connection.fetchval(
            f"SELECT {rule.order} FROM {table} ORDER BY {rule.order} LIMIT 1"
        )
        for after, generic in product((None, last | {rule.order: begun}), (False, True)):
            query = select_over(rule, limit=500, after=after, days=days.get(table))
            nodes = await explain(connection, query, generic=generic)
            assert sum(rows_read(node) for node in scans(nodes, table)) <= 500, nodes
