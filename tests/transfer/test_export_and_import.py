"""What is exported comes back equal: sessions, states, memories and what belongs to them."""

import json
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.artifacts import DatabaseArtifactService
from adkpg.documents import Documents
from adkpg.errors import ConfigurationError, InvalidInput, StaleSession
from adkpg.facts import FactExtractor, Facts
from adkpg.tables import metadata
from adkpg.tooling.models import Models
from adkpg.tooling.testing import said, texts
from adkpg.tooling.transfer import export, import_from
from adkpg.tooling.transfer.reading import stored as stored_pages
from tests.fakes.checkout import CHECKOUT
from tests.fakes.facts_llm import FactsLlm, Script, add, operations
from tests.fakes.life import LONG
from tests.fakes.moves import MOVED, exported, imported, stored
from tests.fakes.pages import blocks
from tests.fakes.toys import ToyEmbedder

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
BEN: dict[str, Any] = {"app_name": "app", "user_id": "ben"}


async def _fill(database: Database, memory: PgVectorMemoryService) -> None:
    """Two users with sessions and memories of every kind, one of them deleted."""
    sessions = DatabaseSessionService(database)
    script = Script()
    facts = Facts(memory, extractor=FactExtractor(FactsLlm.following(script)))
    await facts.enable("app")
    session = await sessions.create_session(
        **ANA,
        session_id="s1",
        state={"a": 1, "user:lang": "de", "app:v": [1, None], "nul\x00": "\x1a"},
    )
    await sessions.append_event(session, said("I keep bees.", id="e1", timestamp=20.5))
    await sessions.append_event(
        session,
        Event(
            id="e2",
            author="bot",
            timestamp=10.25,  # earlier than the one before it
            content=types.Content(
                role="model",
                parts=[
                    types.Part(inline_data=types.Blob(data=b"\x00\xff\xfe", mime_type="a/b")),
                    types.Part(text="nul \x00, paragraph \u2028, \U0001f41d"),
                ],
            ),
            actions=EventActions(state_delta={"user:big": 1e300, "b": {"deep": [True]}}),
        ),
    )
    await sessions.append_event(session, said("Forget this one.", id="e3"))
    await sessions.create_session(**ANA, session_id="empty", state={"only": "state"})
    other = await sessions.create_session(**BEN, session_id="s1")
    await sessions.append_event(other, said("I am Ben.", id="e1"))
    await sessions.create_session(**BEN, session_id="ends", ttl="7200s")
    files = DatabaseArtifactService(database)
    for text in ("one", "two"):
        await files.save_artifact(
            **ANA, session_id="s1", filename="f/a.txt", artifact={"text": text}
        )
    await files.save_artifact(
        **ANA,
        filename="user:big",
        artifact=types.Part.from_bytes(data=bytes(range(256)) * 10_000, mime_type="image/png"),
        custom_metadata={"k": "v"},
    )
    await memory.add_session_to_memory(session)
    await memory.add_session_to_memory(other)
    script.says(operations(add("Ana keeps bees.", "t1")))
    await facts.extract(**ANA)
    note = MemoryEntry(
        id="note",
        content=types.Content(role="user", parts=[types.Part(text="Likes honey.")]),
        custom_metadata={
            "topics": ["food"],
            "importance": 0.75,
            "expires_at": "2999-01-01T00:00:00Z",
            "k": "v\x00",
        },
    )
    await memory.add_memory(**ANA, memories=[note])
    await Documents(memory).add(app_name="app", source="bees.md", text="# Bees\n\nBees fly.")
    (forgotten,) = [
        each for each in (await memory.list_memories(**ANA)).items if each.event_id == "e3"
    ]
    assert forgotten.id is not None
    await memory.delete_memory(**ANA, memory_id=forgotten.id)


