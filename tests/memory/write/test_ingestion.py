"""What is remembered of sessions, events and entries, row by row."""

from typing import Any

import asyncpg
import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.documents.statements import select_pieces
from adkpg.errors import InvalidInput
from adkpg.memory.records import plain_content
from tests.fakes.conversation import (
    USER,
    conversation,
    entry,
    found,
    remember_apart,
    said,
    session_of,
    text_of,
)
from tests.fakes.toys import ToyEmbedder

TABLES = ("memories", "memory_lexemes", "memory_vectors", "memory_jobs")


async def contents(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Every row with its place on disk and the transaction that wrote it."""
    return {
        table: [
            row[0]
            for row in await connection.fetch(
                f"SELECT (ctid, xmin, {table})::text FROM {table} ORDER BY ctid"
            )
        ]
        for table in TABLES
    }


async def test_adding_again_touches_no_row(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    session = conversation("the kitten sleeps", "oolong\x00", "a new automobile")
    kept = entry("a hound", "m", timestamp="2026-01-31T12:00:00Z")
    await memory.add_session_to_memory(session)
    await memory.add_memory(**USER, memories=[kept])
    before = await contents(connection)
    assert len(before["memory_vectors"]) == 4
    for _ in range(20):
        await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(**USER, events=session.events, session_id="s")
        await memory.add_memory(**USER, memories=[kept])
    assert await contents(connection) == before
    assert sum(map(len, embedder.documents)) == 4


async def test_one_changed_event_rewrites_one_memory(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    await memory.add_session_to_memory(session_of(said("one", "a"), said("two", "b")))
    before = await connection.fetch("SELECT event_id, memory_id FROM memories ORDER BY event_id")
    await memory.add_session_to_memory(session_of(said("one", "a"), said("three", "b")))
    after = await connection.fetch("SELECT event_id, memory_id FROM memories ORDER BY event_id")
    assert after == before
    # The timestamps of a new event object differ, so both were given anew.
    assert embedder.documents[1:] == [["user: one", "user: three"]]


async def test_memories_that_move_keep_their_words_and_vectors(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    first, between, last = said("kitten", "a"), said("said in between", "b"), said("hound", "c")
    await memory.add_session_to_memory(session_of(first, last))
    await memory.add_session_to_memory(session_of(first, between, last))
    rows = await connection.fetch("SELECT event_id FROM memories ORDER BY position")
    assert [row["event_id"] for row in rows] == ["a", "b", "c"]
    assert embedder.documents == [["user: kitten", "user: hound"], ["user: said in between"]]
    assert await found(memory, "feline") == ["kitten"]
    assert await found(memory, "hound", mode="text") == [
        "hound",
        "said in between",
        "kitten",
    ]


async def test_memories_outlive_their_sessions(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("the kitten sleeps"))
    await memory.add_session_to_memory(session)
    await sessions.delete_session(**USER, session_id="s")
    (hit,) = await memory.search(**USER, query="feline")
    assert text_of(hit.memory) == "the kitten sleeps"
    assert hit.memory.custom_metadata == {"session_id": "s"}


@pytest.mark.parametrize("window", [0, 1, 2])
async def test_a_window_of_a_session_erases_nothing(
    memory: PgVectorMemoryService,
    sessions: DatabaseSessionService,
    connection: asyncpg.Connection,
    window: int,
) -> None:
    session = await sessions.create_session(**USER, session_id="s")
    for number in range(4):
        await sessions.append_event(session, said(f"oolong {number}", f"e{number}"))
    await memory.add_session_to_memory(session)
    before = await contents(connection)
    windowed = await sessions.get_session(
        **USER, session_id="s", config=GetSessionConfig(num_recent_events=window)
    )
    assert windowed is not None
    assert len(windowed.events) == window
    await memory.add_session_to_memory(windowed)
    assert await contents(connection) == before

    await sessions.append_event(windowed, said("oolong 4", "e4"))
    await memory.add_session_to_memory(windowed)
    rows = await connection.fetch("SELECT event_id FROM memories ORDER BY position")
    assert [row["event_id"] for row in rows] == ["e0", "e1", "e2", "e3", "e4"]


async def test_an_event_that_the_session_lost_is_forgotten(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(**USER, session_id="s")
    await sessions.append_event(session, said("oolong"))
    session.events.append(said("sencha, never appended"))
    await memory.add_session_to_memory(session)
    assert len(await found(memory, "oolong sencha")) == 2
    session.events.pop()
    await memory.add_session_to_memory(session)
    assert await found(memory, "oolong sencha") == ["oolong"]


async def test_a_window_of_another_users_session_is_not_taken_for_ones_own(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(app_name="app", user_id="other", session_id="s")
    await sessions.append_event(session, said("oolong", "e"))
    await memory.add_session_to_memory(session_of(said("oolong", "e")))
    await memory.add_session_to_memory(session_of())
    assert await found(memory, "oolong") == []


async def test_an_entry_replaces_the_one_of_its_id(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[entry("oolong", "m", custom_metadata={"a": 1})])
    await memory.add_memory(**USER, memories=[entry("kitten", "m", author="alice")])
    assert await found(memory, "oolong") == []
    (hit,) = await memory.search(**USER, query="feline")
    assert (hit.memory.id, hit.memory.author) == ("m", "alice")
    assert hit.memory.custom_metadata == {}
    assert await connection.fetchval("SELECT count(*) FROM memory_vectors") == 1


async def test_an_entry_that_replaces_an_event_stays_in_its_place(
    memory: PgVectorMemoryService,
) -> None:
    session = conversation("oolong", "noted")
    await memory.add_session_to_memory(session)
    (hit, _) = await memory.search(**USER, query="oolong")
    await memory.add_memory(**USER, memories=[entry("sencha", hit.memory.id)])
    assert await found(memory, "sencha") == ["sencha", "noted"]
    assert (await memory.search(**USER, query="sencha"))[0].memory.custom_metadata == {
        "session_id": "s"
    }
    # The session is the later version of it.
    await memory.add_session_to_memory(session)
    assert await found(memory, "oolong sencha") == ["oolong", "noted"]


async def test_one_id_is_anothers_in_another_scope(memory: PgVectorMemoryService) -> None:
    scopes: list[dict[str, Any]] = [
        USER,
        {"app_name": "app", "user_id": "other"},
        {"app_name": "other", "user_id": "user"},
        {"app_name": "app", "user_id": ""},
    ]
    for number, scope in enumerate(scopes):
        await memory.add_memory(**scope, memories=[entry(f"oolong {number}", "m")])
    await memory.delete_memory(**scopes[0], memory_id="m")
    for number, scope in enumerate(scopes):
        expected = [] if number == 0 else [f"oolong {number}"]
        assert await found(memory, "oolong", **scope) == expected


async def test_what_a_search_returned_can_be_added_again(memory: PgVectorMemoryService) -> None:
    given = entry(
        "oolong", "m", author="alice", timestamp="2026-01-31T12:00:00+00:00",
        custom_metadata={"topic": "tea", "n": [1, {"x": None}]},
    )  # fmt: skip
    await memory.add_memory(**USER, memories=[given], custom_metadata={"source": "import"})
    response = await memory.search_memory(**USER, query="oolong")
    (returned,) = response.memories
    assert returned == given.model_copy(
        update={"custom_metadata": {"source": "import", **given.custom_metadata}}
    )
    await memory.add_memory(**USER, memories=[returned])
    assert await memory.search_memory(**USER, query="oolong") == response


async def test_a_content_that_author_and_body_tell_is_stored_once(
    memory: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    texts = [
        "tea",
        'a "cup"\\ of\ttea\r\nnow',
        "\x01 \x1f \x7f \u2028 \ufeff \u8336 \U0001f375",
        "a: b",
    ]
    kept = types.Content(role="model", parts=[types.Part(text="by a model")])
    roles = {"user": "user", "guide": "model", None: None}
    said_by = [
        MemoryEntry(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]))
        for author, role in roles.items()
        for text in texts
    ]
    await memory.add_memory(**USER, memories=[*said_by, MemoryEntry(author="user", content=kept)])
    stored = await connection.fetch("SELECT content FROM memories WHERE content IS NOT NULL")
    assert [types.Content.model_validate_json(row["content"]) for row in stored] == [kept]
    await connection.execute("UPDATE memories SET kind = 'document', source = 'tea.md'")
    pieces = await database.run.fetch(select_pieces(**USER, source="tea.md"))
    contents = {row["memory_id"]: row["content"] for row in pieces}
    rows = await connection.fetch(
        "SELECT memory_id, author, body FROM memories WHERE content IS NULL"
    )
    await connection.execute("UPDATE memories SET kind = 'note', source = NULL")
    assert len(rows) == len(said_by)
    for row in rows:
        assert contents[row["memory_id"]] == plain_content(row["author"], row["body"])
    hits = await memory.search(**USER, query="tea", top_k=20)
    assert {hit.memory.content.model_dump_json() for hit in hits} <= {
        entry.content.model_dump_json() for entry in said_by
    }
    assert len(hits) >= 3


async def test_metadata_of_events_is_returned_with_their_session(
    memory: PgVectorMemoryService,
) -> None:
    await memory.add_events_to_memory(
        **USER, events=[said("oolong")], session_id="s", custom_metadata={"topic": "tea"}
    )
    (hit,) = await memory.search(**USER, query="oolong")
    assert hit.memory.custom_metadata == {"session_id": "s", "topic": "tea"}


async def test_readding_a_session_keeps_the_metadata_of_its_events(
    memory: PgVectorMemoryService,
) -> None:
    """A session brings no metadata of its own, so it has none to say it was taken away."""
    session = conversation("the kitten sleeps")
    await memory.add_events_to_memory(
        **USER, events=session.events, session_id=session.id, custom_metadata={"topic": "pets"}
    )
    await memory.add_session_to_memory(session)
    (hit,) = await memory.search(**USER, query="kitten")
    assert hit.memory.custom_metadata == {"session_id": session.id, "topic": "pets"}


async def test_entries_without_ids_are_all_kept(memory: PgVectorMemoryService) -> None:
    await remember_apart(memory, "oolong", "oolong", "oolong")
    assert await memory.count_memories(**USER) == 3
    (hit,) = await memory.search(**USER, query="oolong")
    assert len({hit.memory.id, *hit.folded}) == 3


async def test_no_entries_are_no_error(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await memory.add_memory(**USER, memories=[])
    assert await connection.fetchval("SELECT count(*) FROM memories") == 0


@pytest.mark.parametrize("bad", ["nul\x00", "surrogate\ud800"])
async def test_what_cannot_be_stored_is_refused_whole(
    memory: PgVectorMemoryService, connection: asyncpg.Connection, bad: str
) -> None:
    good = said("oolong")
    for call in (
        memory.add_session_to_memory(session_of(good, said("x", bad))),
        memory.add_session_to_memory(session_of(good, session_id=bad)),
        memory.add_session_to_memory(session_of(good, user_id=bad)),
        memory.add_events_to_memory(app_name=bad, user_id="user", events=[good]),
        memory.add_memory(**USER, memories=[entry("good"), entry("x", bad)]),
        memory.add_memory(app_name="app", user_id=bad, memories=[entry("good")]),
    ):
        with pytest.raises(InvalidInput):
            await call
    assert await connection.fetchval("SELECT count(*) FROM memories") == 0
    assert await found(memory, "oolong", user_id=bad) == []
    assert await found(memory, "oolong", app_name=bad) == []
