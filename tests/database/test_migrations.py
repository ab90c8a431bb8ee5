"""Migrations up, down, offline, in other schemas, at once; and what is said where they are due."""

import asyncio
import logging
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from google.adk.sessions import DatabaseSessionService as AdkDatabaseSessionService
from sqlalchemy import Connection, MetaData

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.database.migrating import migrations
from adkpg.embedded import EmbeddedServer
from adkpg.errors import (
    AdkpgError,
    Busy,
    ConfigurationError,
    ExtensionMissing,
    SchemaError,
)
from adkpg.tables import REGISTER, metadata
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from adkpg.tooling.testing.server import Server
from tests.fakes.catalog import described, execute, fetch
from tests.fakes.conversation import USER
from tests.fakes.locks import locked


@pytest.fixture
async def empty(empty_database_url: str) -> AsyncIterator[Database]:
    async with Database(empty_database_url) as database:
        yield database


async def _works(database: Database) -> None:
    service = DatabaseSessionService(database)
    session = await service.create_session(**USER, state={"user:a": 1})
    await service.append_event(session, said("x", state={"app:b": 1}))
    assert texts(await service.get_session(**USER, session_id=session.id)) == ["x"]


async def test_up_down_and_up_again(empty: Database, empty_database_url: str) -> None:
    assert await empty.current() is None
    await empty.upgrade()
    await empty.upgrade()
    assert await empty.current() == migrations.expected()
    await _works(empty)
    first = await described(empty_database_url)
    await empty.downgrade("base")
    assert await empty.current() is None
    left = await described(empty_database_url)
    assert [row for row in left["tables"] if "adkpg_version" not in row] == []
    with pytest.raises(SchemaError):
        await _works(empty)
    await empty.upgrade()
    assert await described(empty_database_url) == first
    await _works(empty)


async def test_the_tables_are_those_of_the_code(database: Database) -> None:
    def differences(connection: Connection) -> list[Any]:
        copy = MetaData(schema="adkpg")
        for table in metadata.sorted_tables:
            table.to_metadata(copy)
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == "adkpg",
                "version_table": REGISTER,
                "version_table_schema": "adkpg",
                "compare_type": True,
            },
        )
        found: list[Any] = compare_metadata(context, copy)
        return found

    engine = await database.engine()
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_what_alembic_does_not_compare(database_url: str) -> None:
    """Covering columns, storage, table options, collations and comments, by the catalog."""
    found = await described(database_url)
    indexes = "\n".join(found["indexes"])
    for covering in (
        '(app_name, user_id, "position") INCLUDE (length, speech, "timestamp", expires_at)',
        '(app_name, user_id, lexeme, "position") INCLUDE (frequency, memory_length)',
        "(model_id, app_name, user_id, approximate)"
        ' INCLUDE ("position", passage, span, embedding, bits)',
    ):
        assert covering in indexes
    storage = {
        row["attname"]: row["attstorage"].decode()
        for row in await fetch(
            database_url,
            "SELECT attname, attstorage FROM pg_attribute"
            " WHERE attrelid = 'adkpg.memory_vectors'::regclass AND attnum > 0",
        )
    }
    assert (storage["embedding"], storage["bits"], storage["large"]) == ("p", "p", "e")
    for table in metadata.sorted_tables:
        (row,) = await fetch(
            database_url,
            "SELECT obj_description(oid) AS comment, reloptions FROM pg_class"
            " WHERE oid = $1::regclass",
            str(table),
        )
        assert row["comment"] == table.comment
        rewritten = table.name in {"sessions", "app_states", "user_states", "memory_jobs", "tasks"}
        covered = table.name in {"memories", "memory_lexemes", "memory_vectors"}
        options = ["fillfactor=80"] * rewritten
        options += ["autovacuum_vacuum_insert_scale_factor=0.02"] * covered
        assert (row["reloptions"] or []) == options