async def test_an_app_comes_back_as_it_was(
    database: Database,
    database_url: str,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    lines = await exported(database, tmp_path / "app.jsonl", app_name="app")
    report = await imported(target, tmp_path / "app.jsonl")
    assert await stored(target_url) == await stored(database_url)
    imported_sessions = (await stored(target_url, ("sessions",), without={}))["sessions"]
    assert all(row["settled_at"] == row["updated_at"] for row in imported_sessions)
    assert (report.sessions, report.created, report.verified) == (4, 4, 4)
    counts = lines[-1]["records"]
    assert lines[-1]["type"] == "end"
    assert counts["event"] == report.events == report.events_written == 4
    assert counts["memory"] == report.memories == report.memories_written
    assert counts["tombstone"] == report.tombstones == 1
    assert counts["artifact"] == report.artifacts == 3

    for place in ({**ANA, "session_id": "s1"}, {**ANA, "session_id": "empty"}):
        there = await DatabaseSessionService(target).get_session(**place)
        here = await DatabaseSessionService(database).get_session(**place)
        assert there is not None
        assert here is not None
        assert there.model_dump() == here.model_dump()


async def test_again_changes_nothing(
    database: Database,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    before = await stored(target_url)
    again = await imported(target, str(tmp_path / "app.jsonl"))
    assert await stored(target_url) == before
    assert (again.created, again.unchanged, again.events_written, again.memories_written) == (
        0,
        4,
        0,
        0,
    )


async def test_long_memories_get_the_passages_of_the_embedder_that_is_there(
    database: Database, database_url: str, target: Database, target_url: str, tmp_path: Path
) -> None:
    """No vector travels; a piece of a document and a turn are read whole on the other side."""
    narrow, wide = ToyEmbedder(), ToyEmbedder("wide")
    narrow.window, wide.window = 200, 8_192  # type: ignore[attr-defined] # any may have one
    memory = PgVectorMemoryService(database, embedder=narrow)
    words = f"{LONG * 3} The kitten sleeps. {LONG * 3}"
    session = Session(id="s", app_name="app", user_id="ana", events=[said(words, id="e1")])
    await memory.add_session_to_memory(session)
    await Documents(memory, chunk_tokens=10_000).add(app_name="app", source="a.txt", text=words)
    vectors: Any = {"tables": ("memory_vectors",)}
    before = (await stored(database_url, **vectors))["memory_vectors"]
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    assert (await stored(target_url, **vectors))["memory_vectors"] == []
    for embedder, count in ((narrow, len(before)), (wide, 2)):
        there = PgVectorMemoryService(target, embedder=embedder)
        if embedder is narrow:
            assert await there.embed_pending() == 2
        else:
            await Models(target).reembed(wide)
            assert await Models(target).drop("toy") == len(before)
        rows = (await stored(target_url, **vectors))["memory_vectors"]
        assert len(rows) == count
        if embedder is narrow:
            assert rows == before
        hits = await there.search(**ANA, query="is my kitten a feline?")
        assert len(hits) == 2
        assert all("The kitten sleeps." in str(hit.reason.passage) for hit in hits)


async def test_a_person_alone(
    database: Database,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    lines = await exported(database, tmp_path / "ana.jsonl", **ANA)
    assert {line["user_id"] for line in lines[:-1]} == {"ana"}
    await imported(target, tmp_path / "ana.jsonl")
    rows = await stored(target_url)
    assert {row["user_id"] for row in rows["memories"]} == {"ana"}
    assert (len(rows["sessions"]), len(rows["user_states"]), len(rows["app_states"])) == (2, 1, 0)


async def test_a_session_alone_with_what_was_drawn_from_it(
    database: Database, memory: PgVectorMemoryService, tmp_path: Path
) -> None:
    await _fill(database, memory)
    lines = await exported(database, tmp_path / "s1.jsonl", **ANA, session_id="s1")
    kinds = [line["kind"] for line in lines if line["type"] == "memory"]
    assert sorted(kinds) == ["fact", "turn", "turn"]
    assert [line["session_id"] for line in lines if line["type"] == "session"] == ["s1"]


async def test_several_exports_in_one_file_and_the_later_one_wins(
    database: Database,
    database_url: str,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    path = tmp_path / "both.jsonl"
    await exported(database, path, app_name="app")
    sessions = DatabaseSessionService(database)
    session = await sessions.get_session(**ANA, session_id="s1")
    assert session is not None
    await sessions.append_event(session, said("More.", id="e4", state={"a": 2, "user:lang": "en"}))
    await memory.add_session_to_memory(session)
    await memory.delete_memory(**ANA, memory_id="note")
    await exported(database, path, **ANA)
    await exported(database, path, **BEN)
    report = await import_from(target, source=path)
    assert report.unread.first == []
    there, here = await stored(target_url), await stored(database_url)
    # A note leaves no mark: what was deleted without one is still in the first export.
    there["memories"] = [row for row in there["memories"] if row["memory_id"] != "note"]
    for name in ("sessions", "events", "user_states", "memories", "memory_tombstones"):
        assert there[name] == here[name]


async def test_what_was_deleted_does_not_return(
    database: Database, memory: PgVectorMemoryService, target: Database, tmp_path: Path
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    session = await DatabaseSessionService(target).get_session(**ANA, session_id="s1")
    assert session is not None
    theirs = PgVectorMemoryService(target, mode="text")
    await theirs.add_session_to_memory(session)
    events = {each.event_id for each in (await theirs.list_memories(**ANA)).items}
    assert "e3" not in events
    assert "e1" in events


async def test_an_imported_session_goes_on(
    database: Database, memory: PgVectorMemoryService, target: Database, tmp_path: Path
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    sessions = DatabaseSessionService(target)
    session = await sessions.get_session(**ANA, session_id="s1")
    assert session is not None
    await sessions.append_event(session, said("Going on.", state={"a": 3}))
    report = await imported(target, tmp_path / "app.jsonl")
    assert (report.unchanged, report.events_written) == (4, 0)
    again = await sessions.get_session(**ANA, session_id="s1")
    assert again is not None
    assert again.state["a"] == 3
    assert len(again.events) == 4


async def test_a_session_that_went_on_at_both_ends_goes_on_after_its_import(
    database: Database,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    """Imported events have no token, so the one of the target's last event is not the session's."""
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    there, here = DatabaseSessionService(target), DatabaseSessionService(database)
    for service, ids in ((there, ["e4"]), (here, ["e4", "e5"])):
        session = await service.get_session(**ANA, session_id="s1")
        assert session is not None
        for event_id in ids:
            event = said("More.", id=event_id, timestamp=30)
            event.invocation_id = "i"
            await service.append_event(session, event)
    await exported(database, tmp_path / "later.jsonl", **ANA, session_id="s1")
    report = await imported(target, tmp_path / "later.jsonl")
    assert (report.extended, report.events_written) == (1, 1)
    stale, fresh = [await there.get_session(**ANA, session_id="s1") for _ in range(2)]
    assert stale is not None
    assert fresh is not None
    rows = (await stored(target_url, ("sessions",), without={}))["sessions"]
    tokens = [row["revision_token"] for row in rows if row["user_id"] == "ana"]
    assert tokens == [None, None], "the token of e4 is not that of e5"
    await there.append_event(fresh, said("Going on."))
    with pytest.raises(StaleSession):
        await there.append_event(stale, said("Too late."))


async def test_another_session_of_its_id_is_left_alone(
    database: Database, memory: PgVectorMemoryService, target: Database, tmp_path: Path
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    sessions = DatabaseSessionService(target)
    session = await sessions.create_session(**ANA, session_id="s1", state={"mine": 1})
    await sessions.append_event(session, said("Something else.", id="mine"))
    report = await import_from(target, source=tmp_path / "app.jsonl")
    assert not report.complete
    assert any("event number 1 is 'mine'" in sentence for sentence in report.differing.first)
    assert (report.created, report.unread.count) == (3, 0)
    kept = await sessions.get_session(**ANA, session_id="s1")
    assert kept is not None
    assert [event.id for event in kept.events] == ["mine"]


async def test_a_dry_run_writes_nothing(
    database: Database,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    before = await stored(target_url)
    report = await imported(target, tmp_path / "app.jsonl", dry_run=True)
    assert await stored(target_url) == before
    assert (report.created, report.events_written) == (4, 4)


async def test_only_a_part_of_a_file(
    database: Database,
    memory: PgVectorMemoryService,
    target: Database,
    target_url: str,
    tmp_path: Path,
) -> None:
    await _fill(database, memory)
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl", app_name="app", user_id="ben")
    rows = await stored(target_url)
    assert {row["user_id"] for row in rows["sessions"]} == {"ben"}
    report = await imported(target, tmp_path / "app.jsonl", app_name="another")
    assert (report.sessions, report.states, report.memories) == (0, 0, 0)


async def test_bad_lines_cost_no_others(
    database: Database, memory: PgVectorMemoryService, target: Database, tmp_path: Path
) -> None:
    await _fill(database, memory)
    path = tmp_path / "app.jsonl"
    lines = await exported(database, path, app_name="app")
    text = path.read_text().splitlines()
    of = {line["type"]: number for number, line in enumerate(lines)}
    cut = json.loads(text[of["session"]])
    text[of["event"]] = text[of["event"]][:50]
    text.insert(of["event"], json.dumps({**cut, "type": "event", "event": {"id": 5}}))
    text.insert(of["event"], '{"type":"from the future"}')
    text.insert(of["event"], "[1]")
    path.write_text("\n".join(text[:-1]))
    report = await import_from(target, source=path)
    assert report.unread.count == 4
    assert report.sessions == 4
    assert any("from the future" in note for note in report.notes)
    assert "it was cut while it was written" in report.unread.first[-1]


async def test_a_file_that_lost_lines_is_not_complete(
    database: Database, memory: PgVectorMemoryService, target: Database, tmp_path: Path
) -> None:
    await _fill(database, memory)
    path = tmp_path / "app.jsonl"
    await exported(database, path, app_name="app")
    text = path.read_text().splitlines()
    for lost, words in (
        ('"type":"event"', "1 lines of type 'event' are missing"),
        ('"type":"session"', "1 lines of type 'session' are missing"),
        ('"type":"end"', "without its last line"),
    ):
        number = next(n for n, line in enumerate(text) if lost in line)
        path.write_text("\n".join(text[:number] + text[number + 1 :]))
        report = await import_from(target, source=path)
        assert not report.complete
        assert words in report.unread.first[-1]
    path.write_text("\n".join(text))
    assert (await imported(target, path)).complete


async def test_a_pipe_cannot_be_read_twice(target: Database, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="is a pipe"):
        await import_from(target, source=tmp_path / "pipe")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "{}",
        '{"type":"export","format":"adkpg","version":2}',
        '{"type":"session"}',
        "\x00\xff",
    ],
)
async def test_what_is_no_export_is_refused(target: Database, tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput):
        await import_from(target, source=path)


async def test_a_session_needs_its_user(database: Database) -> None:
    with pytest.raises(InvalidInput, match="give the user's id, too"):
        async for _ in export(database, app_name="app", session_id="s"):
            pass


def test_every_table_moves_or_derives() -> None:
    """Whoever adds a table says here how it is exported, or why it is not."""
    derived = {
        "embedding_models",  # named in the app's settings
        "memory_vectors",
        "memory_jobs",
        "approximate_scopes",
        "invocation_waiters",  # of what runs now, in this database alone
        "invocation_results",
        "artifact_uploads",  # that are not saved yet
        "artifact_removals",  # of this database's object store
        "artifact_claims",
        "audit",  # what was done in this database
    }
    assert {table.name for table in metadata.sorted_tables} == {*MOVED, *derived}


async def test_a_pruned_session_keeps_its_numbers(
    database: Database,
    connection: asyncpg.Connection,
    target: Database,
    target_url: str,
    database_url: str,
    tmp_path: Path,
) -> None:
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(**ANA, session_id="s")
    for number in range(5):
        await sessions.append_event(session, said(str(number), id=f"e{number}"))
    await connection.execute("DELETE FROM events WHERE seq <= 2")
    await connection.execute(  # which counts what was ever appended, while a copy never was
        "UPDATE sessions SET payload_bytes = (SELECT sum(octet_length(payload::text)) FROM events)"
    )
    await exported(database, tmp_path / "app.jsonl", app_name="app")
    await imported(target, tmp_path / "app.jsonl")
    there, here = await stored(target_url), await stored(database_url)
    assert there["events"] == here["events"]
    assert [row["revision"] for row in there["sessions"]] == [5]
    back = await imported(database, tmp_path / "app.jsonl")
    assert (back.unchanged, back.events_written) == (1, 0)


async def test_the_export_that_the_page_shows_is_imported_and_exported_again(
    target: Database, tmp_path: Path
) -> None:
    (shown,) = blocks(CHECKOUT / "docs" / "export-format.md", "json")
    (tmp_path / "shown.jsonl").write_text(shown.text, encoding="utf-8")
    report = await imported(target, tmp_path / "shown.jsonl")
    assert report.unread.first == []
    session = await DatabaseSessionService(target).get_session(
        app_name="travel", user_id="ana", session_id="s1"
    )
    assert session is not None
    assert session.state == {"trip": "Graz", "user:language": "en", "app:season": "spring"}
    assert texts(session) == ["By train, please."]
    again = await exported(target, tmp_path / "again.jsonl", app_name="travel")
    keys = {line["type"]: set(line) for line in again}
    for line in map(json.loads, shown.text.splitlines()):
        assert set(line) <= keys[line["type"]], "fields that an export has"


@pytest.mark.parametrize(
    "scope", [{"app_name": "app"}, ANA, {**ANA, "session_id": "s1"}], ids=["app", "user", "session"]
)
async def test_pages_of_one_row_say_what_large_ones_say(
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    scope: dict[str, Any],
) -> None:
    await _fill(database, memory)
    # A user's id may be empty, or the one that comes next after another.
    for user_id in ("", "ana\x01", "ana\x01\x01"):
        await connection.execute(
            "INSERT INTO user_states (app_name, user_id, state) VALUES ('app', $1, '{}')", user_id
        )
    _, *whole = [line async for line in export(database, **scope)]  # the header says when
    for size in ("_PAGE", "_EVENTS"):
        monkeypatch.setattr(stored_pages, size, 1)
    assert [line async for line in export(database, **scope)][1:] == whole
    if scope == {"app_name": "app"}:
        lines = map(json.loads, whole)
        users = [line["user_id"] for line in lines if line["type"] == "user_state"]
        assert users == ["", "ana", "ana\x01", "ana\x01\x01"]
