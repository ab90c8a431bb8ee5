"""What happens behind PgBouncer in transaction mode; `make test-pgbouncer` alone runs these."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.database.migrating import migrations
from adkpg.errors import ConfigurationError
from adkpg.tooling.operations import examine
from adkpg.tooling.testing import said, texts
from adkpg.tooling.testing.server import Server
from tests.fakes.catalog import fetch
from tests.fakes.conversation import USER
from tests.fakes.pgbouncer import PgBouncer
from tests.fakes.proxy import Proxy
from tests.fakes.toys import ToyEmbedder


@pytest.fixture
def losing(server: Server) -> Iterator[PgBouncer]:
    """A pooler that loses prepared statements, whatever its version."""
    with PgBouncer(server.url, keeps_prepared=False) as pooler:
        yield pooler


@pytest.fixture
def keeping(server: Server) -> Iterator[PgBouncer]:
    """A pooler that keeps prepared statements if its version can."""
    with PgBouncer(server.url) as pooler:
        yield pooler


@pytest.fixture
def url_of_losing(losing: PgBouncer, database_url: str) -> str:
    return losing.led(database_url)


async def _converse(database: Database, name: str) -> None:
    """Makes every kind of call, in three tasks on as many connections."""

    async def one(number: int) -> None:
        key: dict[str, Any] = {"app_name": "app", "user_id": f"{name}{number}"}
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        session = await sessions.create_session(**key)
        for turn in range(2):
            await sessions.append_event(session, said(f"tea {turn}"))
            await memory.add_session_to_memory(session)
            found = await memory.search(**key, query="tea")
            assert len(found) == turn + 1
        stored = await sessions.get_session(**key, session_id=session.id)
        assert texts(stored) == [f"tea {turn}" for turn in range(2)]
        await sessions.delete_session(**key, session_id=session.id, forget=True)
        assert await memory.count_memories(**key) == 0

    await asyncio.gather(*(one(number) for number in range(3)))


async def test_many_clients_at_once_meet_no_error(url_of_losing: str) -> None:
    databases = [Database(url_of_losing) for _ in range(3)]
    await asyncio.gather(
        *(_converse(database, str(number)) for number, database in enumerate(databases))
    )
    for database in databases:
        await database.close()


async def test_a_pooler_that_loses_prepared_statements_is_told_of_once(
    url_of_losing: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(url_of_losing) as database:
        with caplog.at_level(logging.WARNING, logger="adkpg.database.connector"):
            await _converse(database, "a")
    (record,) = caplog.records
    assert "does not keep prepared statements" in record.message


async def test_one_round_trip_where_prepared_statements_are_kept(
    keeping: PgBouncer, database_url: str
) -> None:
    async with Proxy(keeping.led(database_url)) as proxy, DatabaseSessionService(proxy.url) as own:
        session = await own.create_session(**USER)
        await own.append_event(session, said("prepared now"))
        before = proxy.round_trips
        await own.append_event(session, said("x"))
        assert proxy.round_trips - before == (1 if keeping.keeps_prepared else 2)


async def test_a_number_of_statements_in_the_url_wins(
    keeping: PgBouncer, database_url: str
) -> None:
    url = keeping.led(database_url) + "&statement_cache_size=0"
    async with (
        Proxy(url) as proxy,
        DatabaseSessionService(proxy.url + "&statement_cache_size=0") as own,
    ):
        session = await own.create_session(**USER)
        await own.append_event(session, said("x"))
        before = proxy.round_trips
        await own.append_event(session, said("y"))
        assert proxy.round_trips - before == 2


async def test_eight_processes_migrate_once_and_leave_no_lock(
    losing: PgBouncer, empty_database_url: str
) -> None:
    url = losing.led(empty_database_url)
    jobs = [[job, url] for job in ("upgrade", "first_use") for _ in range(4)]
    answer = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.fakes.writers", json.dumps(jobs)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    async with Database(url) as database:
        assert await database.current() == migrations.expected()
    locks = await fetch(
        empty_database_url,
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    assert locks == []


async def test_the_doctor_sees_a_pooler(
    keeping: PgBouncer, url_of_losing: str, database_url: str
) -> None:
    for url, mode in (
        (url_of_losing, "unprepared"),
        (keeping.led(database_url), "prepared" if keeping.keeps_prepared else "unprepared"),
    ):
        async with Database(url) as database:
            found = {each.check: each for each in (await examine(database)).findings}
        assert found["pooler"].status == "warning"
        assert "ADKPG_DIRECT_URL" in (found["pooler"].cure or "")
        assert ("max_prepared_statements" in (found["pooler"].cure or "")) == (mode != "prepared")
        past_it = Settings.model_validate({"direct_url": database_url})
        async with Database(url, settings=past_it) as database:
            found = {each.check: each for each in (await examine(database)).findings}
        assert found["pooler"].status == ("ok" if mode == "prepared" else "warning")
        assert "ADKPG_DIRECT_URL" not in (found["pooler"].cure or "")


@pytest.mark.program
async def test_a_pooler_in_statement_mode_is_named_at_once(
    server: Server, database_url: str
) -> None:
    with PgBouncer(server.url, more="pool_mode = statement") as pooler:
        async with Database(pooler.led(database_url)) as database:
            with pytest.raises(ConfigurationError, match="pool_mode to transaction or session"):
                await database.current()
