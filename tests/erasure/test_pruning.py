"""Pruning: what goes, what stays, and that it stays gone."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Users
from adkpg.erasure import Pruned, erase_expired, prune, pruning
from adkpg.erasure.locks import giving_way
from adkpg.errors import InvalidInput
from adkpg.memory.records import Memory
from adkpg.memory.write import statements
from tests.fakes.conversation import conversation, entry, found, said, session_of
from tests.fakes.life import add_drawn, fact_writer, live_through, rows_of, scope_of
from tests.fakes.locks import waits_for_a_lock

ALICE = scope_of("alice")
EVERYBODY: dict[str, Any] = {"app_name": None, "user_id": Users.ALL}
DAYS_AGO = "UPDATE memories SET timestamp = now() - interval '{} days' WHERE memory_id = '{}'"
EXPIRE = "UPDATE memories SET expires_at = now() WHERE {}"


def pruned(user_id: str | None = "alice", app_name: str = "app", **counts: int) -> Pruned:
    return Pruned(
        app_name,
        user_id,
        *(
            counts.get(reason, 0)
            for reason in ("expired", "superseded", "faded", "surplus", "drawn")
        ),
    )


async def left(connection: asyncpg.Connection, user_id: str = "alice") -> list[str]:
    rows = await connection.fetch(
        "SELECT memory_id FROM memories WHERE user_id = $1 ORDER BY memory_id", user_id
    )
    return [row["memory_id"] for row in rows]


async def notes(
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    *given: tuple[str, int, float],
    scope: dict[str, Any] = ALICE,
) -> None:
    """Adds notes, each with an id, an age in days, and an importance."""
    for memory_id, days, importance in given:
        await memory.add_memory(
            **scope,
            memories=[entry(f"oolong {memory_id}", memory_id)],
            custom_metadata={"importance": importance},
        )
        await connection.execute(DAYS_AGO.format(days, memory_id))


async def test_expired_memories_go_for_good_and_others_stay(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, ("a", 0, 0.5), ("b", 900, 0), ("c", 0, 0.5))
    await connection.execute(EXPIRE.format("memory_id = 'a'"))
    await connection.execute(
        "UPDATE memories SET expires_at = now() + interval '1 hour' WHERE memory_id = 'c'"
    )
    assert await prune(database, **EVERYBODY) == [pruned(expired=1)]
    assert await left(connection) == ["b", "c"]
    rows = await rows_of(connection, "alice")
    assert (rows["memories"], rows["memory_vectors"], rows["memory_tombstones"]) == (2, 2, 0)
    assert await prune(database, **EVERYBODY) == []


async def test_superseded_facts_are_kept_for_audit_unless_asked_for(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, ("old", 900, 0.1), ("new", 0, 0.5))
    await connection.execute(
        "UPDATE memories SET kind = 'fact', superseded_by = 'new', expires_at = now()"
        " WHERE memory_id = 'old'"
    )
    age: dict[str, Any] = {
        "older_than": timedelta(days=1),
        "max_importance": 0.5,
        "max_memories": 1,
    }
    assert await erase_expired(database) == 0
    assert await prune(database, **EVERYBODY, **age) == []
    assert await left(connection) == ["new", "old"]
    assert await prune(database, **EVERYBODY, superseded=True) == [pruned(superseded=1)]
    assert await left(connection) == ["new"]


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        ({"older_than": timedelta(days=30)}, "bd"),
        ({"max_importance": 0.3}, "cd"),
        ({"older_than": timedelta(days=30), "max_importance": 0.3}, "d"),
        ({"older_than": timedelta(days=90)}, ""),
        ({"older_than": timedelta(days=10**6)}, ""),
        ({"max_importance": 0.2}, ""),
        ({"max_importance": 1e-46}, ""),
        ({"max_importance": 1.0}, "abcd"),
        ({"older_than": timedelta()}, "abcd"),
    ],
)
async def test_age_and_importance_together_ask_for_both(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    rules: dict[str, Any],
    gone: str,
) -> None:
    """0.3 is stored as a float of four bytes, which is not the 0.3 that is asked for."""
    await notes(memory, connection, ("a", 1, 0.9), ("b", 60, 0.9), ("c", 1, 0.3), ("d", 60, 0.3))
    expected = [pruned(faded=len(gone))] if gone else []
    assert await prune(database, **EVERYBODY, **rules, dry_run=True) == expected
    assert await left(connection) == ["a", "b", "c", "d"]
    assert await prune(database, **EVERYBODY, **rules) == expected
    assert await left(connection) == [each for each in "abcd" if each not in gone]


async def test_a_cap_keeps_the_most_important_and_then_the_latest(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, ("a", 900, 0.9), ("b", 3, 0.5), ("c", 2, 0.5), ("d", 1, 0.1))
    await notes(memory, connection, ("x", 1, 0.1), ("y", 1, 0.1), scope=scope_of("bob"))
    assert await prune(database, **EVERYBODY, max_memories=2) == [pruned(surplus=2)]
    assert await left(connection) == ["a", "c"]
    assert await left(connection, "bob") == ["x", "y"]
    assert await prune(database, app_name="app", user_id="bob", max_memories=0) == [
        pruned("bob", surplus=2)
    ]


async def test_a_cap_counts_what_is_left_by_the_other_rules(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, *((f"{number}", number * 20, 0.5) for number in range(6)))
    await connection.execute(EXPIRE.format("memory_id = '0'"))
    expected = [pruned(expired=1, faded=3, surplus=1)]
    rules: dict[str, Any] = {"older_than": timedelta(days=50), "max_memories": 1}
    assert await prune(database, **EVERYBODY, **rules, dry_run=True) == expected
    assert await prune(database, **EVERYBODY, **rules) == expected
    assert await left(connection) == ["1"]


async def test_documents_and_app_wide_knowledge_are_not_capped(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for user_id in ("alice", None):
        await memory.add_memory(
            app_name="app",
            user_id=user_id,
            memories=[
                Memory(id=f"{user_id}{kind}", content=entry(f"oolong {kind}").content, kind=kind)
                for kind in ("document", "note")
            ],
        )
    assert await prune(database, **EVERYBODY, max_memories=0) == [pruned(surplus=1)]
    assert await left(connection) == ["alicedocument"]
    assert await prune(database, **EVERYBODY, max_memories=0, kinds=["document"]) == [
        pruned(surplus=1)
    ]
    await connection.execute(EXPIRE.format("memory_id = 'Nonenote'"))
    assert await prune(database, app_name="app", user_id="alice") == []
    assert await prune(database, app_name="app", user_id=Users.APP_WIDE, max_memories=0) == [
        pruned(None, expired=1)
    ]
    assert await memory.count_memories(app_name="app", user_id=None) == 1


async def test_only_the_app_and_user_that_are_named_are_pruned(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    scopes = [scope_of(user, app) for app in ("one", "two") for user in ("", "alice")]
    for number, scope in enumerate(scopes):
        await notes(memory, connection, (f"m{number}", 1, 0.5), scope=scope)
    everybody = await prune(database, **EVERYBODY, max_memories=0, dry_run=True)
    assert [(each.app_name, each.user_id) for each in everybody] == [
        (scope["app_name"], scope["user_id"]) for scope in scopes
    ]
    assert [
        each.app_name
        for each in await prune(database, app_name="two", user_id=Users.ALL, max_memories=0)
    ] == ["two"] * 2
    assert await prune(database, app_name=None, user_id="alice", max_memories=0) == [
        pruned("alice", "one", surplus=1)
    ]
    assert await prune(database, app_name="one", user_id="", max_memories=0) == [
        pruned("", "one", surplus=1)
    ]


async def test_pages_and_batches_leave_nothing_behind(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruning, "_PAGE", 2)
    monkeypatch.setattr(pruning, "_BATCH", 3)
    for user in "abcde":
        scope = scope_of(user)
        await memory.add_memory(**scope, memories=[entry(f"oolong {n}") for n in range(7)])
    await connection.execute(EXPIRE.format("user_id <> 'c'"))
    assert await prune(database, **EVERYBODY) == [pruned(user, expired=7) for user in "abde"]
    rules: dict[str, Any] = {"max_memories": 2}
    assert await prune(database, **EVERYBODY, **rules) == [pruned("c", surplus=5)]


async def test_what_was_drawn_goes_along(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, ("a", 0, 0.5), ("b", 0, 0.5))
    facts = [await add_drawn(memory, connection, ALICE, f"fact {of}", of) for of in "ab"]
    await connection.execute(EXPIRE.format("memory_id IN ('a', $$fact: fact b$$)"))
    expected = [pruned(expired=2, drawn=1)]
    assert await prune(database, **EVERYBODY, dry_run=True) == expected
    assert await prune(database, **EVERYBODY) == expected
    assert await left(connection) == ["b"]
    assert facts == ["fact: fact a", "fact: fact b"]
    assert (await rows_of(connection, "alice"))["memory_provenance"] == 0


async def test_a_pruned_turn_does_not_come_back_with_its_session(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    session = conversation("my kitten sleeps", "oolong please")
    await memory.add_session_to_memory(session)
    await connection.execute(EXPIRE.format("event_id = 'e1'"))
    assert await erase_expired(database) == 1
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(
        app_name="app", user_id="user", session_id="s", events=session.events
    )
    assert await found(memory, "oolong") == []


async def test_what_a_writer_holds_is_passed_over_until_the_next_time(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await notes(memory, connection, ("a", 0, 0.5), ("b", 0, 0.5))
    await connection.execute(EXPIRE.format("true"))
    async with database.run.transaction() as writer:
        await writer.fetch(statements.lock_same(**ALICE, memory_id="a"))
        assert await prune(database, **EVERYBODY) == [pruned(expired=1)]
    assert await prune(database, **EVERYBODY) == [pruned(expired=1)]


async def test_a_memory_that_was_prolonged_meanwhile_stays(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    """Pruning found it, then waited for the session, whose writer gave it more time."""
    await memory.add_session_to_memory(
        session_of(said("oolong", "e"), session_id="s", user_id="alice")
    )
    await connection.execute(EXPIRE.format("true"))
    async with database.run.transaction() as writer:
        await writer.fetch(statements.lock_session(**ALICE, session_id="s"))
        pruning_it = asyncio.create_task(prune(database, **EVERYBODY))
        await waits_for_a_lock(connection)
        await connection.execute("UPDATE memories SET expires_at = NULL")
    assert await pruning_it == []
    assert len(await left(connection)) == 1


async def test_a_fact_that_was_written_before_the_locks_goes_too(
    database: Database,
    database_url: str,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    await notes(memory, connection, ("a", 0, 0.5))
    await connection.execute(EXPIRE.format("true"))
    async with fact_writer(database_url, "a") as writer:
        assert await erase_expired(database) == 0
        await writer.finish()
    assert await erase_expired(database) == 2
    assert await left(connection) == []


async def test_many_may_prune_at_once(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for user in ("alice", "bob"):
        await live_through(database, memory, connection, user)
    before = await connection.fetchval("SELECT count(*) FROM memories")
    await connection.execute(EXPIRE.format("kind = 'turn'"))
    counts = await asyncio.gather(*(erase_expired(database) for _ in range(4)))
    assert sum(counts) <= before
    while await erase_expired(database):
        continue
    assert await left(connection) == ["alice-note"]
    assert await left(connection, "bob") == ["bob-note"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_importance": 1.1},
        {"max_importance": float("nan")},
        {"max_memories": -1},
        {"older_than": timedelta(seconds=-1)},
        {"kinds": ["nonsense"]},
        {"kinds": "turn"},
        {"app_name": "a\x00b"},
        {"user_id": "\x01app"},
        {"user_id": None},
    ],
)
async def test_options_that_cannot_be_meant_are_refused(
    database: Database, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await prune(database, **{**EVERYBODY, **options})


async def test_no_more_goes_than_is_too_much_when_it_is_erased(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ranking is read once; somebody else deletes memories between it and the batches."""
    await notes(memory, connection, *((f"n{number}", number, 0.5) for number in range(6)))

    async def late(database: Database, scope: Any, work: Any) -> Any:
        await connection.execute("DELETE FROM memories WHERE memory_id IN ('n0', 'n1', 'n2')")
        return await giving_way(database, scope, work)

    monkeypatch.setattr("adkpg.erasure.pruning.giving_way", late)
    await prune(database, **EVERYBODY, max_memories=3)
    assert len(await left(connection)) == 3
