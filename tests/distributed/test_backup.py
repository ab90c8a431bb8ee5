"""Backups of a cluster: into one server, or into a cluster again; and what is refused."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.errors import ConfigurationError, DatabaseUnavailable
from adkpg.tooling.backup.archive import back_up, read, restore
from tests.fakes.catalog import described
from tests.fakes.citus import CitusServer, Own
from tests.fakes.conversation import USER
from tests.fakes.roles import Roles

pytestmark = [pytest.mark.cluster, pytest.mark.direct(reason="backs up by Postgres's own programs")]


def nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture
async def empty(cluster: CitusServer) -> AsyncIterator[str]:
    """A database of all nodes, joined as a cluster, without tables."""
    name = await cluster.create()
    await cluster.join(name)
    yield cluster.url_of(name)
    await cluster.drop(name)


@pytest.fixture
async def other(cluster: CitusServer) -> AsyncIterator[str]:
    """An empty database."""
    name = await cluster.create()
    yield cluster.url_of(name)
    await cluster.drop(name)


async def test_a_backup_comes_back_into_a_database_that_is_then_distributed(
    database: Database, empty: str, other: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    for user_id in ("ada", "bob", "eve"):
        await DatabaseSessionService(database).create_session(app_name="a", user_id=user_id)
    archive = await back_up(database, file, progress=nothing)
    assert archive.rows["sessions"] == 3
    async with Database(empty) as target:
        rows = await restore(target, await read(target, file), progress=nothing)
        assert rows["sessions"] == 3
        restored = await described(empty, whole=True)
        assert await target.distribute()
        listed = await DatabaseSessionService(target).list_sessions(app_name="a")
        assert {each.user_id for each in listed.sessions} == {"ada", "bob", "eve"}
    async with Database(other) as target:
        await target.upgrade()
    assert restored == await described(other, whole=True)


async def test_an_owner_who_is_no_superuser_restores(
    database: Database, empty: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    await DatabaseSessionService(database).create_session(**USER)
    await back_up(database, file, progress=nothing)
    roles = Roles(empty)
    await roles.create("migrate")
    try:
        await roles.grant("migrate")
        await roles.execute(["CREATE EXTENSION IF NOT EXISTS vector"])
        async with Database(roles.url("migrate")) as target:
            rows = await restore(target, await read(target, file), progress=nothing)
            assert rows["sessions"] == 1
            assert await target.distribute()
    finally:
        await roles.drop()


async def test_nothing_is_restored_onto_distributed_tables(
    database: Database, nodes: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    await DatabaseSessionService(database).create_session(**USER, session_id="s")
    archive = await back_up(database, file, progress=nothing)
    for url, said in (
        (nodes[0], "that Citus distributes"),
        (nodes[1], "is on a worker of a Citus"),
    ):
        async with Database(url) as target:
            with pytest.raises(ConfigurationError, match=rf"{said}.*: adkpg db distribute$"):
                await restore(target, archive, progress=nothing)
    session = await DatabaseSessionService(database).get_session(**USER, session_id="s")
    assert session is not None


@pytest.mark.fault
async def test_a_node_that_is_away_is_a_sentence(own: Own, tmp_path: Path) -> None:
    lost = own.cluster.nodes[1]
    lost.kill()
    async with Database(own.url) as database:
        with pytest.raises(DatabaseUnavailable, match=rf"A node of the cluster .*:{lost.port} "):
            await back_up(database, tmp_path / "f", progress=nothing)
    assert os.listdir(tmp_path) == []


async def test_no_backup_is_taken_through_a_worker(
    database: Database, nodes: list[str], tmp_path: Path
) -> None:
    await database.check()
    async with Database(nodes[1]) as worker:
        with pytest.raises(ConfigurationError, match=r"is a worker's .*; name the coordinator"):
            await back_up(worker, tmp_path / "f", progress=nothing)
    assert os.listdir(tmp_path) == []
