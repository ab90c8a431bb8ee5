"""A database with row-level security, and who uses it."""

from collections.abc import AsyncIterator

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from tests.fakes.roles import GUARDED, Roles, guarded_roles
from tests.fakes.toys import ToyEmbedder


@pytest.fixture
async def roles(database_url: str) -> AsyncIterator[Roles]:
    async with guarded_roles(database_url) as made:
        yield made


@pytest.fixture
async def served(roles: Roles) -> AsyncIterator[Database]:
    """The database as an application opens it, in the role that serves users."""
    async with Database(roles.url("serve"), settings=GUARDED) as database:
        yield database


@pytest.fixture
async def worked(roles: Roles) -> AsyncIterator[Database]:
    """The database as a worker opens it."""
    async with Database(roles.url("work"), settings=GUARDED) as database:
        yield database


@pytest.fixture
def sessions(served: Database) -> DatabaseSessionService:
    return DatabaseSessionService(served, remember=True)


@pytest.fixture
def memory(served: Database, embedder: ToyEmbedder) -> PgVectorMemoryService:
    return PgVectorMemoryService(served, embedder=embedder)


@pytest.fixture
async def owned(empty_database_url: str) -> AsyncIterator[Roles]:
    """A database whose tables a role made that is no superuser, and nobody else's roles."""
    roles = Roles(empty_database_url)
    await roles.create("migrate", "serve", "read", "work")
    try:
        await roles.grant("migrate")
        async with Database(roles.url("migrate")) as database:
            await database.upgrade()
        yield roles
    finally:
        await roles.drop()
