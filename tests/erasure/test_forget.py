"""Forgetting a person: everything of them, nothing of anybody else, whoever is writing."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.erasure import Erased, forget
from adkpg.errors import DatabaseError, InvalidInput, SessionNotFound
from adkpg.keys import APP_WIDE
from adkpg.remember.policy import RememberPolicy
from tests.fakes.conversation import entry, found
from tests.fakes.life import (
    PERSONAL,
    event,
    fact_writer,
    live_through,
    rows_of,
    scope_of,
)
from tests.fakes.locks import locked, waits_for_a_lock
from tests.fakes.toys import BrokenEmbedder, GatedEmbedder

ALICE = scope_of("alice")


async def test_a_life_leaves_rows_in_every_table_that_knows_a_person(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Else the tests below prove nothing of a table that was added: live it, in `live_through`."""
    await live_through(database, memory, connection, "alice")
    rows = await rows_of(connection, "alice")
    assert {table for table, count in rows.items() if not count} == set()


async def test_everything_of_a_person_goes_and_nothing_of_others(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    others = [("alicia", "app"), ("bob", "app"), ("alice", "other")]
    for user, app in [("alice", "app"), *others]:
        await live_through(database, memory, connection, user, app)
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("the shop's kitten")])
    before = [await rows_of(connection, *other) for other in others]
    mine = await rows_of(connection, "alice")

    erased = await forget(database, **ALICE)

    assert dict(erased.rows) == mine
    assert erased.memories == {"turn": 5, "note": 1, "fact": 1}
    assert erased.files == 0
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)
    assert [await rows_of(connection, *other) for other in others] == before
    assert await rows_of(connection, APP_WIDE) != dict.fromkeys(PERSONAL, 0)
    assert await connection.fetchval("SELECT count(*) FROM app_settings") == 2
    assert await found(memory, "kitten automobile oolong", user_id="alice", app_wide=False) == []


