"""Several processes at once: appending to one session, migrating one empty database."""

import asyncio
import json
import subprocess
import sys

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.sessions.records import Marker
from adkpg.tooling.testing import texts
from tests.fakes.conversation import USER

pytestmark = [pytest.mark.race, pytest.mark.program]


def _run_at_once(jobs: list[list[str | int]]) -> None:
    """Runs one process for each job, all at once."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.fakes.writers", json.dumps(jobs)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


async def test_processes_merge_into_one_session(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    await sessions.create_session(**USER, session_id="shared")
    _run_at_once([["append", database_url, str(name), 15] for name in range(3)])
    session = await sessions.get_session(**USER, session_id="shared")
    assert session is not None
    assert len(session.events) == 45
    names = [f"{name}.{number}" for name in range(3) for number in range(15)]
    assert sorted(map(str, texts(session))) == sorted(names)
    assert session.state == {
        f"{scope}{name}": 1 for scope in ("", "user:", "app:") for name in names
    }
    marker = Marker.of(session)
    assert marker is not None
    assert marker.revision == 45


async def test_a_forked_child_closes_its_own_connections_only(database_url: str) -> None:
    answer = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.fakes.fork", database_url],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    async with DatabaseSessionService(database_url) as sessions:
        listed = await sessions.list_sessions(app_name=USER["app_name"])
    assert {session.id for session in listed.sessions} == {"parent", "child"}


async def test_eight_processes_migrate_an_empty_database(empty_database_url: str) -> None:
    _run_at_once([[job, empty_database_url] for job in ("upgrade", "first_use") for _ in range(4)])
    async with Database(empty_database_url) as database:
        await database.check()
        service = DatabaseSessionService(database)
        assert len((await service.list_sessions(**USER)).sessions) == 4
