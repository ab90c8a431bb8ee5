"""Servers of the tests' own, which are set as those of other people are."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from adkpg import Database
from adkpg.embedded import EmbeddedServer
from adkpg.tooling.testing.server import TUNING, start_installed

_PROGRAMS = os.environ.get("ADKPG_TEST_POSTGRES_BIN")  # kept, since each test sees none


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """Starts servers with settings, and returns their URL: of the Postgres that the run tests."""
    with ExitStack() as stack:

        def started(**settings: str) -> str:
            if _PROGRAMS:
                server = start_installed(Path(_PROGRAMS), settings={**TUNING, **settings})
                stack.callback(server.stop)
                return server.url
            directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="adkpg-own-")))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            own = EmbeddedServer(directory, settings={**TUNING, **settings})
            return stack.enter_context(own).url

        yield started


@pytest.fixture(scope="package")
def healthy() -> Iterator[str]:
    """A server with the settings that Postgres comes with."""
    directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="adkpg-doctor-")))
    server = EmbeddedServer(directory)
    server.start()
    yield server.url
    server.stop()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def well(healthy: str) -> AsyncIterator[Database]:
    """A database in which all is well, but for its superuser."""
    async with Database(healthy) as database:
        await database.upgrade()
        yield database


@pytest.fixture
async def bare(healthy: str) -> AsyncIterator[str]:
    """The URL of an empty database on the healthy server."""
    connection = await asyncpg.connect(healthy)
    try:
        await connection.execute("CREATE DATABASE bare")
        yield healthy.replace("/adkpg?", "/bare?")
        await connection.execute("DROP DATABASE bare WITH (FORCE)")
    finally:
        await connection.close()
