"""Two databases: what is moved, and where to."""

from collections.abc import AsyncIterator

import pytest

from adkpg import Database
from adkpg.tooling.testing.server import Server


@pytest.fixture
async def target_url(server: Server) -> AsyncIterator[str]:
    """A second migrated database of this test's own."""
    name = await server.create(template=server.template)
    yield server.url_of(name)
    await server.drop(name)


@pytest.fixture
async def target(target_url: str) -> AsyncIterator[Database]:
    """An open Database on the second one."""
    async with Database(target_url) as opened:
        yield opened
