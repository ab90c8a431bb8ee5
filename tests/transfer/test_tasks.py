"""Tasks that the A2A sdk's own store has written, read back by adkpg's."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore as SdkStore
from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.adk.sessions.database_session_service import DatabaseSessionService as AdkService
from google.protobuf.json_format import ParseDict
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService
from adkpg.a2a import DatabaseTaskStore
from adkpg.errors import ConfigurationError
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import import_from
from tests.a2a.test_store import ANA, BO, COMPLETED, FAILED, MISSING, NOBODY, WORKING
from tests.fakes.moves import exported, imported, stored

SUBMITTED = TaskState.TASK_STATE_SUBMITTED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SHOP = {"adk_app_name": "shop", "adk_user_id": "ana", "adk_session_id": "ctx"}

# As a2a-sdk 0.3 wrote it.
OLD = {
    "id": "old",
    "context_id": "ctx",
    "kind": "task",
    "status": {
        "state": "completed",
        "timestamp": "2025-07-15T12:00:00.750000+00:00",
        "message": {
            "kind": "message",
            "messageId": "m2",
            "role": "agent",
            "parts": [{"kind": "text", "text": "it is red"}],
        },
    },
    "artifacts": [{"artifactId": "a", "parts": [{"kind": "data", "data": {"colour": "red"}}]}],
    "history": [
        {
            "kind": "message",
            "messageId": "m1",
            "role": "user",
            "parts": [{"kind": "text", "text": "which colour?"}],
        }
    ],
    "metadata": {"adk_app_name": "shop", "adk_user_id": "A2A_USER_ctx"},
}


def task(
    task_id: str,
    state: TaskState = COMPLETED,
    *,
    context_id: str = "ctx",
    at: datetime | None = NOON,
    metadata: dict[str, str] = SHOP,
) -> Task:
    asked = Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text="my bike is red\0")])
    made = Task(
        id=task_id,
        context_id=context_id,
        status=TaskStatus(state=state),
        history=[asked],
        artifacts=[Artifact(artifact_id="a", parts=[Part(text="ok")])],
    )
    made.metadata.update(metadata)
    if at is not None:
        made.status.timestamp.FromDatetime(at)
    return made


def driven(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


@asynccontextmanager
async def sdk(url: str) -> AsyncIterator[SdkStore]:
    engine = create_async_engine(driven(url))
    try:
        yield SdkStore(engine)
    finally:
        await engine.dispose()


async def keep(url: str, tasks: Sequence[Task], context: ServerCallContext = ANA) -> None:
    async with sdk(url) as store:
        await store.initialize()
        for each in tasks:
            await store.save(each, context)


async def read(
    target: Database, task_id: str, context: ServerCallContext = ANA, app_name: str = "shop"
) -> Task | None:
    found = await DatabaseTaskStore(target, app_name=app_name).get(task_id, context)
    return None if found is None else found.task


def sqlite(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder}/tasks.db"


async def test_tasks_beside_adks_sessions_in_place(database: Database, database_url: str) -> None:
    async with AdkService(driven(database_url)) as theirs:
        session = await theirs.create_session(app_name="shop", user_id="ana", session_id="ctx")
        await theirs.append_event(session, said("my bike is red"))
    done, waiting = task("done"), task("waiting", INPUT_REQUIRED)
    await keep(database_url, [done, waiting])
    report = await imported(database, database_url)
    assert (report.sessions, report.events_written, report.rows) == (1, 1, 2)
    assert await read(database, "done") == done
    assert await read(database, "waiting") == waiting
    assert await read(database, "done", BO) is None
    assert await DatabaseSessionService(database).get_session(
        app_name="shop", user_id="ana", session_id="ctx"
    )
    rows = {row["task_id"]: row for row in (await stored(database_url, ("tasks",)))["tasks"]}
    for name, state, ends_at in (
        ("done", "TASK_STATE_COMPLETED", NOON),
        ("waiting", "TASK_STATE_INPUT_REQUIRED", None),
    ):
        row = rows[name]
        assert (row["session_id"], row["state"], row["ends_at"]) == ("ctx", state, ends_at)
        assert row["created_at"] == row["updated_at"] == row["status_at"] == NOON
        assert (row["revision"], row["payload_revision"]) == (1, 1)
    again = await imported(database, database_url)
    assert (again.unchanged, again.rows) == (1, 2)
    after = {row["task_id"]: row for row in (await stored(database_url, ("tasks",)))["tasks"]}
    assert after == rows


async def test_a_file_of_tasks_alone(target: Database, target_url: str, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    named, nameless, timeless = task("t1"), task("t2", metadata={}), task("t3", at=None)
    other = task("t4", metadata={"adk_app_name": "other"})
    theirs = task("t5")
    await keep(url, [named, nameless, timeless, other])
    await keep(url, [theirs], NOBODY)
    report = await imported(target, url, app_name="shop")
    assert (report.sessions, report.rows) == (0, 4)
    assert [await read(target, each.id) for each in (named, nameless, timeless, theirs)] == [
        named,
        nameless,
        timeless,
        theirs,
    ]
    before = await stored(target_url, ("tasks",))
    await imported(target, tmp_path / "tasks.db", app_name="shop")
    assert await stored(target_url, ("tasks",)) == before
    report = await import_from(target, source=url, user_id="ana")
    assert (report.rows, report.unread.count) == (4, 1)
    assert "task 't2'" in report.unread.first[0]
    assert "--app" in report.unread.first[0]
    assert await read(target, "t4", app_name="other") == other


async def test_whose_a_task_without_an_owner_is(target: Database, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    of_context = task("t1", context_id="c1", metadata={"adk_app_name": "shop"})
    told = task("t2", metadata={"adk_app_name": "shop", "adk_user_id": "bo"})
    await keep(url, [of_context, told], NOBODY)
    await imported(target, url)
    assert await read(target, "t1", NOBODY) == of_context
    assert await read(target, "t2", BO) == told
    assert await read(target, "t2", ANA) is None


async def test_a_running_task_is_found_failed(target: Database, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    later = datetime.now(UTC) + timedelta(hours=1)
    await keep(url, [task("t1", WORKING), task("t2", SUBMITTED, at=later)])
    await imported(target, url)
    for name in ("t1", "t2"):
        found = await read(target, name)
        assert found is not None
        assert found.status.state == FAILED
        assert found.artifacts == task(name).artifacts
    await imported(target, url)
    found = await read(target, "t1")
    assert found is not None
    assert found.status.state == FAILED


async def test_a_task_that_has_gone_on_is_left_and_said(target: Database, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    waiting = task("t1", INPUT_REQUIRED)
    await keep(url, [waiting])
    await imported(target, url)
    await keep(url, [task("t1", COMPLETED)])
    report = await import_from(target, source=url)
    assert (report.unread.count, report.differing.count) == (0, 1)
    assert await read(target, "t1") == waiting


async def test_an_export_from_before_an_event(database: Database, tmp_path: Path) -> None:
    store = DatabaseTaskStore(database, app_name="shop")
    waiting = task("t1", INPUT_REQUIRED)
    version = await store.save(waiting, event=waiting, prev_version=MISSING, context=ANA)
    await exported(database, tmp_path / "before.jsonl", app_name="shop")
    ended = TaskStatusUpdateEvent(
        task_id="t1", context_id="ctx", status=TaskStatus(state=COMPLETED)
    )
    done = task("t1", at=None)
    await store.save(done, event=ended, prev_version=version, context=ANA)
    await imported(database, tmp_path / "before.jsonl")
    assert await read(database, "t1") == done


async def test_a_row_of_0_3(target: Database, tmp_path: Path) -> None:
    """In the table of that release, which had neither owner nor version nor time."""
    path = tmp_path / "tasks.db"
    with sqlite3.connect(path) as source:
        source.execute(f"CREATE TABLE tasks ({', '.join(OLD)}, PRIMARY KEY (id))")
        _put(source, OLD)
    source.close()
    await imported(target, path)
    await _require_old(target)


@pytest.mark.parametrize("version", [None, "", "0.3"])
async def test_a_row_of_0_3_in_the_table_of_1(
    database: Database, database_url: str, version: str | None
) -> None:
    await keep(database_url, [])
    connection = await asyncpg.connect(database_url)
    try:
        values = [each if isinstance(each, str) else json.dumps(each) for each in OLD.values()]
        await connection.execute(
            f"INSERT INTO tasks ({', '.join(OLD)}, protocol_version, owner)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '')",
            *values,
            version,
        )
    finally:
        await connection.close()
    await imported(database, database_url)
    await _require_old(database)


def _put(source: sqlite3.Connection, row: dict[str, Any]) -> None:
    values = [json.dumps(each) if isinstance(each, dict | list) else each for each in row.values()]
    signs = ", ".join("?" * len(row))
    source.execute(f"INSERT INTO tasks ({', '.join(row)}) VALUES ({signs})", values)


async def _require_old(database: Database) -> None:
    found = await read(database, "old", NOBODY)
    assert found == ParseDict(
        {
            "id": "old",
            "contextId": "ctx",
            "status": {
                "state": "TASK_STATE_COMPLETED",
                "timestamp": "2025-07-15T12:00:00.750Z",
                "message": {
                    "messageId": "m2",
                    "role": "ROLE_AGENT",
                    "parts": [{"text": "it is red"}],
                },
            },
            "artifacts": [{"artifactId": "a", "parts": [{"data": {"colour": "red"}}]}],
            "history": [
                {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "which colour?"}]}
            ],
            "metadata": OLD["metadata"],
        },
        Task(),
    )


async def test_since(target: Database, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    day = timedelta(days=1)
    await keep(url, [task("t1", at=NOON - day), task("t2"), task("t3", at=None)])
    report = await imported(target, url, since=NOON.isoformat())
    assert report.rows == 2
    assert await read(target, "t1") is None
    assert await read(target, "t2") is not None
    report = await imported(target, url, dry_run=True)
    assert report.rows == 3
    assert await read(target, "t1") is None


async def test_what_cannot_be_read_is_said_and_costs_nothing_else(
    target: Database, tmp_path: Path
) -> None:
    url = sqlite(tmp_path)
    good = task("good")
    await keep(url, [good])
    broken: dict[str, dict[str, Any]] = {
        "text": {"status": "{"},
        "list": {"status": "[1]"},
        "state": {"status": '{"state": "TASK_STATE_GONE"}'},
        "parts": {"history": '[{"parts": 5}]'},
        "number": {"artifacts": '[{"artifactId": 5}]'},
        "nan": {"metadata": '{"adk_app_name": "shop", "x": NaN}'},
        "deep": {"metadata": "[" * 100_000},
        "scalar": {"metadata": "5"},
        **{
            name: {"owner": owner, "metadata": '{"adk_app_name": "shop"}'}
            for name, owner in {
                "utf8": b"\xff",
                "nul": "a\0",
                "reserved": "\1app",
                "long": "u" * 600,
            }.items()
        },
        "context": {"context_id": b"\0"},
        "old": {"protocol_version": None, "status": '{"state": 5}'},
        "older": {"protocol_version": None, "history": "5"},
        "time": {"protocol_version": None, "status": '{"state": "working", "timestamp": "noon"}'},
    }
    with sqlite3.connect(tmp_path / "tasks.db") as source:
        names = [row[1] for row in source.execute("PRAGMA table_info(tasks)")]
        whole = source.execute(f"SELECT {', '.join(names)} FROM tasks").fetchone()
        for name, changed in broken.items():
            _put(source, {**dict(zip(names, whole, strict=True)), "id": name, **changed})
    source.close()
    report = await import_from(target, source=url)
    told = {
        name: [each for each in report.unread.first if f"task {name!r}: " in each]
        for name in broken
    }
    assert {name for name, sentences in told.items() if len(sentences) != 1} == set()
    assert (report.rows, report.unread.count) == (1, len(broken))
    assert all(each.endswith(".") and "\n" not in each for each in report.unread.first)
    assert await read(target, "good") == good


async def test_push_configs_are_said_to_be_left_out(target: Database, tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    await keep(url, [task("t1")])
    assert (await imported(target, url)).notes == []
    with sqlite3.connect(tmp_path / "tasks.db") as source:
        source.execute("CREATE TABLE push_notification_configs (task_id, config_id, config_data)")
    source.close()
    report = await imported(target, url)
    assert len(report.notes) == 1
    assert "push notification configs" in report.notes[0]


async def test_tasks_of_another_schema_are_said(database: Database, database_url: str) -> None:
    async with AdkService(driven(database_url)) as theirs:
        await theirs.create_session(app_name="shop", user_id="ana", session_id="ctx")
    await keep(database_url, [task("t1")])
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("CREATE SCHEMA peers; ALTER TABLE tasks SET SCHEMA peers")
    finally:
        await connection.close()
    report = await imported(database, database_url)
    assert (report.sessions, report.rows) == (1, 0)
    assert any("--source-schema peers" in note for note in report.notes)
    report = await imported(database, database_url, source_schema="peers")
    assert (report.sessions, report.rows, report.notes) == (0, 1, [])


async def test_tables_of_those_names_that_are_others(target: Database, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    with sqlite3.connect(path) as source:
        source.execute("CREATE TABLE tasks (id, title, status)")
    source.close()
    with pytest.raises(ConfigurationError, match="no tasks of the A2A sdk"):
        await import_from(target, source=path)
    with sqlite3.connect(path) as source:
        source.execute("DROP TABLE tasks")
        source.execute("CREATE TABLE sessions (id, expires)")
        source.execute("CREATE TABLE events (id, title)")
    source.close()
    await keep(f"sqlite+aiosqlite:///{path}", [task("t1")])
    report = await imported(target, path)
    assert (report.sessions, report.rows) == (0, 1)


@pytest.mark.program
async def test_without_the_sdk_they_are_counted(
    target: Database, target_url: str, tmp_path: Path
) -> None:
    await keep(sqlite(tmp_path), [task("t1"), task("t2")])
    program = (
        "import sys; sys.modules['a2a'] = None\n"
        "from adkpg.tooling.cli import main; main(prog_name='adkpg')"
    )
    source = f"{tmp_path}/tasks.db"
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, "import", source, "--database-url", target_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 tasks of A2A" in ran.stdout
    assert "adkpg[a2a]" in ran.stdout
