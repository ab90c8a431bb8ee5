"""A source is read once, a session is written whole or not at all, and what differs is told."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.adk.sessions.database_session_service import DatabaseSessionService as AdkService

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.evaluation import SavedQuestions
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import export, export_to_adk, import_from
from adkpg.tooling.transfer.sources.export_file import ExportFile
from tests.fakes.moves import exported, imported, stored

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
LARGE = 2_500
"""Events of a session that takes several batches."""


async def write_large(path: Path, *, events: int = LARGE) -> None:
    head = {"type": "export", "format": "adkpg", "version": 1, "app_name": "app"}
    line = {"type": "session", **ANA, "session_id": "large", "state": {"n": 1}, "revision": events}
    with path.open("w") as file:
        for each in (head, line):
            file.write(json.dumps(each) + "\n")
        for seq in range(1, events + 1):
            event = said(f"Number {seq}.", id=f"e{seq}", timestamp=float(seq))
            payload = event.model_dump(mode="json", exclude_none=True)
            key = {"type": "event", **ANA, "session_id": "large", "seq": seq}
            file.write(json.dumps({**key, "event": payload}) + "\n")
        file.write(json.dumps({"type": "end", "records": {}}) + "\n")


@pytest.mark.parametrize("remember", [False, True])
async def test_a_session_of_several_batches_is_there_whole_or_not_at_all(
    database: Database,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    remember: bool,
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path)
    records, seen = ExportFile.records, asyncio.Event()

    async def stopping(self: ExportFile) -> AsyncGenerator[Any]:
        number = 0
        async for each in records(self):
            yield each
            number += 1
            if number == LARGE - 10:  # some batches were written
                seen.set()
                await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(ExportFile, "records", stopping)
        importing = asyncio.create_task(import_from(database, source=path, remember=remember))
        await seen.wait()
        assert (await stored(database_url, ("sessions", "events")))["events"] == []
        importing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await importing
    assert await stored(database_url, ("sessions", "events")) == {"sessions": [], "events": []}
    report = await imported(database, path, remember=remember)
    assert (report.created, report.events_written, report.verified) == (1, LARGE, 1)
    rows = await stored(database_url, ("events", "memories"))
    assert len(rows["events"]) == LARGE
    assert bool(rows["memories"]) is remember
    assert (await imported(database, path, remember=remember)).events_written == 0


async def test_a_large_session_is_extended_whole_or_not_at_all(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path, events=100)
    await imported(database, path)
    await write_large(path)
    records = ExportFile.records

    async def failing(self: ExportFile) -> AsyncGenerator[Any]:
        number = 0
        async for each in records(self):
            yield each
            number += 1
            if number == LARGE - 10:
                raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(ExportFile, "records", failing)
        with pytest.raises(OSError, match="the disk is gone"):
            await import_from(database, source=path)
    assert len((await stored(database_url, ("events",)))["events"]) == 100
    report = await imported(database, path)
    assert (report.extended, report.events_written) == (1, LARGE - 100)


async def test_two_imports_of_a_large_session_at_once_write_it_once(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path)
    async with Database(database_url) as other:
        reports = await asyncio.gather(imported(database, path), imported(other, path))
    assert sorted(report.created for report in reports) == [0, 1]
    assert sum(report.events_written for report in reports) == LARGE
    assert len((await stored(database_url, ("events",)))["events"]) == LARGE


async def test_a_source_is_read_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path, events=10)
    records, readings = ExportFile.records, []

    async def counted(self: ExportFile) -> AsyncGenerator[Any]:
        readings.append(self)
        async for each in records(self):
            yield each

    monkeypatch.setattr(ExportFile, "records", counted)
    report = await imported(database, path)
    assert (len(readings), report.verified) == (1, 1)


async def test_a_stored_event_that_differs_is_told(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path, events=3)
    await imported(database, path)
    await connection.execute(  # spelled otherwise, which is no difference
        "UPDATE events SET payload = (' ' || payload::text)::json WHERE seq = 1"
    )
    assert (await imported(database, path)).unchanged == 1
    await connection.execute(
        "UPDATE events SET payload = replace(payload::text, 'Number', 'No.')::json WHERE seq = 2"
    )
    for dry_run in (True, False):
        report = await import_from(database, source=path, dry_run=dry_run)
        (sentence,) = report.differing.first
        assert "its event 'e2' differs" in sentence


async def test_a_state_that_differs_is_told(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "large.jsonl"
    await write_large(path, events=3)
    await imported(database, path)
    await connection.execute("""UPDATE sessions SET state = '{"n": 2}'""")
    report = await import_from(database, source=path)
    assert "its state differs" in report.differing.first[0]


async def test_saved_questions_travel_and_stay_as_they_are(
    database: Database,
    database_url: str,
    target: Database,
    target_url: str,
    tmp_path: Path,
    connection: asyncpg.Connection,
) -> None:
    questions = SavedQuestions(database)
    await questions.add(**ANA, text="What does she keep?", evidence=["a", "b"])
    await questions.add(app_name="app", user_id=None, text="Of the app?", evidence=[])
    lines = await exported(database, tmp_path / "q.jsonl", app_name="app")
    assert {line["user_id"] for line in lines[1:-1]} == {"ana", None}
    report = await imported(target, tmp_path / "q.jsonl")
    assert report.rows == 2
    tables: Any = ("saved_questions",)
    assert await stored(target_url, tables) == await stored(database_url, tables)
    await connection.execute("UPDATE saved_questions SET question = 'Another?'")
    again = await import_from(database, source=tmp_path / "q.jsonl")
    assert again.differing.count == 2
    assert "it was left as it is" in again.differing.first[0]


async def test_from_adks_database_through_postgres_and_lines_and_back_all_is_equal(
    database: Database, target: Database, tmp_path: Path
) -> None:
    here, there = (f"sqlite+aiosqlite:///{tmp_path}/{name}.db" for name in ("here", "there"))
    async with AdkService(here) as adk:
        for number in range(3):
            session = await adk.create_session(
                **ANA,
                session_id=f"s{number}",
                state={"own": [number], "user:lang": "de", "app:v": None},
            )
            for seq in range(number):
                text = f"nul \x00, line \u2028, emoji \U0001f41d, {seq}"
                await adk.append_event(session, said(text, state={"k": 1.5, "user:n": seq}))
    await imported(database, f"sqlite:///{tmp_path}/here.db")
    await exported(database, tmp_path / "one.jsonl", app_name="app")
    await imported(target, tmp_path / "one.jsonl")
    first, second = [
        [line async for line in export(each, app_name="app")][1:] for each in (database, target)
    ]
    assert first == second, "byte for byte"
    await export_to_adk(target, url=f"sqlite:///{tmp_path}/there.db", app_name="app")
    async with AdkService(here) as adk, AdkService(there) as back:
        for number in range(3):
            place = {**ANA, "session_id": f"s{number}"}
            one, other = await adk.get_session(**place), await back.get_session(**place)
            ours = await DatabaseSessionService(target).get_session(**place)
            assert one is not None
            assert other is not None
            assert ours is not None
            assert one.state == other.state == ours.state
            assert one.events == other.events == ours.events
