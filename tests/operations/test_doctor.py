"""The doctor sees what is wrong, on databases that really are, and its cures mend them."""

import asyncio
import sys

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.tooling.operations import examine
from adkpg.tooling.testing.server import Server
from tests.fakes.conversation import USER, entry, said
from tests.fakes.findings import find, mend
from tests.fakes.roles import GUARDED, Roles, guarded_roles

CHECKS = [
    *("postgres", "pgvector", "schema", "role", "settings", "pooler"),
    *("indexes", "vacuum", "vectors", "queue"),
]


async def told(connection: asyncpg.Connection) -> None:
    """Lets the server count what this connection has done."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    await connection.execute("SELECT pg_stat_clear_snapshot()")


async def test_of_a_healthy_database_all_is_well(well: Database) -> None:
    sessions = DatabaseSessionService(well)
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("hello"))
    found = await examine(well)
    assert [each.check for each in found.findings] == CHECKS
    ill = {each.check: each for each in found.findings if each.status != "ok"}
    assert set(ill) == {"role"}
    assert "superuser" in ill["role"].detail
    assert all(each.cure is None for each in found.findings if each.status == "ok")
    assert found.status == "warning"


async def test_a_role_of_its_own_is_well(database: Database, database_url: str) -> None:
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        await roles.grant("serve")
        async with Database(roles.url("serve")) as serving:
            found = await find(serving, "role")
        assert (found.status, found.cure) == ("ok", None)
    finally:
        await roles.drop()


async def test_a_role_without_rights_is_a_failure(database: Database, database_url: str) -> None:
    roles = Roles(database_url)
    await roles.create("read")
    try:
        await roles.grant("read")
        async with Database(roles.url("read")) as reading:
            found = await find(reading, "role")
        assert found.status == "failure"
        assert "has no DELETE on app_settings, app_states" in found.detail
        assert found.cure is not None
        assert found.cure.startswith('adkpg db grants --role serve \'adkpg "read"')
    finally:
        await roles.drop()


async def test_who_may_not_see_everybodys_rows_is_told_so(database_url: str) -> None:
    async with guarded_roles(database_url) as roles:
        async with Database(roles.url("serve"), settings=GUARDED) as serving:
            with adkpg.every_scope():
                found = await find(serving, "queue")
        assert found.status == "warning"
        assert found.detail.startswith("could not be checked: ")
        async with Database(roles.url("work"), settings=GUARDED) as working:
            with adkpg.every_scope():
                assert (await find(working, "queue")).status == "ok"


async def test_a_superuser_under_row_level_security_is_a_failure(database_url: str) -> None:
    async with Database(database_url, settings=GUARDED) as database:
        await database.upgrade()
        with adkpg.every_scope():
            found = await find(database, "role")
    assert found.status == "failure"


async def _pretends(connection: asyncpg.Connection, function: str) -> None:
    """Lets the database answer by a function of its own where the server's is meant."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"CREATE SCHEMA pretended; CREATE FUNCTION pretended.{function}")
    await connection.execute(
        f'ALTER DATABASE "{name}" SET search_path = pretended, pg_catalog, public'
    )


