"""Roles of a test's own database, with the rights that `adkpg db grants` prints."""

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg
from sqlalchemy.engine import make_url

from adkpg import Database, Settings
from adkpg.database.grants import Purpose, script
from adkpg.database.row_security import quoted

GUARDED = Settings(row_level_security=True, app_state_writers="users")
PASSWORD = "of the test"


class Roles:
    """Roles of a server, one for each purpose, named for this test alone.

    Args:
      url: The test's database, in the role of an administrator.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._run = uuid.uuid4().hex[:8]
        self._made: list[str] = []

    def name(self, purpose: str) -> str:
        return f'adkpg "{purpose}" {self._run}'  # as awkward as a name may be

    def url(self, purpose: str) -> str:
        """The test's database in the role's name."""
        url = make_url(self._url).set(username=self.name(purpose), password=PASSWORD)
        return url.render_as_string(hide_password=False)

    def at(self, url: str) -> "Roles":
        """The same roles in another database of the server; they are not its own to drop."""
        there = Roles(url)
        there._run = self._run
        return there

    async def create(self, *purposes: str) -> None:
        await self.execute(
            f"CREATE ROLE {quoted(self.name(purpose))} LOGIN PASSWORD '{PASSWORD}'"
            for purpose in purposes
        )
        self._made += purposes

    async def grant(self, *purposes: Purpose, by: str | None = None) -> None:
        """Runs the scripts, as administrator or in another role's name."""
        scripts = [script("adkpg", purpose, self.name(purpose)) for purpose in purposes]
        await self.execute(scripts, url=None if by is None else self.url(by))

    async def execute(self, statements: Iterable[str], *, url: str | None = None) -> None:
        connection = await asyncpg.connect(url or self._url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    async def drop(self) -> None:
        for purpose in reversed(self._made):
            name = quoted(self.name(purpose))
            await self.execute([f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}"])


@asynccontextmanager
async def guarded_roles(url: str) -> AsyncIterator[Roles]:
    """Switches row-level security on in a migrated database; yields roles to use it with."""
    roles = Roles(url)
    async with Database(url, settings=GUARDED) as database:
        await database.upgrade()
    try:
        await roles.create("serve", "read", "work")
        await roles.grant("serve", "read", "work")
        yield roles
    finally:
        await roles.drop()


async def as_owner(roles: Roles, *, guarded: bool) -> None:
    """Migrates as the tables' owner, who then grants the others theirs."""
    async with Database(
        roles.url("migrate"),
        settings=Settings(row_level_security=guarded, app_state_writers="users"),
    ) as database:
        await database.upgrade()
        await database.check()
    for _ in range(2):  # running the scripts again changes nothing
        await roles.grant("serve", "read", "work", by="migrate")
