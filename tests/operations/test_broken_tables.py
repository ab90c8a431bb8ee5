"""The doctor on indexes whose builds were cut off, on work that failed, and on settings."""

import asyncio
import sys
from pathlib import Path

import asyncpg
import pytest

from adkpg import Database, Jobs, PgVectorMemoryService, Settings
from adkpg.database.row_security import quoted
from adkpg.errors import ModelError
from adkpg.facts import Facts
from adkpg.facts.llm import FactExtractor
from adkpg.tooling.operations import examine
from tests.fakes.conversation import USER, entry, said, session_of
from tests.fakes.facts_llm import FactsLlm, Script
from tests.fakes.findings import find, mend
from tests.fakes.replication import until
from tests.fakes.roles import Roles
from tests.fakes.toys import BrokenEmbedder, SeededEmbedder, ToyEmbedder


async def _cut_off(url: str, table: str, building: str) -> None:
    """Cancels the build of an index while it waits for a writer of the table."""
    writer, builder = await asyncpg.connect(url), await asyncpg.connect(url)
    await writer.execute(f"BEGIN; LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
    pid = builder.get_server_pid()
    build = asyncio.create_task(builder.execute(building))

    async def waits() -> bool:
        return bool(
            await writer.fetchval(
                "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted", pid
            )
        )

    try:
        await until(waits)
        await writer.execute(f"SELECT pg_cancel_backend({pid})")
        with pytest.raises(asyncpg.QueryCanceledError):
            await build
    finally:
        await writer.close()
        await builder.close()


@pytest.mark.direct(reason="builds, and cancels, on connections of its own")
async def test_an_index_whose_build_was_cancelled_is_a_failure_and_mended(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    made = await connection.fetchval("SELECT pg_get_indexdef('memories_kind_idx'::regclass)")
    await connection.execute("DROP INDEX memories_kind_idx")
    building = made.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
    await _cut_off(database_url, "adkpg.memories", building)
    found = await find(database, "indexes")
    assert found.status == "failure"
    assert found.detail == "memories_kind_idx is invalid: its build was cut off"
    await mend(connection, found)
    assert (await find(database, "indexes")).status == "ok"
    assert (
        await connection.fetchval("SELECT pg_get_indexdef('memories_kind_idx'::regclass)") == made
    )


@pytest.mark.direct(reason="builds, and cancels, on connections of its own")
async def test_what_a_cancelled_rebuild_leaves_is_dropped(
    database: Database, database_url: str, connection: asyncpg.Connection
) -> None:
    await _cut_off(
        database_url, "adkpg.memories", "REINDEX INDEX CONCURRENTLY adkpg.memories_kind_idx"
    )
    found = await find(database, "indexes")
    assert (found.status, found.cure) == (
        "warning",
        'DROP INDEX CONCURRENTLY "adkpg"."memories_kind_idx_ccnew";',
    )
    await mend(connection, found)
    assert (await find(database, "indexes")).status == "ok"


async def test_a_unique_index_of_somebody_else_that_failed_is_dropped(
    database: Database, connection: asyncpg.Connection
) -> None:
    words = PgVectorMemoryService(database, mode="text")
    await words.add_memory(**USER, memories=[entry("one"), entry("two")])
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("CREATE UNIQUE INDEX CONCURRENTLY mine ON memories (user_id)")
    found = await find(database, "indexes")
    assert (found.status, found.cure) == ("warning", 'DROP INDEX CONCURRENTLY "adkpg"."mine";')
    await mend(connection, found)
    assert (await find(database, "indexes")).status == "ok"


@pytest.mark.direct(reason="builds, and cancels, on connections of its own")
async def test_an_hnsw_index_whose_build_was_cancelled_is_a_failure_and_mended(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async with Database(database_url, settings=Settings(exact_limit=100)) as database:
        memory = PgVectorMemoryService(database, embedder=SeededEmbedder(dimensions=32))
        await memory.add_memory(**USER, memories=[entry(f"turn {n}") for n in range(200)])
        await memory.index_large_scopes()
        row = await connection.fetchrow(
            "SELECT indexname AS name, indexdef AS made FROM pg_indexes"
            " WHERE indexname LIKE 'memory_vectors_hnsw_%'"
        )
        await connection.execute(f"DROP INDEX {row['name']}")
        building = row["made"].replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
        await _cut_off(database_url, "adkpg.memory_vectors", building)
        found = await find(database, "indexes")
        assert found.status == "failure"
        assert found.detail == f"{row['name']} is invalid: its build was cut off"
        await mend(connection, found)
        assert (await find(database, "indexes")).status == "ok"


@pytest.mark.direct(reason="a pooler's connections keep the settings that they began with")
@pytest.mark.parametrize("whose", ["ROLE {role}", "ROLE {role} IN DATABASE {database}"])
async def test_a_setting_of_a_role_is_mended_where_it_was_set(
    database: Database, database_url: str, connection: asyncpg.Connection, whose: str
) -> None:
    """What the database sets would not go before it."""
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        await roles.grant("serve")
        name = quoted(roles.name("serve"))
        place = whose.format(
            role=name, database=await connection.fetchval("SELECT current_database()")
        )
        await connection.execute(f"ALTER {place} SET statement_timeout = '1s'")
        async with Database(roles.url("serve")) as serving:
            found = await find(serving, "settings")
        assert "statement_timeout is 1000 ms: long searches are cut off" in found.detail
        assert found.cure is not None
        (cure,) = (each for each in found.cure.splitlines() if "statement_timeout" in each)
        await connection.execute(cure)
        async with Database(roles.url("serve")) as serving:
            assert "statement_timeout" not in (await find(serving, "settings")).detail
    finally:
        await roles.drop()


@pytest.mark.direct(reason="a pooler's connections keep the settings that they began with")
async def test_a_setting_of_the_url_is_named(database_url: str) -> None:
    async with Database(f"{database_url}&statement_timeout=1s") as database:
        found = await find(database, "settings")
    assert found.cure is not None
    assert "export ADKPG_DATABASE_URL=postgresql://...   # without statement_timeout" in found.cure


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "adkpg", *command)
    assert await process.wait() == 0


@pytest.mark.program
@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        ("TABLE memory_jobs", "there is no memory_jobs in the schema adkpg"),
        ("COLUMN memories.superseded_by", "there is no memories.superseded_by in the schema adkpg"),
        (
            "TABLE audit, artifacts, artifact_chunks, saved_questions, invocation_waiters",
            "there is no artifact_chunks, artifacts, audit and 2 more of these in the schema adkpg",
        ),
    ],
)
async def test_tables_and_columns_that_were_dropped_are_a_failure_and_restored(
    database_url: str,
    connection: asyncpg.Connection,
    tmp_path: Path,
    dropped: str,
    said: str,
) -> None:
    """The revision says nothing of it, and an upgrade does nothing about it."""
    kept = str(tmp_path / "agents.backup")
    await _run("backup", kept, "--database-url", database_url)
    kind, _, names = dropped.partition(" ")
    table, _, column = names.partition(".")
    await connection.execute(
        f"DROP TABLE {names} CASCADE"
        if kind == "TABLE"
        else f"ALTER TABLE {table} DROP COLUMN {column} CASCADE"
    )
    async with Database(database_url) as fresh:
        findings = {each.check: each for each in (await examine(fresh)).findings}
        found = findings["schema"]
        assert (found.status, said in found.detail) == ("failure", True), found
        assert found.cure == "adkpg restore agents.backup   # what `adkpg backup` wrote last"
        assert "indexes" not in findings, "what is not there has no index to create"
    await _run("restore", kept, "--yes", "--database-url", database_url)
    async with Database(database_url) as fresh:
        assert (await find(fresh, "schema")).status == "ok"