async def test_a_server_that_is_too_old_is_a_failure(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await _pretends(
        connection,
        "current_setting(name text) RETURNS text LANGUAGE sql AS $$ SELECT CASE name"
        " WHEN 'server_version_num' THEN '140010' ELSE pg_catalog.current_setting(name) END $$",
    )
    async with Database(database_url) as database:
        found = (await examine(database)).findings
    assert [each.check for each in found] == CHECKS[:6]
    assert (found[0].status, found[0].detail[:13]) == ("failure", "Postgres 14.1")
    assert (found[2].check, found[2].status) == ("schema", "failure")
    assert (
        found[0].cure
        == found[2].cure
        == "adkpg backup agents.backup   # then restore it into a newer server"
    )


async def test_pgvector_out_of_sight_is_a_failure_with_a_cure(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE SCHEMA elsewhere; ALTER EXTENSION vector SET SCHEMA elsewhere")
    async with Database(database_url) as database:
        found = await find(database, "pgvector")
    assert found.status == "failure"
    assert found.cure is not None
    assert found.cure.endswith('SET search_path = "$user", public, elsewhere;')


async def test_an_empty_database_lacks_pgvector_and_tables(empty_database_url: str) -> None:
    async with Database(empty_database_url) as database:
        found = (await examine(database)).findings
        assert [each.check for each in found] == CHECKS[:6]
        ill = {each.check: each.cure for each in found if each.status == "failure"}
        assert ill["pgvector"] == "adkpg db upgrade"
        assert ill["schema"] == "adkpg db upgrade"


@pytest.mark.parametrize(
    ("revision", "cure"),
    [
        # Nothing migrates those of an unreleased adkpg.
        ("0001r1", 'DROP SCHEMA "adkpg" CASCADE;   -- with all that it holds\nadkpg db upgrade'),
        ("9999", "pip install --upgrade adkpg"),
    ],
)
async def test_tables_of_another_version_are_a_failure(
    database_url: str, connection: asyncpg.Connection, revision: str, cure: str
) -> None:
    await connection.execute("UPDATE adkpg_version SET version_num = $1", revision)
    async with Database(database_url) as database:
        found = await find(database, "schema")
    assert (found.status, found.cure) == ("failure", cure)


async def test_settings_of_the_server_that_lose_data_are_failures(
    database: Database, server: Server
) -> None:
    """The server of the tests keeps nothing for certain, and has no autovacuum."""
    if server.kind == "url":
        pytest.fail("the tests' own server is meant: unset ADKPG_TEST_DATABASE_URL")
    found = await find(database, "settings")
    assert found.status == "failure"
    for each in ("fsync is off", "full_page_writes is off", "autovacuum is off"):
        assert each in found.detail
    assert found.cure is not None
    after = (
        "\nSELECT pg_reload_conf();"
        if server.kind == "embedded"
        else "   -- then restart the server without the option -c fsync"
    )
    assert f"ALTER SYSTEM SET fsync = on;{after}" in found.cure


HURTING = {
    "synchronous_commit": ("off", "warning"),
    "default_transaction_read_only": ("on", "failure"),
    "track_counts": ("off", "failure"),
    "statement_timeout": ("'1s'", "warning"),
    "transaction_timeout": ("'1s'", "warning"),
    "session_replication_role": ("replica", "failure"),
}


@pytest.mark.parametrize("setting", HURTING)
async def test_a_setting_that_hurts_is_seen_and_mended(
    well: Database, healthy: str, setting: str
) -> None:
    value, status = HURTING[setting]
    connection = await asyncpg.connect(healthy)
    try:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
        async with Database(healthy) as hurt:
            found = await find(hurt, "settings")
        assert found.status == status
        assert found.detail.startswith(f"{setting} is ")
        await connection.execute("SET default_transaction_read_only = off")
        await mend(connection, found)
        async with Database(healthy) as mended:
            assert (await find(mended, "settings")).status == "ok"
    finally:
        await connection.execute(f"ALTER DATABASE {name} RESET {setting}")
        await connection.close()


async def test_more_connections_than_the_server_has_are_seen(healthy: str) -> None:
    async with Database(healthy, settings=Settings(pool_size=60)) as database:
        found = await find(database, "settings")
    assert (found.status, found.cure) == ("warning", "export ADKPG_POOL_SIZE=10")


@pytest.mark.parametrize(
    "dropped",
    [
        "DROP INDEX memories_kind_idx",
        "DROP INDEX memories_expires_at_idx",
        "ALTER TABLE memory_lexemes DROP CONSTRAINT memory_lexemes_pkey",
        "ALTER TABLE memories DROP CONSTRAINT memories_event_id_key",
    ],
)
async def test_a_missing_index_is_a_failure_and_mended(
    database: Database, connection: asyncpg.Connection, dropped: str
) -> None:
    before = await _indexes(connection)
    await connection.execute(dropped)
    found = await find(database, "indexes")
    assert found.status == "failure"
    assert found.detail == f"{dropped.split()[-1]} is missing"
    await mend(connection, found)
    assert (await find(database, "indexes")).status == "ok"
    assert await _indexes(connection) == before


async def _indexes(connection: asyncpg.Connection) -> dict[str, str]:
    rows = await connection.fetch("SELECT indexname, indexdef FROM pg_indexes")
    return {row["indexname"]: row["indexdef"] for row in rows}


async def _words(connection: asyncpg.Connection, count: int, user: str = "u") -> None:
    await connection.execute(
        "INSERT INTO memory_lexemes"
        " (app_name, user_id, lexeme, position, frequency, memory_length)"
        " SELECT 'app', $2, 'word' || n, n, 1, 1 FROM generate_series(1, $1::int) n",
        count,
        user,
    )
    await told(connection)


async def test_pages_that_vacuum_never_saw_are_a_warning_and_mended(
    database: Database, connection: asyncpg.Connection
) -> None:
    await _words(connection, 20_000)
    found = await find(database, "vacuum")
    assert found.status == "warning"
    assert "of memory_lexemes, 0% of the pages" in found.detail
    # What was committed a moment ago may not be on the disk yet, and vacuum waits for that.
    while (found := await find(database, "vacuum")).status != "ok":
        await mend(connection, found)


async def test_autovacuum_that_is_off_for_a_table_is_a_failure_and_mended(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute("ALTER TABLE events SET (autovacuum_enabled = false)")
    found = await find(database, "vacuum")
    assert (found.status, found.detail) == ("failure", "autovacuum is off for events")
    await mend(connection, found)
    assert (await find(database, "vacuum")).status == "ok"


async def test_memories_that_lack_a_vector_are_a_warning(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry("tea"), entry("coffee")])
    assert (await find(database, "vectors")).detail == "toy (8)"
    words = PgVectorMemoryService(database, mode="text")
    await words.add_memory(**USER, memories=[entry("on its way")])
    found = await find(database, "vectors")
    assert (found.status, found.detail) == ("ok", "toy (8); 1 are on their way")
    await connection.execute("DELETE FROM memory_jobs")
    found = await find(database, "vectors")
    assert found.status == "warning"
    assert found.detail.startswith("1 of 3 memories of app 'app' have no vector of 'toy'")
    assert found.cure == (
        "adkpg models activate toy --dimensions 8 --app app --force && adkpg worker --once"
    )


async def test_large_users_without_an_index_are_a_warning(
    memory: PgVectorMemoryService, database_url: str
) -> None:
    await memory.add_memory(**USER, memories=[entry(f"tea {n}") for n in range(4)])
    async with Database(database_url, settings=Settings(exact_limit=3)) as database:
        found = await find(database, "vectors")
        assert (found.status, found.cure) == ("warning", "adkpg memory index")
        own = PgVectorMemoryService(database, embedder=memory.embedder)
        await own.index_large_scopes()
        assert (await find(database, "vectors")).status == "ok"


async def test_warnings_alone_end_a_strict_examination_with_1(healthy: str) -> None:
    """A superuser is a warning."""
    command = [sys.executable, "-m", "adkpg", "doctor", "--database-url", healthy]
    async with Database(healthy) as database:
        await database.upgrade()
    for options, code in (((), 0), (("--strict",), 1)):
        process = await asyncio.create_subprocess_exec(
            *command, *options, stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == code


async def test_in_a_renamed_schema_all_is_found(empty_database_url: str) -> None:
    settings = Settings(database_schema="other")
    async with Database(empty_database_url, settings=settings) as database:
        await database.upgrade()
        found = {each.check: each.status for each in (await examine(database)).findings}
    ill = {check for check, status in found.items() if status != "ok"}
    assert list(found) == CHECKS
    assert ill - {"pooler"} == {"role", "settings"}  # through one, it is named
