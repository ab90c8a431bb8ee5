"""What adding a session again does in the database is what the plan for all of it would do."""

import random

import asyncpg
import pytest
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.drafts import drafts_of_events
from adkpg.memory.write import plan as plans
from adkpg.memory.write import statements
from adkpg.memory.write.plan import Stored
from tests.fakes.conversation import USER, entry, said, session_of
from tests.fakes.query_plans import explain

PLACE = {**USER, "session_id": "s"}


def versions(names: list[str], random_: random.Random, timestamp: float = 5.0) -> Session:
    return session_of(
        *(said(f"{name} {random_.randrange(2)}", name, timestamp=timestamp) for name in names)
    )


async def stored(database: Database) -> list[Stored]:
    rows = await database.run.fetch(statements.select_session_memories(**PLACE))
    return [Stored(**row) for row in rows]


def expected(before: list[Stored], session: Session, deleted: set[str]) -> list[tuple[str, str]]:
    drafts = drafts_of_events(session.events, "s")
    plan = plans.replacement(before, drafts, deleted, 1 << 61)
    at = {row.position: (row.event_id, row.digest) for row in before}
    for position in plan.delete:
        del at[position]
    moved = [(to, at.pop(origin)) for origin, to in plan.move]
    at.update(moved)
    for position, draft in (*plan.rewrite, *plan.insert):
        at[position] = (str(draft.event_id), draft.digest)
    return [at[position] for position in sorted(at)]


@pytest.mark.parametrize("seed", range(30))
async def test_differences_are_planned_as_the_whole_would_be(
    database: Database, words: PgVectorMemoryService, sessions: DatabaseSessionService, seed: int
) -> None:
    random_ = random.Random(seed)
    names = [f"e{number}" for number in range(8)]
    session = await sessions.create_session(**USER, session_id="s")
    for name in random_.sample(names, 4):  # these stay if they are not given
        await sessions.append_event(session, said(name, name))
    deleted: set[str] = set()
    for _ in range(6):
        given = random_.sample(names, random_.randrange(len(names)))
        if random_.random() < 0.6:
            given.sort()
        again = versions(given, random_)
        before = await stored(database)
        await words.add_session_to_memory(again)
        after = await stored(database)
        assert [(row.event_id, row.digest) for row in after] == expected(before, again, deleted)
        kept = {row.event_id: row.memory_id for row in before}
        assert all(kept.get(row.event_id, row.memory_id) == row.memory_id for row in after)
        if after and random_.random() < 0.3:
            gone = random_.choice(after)
            await words.delete_memory(**USER, memory_id=gone.memory_id)
            deleted.add(gone.event_id)


@pytest.mark.plan
async def test_remembering_one_more_event_reads_nothing_of_the_session(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Both ways to be told where the next one goes: by the stored session, and without one."""
    texts = (said(f"turn {number}", f"e{number}") for number in range(3_000))
    await words.add_session_to_memory(session_of(*texts))
    await words.add_memory(**USER, memories=[entry(f"note {number}") for number in range(300)])
    await connection.execute("VACUUM ANALYZE memories")
    for query in (
        statements.select_known_events(**PLACE, event_ids=["e7", "new"]),
        statements.select_last_position(**PLACE),
    ):
        nodes = await explain(connection, query)
        read = sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in nodes)
        assert read < 20
    last = await stored(database)
    await words.add_events_to_memory(**PLACE, events=[said("one more", "new")])
    assert (await stored(database))[-1].position == last[-1].position + 1


async def test_a_memory_that_is_written_again_keeps_what_was_said_of_it(
    words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    metadata = {"ttl": 3600, "tag": "x", "importance": 0.9, "topics": ["door"]}
    await words.add_events_to_memory(
        **PLACE, events=[said("the code is secret", "e1")], custom_metadata=metadata
    )
    of = "SELECT memory_id, custom_metadata, topics, importance, expires_at, created_at, position"
    before = await connection.fetchrow(f"{of} FROM memories")
    assert before is not None
    await words.add_session_to_memory(session_of(said("the door code is 9981", "e1")))
    row = await connection.fetchrow(f"{of}, body FROM memories")
    assert row is not None
    assert row["body"] == "user: the door code is 9981"
    assert dict(before) == {name: row[name] for name in before.keys()}  # noqa: SIM118 - a Record
    found = await connection.fetch("SELECT lexeme FROM memory_lexemes")
    assert "secret" not in {each["lexeme"] for each in found}


async def test_a_lifetime_counts_by_the_servers_clock(
    words: PgVectorMemoryService, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = 1_000_000.0
    monkeypatch.setattr("google.adk.platform.time.get_time", lambda: behind)
    await words.add_events_to_memory(
        **PLACE, events=[said("a", "e1")], custom_metadata={"ttl": 3600}
    )
    await words.add_memory(**USER, memories=[entry("b", "n")], custom_metadata={"ttl": "3600s"})
    await words.update_memory(**USER, memory_id="n", custom_metadata={"ttl": 3600})
    lives = await connection.fetch("SELECT expires_at - now() AS left FROM memories")
    assert all(3500 < each["left"].total_seconds() <= 3600 for each in lives)
    assert len(lives) == 2


async def test_events_name_the_invocation_they_were_said_in(
    database: Database, words: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    remembering = DatabaseSessionService(database, remember=True)
    session = await remembering.create_session(**USER, session_id="s")
    await remembering.append_event(session, said("one", "e1", invocation_id="i1"))
    await words.add_events_to_memory(
        **PLACE, events=[said("two", "e2", invocation_id="i2"), said("three", "e3")]
    )
    rows = await connection.fetch("SELECT invocation_id FROM memories ORDER BY event_id")
    assert [row["invocation_id"] for row in rows] == ["i1", "i2", None]
