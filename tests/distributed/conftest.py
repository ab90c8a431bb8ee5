"""What only a cluster shows: collected where one is asked for."""

import os
from pathlib import Path

import pytest

from adkpg.testing.server import Server
from tests.fakes.citus import BIN, CitusServer

_PROGRAMS = os.environ.get(BIN)


@pytest.fixture(scope="session")
def cluster(server: Server) -> CitusServer:
    assert isinstance(server, CitusServer)
    return server


@pytest.fixture
def cluster_programs() -> Path:
    """Of a cluster of the test's own, whose nodes it may kill."""
    if not _PROGRAMS:
        pytest.fail(f"The test kills nodes, and needs {BIN}", pytrace=False)
    return Path(_PROGRAMS)
