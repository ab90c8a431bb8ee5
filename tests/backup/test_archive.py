"""Backups: interrupted ones, which programs are used, and what is passed on of a script."""

import asyncio
import os
from pathlib import Path

import asyncpg
import pytest

from adkpg import Database, Settings
from adkpg.database.cluster.node import Cluster
from adkpg.database.installation import Installation
from adkpg.errors import ConfigurationError, DatabaseUnavailable
from adkpg.tooling.backup.archive import Archive, back_up, counted, read, restore
from adkpg.tooling.backup.programs import Programs
from adkpg.tooling.backup.script import Script
from tests.fakes.catalog import described


def nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.mark.program
@pytest.mark.fault
async def test_a_cancelled_backup_leaves_no_file_and_no_program(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "folder"
    programs.mkdir()
    folder.mkdir()
    for name in ("pg_dump", "pg_restore", "psql"):
        (programs / name).write_text(
            "#!/bin/sh\n[ $1 = --version ] && exec echo 'pg_dump (PostgreSQL) 99.0'\n"
            f"echo $$ > {tmp_path}/pid.new && mv {tmp_path}/pid.new {tmp_path}/pid\n"
            "exec sleep 1000\n"
        )
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    await database.check()
    backup = asyncio.create_task(back_up(database, folder / "f", progress=nothing))
    async with asyncio.timeout(30):
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
    backup.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backup
    assert os.listdir(folder) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.program
def test_programs_are_as_new_as_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pg_dump", "pg_restore", "psql"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 15.20 (Debian)'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Programs.for_server(15, embedded=False) == Programs(tmp_path, 15)
    newer = Programs.for_server(16, embedded=False)
    assert newer.folder != tmp_path
    assert newer.major >= 16
    assert Programs.for_server(15, embedded=True) == newer
    with pytest.raises(ConfigurationError, match=r"postgresql-client-99.*pip install"):
        Programs.for_server(99, embedded=False)


def test_a_script_is_passed_on_but_for_what_is_there_or_unknown() -> None:
    given = [
        b"SET transaction_timeout = 0;\n",
        b"CREATE SCHEMA adkpg;\n",
        b"ALTER TABLE ONLY adkpg.events ALTER COLUMN seq SET (pg_attver=26875816);\n",
        b"COPY adkpg.adkpg_version (version_num) FROM stdin;\n",
        b"0001\n",
        b"\\.\n",
        b"COPY adkpg.events (payload) FROM stdin;\n",
        b"CREATE SCHEMA adkpg;\n",
        b"COPY adkpg.sessions (state) FROM stdin;\n",
        b"\\.\n",
        b"COPY adkpg.sessions (state) FROM stdin;\n",
        b"\\.\n",
    ]
    old, new = Script("adkpg"), Script("adkpg")
    assert list(old.lines(given, server_major=16)) == given[3:]
    assert list(new.lines(given, server_major=17)) == [given[0], *given[3:]]
    assert dict(new.rows) == {"adkpg_version": 1, "events": 2, "sessions": 0}
    assert new.revision == "0001"
    other = Script("other")
    other.read(given)
    assert (dict(other.rows), other.revision) == ({}, None)


@pytest.mark.parametrize(
    ("coordinator", "said"),
    [
        (True, r"has tables in the schema adkpg that Citus distributes"),
        (False, r"is on a worker of a Citus cluster"),
    ],
)
async def test_nothing_is_restored_onto_the_nodes_of_a_cluster(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, coordinator: bool, said: str
) -> None:
    async def cluster(_: Installation) -> object:
        return Cluster("14.0-1", 0 if coordinator else 1, {"sessions": "h"})

    monkeypatch.setattr(Installation, "cluster", cluster)
    revision = await database.current()
    assert revision is not None
    with pytest.raises(ConfigurationError, match=rf"{said}.*run there: adkpg db distribute$"):
        await restore(database, Archive(Path("/nowhere"), revision, {}), progress=nothing)


async def test_what_the_driver_says_while_rows_are_counted_is_a_sentence(
    database_url: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    hasty = Settings(command_timeout_s=0.5, migration_timeout_s=0.5, retry_timeout_s=0)
    async with connection.transaction():
        await connection.execute("LOCK TABLE adkpg.events IN ACCESS EXCLUSIVE MODE")
        async with Database(database_url, settings=hasty) as database:
            with pytest.raises(DatabaseUnavailable, match="did not answer in time; try again"):
                await back_up(database, tmp_path / "f", progress=nothing)
    assert os.listdir(tmp_path) == []


async def test_rows_of_every_table_are_counted_whatever_it_is_called(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute('CREATE TABLE adkpg."an "" odd :one" AS SELECT 1 AS a')
    assert (await counted(database))['an " odd :one'] == 1


async def test_no_backup_is_taken_through_a_worker(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def cluster(_: Installation) -> object:
        return Cluster("14.0-1", 1, {"sessions": "h"})

    monkeypatch.setattr(Installation, "cluster", cluster)
    with pytest.raises(ConfigurationError, match=r"is on a worker .*; name the coordinator"):
        await back_up(database, tmp_path / "f", progress=nothing)
    assert os.listdir(tmp_path) == []


@pytest.mark.program
@pytest.mark.direct("pg_dump needs a session")
async def test_what_distributing_drops_is_there_after_a_restore(
    database: Database,
    database_url: str,
    connection: asyncpg.Connection,
    empty_database_url: str,
    tmp_path: Path,
) -> None:
    migrated = await described(database_url, whole=True)
    assert len(migrated["triggers"]) == 3
    await connection.execute("DROP TRIGGER artifacts_note_removal ON adkpg.artifacts")
    archive = await back_up(database, tmp_path / "f", progress=nothing)
    async with Database(empty_database_url) as target:
        for _ in range(2):  # the second time what is there is dropped before
            await restore(target, archive, progress=nothing)
            assert await described(empty_database_url, whole=True) == migrated
        archive = await back_up(target, tmp_path / "g", progress=nothing)
        await restore(target, await read(target, archive.file), progress=nothing)
    assert await described(empty_database_url, whole=True) == migrated
