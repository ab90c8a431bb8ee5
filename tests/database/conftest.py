"""A server of the test's own, which it may stop, restart and lock."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from adkpg.embedded import EmbeddedServer
from adkpg.tooling.testing.server import TUNING
from tests.fakes.pgbouncer import PROGRAM

collect_ignore = [] if PROGRAM else ["test_poolers.py"]


@pytest.fixture
def own_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="adkpg-faults-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def own_server(own_directory: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(own_directory, settings=TUNING | {"max_connections": "30"}) as server:
        yield server