async def test_keys_of_a_persons_data_hold_the_person(database_url: str) -> None:
    rows = await fetch(
        database_url,
        "SELECT conrelid::regclass::text AS table, contype, ARRAY(SELECT attname::text FROM"
        " unnest(conkey) WITH ORDINALITY k(n, place) JOIN pg_attribute a"
        " ON a.attrelid = conrelid AND attnum = n ORDER BY place) AS columns"
        " FROM pg_constraint WHERE connamespace = 'adkpg'::regnamespace"
        " AND contype IN ('p', 'u') AND EXISTS (SELECT FROM pg_attribute"
        " WHERE attrelid = conrelid AND attname = 'user_id')",
    )
    assert len(rows) >= 8
    for row in rows:
        assert {"app_name", "user_id"} <= set(row["columns"]), row
        if row["contype"] == b"p":
            assert row["columns"][:2] == ["app_name", "user_id"], row


async def test_sql_makes_the_same_schema(empty_database_url: str, database_url: str) -> None:
    await execute(empty_database_url, migrations.sql("adkpg"))
    assert await described(empty_database_url) == await described(database_url)
    bodies = (
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'adkpg'::regnamespace ORDER BY 1"
    )
    assert await fetch(empty_database_url, bodies) == await fetch(database_url, bodies) != []
    async with Database(empty_database_url) as database:
        await database.check()
        await _works(database)


async def test_a_schema_of_another_name(empty_database_url: str, database_url: str) -> None:
    settings = Settings(database_schema="my_agents")
    async with (
        Database(empty_database_url, settings=settings) as mine,
        Database(empty_database_url) as default,
    ):
        await mine.upgrade()
        await _works(mine)
        assert await default.current() is None
        await default.upgrade()
        await _works(default)
        assert await described(empty_database_url, "my_agents") == await described(database_url)
        await mine.downgrade("base")
        await _works(default)
        await execute(empty_database_url, 'DROP SCHEMA "my_agents" CASCADE')
        await execute(empty_database_url, migrations.sql("my_agents"))
        await _works(mine)


async def test_two_databases_in_one_loop_at_once(server: Server) -> None:
    names = [await server.create() for _ in range(3)]
    databases = [Database(server.url_of(name)) for name in names]
    await asyncio.gather(*(database.upgrade() for database in databases for _ in range(2)))
    for database in databases:
        await database.check()
        await _works(database)
        await database.close()
    for name in names:
        await server.drop(name)


async def test_upgrade_with_one_connection_per_pool(empty_database_url: str) -> None:
    async with Database(empty_database_url, pool_size=1, max_overflow=0) as database:
        await database.upgrade()
        await _works(database)


async def test_a_migration_that_waits_too_long_says_so(
    empty_database_url: str,
) -> None:
    settings = Settings(migration_timeout_s=0.1)
    lock = f"SELECT pg_advisory_xact_lock({migrations._LOCK_KEY})"
    async with (
        locked(empty_database_url, lock),
        Database(empty_database_url, settings=settings) as database,
    ):
        with pytest.raises(Busy, match="ADKPG_MIGRATION_TIMEOUT_S"):
            await database.upgrade()


async def test_a_password_with_percent_and_at(server: Server, empty_database_url: str) -> None:
    role, password = f"adkpg_{uuid.uuid4().hex[:8]}", "p%25@ss:/w%d"
    await server.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{password}'")
    try:
        url = _as(empty_database_url, f"{role}:{quote(password, safe='')}")
        async with Database(url) as database:
            await database.upgrade()
            await _works(database)
            assert password not in database.url
    finally:
        await execute(empty_database_url, f"DROP OWNED BY {role} CASCADE")
        await server.execute(f"DROP ROLE {role}")


def _as(url: str, userinfo: str) -> str:
    scheme, _, rest = url.partition("://")
    head, question, query = rest.partition("?")
    return f"{scheme}://{userinfo}@{head.rpartition('@')[2]}{question}{query}"


# pgvector


@pytest.mark.newest
async def test_a_server_without_pgvector(empty_database_url: str, empty: Database) -> None:
    (name,) = await fetch(empty_database_url, "SELECT current_database()")
    # Extensions are looked for in a directory that has none (since Postgres 18).
    await execute(
        empty_database_url, f"ALTER DATABASE {name[0]} SET extension_control_path = '/nowhere'"
    )
    with pytest.raises(ExtensionMissing, match=r"postgresql-18-pgvector.*adkpg db upgrade"):
        await empty.upgrade()
    assert await empty.current() is None


