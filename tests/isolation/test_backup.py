"""Backups of tables with row-level security: all of everybody's rows, or an error."""

import os
from pathlib import Path

import asyncpg
import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import ConfigurationError, PermissionDenied
from adkpg.tooling.backup.archive import back_up, read, restore
from tests.fakes.roles import GUARDED, Roles, as_owner

PEOPLE = ("ada", "bob")


def nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture
async def lived(owned: Roles) -> Roles:
    await as_owner(owned, guarded=True)
    async with Database(owned.url("serve"), settings=GUARDED) as database:
        sessions = DatabaseSessionService(database)
        for user in PEOPLE:
            with adkpg.scope(app_name="app", user_id=user):
                await sessions.create_session(app_name="app", user_id=user, session_id="s")
    return owned


@pytest.mark.program
@pytest.mark.direct("backs up by Postgres's own programs, which need a session")
async def test_the_owner_backs_up_everybody_and_restores_with_policies(
    lived: Roles, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with Database(lived.url("migrate"), settings=GUARDED) as database:
        archive = await back_up(database, file, progress=nothing)
        assert archive.rows["sessions"] == 2
        with adkpg.every_scope():
            await DatabaseSessionService(database).delete_session(
                app_name="app", user_id="ada", session_id="s"
            )
        rows = await restore(database, await read(database, file), progress=nothing)
        assert rows["sessions"] == 2
    # What a role may do is no part of a backup.
    await lived.grant("serve", "work", by="migrate")
    async with Database(lived.url("serve"), settings=GUARDED) as database:
        sessions = DatabaseSessionService(database)
        for user in PEOPLE:
            with adkpg.scope(app_name="app", user_id=user):
                listed = await sessions.list_sessions(app_name="app", user_id=user)
                others = await sessions.list_sessions(app_name="app", user_id=PEOPLE[user == "ada"])
            assert (len(listed.sessions), others.sessions) == (1, [])


async def test_a_role_that_policies_hide_rows_from_backs_nothing_up(
    lived: Roles, tmp_path: Path
) -> None:
    async with Database(lived.url("serve"), settings=GUARDED) as database:
        with pytest.raises(PermissionDenied):
            await back_up(database, tmp_path / "backup", progress=nothing)
    assert not os.listdir(tmp_path)


@pytest.mark.program
@pytest.mark.direct("backs up by Postgres's own programs, which need a session")
async def test_an_administrator_backs_up_and_is_told_how_to_restore(
    lived: Roles, empty_database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    for settings in (GUARDED, Settings()):
        async with Database(empty_database_url, settings=settings) as database:
            archive = await back_up(database, file, progress=nothing)
            assert archive.rows["sessions"] == 2
            if settings.row_level_security:
                with pytest.raises(ConfigurationError, match="BYPASSRLS"):
                    await restore(database, archive, progress=nothing)
            else:
                assert (await restore(database, archive, progress=nothing))["sessions"] == 2
    connection = await asyncpg.connect(empty_database_url)
    assert not await connection.fetchval("SELECT bool_or(relrowsecurity) FROM pg_class")
    await connection.close()
