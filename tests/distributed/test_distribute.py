"""`adkpg db distribute`: every table, once and again, with rows in it; never from a worker."""

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database.cluster import distribution
from adkpg.erasure import tidy
from adkpg.errors import ConfigurationError, ExtensionMissing, SchemaError
from adkpg.tables import metadata
from adkpg.tooling.testing import said as turn
from adkpg.tooling.testing import texts
from tests.fakes.citus import CitusServer, said
from tests.fakes.conversation import USER, entry, found
from tests.fakes.later_versions import ADDITIVE_COLUMN, CONCURRENT_INDEX, later_version
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.cluster


@pytest.fixture
async def undistributed(cluster: CitusServer) -> AsyncIterator[str]:
    """A migrated database of the cluster that is not distributed yet."""
    name = await cluster.create()
    await cluster.join(name)
    async with Database(cluster.url_of(name)) as database:
        await database.upgrade()
    yield cluster.url_of(name)
    await cluster.drop(name)


async def kinds(url: str) -> dict[str, str]:
    rows = await said(
        url,
        "SELECT relname, partmethod::text AS kind FROM pg_dist_partition"
        " JOIN pg_class ON pg_class.oid = logicalrelid",
    )
    return {row["relname"]: row["kind"] for row in rows}


async def test_each_table_is_distributed_by_user_or_copied(undistributed: str) -> None:
    async with Database(undistributed) as database:
        await database.distribute()
    found = await kinds(undistributed)
    wanted = {table.name: "h" if "user_id" in table.c else "n" for table in metadata.sorted_tables}
    assert found == {**wanted, "adkpg_version": "n"}


async def test_a_dry_run_changes_nothing_and_names_each_table(undistributed: str) -> None:
    async with Database(undistributed) as database:
        steps = await database.distribute(dry_run=True)
    assert await kinds(undistributed) == {}
    for table in metadata.sorted_tables:
        assert any(table.name in step.split() for step in steps)


async def test_the_command_says_what_is_to_do_does_it_and_asks_nothing(undistributed: str) -> None:
    """Its input is empty: a question would end it."""
    adkpg = partial(ended, undistributed, "db", "distribute")
    tables = len(metadata.sorted_tables)
    code, shown = await adkpg("--dry-run")
    assert (code, await kinds(undistributed)) == (0, {})
    assert "steps to do" in shown
    assert shown.count("\n") >= tables
    assert (await adkpg("--json"))[0] == 0
    assert len(await kinds(undistributed)) == tables + 1  # alembic's own
    code, shown = await adkpg()
    assert code == 0
    assert "nothing to do" in shown


