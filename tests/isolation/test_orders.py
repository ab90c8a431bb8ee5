"""Whatever comes first, the roles or row-level security, the same roles may do the same."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast, get_args

import asyncpg
import pytest
from sqlalchemy.engine import make_url

import adkpg
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.database.grants import Purpose
from adkpg.database.migrating import migrations
from adkpg.database.row_security import quoted
from adkpg.errors import PermissionDenied
from adkpg.tooling.backup.archive import back_up, read, restore
from adkpg.tooling.testing.server import Server
from tests.fakes.findings import find
from tests.fakes.roles import GUARDED, Roles

pytestmark = pytest.mark.direct("copies databases, to which a pooler would stay connected")

ANA: dict[str, Any] = {"app_name": "bank", "user_id": "ana"}
STEPS = ("serve", "work", "on", "later")
LATER = (
    "CREATE TABLE adkpg.another (LIKE adkpg.saved_questions INCLUDING ALL)",
    "DROP TABLE adkpg.saved_questions",
    "ALTER TABLE adkpg.another RENAME TO saved_questions",
    "DROP FUNCTION adkpg.enter_1",
    migrations.function("enter_1", "adkpg"),
)
"""What a revision does that makes a table and a function anew."""
RIGHTS = """
SELECT c.relname::text, a.grantee::regrole::text, a.privilege_type, a.is_grantable
  FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
 WHERE c.relnamespace = 'adkpg'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT p.proname::text, a.grantee::regrole::text, a.privilege_type, a.is_grantable
  FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
 WHERE p.pronamespace = 'adkpg'::regnamespace
UNION ALL
SELECT concat_ws(' ', tablename, policyname, qual, with_check), roles::text, cmd, NULL
  FROM pg_policies WHERE schemaname = 'adkpg'
UNION ALL
SELECT relname::text, NULL, relrowsecurity::text, relforcerowsecurity
  FROM pg_class WHERE relnamespace = 'adkpg'::regnamespace AND relkind = 'r'
UNION ALL
SELECT defaclobjtype::text, a.grantee::regrole::text, a.privilege_type, a.is_grantable
  FROM pg_default_acl, aclexplode(defaclacl) a
"""

Copies = Callable[[], AbstractAsyncContextManager[Roles]]


async def do(roles: Roles, step: str) -> None:
    if step in get_args(Purpose):
        await roles.grant(cast(Purpose, step), by="migrate")
        return
    if step == "later":
        await roles.execute(LATER, url=roles.url("migrate"))
    settings = GUARDED if step == "on" else Settings()
    async with Database(roles.url("migrate"), settings=settings) as database:
        await database.upgrade()


async def rights(roles: Roles) -> set[tuple[Any, ...]]:
    connection = await asyncpg.connect(roles.url("migrate"))
    try:
        return {tuple(row) for row in await connection.fetch(RIGHTS)}
    finally:
        await connection.close()


@pytest.fixture
async def copies(owned: Roles, server: Server) -> Copies:
    """Databases with a session of ana's, before anything is granted."""
    async with Database(owned.url("migrate")) as database:
        await DatabaseSessionService(database).create_session(**ANA, session_id="s")
    template = make_url(owned.url("migrate")).database
    assert template is not None

    @asynccontextmanager
    async def opened() -> AsyncIterator[Roles]:
        name = await server.create(template=template)
        try:
            roles = owned.at(server.url_of(name))
            await roles.grant("migrate")
            yield roles
        finally:
            await server.drop(name)

    return opened


