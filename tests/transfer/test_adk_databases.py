"""ADK's own service and adkpg on one Postgres: what ADK wrote there, and what it cannot say."""

import asyncio
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService as AdkService

from adkpg import Database, DatabaseSessionService
from adkpg.errors import ConfigurationError, DatabaseError
from adkpg.tooling.testing import said
from adkpg.tooling.transfer import import_from
from tests.fakes.moves import imported, stored
from tests.fakes.story import FIXTURES, STORY, require_story, told


@asynccontextmanager
async def _adk(url: str) -> AsyncIterator[AdkService]:
    async with AdkService(url.replace("postgresql://", "postgresql+asyncpg://", 1)) as service:
        yield service


async def _tell(service: BaseSessionService) -> None:
    for each in STORY:
        place = {name: each[name] for name in ("app_name", "user_id", "session_id")}
        session = await service.create_session(**place, state=each["state"])
        for event in told(each["session_id"], each["app_name"]):
            await service.append_event(session, event)


async def test_in_place_beside_adks_tables(database: Database, database_url: str) -> None:
    async with _adk(database_url) as theirs:
        await _tell(theirs)
    report = await imported(database, database_url)
    assert (report.sessions, report.events, report.verified) == (4, 8, 4)
    await require_story(database)
    async with _adk(database_url) as theirs:
        there = await theirs.get_session(
            app_name="travel", user_id="ana", session_id="winter-and-summer"
        )
    here = await DatabaseSessionService(database).get_session(
        app_name="travel", user_id="ana", session_id="winter-and-summer"
    )
    assert there is not None
    assert here is not None
    assert here.model_dump() == there.model_dump()


async def test_any_live_service(target: Database, target_url: str) -> None:
    service = InMemorySessionService()
    await _tell(service)
    for app_name in ("travel", "other"):
        await imported(target, service, app_name=app_name)
    await require_story(target)
    before = await stored(target_url, ("sessions", "events"))
    await imported(target, service, app_name="travel")
    assert await stored(target_url, ("sessions", "events")) == before
    with pytest.raises(ConfigurationError, match="give app_name"):
        await import_from(target, source=service)


