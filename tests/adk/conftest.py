"""A folder of agents, an account with a password, a directory for an embedded server."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from adkpg.embedded.postmaster import Postmaster
from tests.fakes.adk_commands import Account


@pytest.fixture
async def account(database_url: str) -> AsyncIterator[Account]:
    role, password = f"adkpg_test_{secrets.token_hex(4)}", secrets.token_hex(12)
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{password}'")
        location, mark, query = database_url.partition("://")[2].partition("?")
        place = location.rpartition("@")[2]
        yield Account(f"adkpg://{role}:{password}@{place}{mark}{query}", password)
        await connection.execute(f"DROP ROLE {role}")
    finally:
        await connection.close()


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """An empty folder for agents."""
    folder = tmp_path / "agents"
    folder.mkdir()
    return folder


@pytest.fixture
def embedded_dir() -> Iterator[Path]:
    """An empty directory, not below pytest's own, which as root no other account may enter."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="adkpg-test-")))
    yield path
    for pid_file in path.rglob("postmaster.pid"):
        if (left := Postmaster.of(pid_file.parent)) is not None:
            left.stop(time.monotonic() + 30)
    shutil.rmtree(path)
