"""What only a cluster shows: collected where one is asked for."""

import pytest

from adkpg.testing.server import Server
from tests.fakes.citus import CitusServer


@pytest.fixture(scope="session")
def cluster(server: Server) -> CitusServer:
    assert isinstance(server, CitusServer)
    return server