@pytest.mark.parametrize("first", STEPS)
async def test_every_order_ends_in_the_same_rights(copies: Copies, first: str) -> None:
    async with copies() as roles:
        for step in STEPS:
            await do(roles, step)
        expected = await rights(roles)
        assert any("enter_every_scope" in row for row in expected)
        for purpose in ("work", "migrate", "serve"):
            async with Database(roles.url(purpose), settings=GUARDED) as database:
                sessions = DatabaseSessionService(database)
                with adkpg.every_scope():
                    if purpose == "serve":
                        with pytest.raises(PermissionDenied, match="--role work NAME"):
                            await sessions.list_sessions(app_name="bank")
                    else:
                        listed = await sessions.list_sessions(app_name="bank")
                        assert [each.id for each in listed.sessions] == ["s"]
    for order in itertools.permutations(STEPS):
        if order[0] == first:
            async with copies() as roles:
                for step in order:
                    await do(roles, step)
                assert await rights(roles) ^ expected == set(), order


@pytest.mark.direct("backs up by Postgres's own programs, which need a session")
@pytest.mark.program
async def test_a_restore_leaves_each_role_what_it_had(copies: Copies, tmp_path: Path) -> None:
    async with copies() as roles:
        for step in STEPS:
            await do(roles, step)
        expected = await rights(roles)
        async with Database(roles.url("migrate"), settings=GUARDED) as database:
            await back_up(database, tmp_path / "backup", progress=lambda _done, _total: None)
            archive = await read(database, tmp_path / "backup")
            await restore(database, archive, progress=lambda _done, _total: None)
        assert await rights(roles) ^ expected == set()


async def test_a_role_is_admitted_though_functions_are_nobodys_by_default(copies: Copies) -> None:
    """As some administrators set it, for what their roles make."""
    async with copies() as roles:
        await roles.execute(
            ["ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"],
            url=roles.url("migrate"),
        )
        for step in ("work", "serve", "on", "later"):
            await do(roles, step)
        async with Database(roles.url("work"), settings=GUARDED) as database:
            with adkpg.every_scope():
                listed = await DatabaseSessionService(database).list_sessions(app_name="bank")
        assert [each.id for each in listed.sessions] == ["s"]
        async with Database(roles.url("serve"), settings=GUARDED) as database:
            with adkpg.scope(**ANA):
                assert await DatabaseSessionService(database).get_session(**ANA, session_id="s")


async def test_the_doctor_names_the_step_that_is_missing(copies: Copies) -> None:
    async with copies() as roles:
        for step in STEPS:
            await do(roles, step)
        serve, work = (quoted(roles.name(each)) for each in ("serve", "work"))

        async def told(purpose: str, settings: Settings = GUARDED) -> tuple[str, str, str]:
            async with Database(roles.url(purpose), settings=settings) as database:
                with adkpg.every_scope():
                    found = await find(database, "role")
            return found.status, found.detail, found.cure or ""

        found = [await told(each) for each in ("work", "migrate")]
        assert [each[0] for each in found] == ["ok", "ok"], found
        status, detail, cure = await told("serve")
        assert (status, "may not enter every scope" in detail) == ("failure", True)
        assert "adkpg db grants --role work" in cure
        status, _, cure = await told("work", Settings())
        assert (status, cure) == ("failure", "export ADKPG_ROW_LEVEL_SECURITY=true")
        upgrade = 'ADKPG_ROW_LEVEL_SECURITY=true adkpg db upgrade --database-url "$OWNER_URL"'
        for broken in (
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA adkpg TO {serve}",
            f"REVOKE EXECUTE ON FUNCTION adkpg.enter_every_scope FROM {work}",
            f'DROP POLICY "every {work[1:]} ON adkpg.events',
            f"CREATE POLICY {quoted('every ' + roles.name('serve'))} ON adkpg.events TO {serve}",
        ):
            await roles.execute([broken], url=roles.url("migrate"))
            async with Database(roles.url("serve"), settings=GUARDED) as database:
                with adkpg.every_scope(), pytest.raises(PermissionDenied):
                    await DatabaseSessionService(database).list_sessions(app_name="bank")
            status, detail, cure = await told("migrate")
            assert (status, cure) == ("failure", upgrade), broken
            assert "its rights or policies say otherwise" in detail
            await do(roles, "on")
            assert (await told("migrate"))[0] == "ok", broken