async def test_tables_that_go_while_they_are_examined_are_a_failure(
    database_url: str, connection: asyncpg.Connection
) -> None:
    async def waits() -> bool:
        return bool(
            await connection.fetchval(
                "SELECT count(*) FROM pg_locks"
                " WHERE NOT granted AND relation = 'memory_jobs'::regclass"
            )
        )

    async with Database(database_url) as database:
        async with connection.transaction():
            await connection.execute("LOCK TABLE memory_jobs IN ACCESS EXCLUSIVE MODE")
            examining = asyncio.create_task(examine(database))
            await until(waits)
            await connection.execute("DROP SCHEMA adkpg CASCADE")
        findings = {each.check: each for each in (await examining).findings}
    assert findings["schema"].status == "ok"
    for check in ("vectors", "queue"):
        assert (findings[check].status, findings[check].cure) == ("failure", "adkpg db upgrade")
        assert "run: adkpg db upgrade" in findings[check].detail


async def test_checks_that_wait_for_a_lock_say_so_and_the_others_are_made(
    database_url: str, connection: asyncpg.Connection
) -> None:
    patient = Settings(command_timeout_s=0.5, migration_timeout_s=0.5, retry_timeout_s=0)
    async with connection.transaction():
        await connection.execute("LOCK TABLE memory_jobs IN ACCESS EXCLUSIVE MODE")
        async with Database(database_url, settings=patient) as database:
            findings = {each.check: each for each in (await examine(database)).findings}
    for check in ("vectors", "queue"):
        assert findings[check].status == "warning"
        assert findings[check].detail.startswith("could not be checked: ")
    assert {findings[check].status for check in ("schema", "indexes")} == {"ok"}
    async with Database(database_url, settings=patient) as database:
        assert (await find(database, "queue")).status == "ok"