async def test_a_role_that_may_not_create_pgvector(
    server: Server, empty_database_url: str, empty: Database
) -> None:
    role = f"adkpg_{uuid.uuid4().hex[:8]}"
    await server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        async with Database(_as(empty_database_url, f"{role}:x")) as database:
            name = empty_database_url.partition("?")[0].rpartition("/")[2]
            told = rf"Role {role} .* in database {name}; .*CREATE EXTENSION vector there"
            with pytest.raises(ExtensionMissing, match=told):
                await database.upgrade()
    finally:
        await server.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("prepared", "told"),
    [
        ((), r"may not create the schema adkpg; .*CREATE SCHEMA adkpg AUTHORIZATION {role}"),
        (
            ("CREATE SCHEMA adkpg", "GRANT USAGE ON SCHEMA adkpg TO {role}"),
            r"may make nothing in the schema adkpg; .*CREATE ON SCHEMA adkpg TO {role}",
        ),
        (
            ("CREATE SCHEMA far", "ALTER EXTENSION vector SET SCHEMA far"),
            r"may not use the schema far, .*GRANT USAGE ON SCHEMA far TO {role}",
        ),
        (
            ("ALTER ROLE {role} SET default_transaction_read_only = on",),
            r"{role} in database .* are read-only; run ALTER ROLE {role} IN DATABASE",
        ),
        (
            ("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC",),
            r"may not use the LANGUAGE plpgsql; .*GRANT USAGE ON LANGUAGE plpgsql TO {role}",
        ),
        (
            ("REVOKE USAGE ON TYPE halfvec FROM PUBLIC",),
            r"may not use the TYPE halfvec; .*GRANT USAGE ON TYPE halfvec TO {role}",
        ),
        (
            ("CREATE SCHEMA adkpg AUTHORIZATION {role}_group",),
            r"{role} may make nothing in the schema adkpg",
        ),
    ],
)
async def test_a_role_that_cannot_work_is_told_so_before_anything_is_made(
    server: Server, empty_database_url: str, prepared: tuple[str, ...], told: str
) -> None:
    role = f"adkpg_{uuid.uuid4().hex[:8]}"
    await execute(
        empty_database_url,
        f"CREATE ROLE {role}_group; CREATE ROLE {role} LOGIN PASSWORD 'x' NOINHERIT;"
        f"GRANT {role}_group TO {role}; CREATE EXTENSION vector;"
        + ";".join(each.format(role=role) for each in prepared),
    )
    before = await fetch(empty_database_url, "SELECT oid FROM pg_namespace ORDER BY 1")
    try:
        for auto_upgrade in (False, True):
            async with Database(
                _as(empty_database_url, f"{role}:x"), auto_upgrade=auto_upgrade
            ) as database:
                call = partial(_works, database) if auto_upgrade else database.upgrade
                with pytest.raises(AdkpgError, match=told.format(role=role)):
                    await call()
        assert before == await fetch(empty_database_url, "SELECT oid FROM pg_namespace ORDER BY 1")
    finally:
        await execute(
            empty_database_url,
            f"DROP OWNED BY {role}_group, {role} CASCADE; DROP ROLE {role}; DROP ROLE {role}_group",
        )


async def test_a_pgvector_that_is_too_old(database_url: str, empty_database_url: str) -> None:
    await execute(empty_database_url, "CREATE EXTENSION vector")
    for url in (database_url, empty_database_url):
        old = "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"
        await execute(url, old)
        async with Database(url) as database:
            for call in (database.upgrade, *([database.check] if url == database_url else [])):
                with pytest.raises(ExtensionMissing, match=r"0\.7\.4 is too old.*0\.8.*UPDATE"):
                    await call()
    async with Database(database_url) as database:
        with pytest.raises(ExtensionMissing, match=r"too old"):
            await _works(database)


async def test_a_search_path_without_pgvector(database_url: str, empty_database_url: str) -> None:
    await execute(empty_database_url, "CREATE SCHEMA tools; CREATE EXTENSION vector SCHEMA tools")
    for url in (database_url, empty_database_url):
        (name,) = await fetch(url, "SELECT current_database()")
        await execute(url, f"ALTER DATABASE {name[0]} SET search_path = ''")
    async with Database(database_url) as database:
        for call in (database.check, lambda: _works(database), database.upgrade):
            with pytest.raises(
                ExtensionMissing, match=r"schema public.*SET search_path = .*public"
            ):
                await call()
    async with Database(empty_database_url) as database:
        with pytest.raises(ExtensionMissing, match=r"schema tools.*SET search_path = .*tools"):
            await database.upgrade()


