"""The doctor on servers that lack something, are too old, stand by, or go away."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.database.row_security import quoted
from adkpg.embedded import EmbeddedServer
from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.operations import examine
from adkpg.tooling.testing.server import start_installed
from tests.fakes.conversation import USER
from tests.fakes.findings import find, mend
from tests.fakes.pgvectors import Package
from tests.fakes.proxy import Proxy
from tests.fakes.replication import Pair, replicated, until
from tests.fakes.roles import GUARDED, Roles


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that the servers' account can reach, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="adkpg-own-") as place:
        yield Path(os.path.realpath(place))


@pytest.fixture
def package(folder: Path) -> Package:
    """A folder for a pgvector, which a server of this test looks into alone."""
    return Package(folder)


@pytest.mark.program
@pytest.mark.newest
async def test_a_server_without_pgvector_is_told_its_package(
    start: Callable[..., str], package: Package
) -> None:
    async with Database(start(extension_control_path=str(package.place))) as database:
        found = await find(database, "pgvector")
        assert (found.status, found.detail) == ("failure", "the server does not have it")
        assert found.cure == "apt-get install postgresql-18-pgvector"
        package.install("0.8.6")  # as apt-get does
        found = await find(database, "pgvector")
        assert (found.status, found.cure) == ("failure", "adkpg db upgrade")
        await database.upgrade()
        assert (await find(database, "pgvector")).status == "ok"


@pytest.mark.program
@pytest.mark.newest
async def test_a_pgvector_that_can_damage_an_index_is_a_warning_and_mended(
    start: Callable[..., str], package: Package
) -> None:
    package.install("0.8.3")
    url = start(extension_control_path=str(package.place))
    connection = await asyncpg.connect(url)
    async with Database(url) as database:
        await database.upgrade()
        found = await find(database, "pgvector")
        assert found.status == "warning"
        assert found.detail.startswith("version 0.8.3: before 0.8.4, vacuuming could damage")
        assert found.cure is not None
        assert found.cure.startswith("apt-get install --only-upgrade 'postgresql-*-pgvector'")
        package.install("0.8.6")  # as that does
        found = await find(database, "pgvector")
        assert (found.status, found.cure) == ("warning", "ALTER EXTENSION vector UPDATE;")
        await mend(connection, found)
        assert (await find(database, "pgvector")).detail == "version 0.8.6"
    await connection.close()


@pytest.mark.program
@pytest.mark.newest
async def test_a_pgvector_that_adkpg_cannot_use_is_a_failure_and_mended(
    start: Callable[..., str], package: Package
) -> None:
    package.install("0.7.4")
    url = start(extension_control_path=str(package.place))
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE EXTENSION vector")
    async with Database(url) as database:
        found = await find(database, "pgvector")
        assert (found.status, found.detail[:13]) == ("failure", "version 0.7.4")
        package.install("0.8.6")
        found = await find(database, "pgvector")
        assert (found.status, found.cure) == ("failure", "ALTER EXTENSION vector UPDATE;")
        await mend(connection, found)
        await database.upgrade()
        assert (await find(database, "pgvector")).status == "ok"
    await connection.close()


async def test_tables_that_lost_pgvector_are_told_so(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("DROP EXTENSION vector CASCADE")
    async with Database(database_url) as database:
        found = {each.check: each for each in (await examine(database)).findings}
    assert found["pgvector"].status == "failure"
    assert found["pgvector"].cure == "CREATE EXTENSION vector;   -- as a superuser"
    assert "indexes" not in found


LOSING = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "track_counts": "off"}


@pytest.mark.program
async def test_settings_in_the_file_of_the_server_are_mended(folder: Path) -> None:
    with EmbeddedServer(folder, settings=LOSING) as server:
        connection = await asyncpg.connect(server.url)
        async with Database(server.url) as database:
            found = await find(database, "settings")
        assert [name for name in LOSING if f"{name} is off" in found.detail] == [*LOSING]
        await mend(connection, found)

        async def well() -> bool:  # the server reads its file when it is told, and not at once
            async with Database(server.url) as database:
                return (await find(database, "settings")).status == "ok"

        await until(well)
        await connection.close()


@pytest.mark.program
async def test_settings_of_the_command_line_name_the_option(folder: Path) -> None:
    """What is written into the file does not go before it."""
    account = Account.of_server(folder, folder / "data")
    programs = Binaries.find().for_account(account).program("postgres").parent
    server = start_installed(programs, settings={"fsync": "off"})
    try:
        async with Database(server.url) as database:
            found = await find(database, "settings")
    finally:
        server.stop()
    assert found.cure == (
        "ALTER SYSTEM SET fsync = on;   -- then restart the server without the option -c fsync"
    )


async def test_where_the_first_use_makes_the_tables_an_empty_database_is_well(bare: str) -> None:
    async with Database(bare, auto_upgrade=True) as database:
        found = {each.check: each for each in (await examine(database)).findings}
        assert found["pgvector"].detail.endswith("which the first use installs")
        assert found["schema"].detail == (
            "no tables yet: the first use makes them, or: adkpg db upgrade"
        )
        assert {found[check].status for check in ("pgvector", "schema")} == {"ok"}
        assert "indexes" not in found
        await DatabaseSessionService(database).create_session(**USER)
        assert (await find(database, "indexes")).status == "ok"


async def test_who_may_not_make_them_is_told_what_lacks(bare: str) -> None:
    roles = Roles(bare)
    await roles.create("serve")
    try:
        async with Database(roles.url("serve"), auto_upgrade=True) as database:
            found = {each.check: each for each in (await examine(database)).findings}
        assert found["pgvector"].cure == "CREATE EXTENSION vector;   -- as a superuser"
        assert (found["schema"].status, found["schema"].cure) == ("failure", "adkpg db upgrade")
    finally:
        await roles.drop()


async def test_a_role_without_the_schema_is_a_failure_and_mended(
    database: Database, database_url: str
) -> None:
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        async with Database(roles.url("serve")) as serving:
            found = await examine(serving)
            by_check = {each.check: each for each in found.findings}
            assert "has no USAGE on the schema adkpg" in by_check["role"].detail
            assert (by_check["role"].status, by_check["schema"].status) == ("failure", "warning")
            assert "indexes" not in by_check
            await roles.grant("serve")
            assert (await find(serving, "role")).status == "ok"
    finally:
        await roles.drop()


@pytest.mark.parametrize(("guarded", "status"), [(False, "warning"), (True, "failure")])
async def test_a_role_that_bypasses_policies_is_seen(
    database_url: str, guarded: bool, status: str
) -> None:
    roles = Roles(database_url)
    settings = Settings(row_level_security=guarded)
    async with Database(database_url, settings=settings) as database:
        await database.upgrade()
    await roles.create("serve")
    try:
        await roles.grant("serve")
        await roles.execute([f"ALTER ROLE {quoted(roles.name('serve'))} BYPASSRLS"])
        async with Database(roles.url("serve"), settings=settings) as serving:
            with adkpg.every_scope():
                found = await find(serving, "role")
        assert (found.status, "has BYPASSRLS" in found.detail) == (status, True)
    finally:
        await roles.drop()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated(synchronous=False) as running:
        yield running


async def test_a_standby_is_a_failure_and_all_else_is_examined(pair: Pair) -> None:
    async with Database(pair.primary.url) as database:
        await database.upgrade()
    await pair.standby.caught_up(pair.primary)
    async with Database(pair.standby.url) as database:
        found = {each.check: each for each in (await examine(database)).findings}
    assert found["postgres"].status == "failure"
    assert "it is a standby" in found["postgres"].detail
    assert {each.status for each in found.values() if each.check in ("schema", "indexes")} == {"ok"}


async def test_a_schema_without_tables_beside_one_with_them_is_told_its_name(
    database_url: str,
) -> None:
    elsewhere = Settings(database_schema="other")
    async with Database(database_url, settings=elsewhere) as database:
        found = await find(database, "schema")
        assert (found.status, found.cure) == ("failure", "export ADKPG_DATABASE_SCHEMA=adkpg")
        assert found.detail == "there are no tables in the schema other, and some in adkpg"
    async with Database(database_url, settings=elsewhere, auto_upgrade=True) as database:
        assert (await find(database, "schema")).status == "warning"  # another's, it may be


async def test_tables_without_the_policies_that_are_asked_for_are_a_failure_and_mended(
    database: Database, database_url: str
) -> None:
    roles = Roles(database_url)
    await roles.create("serve")
    try:
        await roles.grant("serve")
        async with Database(roles.url("serve"), settings=GUARDED) as serving:
            with adkpg.every_scope():
                found = await find(serving, "schema")
        assert (found.status, found.cure) == ("failure", "adkpg db upgrade")
        assert "have no row-level security" in found.detail
        async with Database(database_url, settings=GUARDED) as owner:
            await owner.upgrade()
            with adkpg.every_scope():
                found = await find(owner, "schema")
        assert found.status == "failure"  # a superuser's
        assert found.cure == (
            "CREATE ROLE adkpg_app LOGIN;   -- then: adkpg db grants --role serve adkpg_app"
            ' | psql "$OWNER_URL"'
        )
        await roles.grant("serve")
        async with Database(roles.url("serve"), settings=GUARDED) as serving:
            with adkpg.every_scope():
                assert (await find(serving, "schema")).status == "ok"
        async with Database(roles.url("serve")) as unaware:
            found = await find(unaware, "queue")
        assert (found.status, found.cure) == ("warning", "export ADKPG_ROW_LEVEL_SECURITY=true")
    finally:
        await roles.drop()


@pytest.mark.program
async def test_an_embedded_server_of_an_unreleased_adkpg_is_left_for_a_new_one(
    folder: Path,
) -> None:
    async with Database("embedded", settings=Settings(embedded_dir=folder)) as database:
        await database.upgrade()
        async with (await database.engine()).begin() as connection:
            await connection.exec_driver_sql(
                "UPDATE adkpg.adkpg_version SET version_num = '0001r1'"
            )
        found = await find(database, "schema")
    assert found.status == "failure"
    assert found.cure == "export ADKPG_EMBEDDED_DIR=another   # a folder for a new server"


async def test_standbys_that_cannot_be_read_are_seen(pair: Pair) -> None:
    await pair.primary.execute("CREATE DATABASE one")
    await pair.primary.execute("CREATE DATABASE two")
    await pair.standby.caught_up(pair.primary)
    await pair.standby.execute("SELECT pg_wal_replay_pause()")
    one = pair.primary.url_of("one")
    async with Database(one, read_url=pair.standby.url_of("one")) as database:
        await database.upgrade()
        found = await find(database, "replica")
        assert (found.status, found.cure) == ("warning", "SELECT pg_wal_replay_resume();")
        assert "tables do not exist" in found.detail
        await pair.standby.execute("SELECT pg_wal_replay_resume()")
        await pair.standby.caught_up(pair.primary)
        assert (await find(database, "replica")).status == "ok"
    async with Database(pair.primary.url_of("two")) as other:
        await other.upgrade()
    await pair.standby.caught_up(pair.primary)
    async with Database(one, read_url=pair.standby.url_of("two")) as database:
        found = await find(database, "replica")
        assert (found.status, "is another database than" in found.detail) == ("failure", True)
    await pair.standby.promote()
    async with Database(one, read_url=pair.standby.url_of("one")) as database:
        found = await find(database, "replica")
        assert (found.status, "follows no primary" in found.detail) == ("failure", True)


async def test_a_server_that_goes_away_meanwhile_is_no_finding(database_url: str) -> None:
    settings = Settings(retry_timeout_s=0)
    async with Proxy(database_url) as proxy, Database(proxy.url, settings=settings) as database:
        await database.installation.found()
        proxy.hold(20, "question")
        examining = asyncio.create_task(examine(database))
        await proxy.held.wait()
        await proxy.leave()
        proxy.release()
        with pytest.raises(DatabaseUnavailable):
            await examining


async def test_a_standby_that_says_nothing_is_asked_once(database_url: str) -> None:
    """Whoever calls the doctor wants to know now, and not whether it passes."""
    taken = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        taken += 1
        while await reader.read(1 << 16):
            pass
        writer.close()

    settings = Settings(read_timeout_s=0.5)
    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        silent = f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/agents"
        async with Database(database_url, read_url=silent, settings=settings) as database:
            found = await find(database, "replica")
    assert (found.status, found.cure) == ("failure", f"pg_isready -d '{silent}'")
    assert "did not answer in time" in found.detail
    assert taken == 1