async def test_dead_letters_are_a_failure_and_revived(
    database: Database, memory: PgVectorMemoryService, database_url: str
) -> None:
    words = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("tea")])  # its model is the app's
    await words.add_memory(**USER, memories=[entry("coffee")])
    assert (await find(database, "queue")).detail.startswith("1 wait, none for long")

    async def refuse(texts: list[str]) -> list[list[float]]:
        if any("coffee" in text for text in texts):
            raise ModelError("no coffee")
        return await ToyEmbedder().embed_documents(texts)

    async with Database(database_url, settings=Settings(job_max_attempts=1)) as impatient:
        broken = PgVectorMemoryService(impatient, embedder=BrokenEmbedder(failure=refuse))
        with pytest.raises(ModelError):
            await broken.embed_pending()
    found = await find(database, "queue")
    assert (found.status, found.cure) == ("failure", "adkpg worker --once --revive")
    assert found.detail.startswith("1 dead letter (embed): ")
    assert "no coffee" in found.detail
    assert await Jobs(database, work="embed").revive() == 1
    await memory.embed_pending()
    assert (await find(database, "queue")).status == "ok"


async def test_work_that_waits_for_long_is_a_warning_and_done(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    words = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("tea")])
    await words.add_memory(**USER, memories=[entry("coffee")])
    await connection.execute("UPDATE memory_jobs SET created_at = now() - interval '1 hour'")
    found = await find(database, "queue")
    assert (found.status, found.cure) == ("warning", "adkpg worker")
    assert "the first for 60 minutes" in found.detail
    await memory.embed_pending()
    assert (await find(database, "queue")).status == "ok"


async def test_facts_that_wait_and_dead_letters_name_the_worker_that_extracts(
    database_url: str, connection: asyncpg.Connection
) -> None:
    script = Script()
    settings = Settings(job_max_attempts=1)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(database, mode="text")
        facts = Facts(memory, extractor=FactExtractor(FactsLlm.following(script)))
        await facts.enable("app")
        await memory.add_session_to_memory(session_of(said("I have a cat.")))
        await connection.execute("UPDATE memory_jobs SET created_at = now() - interval '1 hour'")
        found = await find(database, "queue")
        assert (found.status, found.cure) == (
            "warning",
            "adkpg worker\nadkpg worker --extract MODEL",
        )
        assert "1 memories wait (extract), the first for 60 minutes" in found.detail
        script.says("no", "no")
        await facts.extract(**USER)
        found = await find(database, "queue")
        assert found.status == "failure"
        assert "1 dead letter (extract): " in found.detail
        assert found.cure is not None
        assert "adkpg worker --once --revive --extract MODEL" in found.cure