# What is said


async def test_missing_tables(empty: Database) -> None:
    for call in (empty.check, lambda: _works(empty)):
        with pytest.raises(
            SchemaError, match=rf"expected revision {migrations.expected()}.*adkpg db upgrade"
        ):
            await call()


@pytest.mark.parametrize("found", ["9999", "abc"])
async def test_tables_of_a_later_version(database_url: str, found: str) -> None:
    await execute(database_url, f"UPDATE adkpg.adkpg_version SET version_num = '{found}'")
    async with Database(database_url) as database:
        for call in (database.check, lambda: _works(database)):
            with pytest.raises(
                SchemaError,
                match=rf"at revision {found}.*expects {migrations.expected()}.*package",
            ):
                await call()


@pytest.mark.parametrize("auto_upgrade", [False, True])
async def test_tables_of_an_unreleased_version(database_url: str, auto_upgrade: bool) -> None:
    await execute(database_url, "UPDATE adkpg.adkpg_version SET version_num = '0001'")
    async with Database(database_url, auto_upgrade=auto_upgrade) as database:
        for call in (
            database.check,
            database.upgrade,
            lambda: database.downgrade("base"),
            lambda: _works(database),
        ):
            with pytest.raises(
                SchemaError, match=r"revision 0001,.*unreleased.*DROP SCHEMA adkpg CASCADE in"
            ) as caught:
                await call()
            assert database.url in str(caught.value)


async def test_an_embedded_server_with_tables_of_an_unreleased_version(
    own_server: EmbeddedServer, own_directory: Path
) -> None:
    async with Database(own_server.url, auto_upgrade=True) as database:
        await _works(database)
    await execute(own_server.url, "UPDATE adkpg.adkpg_version SET version_num = '0001'")
    async with Database("embedded", settings=Settings(embedded_dir=own_directory)) as database:
        for call in (partial(_works, database), database.upgrade, database.check):
            with pytest.raises(SchemaError, match="ADKPG_EMBEDDED_DIR") as caught:
                await call()
            assert str(own_directory) in str(caught.value)


async def test_tables_dropped_while_in_use(database: Database, database_url: str) -> None:
    await _works(database)
    await execute(database_url, "DROP SCHEMA adkpg CASCADE")
    for _ in range(2):
        with pytest.raises(SchemaError, match="adkpg db upgrade"):
            await _works(database)
    await database.upgrade()
    await _works(database)


