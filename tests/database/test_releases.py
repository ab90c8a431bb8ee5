"""Databases of released versions come to the newest schema with all that they hold."""

from pathlib import Path

import pytest

from adkpg import Database
from adkpg.tooling.backup.archive import read, restore
from adkpg.tooling.testing.server import Server
from tests.fakes.catalog import described
from tests.fakes.frozen import FROZEN, freeze, require_filled, say_nothing
from tests.fakes.later_versions import ADDITIVE_COLUMN, CONCURRENT_INDEX, later_version

pytestmark = pytest.mark.direct("restores by Postgres's own programs, which need a session")


async def _new(server: Server) -> str:
    return server.url_of(await server.create())


@pytest.mark.program
async def test_frozen_databases_are_upgraded(
    server: Server, empty_database_url: str, tmp_path: Path
) -> None:
    """Those in ``releases`` (none before the first), and one of today that is upgraded further."""
    now = tmp_path / "now.dump"
    async with Database(empty_database_url) as database:
        await freeze(database, now)
    with later_version(tmp_path / "later", ADDITIVE_COLUMN, CONCURRENT_INDEX):
        new = await _new(server)
        async with Database(new) as database:
            await database.upgrade()
        for file in [*sorted(FROZEN.glob("*.dump")), now]:
            url = await _new(server)
            async with Database(url) as database:
                await restore(database, await read(database, file), progress=say_nothing)
                await database.check()
                await require_filled(database)
            assert await described(url) == await described(new), file.name
