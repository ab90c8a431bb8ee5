"""The audit in a role that serves users: it notes what it erases in its user's scope."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, scope
from tests.audit.test_erasing import ALICE, DOORS
from tests.fakes.life import live_through, rows_of
from tests.fakes.roles import Roles

_INSERT = (
    "INSERT INTO adkpg.audit (app_name, user_id, audit_id, actor, action, outcome)"
    " VALUES ($1, $2, gen_random_uuid(), 'x', 'y', 'done')"
)
_ENTER = "SELECT adkpg.enter_scope('app', 'alice')"


@pytest.mark.parametrize("door", [door for door in DOORS if "everybody" not in door])
async def test_a_role_that_serves_users_notes_what_it_erases(
    served: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection, door: str
) -> None:
    erase, expected = DOORS[door]
    with scope(**ALICE):
        await live_through(served, memory, connection, "alice")
        await connection.execute("DELETE FROM audit")
        await erase(served)
    noted = await connection.fetch("SELECT user_id, action, subject, outcome FROM audit")
    user_id = "\x01app" if expected[0] is None else expected[0]
    assert [tuple(row) for row in noted] == [(user_id, *expected[1:], "done")]
    if door == "forget":
        assert set((await rows_of(connection, "alice")).values()) == {0}


@pytest.fixture
async def login(roles: Roles) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(roles.url("serve"))
    yield opened
    await opened.close()


async def test_a_user_adds_entries_of_the_app_and_neither_reads_nor_changes_them(
    login: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    async with login.transaction():
        await login.execute(_ENTER)
        await login.execute(_INSERT, "app", "\x01app")
        assert await login.fetchval("SELECT count(*) FROM adkpg.audit") == 0
        for changed in ("UPDATE adkpg.audit SET actor = 'z'", "DELETE FROM adkpg.audit"):
            assert (await login.execute(changed)).endswith(" 0")
    assert await connection.fetchval("SELECT count(*) FROM audit") == 1


@pytest.mark.parametrize("whose", [("other", "\x01app"), ("app", "bob")])
async def test_a_user_adds_no_entry_of_others(
    login: asyncpg.Connection, whose: tuple[str, str]
) -> None:
    transaction = login.transaction()
    await transaction.start()
    await login.execute(_ENTER)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await login.execute(_INSERT, *whose)
    await transaction.rollback()