async def ended(url: str, *arguments: str) -> tuple[int | None, str]:
    """How a command ends, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adkpg", *arguments, "--database-url", url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


async def test_once_more_does_nothing(undistributed: str) -> None:
    async with Database(undistributed) as database:
        await database.distribute()
        assert await database.distribute() == []


async def test_a_cluster_whose_nodes_take_no_parts_is_refused_before_anything_changes(
    cluster: CitusServer,
) -> None:
    name = await cluster.create()
    url = cluster.url_of(name)
    await said(url, "CREATE EXTENSION citus")
    await said(url, "SELECT citus_set_coordinator_host('127.0.0.1')")
    async with Database(url) as database:
        await database.upgrade()
        for dry_run in (True, False):
            with pytest.raises(ConfigurationError, match="No node of the cluster takes parts"):
                await database.distribute(dry_run=dry_run)
        await DatabaseSessionService(database).create_session(**USER)
    assert await kinds(url) == {}
    await cluster.drop(name)


async def test_a_call_that_was_refused_before_another_one_found_out_is_made_anew(
    undistributed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = asyncio.Barrier(2)

    async with Database(undistributed) as database, Database(undistributed) as other:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        await memory.add_memory(**USER, memories=[entry("a kitten", "m")])
        await other.distribute()
        asked = database.run._fetched

        async def slow(*args: Any) -> list[Any]:
            try:
                return await asked(*args)
            except asyncpg.PostgresError:
                await both.wait()  # both are refused before either has found out why
                raise

        monkeypatch.setattr(database.run, "_fetched", slow)
        found = await asyncio.gather(*(memory.search(**USER, query="kitten") for _ in range(2)))
        assert [[hit.memory.id for hit in hits] for hits in found] == [["m"], ["m"]]


async def test_writes_of_a_process_that_ran_before_find_out_by_themselves(
    undistributed: str,
) -> None:
    async with Database(undistributed) as database, Database(undistributed) as other:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        await memory.add_memory(**USER, memories=[entry("a kitten", "m"), entry("tea", "n")])
        await other.distribute()
        await memory.update_memory(**USER, memory_id="m", text="a puppy")
        await memory.delete_memory(**USER, memory_id="n")
        assert await found(memory, "a puppy") == ["a puppy"]


async def test_rows_of_before_are_kept(cluster: CitusServer, undistributed: str) -> None:
    plain = await asyncpg.connect(undistributed)
    await plain.executemany(
        "INSERT INTO adkpg.sessions (app_name, user_id, session_id) VALUES ('app', $1, 's')",
        [(f"u{number}",) for number in range(20)],
    )
    await plain.close()
    async with Database(undistributed) as database:
        await database.distribute()
        sessions = DatabaseSessionService(database)
        listed = await sessions.list_sessions(app_name="app")
        assert {each.user_id for each in listed.sessions} == {f"u{number}" for number in range(20)}
        assert await database.distribute() == []
    only_here = await said(undistributed, "SELECT pg_relation_size('adkpg.sessions') AS bytes")
    assert only_here[0]["bytes"] == 0


async def test_what_an_interrupted_run_left_is_done_by_the_next(undistributed: str) -> None:
    connection = await asyncpg.connect(undistributed)
    for key in ("memory_vectors_model_fkey", "approximate_scopes_model_fkey"):
        table = key.removesuffix("_model_fkey")
        await connection.execute(f"ALTER TABLE adkpg.{table} DROP CONSTRAINT {key}")
    await connection.execute("SELECT create_reference_table('adkpg.embedding_models')")
    await connection.close()
    async with Database(undistributed) as database:
        await database.distribute()
        await database.check()
    keys = await said(
        undistributed, "SELECT conname::text FROM pg_constraint WHERE conname ~ '_model_fkey$'"
    )
    assert {row["conname"] for row in keys} >= {
        "memory_vectors_model_fkey",
        "approximate_scopes_model_fkey",
    }


async def test_services_that_were_used_before_find_out_by_themselves(undistributed: str) -> None:
    async with Database(undistributed) as database, Database(undistributed) as other:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        await sessions.create_session(**USER, session_id="s")
        await memory.add_memory(app_name="app", user_id=None, memories=[entry("A cat sleeps.")])
        await memory.add_memory(**USER, memories=[entry("My cat is grey.")])
        before = await found(memory, "cat")
        assert len(before) == 2
        await other.distribute()
        assert await found(memory, "cat") == before, "the app's, too, from another node"
        page = await sessions.list_sessions_page(app_name="app")
        assert [each.id for each in page.items] == ["s"]
        await memory.embed_pending()
        await memory.flush()
        await tidy(database)
        assert await memory.count_memories(**USER) == 1


async def test_who_appends_and_searches_meanwhile_waits_and_sees_no_error(
    undistributed: str,
) -> None:
    async with Database(undistributed) as database, Database(undistributed) as other:
        sessions, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        done = asyncio.Event()
        said_by: dict[str, int] = {}

        async def talk(user_id: str) -> None:
            session = await sessions.create_session(app_name="app", user_id=user_id)
            count = 0
            while not done.is_set() or count < 3:
                await sessions.append_event(session, turn(f"cat {count}"))
                count += 1
                entries = [entry(f"cat {count}")]
                await memory.add_memory(app_name="app", user_id=user_id, memories=entries)
                await memory.search(app_name="app", user_id=user_id, query="cat")
            stored = await sessions.get_session(
                app_name="app", user_id=user_id, session_id=session.id
            )
            assert stored is not None
            said_by[user_id] = count
            assert len(stored.events) == count
            assert await memory.count_memories(app_name="app", user_id=user_id) == count

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(talk(f"u{number}"))
            await other.distribute()
            done.set()
        assert len(said_by) == 4


@pytest.mark.parametrize(
    ("last", "left"),
    [
        ("copy app_states to every node", "but app_states, .* more"),
        ("distribute sessions by user_id", "memories"),
        ("add the foreign key", "_fkey"),
        ("run append_event_1", "append_event_1"),
    ],
)
async def test_after_an_interrupted_run_each_call_names_what_is_left(
    undistributed: str, monkeypatch: pytest.MonkeyPatch, last: str, left: str
) -> None:
    apply = distribution._apply

    def interrupted(step: distribution.Step, connection: Connection) -> None:
        if step.what.startswith(last):
            raise KeyboardInterrupt
        apply(step, connection)

    monkeypatch.setattr(distribution, "_apply", interrupted)
    async with Database(undistributed) as database:
        with pytest.raises(KeyboardInterrupt):
            await database.distribute()
    monkeypatch.undo()
    async with Database(undistributed) as database:
        sessions = DatabaseSessionService(database)
        for call in (database.check, partial(sessions.list_sessions, app_name="app")):
            with pytest.raises(SchemaError, match=f"{left}.* not yet; run: adkpg db distribute"):
                await call()
        await database.distribute()
        await database.check()
        assert (await sessions.list_sessions(app_name="app")).sessions == []


async def test_migrating_again_finds_nothing_to_do(undistributed: str) -> None:
    async with Database(undistributed) as database:
        await database.distribute()
        await database.upgrade()
        await database.check()
        assert await database.distribute() == []


async def test_a_later_version_migrates_the_parts_on_all_nodes_under_a_session(
    undistributed: str, tmp_path: Path
) -> None:
    async with Database(undistributed) as database:
        await database.distribute()
        service = DatabaseSessionService(database)
        session = await service.create_session(**USER, session_id="s")
        await service.append_event(session, turn("before"))
        with later_version(tmp_path, ADDITIVE_COLUMN, CONCURRENT_INDEX):
            async with Database(undistributed) as later:
                await later.upgrade()
                await later.check()
                stored = await DatabaseSessionService(later).get_session(**USER, session_id="s")
                assert stored is not None
                assert texts(stored) == ["before"]
        await service.append_event(session, turn("after"))
    changed = {
        "mood": "SELECT count(*) FROM pg_attribute WHERE attname = 'mood'"
        " AND attrelid = '%s'::regclass",
        "index": "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE relname LIKE 'sessions_updated_at_idx%%' AND indrelid = '%s'::regclass",
    }
    for sql in changed.values():
        parts = await said(
            undistributed,
            f"SELECT result FROM run_command_on_shards('adkpg.sessions', $${sql}$$)",
        )
        assert {part["result"] for part in parts} == {"1"}, sql


async def test_a_worker_is_refused_in_a_sentence(cluster: CitusServer, undistributed: str) -> None:
    nodes = await cluster.nodes_of(undistributed.rpartition("/")[2])
    async with Database(nodes[1]) as database:
        with pytest.raises(ConfigurationError, match="leads to a worker"):
            await database.distribute()


async def test_tables_are_not_made_on_a_worker(cluster: CitusServer) -> None:
    """They would be its own, and the cluster's would be made beside them."""
    name = await cluster.create()
    try:
        await cluster.join(name)
        coordinator, worker = (await cluster.nodes_of(name))[:2]
        async with Database(worker) as database:
            with pytest.raises(ConfigurationError, match="leads to a worker"):
                await database.upgrade()
        found = "SELECT to_regclass('adkpg.sessions') IS NULL AS none"
        assert (await said(worker, found))[0]["none"]
        async with Database(coordinator) as database:
            await database.upgrade()
            await database.distribute()
    finally:
        await cluster.drop(name)