async def test_what_an_import_writes_is_what_appends_write(
    database: Database, database_url: str, target: Database, target_url: str
) -> None:
    await _tell(DatabaseSessionService(database))
    await imported(target, FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db")
    here, there = await stored(database_url), await stored(target_url)
    assert there["events"] == here["events"]
    for rows in (here["sessions"], there["sessions"]):
        for row in rows:
            del row["created_at"]
            if row["session_id"] == "winter-and-summer":  # what its events replaced, nobody knows
                assert "nested" in row.pop("initial_state")
            if row["session_id"] == "empty":
                del row["updated_at"]
    assert there["sessions"] == here["sessions"]
    for name in ("app_states", "user_states"):
        for rows in (here[name], there[name]):
            for row in rows:
                del row["updated_at"]
        assert there[name] == here[name]


async def test_the_source_goes_on_and_so_does_the_import(target: Database, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/live.db"
    async with AdkService(url) as theirs:
        session = await theirs.create_session(app_name="a", user_id="u", session_id="s")
        await theirs.append_event(session, said("one", state={"n": 1, "user:n": 1}))
        await imported(target, url)
        await theirs.append_event(session, said("two", state={"n": 2, "user:n": 2}))
        report = await imported(target, url)
    assert (report.extended, report.events_written) == (1, 1)
    here = await DatabaseSessionService(target).get_session(
        app_name="a", user_id="u", session_id="s"
    )
    assert here is not None
    assert here.state == {"n": 2, "user:n": 2}


_TRACE = Path(__file__).with_name("a pickle ran")


class _Evil:
    def __reduce__(self) -> Any:
        return (os.system, (f"touch {_TRACE}",))


async def test_what_cannot_be_read_is_said_and_costs_nothing_else(
    target: Database, tmp_path: Path
) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes((FIXTURES / "v0-adk-1.21.0-Europe-Vienna.db").read_bytes())
    with sqlite3.connect(path) as source:
        place = "WHERE session_id = 'winter-and-summer' AND id ="
        source.execute(f"UPDATE events SET actions = ? {place} 'w1'", (pickle.dumps(_Evil()),))
        source.execute(f"UPDATE events SET actions = x'80ff00' {place} 'w2'")
        source.execute(f"UPDATE events SET content = '{{' {place} 'w3'")
        source.execute("UPDATE events SET timestamp = 'never' WHERE id = 'a-same-time'")
        source.execute("UPDATE sessions SET state = 'null' WHERE id = 'empty'")
    source.close()
    report = await import_from(target, source=path)
    assert report.unread.count == 4
    reasons = {sentence.partition("event '")[2][:2]: sentence for sentence in report.unread.first}
    assert "posix.system" in reasons["w1"]
    assert "without them" in reasons["w2"]
    assert "cannot be read" in reasons["w3"]
    assert "'never'" in reasons["a-"]
    assert report.differing.first == []
    assert (report.sessions, report.verified, report.events_written) == (4, 4, 6)
    assert not _TRACE.exists()


async def test_values_of_other_types_cost_their_row_alone(target: Database, tmp_path: Path) -> None:
    path = tmp_path / "typed.db"
    path.write_bytes((FIXTURES / "v0-adk-1.21.0-Europe-Vienna.db").read_bytes())
    lists: list[Any] = []
    for _ in range(40):
        lists = [lists, lists]
    bomb = pickle.dumps({"state_delta": {"k": lists}})
    with sqlite3.connect(path) as source:
        place = "WHERE session_id = 'winter-and-summer' AND id ="
        source.execute(f"UPDATE events SET actions = 1000000000000 {place} 'w1'")
        source.execute(f"UPDATE events SET actions = ? {place} 'w2'", (bomb,))
        source.execute(f"UPDATE events SET content = x'ff' {place} 'w3'")
    source.close()
    report = await import_from(target, source=path)
    assert report.unread.count == 3
    assert (report.sessions, report.verified, report.events_written) == (4, 4, 7)


async def test_json_that_cannot_be_read_is_said(target: Database, tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes((FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db").read_bytes())
    with sqlite3.connect(path) as source:
        source.execute("UPDATE events SET event_data = '{' WHERE id = 's1'")
        source.execute("UPDATE events SET event_data = NULL WHERE id = 'o1'")
        source.execute("UPDATE events SET event_data = CAST(x'ff' AS TEXT) WHERE id = 'w3'")
        source.execute(
            "INSERT INTO events SELECT 'orphan', app_name, user_id, 'gone', invocation_id,"
            " timestamp, event_data FROM events WHERE id = 'w2'"
        )
    source.close()
    report = await import_from(target, source=path)
    assert report.unread.count == 4
    assert any("its session is not stored" in sentence for sentence in report.unread.first)
    assert (report.sessions, report.events_written) == (4, 5)


async def test_a_table_of_adk_go(target: Database, tmp_path: Path) -> None:
    """Made by hand after adk-go's schema: v0 columns, JSON in actions, standard base64."""
    path = tmp_path / "go.db"
    with sqlite3.connect(path) as source:
        source.executescript(
            "CREATE TABLE sessions (app_name text, user_id text, id text, state text,"
            " create_time datetime, update_time datetime, PRIMARY KEY (app_name, user_id, id));"
            "CREATE TABLE app_states (app_name text PRIMARY KEY, state text, update_time datetime);"
            "CREATE TABLE user_states (app_name text, user_id text, state text,"
            " update_time datetime, PRIMARY KEY (app_name, user_id));"
            "CREATE TABLE events (id text, app_name text, user_id text, session_id text,"
            " invocation_id text, author text, actions blob, long_running_tool_ids_json text,"
            " branch text, timestamp datetime, content text, grounding_metadata text,"
            " custom_metadata text, usage_metadata text, citation_metadata text, partial numeric,"
            " turn_complete numeric, error_code text, error_message text, interrupted numeric,"
            " routes_json text, output_json text, node_info_json text, requested_input_json text,"
            " isolation_scope text, PRIMARY KEY (id, app_name, user_id, session_id));"
        )
        key, time = ("a", "u", "s"), "2025-07-15 14:00:00.750000+02:00"
        source.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, '{\"k\":1}', ?, ?)", (*key, time, time)
        )
        source.execute("INSERT INTO app_states VALUES ('a', '{\"x\":1}', ?)", (time,))
        content = {
            "role": "user",
            "parts": [
                {"inlineData": {"data": "+/8A", "mimeType": "image/png"}},
                {"functionCall": {"name": "f", "args": {"camelCase": 1}}},
            ],
        }
        actions = {"stateDelta": {"k": 1}, "artifactDelta": {"f": 2}, "transferToAgent": "b"}
        for number, data in enumerate((json.dumps(actions).encode(), b"", None, b"?")):
            source.execute(
                "INSERT INTO events (app_name, user_id, session_id, id, invocation_id, author,"
                " actions, timestamp, content, partial) VALUES (?, ?, ?, ?, 'i', 'a', ?, ?, ?, 0)",
                (*key, f"e{number}", data, time, json.dumps(content)),
            )
    source.close()
    report = await import_from(target, source=path)
    assert (report.unread.count, report.differing.count, report.events_written) == (1, 0, 4)
    assert any("neither a pickle nor JSON" in sentence for sentence in report.unread.first)
    session = await DatabaseSessionService(target).get_session(
        app_name="a", user_id="u", session_id="s"
    )
    assert session is not None
    assert session.state == {"k": 1, "app:x": 1}
    event = session.events[0]
    assert event.timestamp == 1752580800.75
    assert (event.actions.state_delta, event.actions.transfer_to_agent) == ({"k": 1}, "b")
    assert event.content is not None
    assert event.content.parts is not None
    assert event.content.parts[0].inline_data is not None
    assert event.content.parts[0].inline_data.data == b"\xfb\xff\x00"


@pytest.mark.program
async def test_a_killed_import_is_completed_by_the_next(
    target: Database, target_url: str, tmp_path: Path
) -> None:
    """The process is killed as soon as some of it is committed."""
    path = tmp_path / "large.jsonl"
    head = {"type": "export", "format": "adkpg", "version": 1, "app_name": "a"}
    place = {"app_name": "a", "user_id": "u"}
    with path.open("w") as file:
        file.write(json.dumps(head) + "\n")
        for number in range(40):
            session = {**place, "session_id": f"s{number:02}"}
            file.write(json.dumps({"type": "session", **session, "state": {"n": number}}) + "\n")
            for seq in range(1, 201):
                event = {"id": f"e{seq}", "author": "user", "timestamp": seq}
                line = {"type": "event", **session, "seq": seq, "event": event}
                file.write(json.dumps(line) + "\n")
        file.write('{"type":"end","records":{}}\n')
    program = [sys.executable, "-m", "adkpg", "import", str(path), "--database-url", target_url]
    running = await asyncio.to_thread(
        subprocess.Popen, program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    connection = await asyncpg.connect(target_url)
    try:
        while not await connection.fetchval("SELECT count(*) FROM adkpg.events"):
            assert running.poll() is None
        running.kill()
        await asyncio.to_thread(running.wait)
    finally:
        await connection.close()
    report = await imported(target, path)
    assert (report.sessions, report.verified, report.events) == (40, 40, 8000)
    rows = await stored(target_url, ("sessions", "events"))
    assert len(rows["events"]) == 8000
    assert {row["revision"] for row in rows["sessions"]} == {200}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "is empty"),
        ("sqlite:///nowhere.db", "no file"),
        ("nowhere.jsonl", "no file"),
        ("oracle://u:s3cret@h/d", "asyncpg"),
        ("postgresql://u:s3cret@127.0.0.1:1/d", "reached"),
        ("mysql://u:s3cret@h:port/d", "%XX"),
        (str(FIXTURES), "cannot be read"),
    ],
)
async def test_a_source_that_is_none_is_one_sentence(
    target: Database, impatient: None, source: str, words: str
) -> None:
    with pytest.raises((ConfigurationError, DatabaseError)) as refused:
        await import_from(target, source=source)
    assert words in str(refused.value)
    assert "s3cret" not in str(refused.value)


async def test_other_tables_are_no_source(
    target: Database, database_url: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="no tables of ADK"):
        await import_from(target, source=database_url)
    path = tmp_path / "future.db"
    path.write_bytes((FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db").read_bytes())
    with sqlite3.connect(path) as source:
        source.execute("UPDATE adk_internal_metadata SET value = '2'")
    source.close()
    with pytest.raises(ConfigurationError, match="version '2'"):
        await import_from(target, source=path)
    with pytest.raises(ConfigurationError, match="no time zone"):
        await import_from(target, source=path, source_timezone="Vienna/Europe")