async def test_forgetting_again_finds_nothing(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    assert await forget(database, **ALICE)
    again = await forget(database, **ALICE)
    assert again == Erased("app", "alice", {}, {}, 0)
    assert not again


async def test_a_dry_run_counts_what_would_go(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    before = await rows_of(connection, "alice")
    planned = await forget(database, **ALICE, dry_run=True)
    assert await rows_of(connection, "alice") == before
    assert planned == await forget(database, **ALICE)


@pytest.mark.parametrize("user_id", [APP_WIDE, "a\x00b", "\ud800"])
async def test_what_cannot_be_a_person_is_refused(database: Database, user_id: str) -> None:
    with pytest.raises(InvalidInput):
        await forget(database, app_name="app", user_id=user_id)


async def test_a_forgotten_person_may_come_back(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "alice")
    await forget(database, **ALICE)
    await live_through(database, memory, connection, "alice")
    assert set(await found(memory, "kitten", user_id="alice", neighbours=0)) >= {"my kitten sleeps"}


async def test_an_append_to_a_forgotten_session_finds_none(
    database: Database, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    for service in (sessions, DatabaseSessionService(database, on_conflict="merge")):
        session = await service.create_session(**ALICE)
        await forget(database, **ALICE)
        with pytest.raises(SessionNotFound):
            await service.append_event(session, event("oolong", "e", {"user:tea": "oolong"}))
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_the_memory_and_state_of_an_append_that_is_waited_for_go_too(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    """The statement that waited does not see what the append wrote beside its session."""
    remembering = DatabaseSessionService(database, remember=RememberPolicy())
    session = await remembering.create_session(**ALICE)
    # Holds the append between its session's row and the user's state, which comes after it.
    await connection.execute(
        "INSERT INTO user_states (app_name, user_id, state) VALUES ('app', 'alice', '{}')"
    )
    hold = "SELECT FROM adkpg.user_states FOR UPDATE"
    async with locked(database_url, hold) as lock:
        append = asyncio.create_task(
            remembering.append_event(session, event("oolong", "e", {"user:tea": "oolong"}))
        )
        await lock.until_blocked(1)
        forgetting = asyncio.create_task(forget(database, **ALICE))
        await lock.until_blocked(2)
        await lock.release()
        await asyncio.gather(append, forgetting)
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_a_fact_that_is_being_written_goes_too(
    database: Database,
    database_url: str,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    await memory.add_memory(**ALICE, memories=[entry("oolong", "m")])
    async with fact_writer(database_url, "m") as writer:
        forgetting = asyncio.create_task(forget(database, **ALICE))
        await waits_for_a_lock(connection)
        await writer.finish()
        await forgetting
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_a_worker_that_was_embedding_stores_nothing(
    database: Database, connection: asyncpg.Connection
) -> None:
    embedder = GatedEmbedder()
    memory = PgVectorMemoryService(database, embedder=embedder)
    adding = asyncio.create_task(memory.add_memory(**ALICE, memories=[entry("oolong")]))
    await embedder.asked.wait()
    await forget(database, **ALICE)
    embedder.gate.set()
    await adding
    assert await memory.embed_pending() == 0
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_dead_letters_go(database: Database, connection: asyncpg.Connection) -> None:
    async def refuses(_texts: list[str]) -> list[list[float]]:
        raise RuntimeError("oolong is refused")

    broken = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=refuses))
    await broken.add_memory(**ALICE, memories=[entry("oolong")])
    await connection.execute("UPDATE memory_jobs SET dead = true")
    erased = await forget(database, **ALICE)
    assert erased.rows["memory_jobs"] == 1
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_many_appends_and_ingests_leave_whole_sessions_or_nothing(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Nothing deadlocks, and no event, memory or state is left of a session that is gone."""
    remembering = DatabaseSessionService(database, remember=RememberPolicy(), on_conflict="merge")

    async def talk(session_id: str) -> None:
        session = await remembering.create_session(
            **ALICE, session_id=session_id, state={"user:x": 1}
        )
        for number in range(10):
            try:
                await remembering.append_event(
                    session, event(f"turn {number}", f"{session_id}{number}", {"user:x": number})
                )
            except SessionNotFound:
                return
            await memory.embed_pending(app_name=ALICE["app_name"])

    talking = [asyncio.create_task(talk(f"s{number}")) for number in range(4)]
    for _ in range(5):
        await forget(database, **ALICE)
    await asyncio.gather(*talking)
    left = await connection.fetchval(
        "SELECT count(*) FROM memories m WHERE NOT EXISTS (SELECT FROM sessions s WHERE"
        " (s.app_name, s.user_id, s.session_id) = (m.app_name, m.user_id, m.session_id))"
    )
    assert left == 0
    await forget(database, **ALICE)
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


async def test_a_writer_that_holds_on_is_named_and_nothing_is_erased(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with Database(database_url) as patient:
        await DatabaseSessionService(patient).create_session(**ALICE, state={"user:a": 1})
    async with Database(database_url, settings=Settings(command_timeout_s=2)) as database:
        before = await rows_of(connection, "alice")
        async with locked(database_url, "SELECT FROM adkpg.user_states FOR UPDATE"):
            with pytest.raises(DatabaseError, match="nothing was"):
                await forget(database, **ALICE)
        assert await rows_of(connection, "alice") == before


@pytest.fixture(params=["memory", "file"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> BaseArtifactService:
    return InMemoryArtifactService() if request.param == "memory" else FileArtifactService(tmp_path)


async def save(artifacts: BaseArtifactService, user_id: str, session_id: str, name: str) -> None:
    for text in ("first version", "second version"):
        await artifacts.save_artifact(
            **scope_of(user_id),
            session_id=session_id,
            filename=name,
            artifact=types.Part(text=text),
        )


async def names(artifacts: BaseArtifactService, user_id: str, session_id: str | None) -> list[str]:
    return await artifacts.list_artifact_keys(**scope_of(user_id), session_id=session_id)


async def test_files_of_all_sessions_go_also_of_deleted_ones(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    artifacts: BaseArtifactService,
) -> None:
    for user in ("alice", "bob"):
        await live_through(database, memory, connection, user)
        for session_id in ("s1", "s2"):
            await save(artifacts, user, session_id, "report.txt")
        await save(artifacts, user, "s1", "user:photo.txt")
    await DatabaseSessionService(database).delete_session(**ALICE, session_id="s2")

    planned = await forget(database, **ALICE, artifact_service=artifacts, dry_run=True)
    assert await names(artifacts, "alice", "s1") == ["report.txt", "user:photo.txt"]
    erased = await forget(database, **ALICE, artifact_service=artifacts)

    assert planned.files == erased.files == 3
    for place in ("s1", "s2", None):
        assert await names(artifacts, "alice", place) == []
    assert await names(artifacts, "bob", "s1") == ["report.txt", "user:photo.txt"]


async def test_a_shared_file_saved_without_a_session_goes(
    database: Database, sessions: DatabaseSessionService, tmp_path: Path
) -> None:
    """This service lists it under its bare name, which a session's own file may have too."""
    artifacts = FileArtifactService(tmp_path)
    await sessions.create_session(**ALICE, session_id="s1")
    for session_id in (None, "s1"):
        await artifacts.save_artifact(
            **ALICE, session_id=session_id, filename="a.txt", artifact=types.Part(text="x")
        )
    erased = await forget(database, **ALICE, artifact_service=artifacts)
    assert erased.files == 2
    assert await names(artifacts, "alice", "s1") == []


async def test_a_session_id_that_no_file_can_have_is_passed_over(
    database: Database, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**ALICE, session_id="a/../b")
    erased = await forget(database, **ALICE, artifact_service=InMemoryArtifactService())
    assert dict(erased.rows) == {"sessions": 1}


class FailingArtifactService(InMemoryArtifactService):
    """Deletes so many files, and then fails."""

    left: int = 0

    async def delete_artifact(self, **place: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("the disk is full")
        await super().delete_artifact(**place)


async def test_rows_stay_until_the_files_are_gone(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Else nothing would tell any more which sessions' files are left."""
    await live_through(database, memory, connection, "alice")
    artifacts = FailingArtifactService(left=1)
    for session_id in ("s1", "s2"):
        await save(artifacts, "alice", session_id, "report.txt")
    before = await rows_of(connection, "alice")
    with pytest.raises(OSError, match="the disk is full"):
        await forget(database, **ALICE, artifact_service=artifacts)
    assert await rows_of(connection, "alice") == before
    artifacts.left = 10
    assert (await forget(database, **ALICE, artifact_service=artifacts)).files == 1
    assert await names(artifacts, "alice", "s2") == []
    assert await rows_of(connection, "alice") == dict.fromkeys(PERSONAL, 0)


class LateArtifactService(InMemoryArtifactService):
    """A turn that runs meanwhile saves one more file, once the others are deleted."""

    fails: bool = False

    async def delete_artifact(self, **place: Any) -> None:
        if self.fails and place["filename"] == "late.txt":
            raise OSError("the disk is full")
        await super().delete_artifact(**place)
        if place["filename"] == "report.txt":
            await save(self, "alice", "s1", "late.txt")


async def test_files_saved_meanwhile_go_too(
    database: Database, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**ALICE, session_id="s1")
    artifacts = LateArtifactService()
    await save(artifacts, "alice", "s1", "report.txt")
    assert (await forget(database, **ALICE, artifact_service=artifacts)).files == 2
    assert await names(artifacts, "alice", "s1") == []


async def test_files_left_after_the_rows_are_named(
    database: Database, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**ALICE, session_id="s1")
    artifacts = LateArtifactService(fails=True)
    await save(artifacts, "alice", "s1", "report.txt")
    with pytest.raises(OSError, match="the disk is full") as failed:
        await forget(database, **ALICE, artifact_service=artifacts)
    assert "['s1']" in failed.value.__notes__[0]
