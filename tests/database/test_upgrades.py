"""Upgrades of a database in use: old code beside new, live load, interruptions, rights, names."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database.migrating import migrations
from adkpg.errors import (
    Busy,
    ConfigurationError,
    RetryableError,
    SchemaError,
)
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from adkpg.tooling.testing.server import Server
from tests.fakes.catalog import execute, fetch
from tests.fakes.conversation import USER, entry
from tests.fakes.databases import database_with
from tests.fakes.later_versions import (
    ADDITIVE_COLUMN,
    CONCURRENT_INDEX,
    RENAMED_COLUMN,
    SLOW,
    later_version,
)
from tests.fakes.locks import locked
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.fault


async def _works(database: Database) -> None:
    service = DatabaseSessionService(database)
    session = await service.create_session(**USER)
    await service.append_event(session, said("x"))
    assert texts(await service.get_session(**USER, session_id=session.id)) == ["x"]


async def _advisory_locks(url: str) -> int:
    rows = await fetch(
        url,
        "SELECT FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    return len(rows)


# Old code beside new


async def test_old_code_goes_on_with_tables_of_an_additive_revision(
    database_url: str, tmp_path: Path
) -> None:
    with later_version(tmp_path, ADDITIVE_COLUMN, CONCURRENT_INDEX):
        async with Database(database_url) as new:
            await new.upgrade()
            await _works(new)
    async with Database(database_url) as old:
        await old.check()
        await _works(old)
        await old.upgrade()
        assert await old.current() == "0003"
    async with Database(database_url, auto_upgrade=True) as old:
        await _works(old)


async def test_old_code_refuses_what_follows_a_revision_that_is_not_additive(
    database_url: str, tmp_path: Path
) -> None:
    bodies = (ADDITIVE_COLUMN, RENAMED_COLUMN, CONCURRENT_INDEX)
    with later_version(tmp_path, *bodies, additive=[True, False, True]):
        async with Database(database_url) as new:
            await new.upgrade()
            (row,) = await fetch(database_url, "SELECT * FROM adkpg.adkpg_version")
            assert dict(row) == {"version_num": "0004", "works_with": "0003..0004"}
    async with Database(database_url) as old:
        for call in (old.check, old.upgrade, lambda: _works(old)):
            with pytest.raises(SchemaError, match=r"revision 0004.*upgrade the adkpg package"):
                await call()


async def test_a_note_about_another_revision_counts_for_nothing(database_url: str) -> None:
    """Whoever sets the revision by hand has said nothing about the code that works with it."""
    await execute(database_url, "UPDATE adkpg.adkpg_version SET version_num = '0009'")
    async with Database(database_url) as database:
        with pytest.raises(SchemaError, match="upgrade the adkpg package"):
            await database.check()


async def test_new_code_asks_for_its_own_revision(database_url: str, tmp_path: Path) -> None:
    with later_version(tmp_path, ADDITIVE_COLUMN):
        async with Database(database_url) as new:
            with pytest.raises(SchemaError, match="expects 0002; run: adkpg db upgrade"):
                await new.check()


# Live load


async def test_appends_go_on_while_a_reader_keeps_a_migration_waiting(
    database_url: str, tmp_path: Path
) -> None:
    async with Database(database_url) as database, DatabaseSessionService(database) as sessions:
        session = await sessions.create_session(**USER)
        with later_version(tmp_path, ADDITIVE_COLUMN):
            async with locked(database_url, "SELECT FROM adkpg.sessions") as reader:
                migrating = asyncio.create_task(database.upgrade())
                await reader.until_blocked(1)
                for number in range(20):
                    await sessions.append_event(session, said(str(number)))
                assert not migrating.done()
                await reader.release()
            await migrating
        assert await database.current() == "0002"
        assert len(texts(await sessions.get_session(**USER, session_id=session.id))) == 20
    assert await _advisory_locks(database_url) == 0


async def test_a_reader_that_stays_ends_the_migration_with_nothing_changed(
    database_url: str, tmp_path: Path
) -> None:
    settings, before = Settings(migration_timeout_s=1), migrations.expected()
    with later_version(tmp_path, ADDITIVE_COLUMN):
        async with Database(database_url, settings=settings) as database:
            async with locked(database_url, "SELECT FROM adkpg.sessions"):
                with pytest.raises(Busy, match=r"1 s; end those.*ADKPG_MIGRATION_TIMEOUT_S") as no:
                    await database.upgrade()
                assert no.value.written is False
            assert await database.current() == before
            assert await _advisory_locks(database_url) == 0
            await database.upgrade()
            assert await database.current() == "0002"


async def test_the_roles_timeouts_and_isolation_are_not_those_of_a_migration(
    empty_database_url: str, tmp_path: Path
) -> None:
    (name,) = await fetch(empty_database_url, "SELECT current_database()")
    for setting in (
        "statement_timeout = '250ms'",
        "lock_timeout = '250ms'",
        "idle_in_transaction_session_timeout = '250ms'",
        "default_transaction_isolation = 'serializable'",
    ):
        await execute(empty_database_url, f"ALTER DATABASE {name[0]} SET {setting}")
    with later_version(tmp_path, SLOW, CONCURRENT_INDEX) as revisions:
        async with Database(empty_database_url) as database:
            await database.upgrade()
    await execute(empty_database_url, f"ALTER DATABASE {name[0]} RESET ALL")
    async with Database(empty_database_url) as database:
        assert await database.current() == revisions[-1]


# Interruptions


async def test_an_index_whose_build_was_killed_is_built_again(
    database_url: str, tmp_path: Path
) -> None:
    state = (
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE c.relname = 'sessions_updated_at_idx'"
    )
    with later_version(tmp_path, ADDITIVE_COLUMN, CONCURRENT_INDEX):
        async with Database(database_url) as database:
            await database.upgrade("0002")
            async with locked(database_url, "LOCK adkpg.sessions IN ROW EXCLUSIVE MODE") as writer:
                migrating = asyncio.create_task(database.upgrade())
                (building,) = await writer.until_blocked(1)
                await execute(database_url, f"SELECT pg_terminate_backend({building})")
                with pytest.raises(RetryableError):
                    await migrating
            assert await database.current() == "0002"
            assert [row["indisvalid"] for row in await fetch(database_url, state)] == [False]
            assert await _advisory_locks(database_url) == 0
            await database.upgrade()
            assert await database.current() == "0003"
            assert [row["indisvalid"] for row in await fetch(database_url, state)] == [True]


async def test_a_migration_whose_server_process_is_killed_is_done_again(
    database_url: str, tmp_path: Path
) -> None:
    with later_version(tmp_path, ADDITIVE_COLUMN):
        async with Database(database_url) as database:
            async with locked(database_url, "LOCK adkpg.sessions") as holder:
                migrating = asyncio.create_task(database.upgrade())
                (altering,) = await holder.until_blocked(1)
                await execute(database_url, f"SELECT pg_terminate_backend({altering})")
                with pytest.raises(RetryableError):
                    await migrating
            assert await _advisory_locks(database_url) == 0
            await database.upgrade()
            assert await database.current() == "0002"


async def test_a_cancelled_migration_leaves_nothing_behind(
    database_url: str, tmp_path: Path
) -> None:
    with later_version(tmp_path, ADDITIVE_COLUMN):
        async with Database(database_url) as database:
            async with locked(database_url, "LOCK adkpg.sessions") as holder:
                migrating = asyncio.create_task(database.upgrade())
                await holder.until_blocked(1)
                migrating.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await migrating
            async with asyncio.timeout(30):
                while await _advisory_locks(database_url):
                    pass
            await database.upgrade()
            assert await database.current() == "0002"


# Rights and names


@pytest.fixture
async def role(server: Server, empty_database_url: str) -> Any:
    name = f"adkpg_{uuid.uuid4().hex[:8]}"
    await server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    yield name
    await execute(empty_database_url, f"DROP OWNED BY {name} CASCADE")
    await server.execute(f"DROP ROLE {name}")


def _as(url: str, role: str) -> str:
    scheme, _, rest = url.partition("://")
    head, question, query = rest.partition("?")
    return f"{scheme}://{role}:x@{head.rpartition('@')[2]}{question}{query}"


async def test_an_administrators_schema_and_extension_are_enough(
    empty_database_url: str, role: str
) -> None:
    await execute(
        empty_database_url, f"CREATE EXTENSION vector; CREATE SCHEMA adkpg AUTHORIZATION {role}"
    )
    async with Database(_as(empty_database_url, role)) as database:
        await database.upgrade()
        await _works(database)


async def test_a_role_that_may_not_create_the_schema(empty_database_url: str, role: str) -> None:
    await execute(empty_database_url, "CREATE EXTENSION vector")
    async with Database(_as(empty_database_url, role)) as database:
        with pytest.raises(SchemaError, match=r"CREATE SCHEMA adkpg AUTHORIZATION.*db upgrade"):
            await database.upgrade()


async def test_a_renamed_schema_works(database_url: str, embedder: ToyEmbedder) -> None:
    async with (
        Database(database_url) as database,
        PgVectorMemoryService(database, embedder=embedder) as memory,
    ):
        await memory.add_memory(**USER, memories=[entry("tea", "t"), entry("coffee", "c")])
    await execute(database_url, "ALTER SCHEMA adkpg RENAME TO agents")
    settings = Settings(database_schema="agents")
    async with (
        Database(database_url, settings=settings) as database,
        PgVectorMemoryService(database, embedder=embedder) as memory,
    ):
        await database.check()
        await _works(database)
        await memory.delete_memory(**USER, memory_id="t")
    words = await fetch(database_url, "SELECT lexeme FROM agents.memory_lexemes")
    assert {"tea", "coffe"} & {row["lexeme"] for row in words} == {"coffe"}


# The direct address


async def test_migrations_use_the_direct_address(empty_database_url: str, role: str) -> None:
    """The role that serves may change no table; the one of the direct address may."""
    direct = Settings.model_validate({"direct_url": empty_database_url})
    async with Database(_as(empty_database_url, role), settings=direct) as database:
        await database.upgrade()
    async with Database(empty_database_url) as database:
        await database.check()
        assert await database.current() == migrations.expected()


async def test_a_direct_address_of_another_database_is_refused(
    database_url: str, server: Server
) -> None:
    other = await server.create()
    settings = Settings.model_validate({"direct_url": server.url_of(other)})
    async with Database(database_url, settings=settings) as database:
        with pytest.raises(ConfigurationError, match="ADKPG_DIRECT_URL leads to another database"):
            await database.upgrade()
    assert await fetch(server.url_of(other), "SELECT FROM pg_namespace WHERE nspname='adkpg'") == []
    await server.drop(other)


def test_a_direct_address_is_never_the_embedded_servers() -> None:
    settings = Settings.model_validate({"direct_url": "embedded"})
    with pytest.raises(ConfigurationError, match="leave it out"):
        Database("postgresql://h/d", settings=settings)


# Versions


def test_a_server_that_is_too_old_is_a_sentence() -> None:
    found = migrations.Found(None, None, 140_012, "0.8.0", "public", True, True, "me")
    with pytest.raises(ConfigurationError, match=r"Postgres 14, and adkpg needs 15 or later"):
        migrations.verify(found, "", "")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_an_encoding_that_holds_not_every_text_is_a_sentence(
    server: Server, encoding: str
) -> None:
    options = f"ENCODING '{encoding}' LOCALE_PROVIDER libc LOCALE 'C'"
    async with database_with(server, options) as url:
        async with Database(url) as database:
            for call in (database.upgrade, database.check):
                with pytest.raises(
                    ConfigurationError, match=f"encoding is {encoding}, and .* UTF8"
                ):
                    await call()
            postgres, *_ = (await examine(database)).findings
        tables = "SELECT FROM pg_class WHERE relname = 'sessions'"
        assert await fetch(url, tables) == []
    assert (postgres.check, postgres.status) == ("postgres", "failure")
    assert postgres.cure is not None
    assert "ENCODING 'UTF8'" in postgres.cure


async def test_a_connection_of_another_encoding_is_a_sentence(database_url: str) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        mark = "&" if "?" in database_url else "?"
        async with Database(f"{database_url}{mark}client_encoding={encoding}") as database:
            for call in (database.upgrade, database.check):
                with pytest.raises(
                    ConfigurationError, match=f"client_encoding is {encoding}.* database URL"
                ):
                    await call()
            postgres, *_ = (await examine(database)).findings
        assert (postgres.status, "without client_encoding" in str(postgres.cure)) == (
            "failure",
            True,
        )


# Calls while tables are made or moved


@asynccontextmanager
async def _changing(url: str) -> AsyncIterator[None]:
    """Somebody migrates or distributes the tables inside."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"SELECT pg_advisory_lock({0x61646B7067})")
        yield
    finally:
        await connection.close()


