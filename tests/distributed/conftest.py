"""What only a cluster shows: collected where one is asked for."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adkpg import Database
from adkpg.tooling.testing.server import Server
from tests.fakes.citus import BIN, CitusServer, Cluster, Own

_PROGRAMS = os.environ.get(BIN)


@pytest.fixture(scope="session")
def cluster(server: Server) -> CitusServer:
    assert isinstance(server, CitusServer)
    return server


@pytest.fixture
async def nodes(cluster: CitusServer, database_url: str) -> list[str]:
    """The URLs of the test's database on all nodes, the coordinator's first."""
    return await cluster.nodes_of(database_url.rpartition("/")[2])


@pytest.fixture
def cluster_programs() -> Path:
    """Of a cluster of the test's own, whose nodes it may kill."""
    if not _PROGRAMS:
        pytest.fail(f"The test kills nodes, and needs {BIN}", pytrace=False)
    return Path(_PROGRAMS)


@pytest.fixture
async def own(cluster_programs: Path) -> AsyncIterator[Own]:
    cluster = Cluster(cluster_programs)
    try:
        await cluster.start()
        server = CitusServer(cluster.url)
        # No copy of a template: a database knows itself by name, as a node that is added is told.
        name = await server.create()
        await server.join(name)
        async with Database(server.url_of(name)) as database:
            await database.upgrade()
            await database.distribute()
        yield Own(cluster, server, name)
    finally:
        cluster.stop()
