"""What erases leaves one entry of the audit, by whichever door: who, what, how it ended."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings, Users
from adkpg.audit import Audit, acting_as
from adkpg.erasure import forget, prune, prune_sessions, tidy
from adkpg.errors import Busy, DatabaseError
from tests.fakes.life import live_through, scope_of
from tests.fakes.locks import locked

ALICE = scope_of("alice")
APP: dict[str, Any] = {"app_name": "app"}
NOW = timedelta()

Call = Callable[[Database], Awaitable[object]]
DOORS: dict[str, tuple[Call, tuple[str | None, str, str | None]]] = {
    "forget": (lambda database: forget(database, **ALICE), (None, "forget_person", None)),
    "delete_session": (
        lambda database: DatabaseSessionService(database).delete_session(
            **ALICE, session_id="s1", forget=True
        ),
        ("alice", "forget_session", "s1"),
    ),
    "delete_memory": (
        lambda database: PgVectorMemoryService(database, mode="text").delete_memory(
            **ALICE, memory_id="alice-note"
        ),
        ("alice", "delete_memory", "alice-note"),
    ),
    "delete_exactly": (
        lambda database: PgVectorMemoryService(database, mode="text").delete_exactly(
            **ALICE, memory_ids=["alice-note"]
        ),
        ("alice", "delete_memory", "alice-note"),
    ),
    "prune": (
        lambda database: prune(database, **ALICE, max_memories=0),
        ("alice", "prune", None),
    ),
    "prune, everybody's": (
        lambda database: prune(database, **APP, user_id=Users.ALL, max_memories=0),
        (None, "prune", None),
    ),
    "prune_sessions": (
        lambda database: prune_sessions(database, **ALICE, older_than=NOW),
        ("alice", "prune_sessions", None),
    ),
    "prune_sessions, everybody's": (
        lambda database: prune_sessions(
            database, **APP, user_id=Users.ALL, older_than=NOW, user_states=True
        ),
        (None, "prune_sessions", None),
    ),
}
OF_NOBODY: dict[str, Call] = {
    **{name: call for name, (call, _) in DOORS.items()},
    "delete_session, memories stay": lambda database: DatabaseSessionService(
        database
    ).delete_session(**ALICE, session_id="s1"),
}


async def entries(database: Database) -> list[tuple[str, str | None, str, str | None, str]]:
    return [
        (each.actor, each.user_id, each.action, each.subject, each.outcome)
        for each in (await Audit(database).entries()).items
    ]


@pytest.fixture
async def lived(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    await connection.execute("DELETE FROM audit")


@pytest.mark.usefixtures("lived")
@pytest.mark.parametrize("door", DOORS)
async def test_an_erasure_leaves_one_entry_and_again_none(database: Database, door: str) -> None:
    erase, expected = DOORS[door]
    with acting_as("Bea"):
        await erase(database)
    assert await entries(database) == [("Bea", *expected, "done")]
    await erase(database)
    assert len(await entries(database)) == 1


@pytest.mark.parametrize("door", OF_NOBODY)
async def test_what_finds_nothing_leaves_none(database: Database, door: str) -> None:
    await OF_NOBODY[door](database)
    assert await entries(database) == []


@pytest.mark.usefixtures("lived")
async def test_what_nobody_is_named_for_is_the_librarys(database: Database) -> None:
    await forget(database, **ALICE)
    ((actor, *_),) = await entries(database)
    assert actor == "library"


@pytest.mark.usefixtures("lived")
async def test_a_dry_run_and_what_ends_by_itself_leave_none(
    database: Database, connection: asyncpg.Connection
) -> None:
    await forget(database, **ALICE, dry_run=True)
    await prune(database, **APP, user_id=Users.ALL, max_memories=0, dry_run=True)
    await prune_sessions(
        database, **APP, user_id=Users.ALL, older_than=NOW, user_states=True, dry_run=True
    )
    await connection.execute("UPDATE memories SET expires_at = now() WHERE kind = 'note'")
    assert (await tidy(database)).memories == 1
    assert await entries(database) == []


@pytest.mark.usefixtures("lived")
async def test_an_erasure_that_was_rolled_back_leaves_none(
    database_url: str, database: Database
) -> None:
    async with (
        Database(database_url, settings=Settings(command_timeout_s=1)) as hasty,
        locked(database_url, "SELECT FROM adkpg.user_states FOR UPDATE"),
    ):
        with pytest.raises(DatabaseError, match="nothing was"):
            await forget(hasty, **ALICE)
    assert await entries(database) == []


@pytest.mark.usefixtures("lived")
async def test_batches_that_end_early_say_of_what(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise Busy("A writer held on.", written=False)

    monkeypatch.setattr("adkpg.erasure.pruning.giving_way", refused)
    with pytest.raises(Busy), acting_as("Bea"):
        await prune(database, **APP, user_id=Users.ALL, max_memories=0)
    assert await entries(database) == [("Bea", None, "prune", None, "Busy")]