async def test_a_call_before_the_tables_are_there_waits_for_who_makes_them(
    empty_database_url: str,
) -> None:
    settings = Settings(retry_timeout_s=60)
    async with (
        Database(empty_database_url, settings=settings) as database,
        Database(empty_database_url) as other,
    ):
        async with _changing(empty_database_url):
            creating = asyncio.create_task(
                DatabaseSessionService(database).create_session(**USER, session_id="s")
            )
            done, _ = await asyncio.wait({creating}, timeout=0.5)
            assert not done
        creating.cancel()
        with pytest.raises(SchemaError):
            await DatabaseSessionService(database).create_session(**USER, session_id="s")
        await other.upgrade()
        assert (await DatabaseSessionService(database).create_session(**USER)).id


async def test_a_call_that_looks_before_a_migration_ends_and_asks_after_it_is_answered(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def under_way(_: object) -> bool:
        nonlocal asked
        asked += 1
        async with Database(empty_database_url) as other:
            await other.upgrade()
        return False

    monkeypatch.setattr(migrations, "under_way", under_way)
    async with Database(empty_database_url) as database:
        await _works(database)
    assert asked == 1


async def test_a_call_while_a_table_is_away_waits_until_it_is_back(database_url: str) -> None:
    settings = Settings(retry_timeout_s=60)
    async with Database(database_url, settings=settings) as database:
        service = DatabaseSessionService(database)
        session = await service.create_session(**USER, session_id="s")
        async with _changing(database_url):
            await execute(database_url, "ALTER TABLE adkpg.sessions RENAME TO moving")
            calls = [
                asyncio.create_task(service.append_event(session, said("x"))),
                asyncio.create_task(service.get_session(**USER, session_id="s")),
                asyncio.create_task(service.delete_session(**USER, session_id="other")),
            ]
            done, _ = await asyncio.wait(calls, timeout=0.5)
            assert not done
            await execute(database_url, "ALTER TABLE adkpg.moving RENAME TO sessions")
            await asyncio.gather(*calls)


async def test_a_table_that_stays_away_is_said_to_be_missing(database_url: str) -> None:
    async with Database(database_url, settings=Settings(retry_timeout_s=60)) as database:
        service = DatabaseSessionService(database)
        await service.create_session(**USER, session_id="s")
        await execute(database_url, "ALTER TABLE adkpg.sessions RENAME TO moved")
        with pytest.raises(SchemaError, match="sessions"):
            await service.get_session(**USER, session_id="s")
