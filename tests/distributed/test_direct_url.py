"""What only a coordinator does, asked of a worker: refused, or done past it by ADKPG_DIRECT_URL."""

from functools import partial

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService, Settings
from adkpg.errors import ConfigurationError
from adkpg.tooling.cli import main
from adkpg.tooling.models import Models
from tests.fakes.citus import CitusServer
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.cluster

REFUSED = "leads to a worker of the Citus cluster"


def led_to(url: str) -> Settings:
    return Settings.model_validate({"direct_url": url})


async def test_a_worker_is_served_and_the_coordinator_changes_the_tables(
    nodes: list[str], connection: asyncpg.Connection
) -> None:
    settings = led_to(nodes[0])
    async with Database(nodes[1], settings=settings) as database:
        await database.upgrade()
        assert await database.distribute() == []
        models = Models(database)
        await models.add("m", dimensions=3)
        await models.index("m")
        assert [each.indexed for each in await models.list_models()] == [True]
        await models.drop("m")
        await database.downgrade("base")
    assert await connection.fetchval("SELECT to_regclass('adkpg.sessions')") is None


async def test_another_database_of_the_same_nodes_is_refused(
    cluster: CitusServer, nodes: list[str]
) -> None:
    async with Database(nodes[1], settings=led_to(cluster.url)) as database:
        with pytest.raises(ConfigurationError, match="leads to another database"):
            await database.upgrade()


async def test_through_a_worker_nothing_is_changed_before_it_is_refused(
    nodes: list[str], connection: asyncpg.Connection
) -> None:
    async with Database(nodes[0]) as database:
        await Models(database).add("indexed", dimensions=3)
        await Models(database).index("indexed")
    before = await written(connection)
    for settings in (Settings(), led_to(nodes[2])):
        async with Database(nodes[1], settings=settings) as database:
            models = Models(database)
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
            for refused in (
                database.upgrade,
                partial(database.downgrade, "base"),
                database.distribute,
                memory.index_large_scopes,
                partial(models.index, "indexed"),
                partial(models.drop, "indexed"),
            ):
                with pytest.raises(ConfigurationError, match=REFUSED):
                    await refused()
    assert await written(connection) == before


async def written(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    return await connection.fetch(  # type: ignore[no-any-return] # asyncpg says Any
        "SELECT name, (SELECT count(*) FROM adkpg.approximate_scopes) FROM adkpg.embedding_models"
    )


def test_a_model_that_cannot_be_indexed_is_not_added(
    nodes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["models", "add", "m", "--dimensions", "3", "--index", "--database-url", nodes[1]]
    with pytest.raises(SystemExit, match="1"):
        main(asked, prog_name="adkpg")
    assert REFUSED in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["models", "list", "--json", "--database-url", nodes[0]], prog_name="adkpg")
    assert '"m"' not in capsys.readouterr().out
