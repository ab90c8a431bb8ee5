"""What an append remembers: with its event or not at all, once, in order, in the policy's words."""

from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.database.runner import Runner
from adkpg.errors import EventConflict, InvalidInput, SessionNotFound, StaleSession
from adkpg.remember.policy import RememberPolicy
from adkpg.sessions import statements
from tests.fakes.conversation import USER, bodies, calls_a_tool, found, said, text_of, whole
from tests.fakes.proxy import Proxy
from tests.fakes.queries import statement_of

TABLES = ("memories", "memory_lexemes", "memory_vectors", "memory_jobs", "memory_tombstones")
SECRET = "swordfish"


async def test_event_and_memory_are_written_by_one_transaction(
    outbox: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    await outbox.append_event(session, said("my kitten sleeps", "e1", timestamp=1_000.5))
    row = await connection.fetchrow(
        "SELECT m.*, m.xmin::text = e.xmin::text AS at_once, e.timestamp AS said"
        " FROM memories m JOIN events e USING (app_name, user_id, session_id, event_id)"
    )
    assert row is not None
    assert row["at_once"]
    assert row["timestamp"] == row["said"]
    assert (row["kind"], row["author"], row["body"]) == ("turn", "user", "user: my kitten sleeps")
    assert (row["importance"], row["topics"], row["expires_at"]) == (0.5, "[]", None)
    lexemes = await connection.fetch("SELECT lexeme FROM memory_lexemes")
    assert {each["lexeme"] for each in lexemes} == {"kitten", "sleep"}
    assert [each["work"] for each in await connection.fetch("SELECT work FROM memory_jobs")] == [
        "embed"
    ]


@pytest.mark.prepared
async def test_an_append_that_remembers_is_one_flight(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url, remember=True) as service:
        session = await service.create_session(**USER)
        counted = []
        for number in range(10):  # past the fifth, when Postgres may change to a generic plan
            before = proxy.round_trips
            await service.append_event(session, said(f"turn {number}"))
            counted.append(proxy.round_trips - before)
    assert counted[1:] == [1] * 9


async def test_an_append_that_remembers_nothing_is_a_plain_one(
    database_url: str,
) -> None:
    """Of an event that is not remembered, nothing is sent beside the event."""
    sent: list[list[object]] = []

    class Watched(Runner):
        async def fetch(self, query: Any, **options: Any) -> Any:
            sent.append(query.statement.arguments(query.parameters))
            return await super().fetch(query, **options)

    async with Database(database_url) as database:
        database.run = Watched(database.connections, database.installation)
        service = DatabaseSessionService(database, remember=True)
        session = await service.create_session(**USER)
        await service.append_event(session, calls_a_tool(SECRET))
        await service.append_event(session, said("remembered"))
    names = statement_of(statements.append_event).names
    given = [dict(zip(names, each, strict=False)) for each in sent]
    assert [given[1][name] for name in ("place", "memories", "config")] == [None] * 3
    assert None not in [given[2][name] for name in ("place", "memories", "config")]


async def test_nothing_is_remembered_of_what_is_refused(
    outbox: DatabaseSessionService, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    stale = await whole(outbox)
    first = said("first", "e1")
    await outbox.append_event(session, first)
    with pytest.raises(StaleSession):
        await outbox.append_event(stale, said("late", "e2"))
    with pytest.raises(EventConflict):
        await outbox.append_event(session, said("another", "e1"))
    with pytest.raises(InvalidInput):
        await outbox.append_event(session, said("nul", "e\x00"))
    await outbox.append_event(session, first.model_copy(deep=True))  # delivered again
    partial = said("part", "e3")
    partial.partial = True
    await outbox.append_event(session, partial)
    assert await bodies(connection) == ["user: first"]
    await sessions.delete_session(**USER, session_id="s")
    with pytest.raises(SessionNotFound):
        await outbox.append_event(session, said("gone", "e4"))
    assert await bodies(connection) == ["user: first"]
    position = await connection.fetchval("SELECT count(*) FROM memory_jobs")
    assert position == 1


async def everything(connection: asyncpg.Connection) -> str:
    """All that memory's tables hold, as text."""
    rows = [
        row[0]
        for table in TABLES
        for row in await connection.fetch(f"SELECT {table}::text FROM {table}")
    ]
    return "\n".join(rows)


async def test_the_policys_words_are_all_that_memory_holds(
    database: Database, connection: asyncpg.Connection
) -> None:
    policy = RememberPolicy(
        redact=lambda text: None if "secret" in text else text.replace(SECRET, "[word]")
    )
    service = DatabaseSessionService(database, remember=policy)
    session = await service.create_session(**USER, session_id="s", state={"temp:x": SECRET})
    await service.append_event(session, said(f"the password is {SECRET}", "e1"))
    await service.append_event(session, said(f"secret: {SECRET}", "e2"))
    state = EventActions(state_delta={"temp:word": SECRET, "word": SECRET, "user:word": SECRET})
    await service.append_event(session, said("keep it", "e3", actions=state))
    await service.append_event(session, calls_a_tool(SECRET))
    thought = types.Part(text=f"{SECRET} it is", thought=True)
    content = types.Content(role="model", parts=[thought, types.Part(text="understood")])
    await service.append_event(session, Event(author="agent", content=content))
    assert await bodies(connection) == [
        "user: the password is [word]",
        "user: keep it",
        "agent: understood",
    ]
    assert SECRET not in await everything(connection)
    positions = await connection.fetch("SELECT position FROM memories ORDER BY position")
    assert positions[2]["position"] - positions[0]["position"] == 2

    memory = PgVectorMemoryService(database, mode="text")
    assert await found(memory, SECRET) == []
    for _ in range(3):
        stored = await whole(service)
        await memory.add_session_to_memory(stored)
        await memory.add_events_to_memory(**USER, events=stored.events, session_id="s")
    assert SECRET not in await everything(connection)
    assert len(await bodies(connection)) == 3


async def test_a_policy_holds_where_no_append_remembers(
    database_url: str, connection: asyncpg.Connection
) -> None:
    policy = RememberPolicy(authors=["user"], redact=lambda text: text[::-1])
    async with Database(database_url, remember=policy) as database:
        sessions = DatabaseSessionService(database, remember=False)
        session = await sessions.create_session(**USER, session_id="s")
        await sessions.append_event(session, said(SECRET, "e1"))
        await sessions.append_event(session, said("said by an agent", "e2", author="agent"))
        assert await bodies(connection) == []
        memory = PgVectorMemoryService(database, mode="text")
        await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(**USER, events=[said("abc", "e3")], session_id="s")
        assert await bodies(connection) == [f"user: {SECRET[::-1]}", "user: cba"]
    plain = PgVectorMemoryService(database_url, mode="text")
    async with plain:
        await plain.add_events_to_memory(**USER, events=[said("abc", "e4")], session_id="s")
    assert (await bodies(connection))[-1] == "user: abc"


async def test_turns_of_one_session_are_neighbours_and_those_of_two_are_not(
    outbox: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    one, two = [await outbox.create_session(**USER, session_id=name) for name in ("one", "two")]
    for session in (one, two, one, two, one, two):
        number = len(session.events)
        text = "kitten" if number == 1 else f"{session.id} {number}"
        await outbox.append_event(session, said(text))
    await memory.flush()
    hits = await memory.search(**USER, query="feline", neighbours=3, mode="vector", top_k=2)
    (hit,) = hits  # the same was said in both sessions
    name = hit.memory.session_id
    assert [text_of(each) for each in hit.neighbours] == [f"{name} 0", f"{name} 2"]


async def test_words_are_found_at_once_and_meanings_after_a_flush(
    outbox: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    await outbox.append_event(session, said("my kitten sleeps"))
    assert await found(memory, "kitten") == ["my kitten sleeps"]
    assert await found(memory, "feline") == []
    await memory.flush(timeout_s=30)
    assert await found(memory, "feline") == ["my kitten sleeps"]


async def test_the_session_added_again_changes_nothing(
    outbox: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    for number in range(5):
        await outbox.append_event(session, said(f"oolong {number}", timestamp=number + 0.123456789))
    await memory.flush()
    before = await everything(connection)
    for _ in range(20):
        await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(**USER, events=session.events, session_id="s")
    assert await everything(connection) == before
    await outbox.append_event(session, said("the next"))
    assert (await bodies(connection))[-1] == "user: the next"


@pytest.mark.parametrize("window", [0, 1, 3])
async def test_a_window_of_a_session_loses_nothing(
    outbox: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    window: int,
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    for number in range(5):
        await outbox.append_event(session, said(f"turn {number}"))
    config = GetSessionConfig(num_recent_events=window)
    windowed = await outbox.get_session(**USER, session_id="s", config=config)
    assert windowed is not None
    for number in (5, 6):
        await outbox.append_event(windowed, said(f"turn {number}"))
        await memory.add_session_to_memory(windowed)
    assert await bodies(connection) == [f"user: turn {number}" for number in range(7)]


async def test_a_session_deleted_and_created_again_is_another_one(
    outbox: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    for life in ("first", "second", "third"):
        session = await outbox.create_session(**USER, session_id="s")
        for number in range(3):
            await outbox.append_event(session, said(f"{life} {number}", f"{life}{number}"))
        await outbox.delete_session(**USER, session_id="s")
    assert len(await bodies(connection)) == 9
    hits = await memory.search(**USER, query="second", neighbours=3, mode="text", top_k=9)
    around = {text_of(each).split()[0] for hit in hits for each in hit.neighbours}
    assert around == {"second"}
    session = await outbox.create_session(**USER, session_id="s")
    await outbox.append_event(session, said("last", "last"))
    await memory.add_session_to_memory(session)
    assert await bodies(connection) == ["user: last"]


async def test_a_deleted_memory_does_not_come_back_with_its_event(
    outbox: DatabaseSessionService,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    await outbox.append_event(session, said("first", "e1"))
    await outbox.append_event(session, said(SECRET, "e2"))
    (row,) = await connection.fetch("SELECT memory_id FROM memories WHERE event_id = 'e2'")
    await memory.delete_memory(**USER, memory_id=row["memory_id"])
    await memory.add_session_to_memory(session)
    await outbox.delete_session(**USER, session_id="s")
    again = await outbox.create_session(**USER, session_id="s")
    for text, event_id in (("first", "e1"), (SECRET, "e2"), ("third", "e3")):
        await outbox.append_event(again, said(text, event_id))
    assert sorted(await bodies(connection)) == ["user: first", "user: third"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("oolong " * 3_000, "oolong " * 3_000),
        ("a\x00b", "a b"),
        ("\ud800 lone \udfff", "\ufffd lone \ufffd"),
        ("'; DROP TABLE memories; --", "'; DROP TABLE memories; --"),
        ("x" * 300_000, "x" * 100_000),
        ("漢字" * 10_000, "漢字" * 10_000),
    ],
    ids=["long", "nul", "surrogates", "sql", "longest", "han"],
)
async def test_any_text_is_remembered(
    outbox: DatabaseSessionService, connection: asyncpg.Connection, text: str, body: str
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    event = said(text)
    await outbox.append_event(session, event)
    assert await bodies(connection) == [f"user: {body}".strip()]
    stored = await whole(outbox)
    assert stored.events == [event]


async def test_a_script_is_that_of_what_was_said_and_not_of_who_said_it(
    outbox: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    """A short Russian turn of an agent with a long Latin name was stemmed as English."""
    session = await outbox.create_session(**USER, session_id="s")
    await outbox.append_event(session, said("Коты спят", author="assistant_agent_number_one"))
    assert await found(memory, "кота", mode="text") == ["Коты спят"]
    await outbox.append_event(session, said("the cats slept", author="Владимир Владимирович"))
    assert "the cats slept" in await found(memory, "sleeping cat", mode="text")
    (hit,) = await memory.search(**USER, query="Коты", mode="text", top_k=1)
    await memory.update_memory(**USER, memory_id=str(hit.memory.id), text="Собаки спят")
    assert (await found(memory, "собака", mode="text"))[0] == "Собаки спят"


async def test_artifacts_are_remembered_without_a_text(
    outbox: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    session = await outbox.create_session(**USER, session_id="s")
    saved = EventActions(artifact_delta={"quarterly-report.pdf": 3, "nul\x00.png": 0})
    await outbox.append_event(session, Event(author="agent", actions=saved))
    await outbox.append_event(session, Event(author="agent"))
    (hit,) = await memory.search(**USER, query="where is the quarterly report?")
    assert hit.memory.artifacts == {"quarterly-report.pdf": 3, "nul .png": 0}
    assert hit.memory.kind == "turn"


async def test_users_of_any_name_are_remembered_apart(
    outbox: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    users = ["", "a", "A", "'; --", "用户", "x" * 500]
    for user in users:
        session = await outbox.create_session(app_name="app", user_id=user)
        await outbox.append_event(session, said(f"kitten of {user!r}"))
    for user in users:
        assert await found(memory, "kitten", user_id=user) == [f"kitten of {user!r}"]