async def test_row_level_security_is_refused_in_a_sentence(database_url: str) -> None:
    settings = Settings(row_level_security=True)
    async with Database(database_url, settings=settings) as database:
        for refused in (database.check, database.upgrade, database.distribute):
            with pytest.raises(ConfigurationError, match="Row-level security does not work"):
                await refused()


async def test_tables_that_have_policies_are_not_distributed(undistributed: str) -> None:
    """Also by who has the setting off: whoever has it on would lose the rows of other nodes."""
    async with Database(undistributed, settings=Settings(row_level_security=True)) as database:
        await database.upgrade()
    async with Database(undistributed) as database:
        with pytest.raises(ConfigurationError, match="Row-level security does not work"):
            await database.distribute()
    assert await kinds(undistributed) == {}


async def _writes(database: Database) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(**USER, state={"user:a": 1})
    await sessions.append_event(session, turn("tea", state={"user:a": 2}))
    await PgVectorMemoryService(database, mode="text").add_session_to_memory(session)
    assert await sessions.update_state(**USER, state_delta={"user:a": 3}) == {"user:a": 3}


async def test_without_citus_a_sentence_says_so(cluster: CitusServer) -> None:
    name = await cluster.create()
    try:
        async with Database(cluster.url_of(name)) as database:
            await database.upgrade()
            with pytest.raises(ExtensionMissing, match="CREATE EXTENSION citus"):
                await database.distribute()
            await _writes(database)
            await said(cluster.url_of(name), "CREATE EXTENSION citus")
            await _writes(database)
    finally:
        await cluster.drop(name)


async def test_any_node_answers(cluster: CitusServer, database_url: str) -> None:
    for url in await cluster.nodes_of(database_url.rpartition("/")[2]):
        async with Database(url) as database:
            await database.check()
            sessions = DatabaseSessionService(database)
            created = await sessions.create_session(app_name="app", user_id="u")
            got = await sessions.get_session(app_name="app", user_id="u", session_id=created.id)
            assert got is not None
