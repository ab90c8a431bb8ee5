"""Directories for embedded servers, and servers that never outlive their test."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from adkpg.embedded import EmbeddedServer
from adkpg.embedded.postmaster import Postmaster
from tests.fakes.processes import FAST, Forker, Query, Serve


@contextmanager
def _directory() -> Iterator[Path]:
    """An empty directory, not below pytest's own, which as root no other account may enter."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="adkpg-test-", dir="/tmp")))
    yield path
    _stop_below(path)
    shutil.rmtree(path)


def _stop_below(path: Path) -> None:
    for pid_file in path.rglob("postmaster.pid"):
        if (left := Postmaster.of(pid_file.parent)) is not None:
            left.stop(time.monotonic() + 30)


@pytest.fixture
def fresh() -> Iterator[Path]:
    """An empty directory."""
    with _directory() as path:
        yield path


@pytest.fixture(scope="session")
def _initialised() -> Iterator[Path]:
    with _directory() as path:
        EmbeddedServer(path, settings=FAST).start().stop()
        yield path


@pytest.fixture
def used(_initialised: Path) -> Iterator[Path]:
    """The directory of a server that has run before and does not run now."""
    yield _initialised
    _stop_below(_initialised)


@pytest.fixture
def place(fresh: Path) -> Path:
    """The directory of the test; a module that needs no first start says ``used`` instead."""
    return fresh


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Where other processes come from."""
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture
def serve(place: Path) -> Iterator[Serve]:
    """Make servers of a directory (``place`` by default), with settings that make them quick."""
    servers = []

    def make(directory: Path | None = None, **options: Any) -> EmbeddedServer:
        server = EmbeddedServer(directory or place, **{"settings": FAST, **options})
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def query() -> Query:
    """Run one statement on a connection of its own and return its first value."""

    async def fetch(url: str, sql: str) -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return fetch
