"""Imports that end on the way: a second run completes them, whatever the source."""

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from adkpg import Database
from adkpg.tooling.transfer import import_from
from tests.fakes.moves import imported, stored
from tests.fakes.signals import interrupts_heard

pytestmark = pytest.mark.fault
SESSIONS, EVENTS = 40, 200
# As ADK's DatabaseSessionService makes them, version 1.
_TABLES = (
    "CREATE TABLE adk_internal_metadata (key VARCHAR(128) PRIMARY KEY, value VARCHAR(256))",
    "INSERT INTO adk_internal_metadata VALUES ('schema_version', '1')",
    "CREATE TABLE sessions (app_name VARCHAR(128), user_id VARCHAR(128), id VARCHAR(128),"
    " state {json} NOT NULL, create_time {time}, update_time {time},"
    " PRIMARY KEY (app_name, user_id, id))",
    "CREATE TABLE app_states (app_name VARCHAR(128) PRIMARY KEY, state {json}, update_time {time})",
    "CREATE TABLE user_states (app_name VARCHAR(128), user_id VARCHAR(128), state {json},"
    " update_time {time}, PRIMARY KEY (app_name, user_id))",
    "CREATE TABLE events (id VARCHAR(128), app_name VARCHAR(128), user_id VARCHAR(128),"
    " session_id VARCHAR(128), invocation_id VARCHAR(256), timestamp {time}, event_data {json},"
    " PRIMARY KEY (id, app_name, user_id, session_id))",
)


def _rows() -> tuple[list[Any], list[Any]]:
    """Sessions, and their events."""
    moment = "2025-07-15 12:00:00.000000"
    place = ("a", "u")
    sessions: list[Any] = []
    events: list[Any] = []
    for number in range(SESSIONS):
        session = f"s{number:02}"
        sessions.append((*place, session, json.dumps({"n": number}), moment, moment))
        for seq in range(EVENTS):
            text = {"role": "user", "parts": [{"text": f"{session} says {seq}"}]}
            event = {"id": f"e{seq}", "author": "user", "invocation_id": "i", "content": text}
            data = json.dumps(event | {"timestamp": 1752580800.0 + seq})
            events.append((f"e{seq}", *place, session, "i", moment, data))
    return sessions, events


@pytest.fixture
def sqlite_source(tmp_path: Path) -> str:
    sessions, events = _rows()
    with contextlib.closing(sqlite3.connect(tmp_path / "adk.db")) as source, source:
        for statement in _TABLES:
            source.execute(statement.format(json="TEXT", time="DATETIME"))
        source.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", sessions)
        source.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", events)
    return f"sqlite:///{tmp_path}/adk.db"


@pytest.fixture
async def postgres_source(empty_database_url: str) -> str:
    connection = await asyncpg.connect(empty_database_url)
    for statement in _TABLES:
        await connection.execute(statement.format(json="JSONB", time="TIMESTAMP"))
    sessions, events = _rows()
    for table, rows, time in (("sessions", sessions, (4, 5)), ("events", events, (5,))):
        numbers = range(len(rows[0]))
        casts = [f"${n + 1}" + ("::text::timestamp" if n in time else "") for n in numbers]
        await connection.executemany(f"INSERT INTO {table} VALUES ({', '.join(casts)})", rows)
    await connection.close()
    return empty_database_url


@pytest.fixture(params=["sqlite_source", "postgres_source"])
def source(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
async def written(target_url: str) -> AsyncIterator[Callable[[], Any]]:
    """How many events are stored so far."""
    connection = await asyncpg.connect(target_url)
    yield lambda: connection.fetchval("SELECT count(*) FROM adkpg.events")
    await connection.close()


async def _completed(target: Database, target_url: str, source: str) -> None:
    report = await imported(target, source)
    assert (report.sessions, report.verified, report.events) == (
        SESSIONS,
        SESSIONS,
        SESSIONS * EVENTS,
    )
    rows = await stored(target_url, ("sessions", "events"))
    assert len(rows["events"]) == SESSIONS * EVENTS
    assert {row["revision"] for row in rows["sessions"]} == {EVENTS}
    again = await imported(target, source)
    assert (again.unchanged, again.events_written) == (SESSIONS, 0)


@pytest.mark.program
@pytest.mark.parametrize(("sent", "ended"), [(signal.SIGKILL, -9), (signal.SIGINT, 1)])
async def test_a_command_that_is_ended_is_completed_by_the_next(
    target: Database,
    target_url: str,
    source: str,
    written: Callable[[], Any],
    tmp_path: Path,
    sent: signal.Signals,
    ended: int,
) -> None:
    program = [sys.executable, "-m", "adkpg", "import", source, "--database-url", target_url]
    said = tmp_path / "said"
    with said.open("wb") as output, interrupts_heard():
        running = await asyncio.to_thread(
            subprocess.Popen, program, stdout=output, stderr=subprocess.STDOUT
        )
        while not await written():
            assert running.poll() is None, said.read_text()
        running.send_signal(sent)
        assert await asyncio.to_thread(running.wait) == ended, said.read_text()
    assert "Traceback" not in said.read_text()
    await _completed(target, target_url, source)


async def test_a_cancelled_import_is_completed_by_the_next(
    target: Database, target_url: str, source: str, written: Callable[[], Any]
) -> None:
    running = asyncio.create_task(import_from(target, source=source))
    while not await written():
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await written() < SESSIONS * EVENTS
    await _completed(target, target_url, source)