async def test_auto_upgrade_migrates_at_first_use(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Database(empty_database_url, auto_upgrade=True) as database:
        assert await database.current() is None
        await asyncio.gather(*(_works(database) for _ in range(3)))
        await database.check()
        await database.downgrade("base")
    monkeypatch.setenv("ADKPG_AUTO_UPGRADE", "1")
    async with Database(empty_database_url) as database:
        await _works(database)


async def test_an_unknown_revision_is_refused(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        await database.upgrade("nowhere")
    with pytest.raises(ConfigurationError, match="nowhere"):
        await database.downgrade("nowhere")
    with pytest.raises(ConfigurationError, match="nowhere"):
        migrations.sql("adkpg", "nowhere")
    await database.check()


# Neighbours


async def test_a_users_own_alembic_coexists(empty: Database, empty_database_url: str) -> None:
    await execute(
        empty_database_url,
        "CREATE TABLE public.alembic_version (version_num text PRIMARY KEY);"
        "INSERT INTO public.alembic_version VALUES ('theirs');"
        "CREATE TABLE public.sessions (id int PRIMARY KEY)",
    )
    await empty.upgrade()
    await _works(empty)
    await empty.downgrade("base")
    (row,) = await fetch(empty_database_url, "SELECT version_num FROM public.alembic_version")
    assert row[0] == "theirs"
    assert await fetch(empty_database_url, "SELECT FROM public.sessions") == []


async def test_a_schema_is_shared_with_an_apps_alembic_and_not_with_adks_tables(
    empty_database_url: str,
) -> None:
    await execute(
        empty_database_url,
        "CREATE TABLE public.alembic_version (version_num text PRIMARY KEY);"
        "INSERT INTO public.alembic_version VALUES ('0001');"
        "CREATE TABLE public.customers (id int PRIMARY KEY)",
    )
    async with Database(empty_database_url, settings=Settings(database_schema="public")) as shared:
        assert await shared.current() is None
        await shared.upgrade()
        await _works(shared)
        await shared.downgrade("base")
        await shared.upgrade()
        (row,) = await fetch(empty_database_url, "SELECT version_num FROM public.alembic_version")
        assert row[0] == "0001"
        await shared.downgrade("base")
        engine = empty_database_url.replace("://", "+asyncpg://", 1)
        async with AdkDatabaseSessionService(engine) as theirs:
            await theirs.create_session(**USER)
        for call in (shared.upgrade, shared.check, partial(_works, shared)):
            with pytest.raises(
                SchemaError,
                match=r"public has app_states, events, sessions, user_states, .* such as adkpg",
            ):
                await call()
        found = {each.check: each for each in (await examine(shared)).findings}
        assert (
            found["schema"].cure
            == "export ADKPG_DATABASE_SCHEMA=another   # a schema of adkpg's own"
        )
    async with Database(empty_database_url) as own:
        await own.upgrade()
        await _works(own)


async def test_every_name_that_a_migration_makes_is_looked_for(
    database_url: str, empty: Database, empty_database_url: str
) -> None:
    names = await fetch(
        database_url,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'adkpg'::regnamespace"
        " AND relkind <> 'S' AND NOT starts_with(relname::text, $1)"
        " UNION SELECT proname FROM pg_proc WHERE pronamespace = 'adkpg'::regnamespace",
        REGISTER,
    )
    own = migrations._names()
    assert {row[0] for row in names} <= {*own["relations"], *own["functions"]}
    await execute(empty_database_url, "CREATE SCHEMA adkpg")
    for made in (
        "TYPE adkpg.events AS ENUM ()",
        "VIEW adkpg.memories AS SELECT 1 AS a",
        "FUNCTION adkpg.append_event_1(a int) RETURNS int LANGUAGE sql RETURN a",
        "SEQUENCE adkpg.memories_kind_idx",
    ):
        name = made.partition(".")[2].partition(" ")[0].partition("(")[0]
        await execute(empty_database_url, f"CREATE {made}")
        with pytest.raises(SchemaError, match=f"schema adkpg has {name} already"):
            await empty.upgrade()
        await execute(empty_database_url, f"DROP {made.partition(' ')[0]} adkpg.{name}")
    assert (
        await fetch(empty_database_url, "SELECT FROM pg_extension WHERE extname = 'vector'") == []
    )
    await empty.upgrade()


async def test_an_earlier_version_is_moved_by_export_and_import(database_url: str) -> None:
    await execute(
        database_url,
        "ALTER TABLE adkpg.adkpg_version RENAME TO alembic_version;"
        "UPDATE adkpg.alembic_version SET version_num = '0001r36', works_with = '0001r36..0001r36'",
    )
    async with Database(database_url, auto_upgrade=True) as database:
        for call in (database.check, database.upgrade, partial(_works, database)):
            with pytest.raises(
                SchemaError, match=r"0001r36.*adkpg export.*DROP SCHEMA adkpg.*adkpg import"
            ):
                await call()


@pytest.mark.parametrize("schema", ["user", "s" * 63])
async def test_schemas_of_awkward_names(empty_database_url: str, schema: str) -> None:
    async with Database(empty_database_url, settings=Settings(database_schema=schema)) as database:
        await database.upgrade()
        await _works(database)


@pytest.mark.parametrize("schema", ["pg_agents", "information_schema", "Agents", 'a"b', "s" * 64])
def test_schemas_that_cannot_be(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_SCHEMA", schema)
    with pytest.raises(ConfigurationError, match="ADKPG_DATABASE_SCHEMA"):
        Database("postgresql://localhost/agents")


@pytest.mark.program
def test_the_real_alembic_is_imported_from_the_checkout() -> None:
    root = Path(__file__).parents[2]
    assert not (root / "alembic" / "__init__.py").exists()
    program = "import alembic.command; print(alembic.__file__)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    assert root / "alembic" not in Path(answer.stdout.strip()).parents


async def test_migrating_leaves_the_programs_logging_alone(empty: Database) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("mine").disabled)
    await empty.upgrade()
    assert (root.level, list(root.handlers), logging.getLogger("mine").disabled) == before
