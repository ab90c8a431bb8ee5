"""A session's life: it expires, is copied, searched, and goes; states without a session."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

import adkpg
from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.erasure import PrunedSessions, Tidied, prune_sessions, tidy
from adkpg.erasure.retention_statements import select_over
from adkpg.errors import InvalidInput, SessionExists, SessionNotFound
from adkpg.rules import BY_TABLE
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.life import earlier
from tests.fakes.locks import locked

OF_APP: dict[str, Any] = {"app_name": "a", "user_id": adkpg.Users.ALL}
SECOND = datetime.now(UTC) + timedelta(days=1)
LATER = f"UPDATE sessions SET {earlier('expires_at', '{}')}"
OLDER = f"UPDATE sessions SET {earlier('created_at', '{0}')}, {earlier('updated_at', '{0}')}"


async def expires_at(connection: asyncpg.Connection, session_id: str) -> Any:
    return await connection.fetchval(
        "SELECT expires_at FROM sessions WHERE session_id = $1", session_id
    )


# Expiry


async def test_an_append_renews_a_ttl(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await sessions.create_session(**USER, session_id="s", ttl="7200s")
    first = await expires_at(connection, "s")
    assert timedelta(seconds=7_100) < first - datetime.now(UTC) <= timedelta(seconds=7_201)
    await connection.execute(LATER.format("1 hour"))
    await sessions.append_event(session, said("x", timestamp=1.0))
    assert await expires_at(connection, "s") >= first


async def test_an_append_leaves_an_expire_time(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await sessions.create_session(
        **USER, session_id="s", expire_time=SECOND.isoformat().replace("+00:00", "Z")
    )
    await sessions.append_event(session, said("x"))
    assert await expires_at(connection, "s") == SECOND
    plain = await sessions.create_session(**USER, session_id="t")
    await sessions.append_event(plain, said("x"))
    assert await expires_at(connection, "t") is None


@pytest.mark.parametrize(
    ("ttl", "expire_time"),
    [
        ("7200s", "2100-01-01T00:00:00Z"),
        ("0s", None),
        ("-5s", None),
        (0, None),
        (-1, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("7200", None),
        ("2h", None),
        (timedelta(0), None),
        (4e9, None),
        ({}, None),
        (None, "2020-01-01T00:00:00Z"),
        (None, "tomorrow"),
        (None, True),
        (None, float("nan")),
        (None, float("inf")),
        (None, []),
    ],
)
async def test_what_is_no_end_is_refused(
    sessions: DatabaseSessionService, ttl: Any, expire_time: Any
) -> None:
    with pytest.raises(InvalidInput, match=r"ttl|expire_time"):
        await sessions.create_session(**USER, session_id="s", ttl=ttl, expire_time=expire_time)
    assert await sessions.get_session(**USER, session_id="s") is None


@pytest.mark.parametrize("ttl", ["1.5s", 60, 0.5, timedelta(hours=1), "3155760000s"])
async def test_a_ttl_has_several_spellings(sessions: DatabaseSessionService, ttl: Any) -> None:
    made = await sessions.create_session(**USER, ttl=ttl)
    assert made == await sessions.get_session(**USER, session_id=made.id)


async def test_an_expired_session_is_seen_by_nobody(
    database: Database, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database, shared_events_mb=1)
    session = await sessions.create_session(**USER, session_id="s", ttl=60, state={"a": 1})
    await sessions.append_event(session, said("needle"))
    assert await sessions.get_session(**USER, session_id="s") is not None
    await connection.execute(LATER.format("2 hours"))
    for config in (
        None,
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(num_recent_events=1),
    ):
        assert await sessions.get_session(**USER, session_id="s", config=config) is None
    assert (await sessions.list_sessions(**USER)).sessions == []
    assert (await sessions.list_sessions(app_name="app")).sessions == []
    assert (await sessions.list_sessions_page(**USER)).items == []
    assert (await sessions.list_sessions_page(app_name="app")).items == []
    assert (await sessions.list_events_page(**USER, session_id="s")).items == []
    assert (await sessions.search_events(**USER, query="needle")).items == []
    with pytest.raises(SessionNotFound, match="expired"):
        await sessions.append_event(session, said("late"))
    rebuilt = session.model_validate_json(session.model_dump_json())
    with pytest.raises(SessionNotFound):
        await sessions.append_event(rebuilt, said("late"))
    with pytest.raises(SessionNotFound):
        async with sessions.invocation(**USER, session_id="s", timeout_s=0):
            raise AssertionError
    with pytest.raises(SessionNotFound):
        await sessions.fork_session(**USER, session_id="s")
    assert await connection.fetchval("SELECT count(*) FROM events") == 1


async def test_the_id_of_an_expired_session_is_free(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    old = await sessions.create_session(**USER, session_id="s", ttl=60, state={"a": 1})
    await sessions.append_event(old, said("old"))
    with pytest.raises(SessionExists):
        await sessions.create_session(**USER, session_id="s")
    await connection.execute(LATER.format("2 hours"))
    new = await sessions.create_session(**USER, session_id="s", state={"b": 1})
    assert (new.events, new.state) == ([], {"b": 1})
    with pytest.raises(adkpg.errors.StaleSession):
        await sessions.append_event(old, said("late"))


@pytest.mark.race
async def test_one_of_many_gets_the_id_of_an_expired_session(
    database: Database, connection: asyncpg.Connection
) -> None:
    services = [DatabaseSessionService(database) for _ in range(8)]
    await services[0].create_session(**USER, session_id="s", ttl=60)
    await connection.execute(LATER.format("2 hours"))
    made = await asyncio.gather(
        *(each.create_session(**USER, session_id="s") for each in services), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in made) == ["Session"] + ["SessionExists"] * 7


async def test_a_worker_deletes_expired_sessions(
    database: Database, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database, remember=True)
    for number in range(230):
        session = await sessions.create_session(
            app_name="app",
            user_id=f"u{number % 3}",
            session_id=f"{number}",
            ttl=60 if number % 2 else 86_400,
        )
        if number < 4:
            await sessions.append_event(session, said("remembered"))
    await connection.execute(LATER.format("2 hours"))
    await sessions.create_session(**USER, session_id="plain")
    assert await tidy(database) == Tidied(0, 0, 0, sessions=115)
    assert await tidy(database) == Tidied(0, 0, 0)
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 116
    assert await connection.fetchval("SELECT count(*) FROM events") == 2
    memory = PgVectorMemoryService(database, mode="text")
    assert await memory.count_memories(app_name="app", user_id="u1") == 1  # what was said stays


@pytest.mark.race
async def test_a_session_that_is_appended_to_is_not_swept(
    database: Database, connection: asyncpg.Connection, database_url: str
) -> None:
    sessions = DatabaseSessionService(database)
    await sessions.create_session(**USER, session_id="s", ttl=60)
    await connection.execute(LATER.format("2 hours"))
    writing = await asyncpg.connect(database_url)
    await writing.execute("BEGIN")
    await writing.execute("UPDATE adkpg.sessions SET expires_at = now() + interval '1 hour'")
    assert (await tidy(database)).sessions == 0
    await writing.execute("COMMIT")
    await writing.close()
    assert (await tidy(database)).sessions == 0
    assert await sessions.get_session(**USER, session_id="s") is not None


async def test_the_sweep_keeps_to_its_index(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO sessions (app_name, user_id, session_id, expires, expires_at)"
        " SELECT 'app', 'u' || n, 's', n % 100 = 0, CASE WHEN n % 100 = 0 THEN now() END"
        " FROM generate_series(1, 5000) n; ANALYZE sessions"
    )
    for after in (None, {"app_name": "app", "user_id": "u", "session_id": "s"}):
        statement, parameters = select_over(BY_TABLE["sessions"], limit=100, after=after)
        plan = await connection.fetch(
            f"EXPLAIN {statement.text(database.schema)}", *statement.arguments(parameters)
        )
        assert "sessions_expires_idx" in str(plan)


# Retention


async def aged(sessions: DatabaseSessionService, connection: asyncpg.Connection) -> None:
    """Old sessions of two users and two apps, and a new one with an old event."""
    for app, user, name in (("a", "u", "1"), ("a", "u", "2"), ("a", "v", "1"), ("b", "u", "1")):
        session = await sessions.create_session(
            app_name=app, user_id=user, session_id=name, state={"user:k": 1, "own": name}
        )
        for n in range(2):
            await sessions.append_event(session, said(f"{n}"))
    await connection.execute(OLDER.format("100 days"))
    await connection.execute(f"UPDATE events SET {earlier('timestamp', '100 days')}")
    new = await sessions.create_session(app_name="a", user_id="u", session_id="new")
    await sessions.append_event(new, said("old", timestamp=1.0))
    await sessions.append_event(new, said("new"))


async def test_old_sessions_of_an_app_go_and_states_stay(
    database: Database, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await aged(sessions, connection)
    asked: dict[str, Any] = {**OF_APP, "older_than": timedelta(days=90)}
    expected = [PrunedSessions("a", "u", 2, 4, 0), PrunedSessions("a", "v", 1, 2, 0)]
    assert await prune_sessions(database, **asked, dry_run=True) == expected
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 5
    assert await prune_sessions(database, **asked) == expected
    assert await prune_sessions(database, **asked) == []
    left = await connection.fetch("SELECT app_name, session_id FROM sessions ORDER BY 1, 2")
    assert [tuple(row) for row in left] == [("a", "new"), ("b", "1")]
    assert await sessions.get_user_state(app_name="a", user_id="v") == {"k": 1}
    assert await prune_sessions(
        database, app_name=None, user_id="u", older_than=timedelta(days=90)
    ) == [PrunedSessions("b", "u", 1, 2, 0)]


async def test_states_of_those_without_a_session_go_if_asked(
    database: Database, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await aged(sessions, connection)
    await connection.execute(f"UPDATE user_states SET {earlier('updated_at', '95 days')}")
    asked: dict[str, Any] = {**OF_APP, "older_than": timedelta(days=90)}
    await prune_sessions(database, **asked)
    expected = [PrunedSessions("a", "v", 0, 0, 1)]
    assert await prune_sessions(database, **asked, user_states=True, dry_run=True) == expected
    assert await prune_sessions(database, **asked, user_states=True) == expected
    assert await sessions.get_user_state(app_name="a", user_id="v") == {}
    assert await sessions.get_user_state(app_name="a", user_id="u") == {"k": 1}


async def test_a_state_that_a_writer_holds_is_passed_over_until_the_next_time(
    database: Database,
    database_url: str,
    sessions: DatabaseSessionService,
    connection: asyncpg.Connection,
) -> None:
    for user_id in ("u", "v"):
        await sessions.update_state(app_name="a", user_id=user_id, state_delta={"user:k": 1})
    await connection.execute(f"UPDATE user_states SET {earlier('updated_at', '95 days')}")
    asked: dict[str, Any] = {**OF_APP, "older_than": timedelta(days=90), "user_states": True}
    async with locked(database_url, "SELECT FROM adkpg.user_states WHERE user_id = 'u' FOR UPDATE"):
        assert await prune_sessions(database, **asked) == [PrunedSessions("a", "v", 0, 0, 1)]
    assert await prune_sessions(database, **asked) == [PrunedSessions("a", "u", 0, 0, 1)]


async def test_old_events_go_and_their_sessions_go_on(
    database: Database, connection: asyncpg.Connection
) -> None:
    sessions = DatabaseSessionService(database, shared_events_mb=1)
    await aged(sessions, connection)
    live = await sessions.get_session(app_name="a", user_id="u", session_id="new")
    old = await sessions.get_session(app_name="a", user_id="u", session_id="1")
    assert live is not None
    assert old is not None
    asked: dict[str, Any] = {
        "app_name": "a",
        "user_id": "u",
        "older_than": timedelta(days=90),
        "events_only": True,
    }
    expected = [PrunedSessions("a", "u", 3, 5, 0)]
    assert await prune_sessions(database, **asked, dry_run=True) == expected
    assert await prune_sessions(database, **asked) == expected
    for session, left in ((live, ["new"]), (old, [])):
        await sessions.append_event(session, said("further"))
        again = await sessions.get_session(app_name="a", user_id="u", session_id=session.id)
        assert texts(again) == [*left, "further"]
        assert again is not None
        assert again.state == session.state
        await sessions.append_event(again, said("more"))
    fork = await sessions.fork_session(app_name="a", user_id="u", session_id="1")
    assert texts(fork) == ["further", "more"]
    assert fork.state == {"own": "1", "user:k": 1}
    await sessions.append_event(fork, said("of the fork"))
    assert texts(await sessions.get_session(app_name="a", user_id="u", session_id=fork.id)) == [
        "further",
        "more",
        "of the fork",
    ]


async def test_wrong_rules_are_refused(database: Database) -> None:
    for wrong in (
        {"older_than": timedelta(days=-1)},
        {"events_only": True},
        {"user_states": True},
        {"app_name": "\x00"},
        {"user_id": None},
    ):
        with pytest.raises(InvalidInput):
            await prune_sessions(database, **{**OF_APP, **wrong})


# Forks


async def grown(sessions: DatabaseSessionService) -> list[Event]:
    session = await sessions.create_session(
        **USER, session_id="s", state={"start": 1, "changed": "first", "user:u": 0}
    )
    events = [
        said("one", state={"a": 1, "user:u": 1, "temp:t": 1}),
        said("two", state={"a": 2, "changed": "second", "null": None}),
        said("three", state={"a": 3, "late": True, "user:u": 3}),
    ]
    for event in events:
        await sessions.append_event(session, event)
    return events


@pytest.mark.parametrize(
    ("upto", "state"),
    [
        (0, {"start": 1, "changed": "first", "a": 1}),
        (1, {"start": 1, "changed": "second", "a": 2, "null": None}),
        (2, {"start": 1, "changed": "second", "a": 3, "null": None, "late": True}),
        (None, {"start": 1, "changed": "second", "a": 3, "null": None, "late": True}),
    ],
)
async def test_a_fork_has_the_state_of_its_event(
    sessions: DatabaseSessionService, upto: int | None, state: dict[str, Any]
) -> None:
    events = await grown(sessions)
    place = {**USER, "session_id": "s"}
    event_id = None if upto is None else events[upto].id
    fork = await sessions.fork_session(**place, event_id=event_id, fork_id=" f ", ttl=60)
    assert fork.id == "f"
    assert fork.state == {**state, "user:u": 3}
    assert [each.id for each in fork.events] == [each.id for each in events[: len(fork.events)]]
    assert len(fork.events) == (3 if upto is None else upto + 1)
    assert fork.last_update_time == pytest.approx(fork.events[-1].timestamp, abs=1e-5)
    await sessions.append_event(fork, said("other", state={"a": 9}))
    original = await sessions.get_session(**place)
    assert texts(original) == ["one", "two", "three"]
    assert original is not None
    assert original.state["a"] == 3
    again = await sessions.fork_session(**USER, session_id="f", event_id=events[0].id)
    assert again.state == {"start": 1, "changed": "first", "a": 1, "user:u": 3}


async def test_a_session_has_the_token_of_its_last_event_or_none(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await grown(sessions)
    fork = await sessions.fork_session(**USER, session_id="s", fork_id="f")
    told = (
        "SELECT s.session_id, s.revision_token, s.revision_token = e.revision_token AS is_its"
        " FROM sessions s JOIN events e USING (app_name, user_id, session_id)"
        " WHERE e.seq = s.revision ORDER BY s.session_id DESC"
    )
    own, copied = await connection.fetch(told)
    assert own["is_its"]
    assert copied["revision_token"] is None, "an event of a fork has a token that the server made"
    await sessions.append_event(fork, said("an event alone"))
    assert [row["is_its"] for row in await connection.fetch(told)] == [True, True]


async def test_a_fork_of_an_empty_session_and_wrong_forks(
    sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**USER, session_id="s", state={"k": "\x00 \ud800"})
    fork = await sessions.fork_session(**USER, session_id="s")
    assert (fork.events, fork.state) == ([], {"k": "\x00 \ufffd"})
    for wrong, error in (
        ({"session_id": "none"}, SessionNotFound),
        ({"event_id": "none"}, InvalidInput),
        ({"fork_id": "s"}, SessionExists),
        ({"fork_id": "\x00"}, InvalidInput),
        ({"ttl": 1, "expire_time": "2100-01-01T00:00:00Z"}, InvalidInput),
    ):
        with pytest.raises(error):
            await sessions.fork_session(**{**USER, "session_id": "s", **wrong})
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 2


async def test_a_long_session_is_forked_whole(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER, session_id="s")
    for number in range(30):
        await sessions.append_event(session, said("x" * 300_000, state={"n": number}))
    fork = await sessions.fork_session(**USER, session_id="s", event_id=session.events[24].id)
    assert len(fork.events) == 25
    assert fork.state == {"n": 24}
    assert fork.events == session.events[:25]


# Shared states


async def test_shared_states_are_set_without_a_session(sessions: DatabaseSessionService) -> None:
    told = await sessions.update_state(**USER, state_delta={"app:a": 1, "user:u": "\x00"})
    assert told == {"app:a": 1, "user:u": "\x00"}
    assert await sessions.update_state(app_name="app", state_delta={"app:b": 2}) == {
        "app:a": 1,
        "app:b": 2,
    }
    assert await sessions.update_state(**USER, state_delta={}) == {}
    session = await sessions.create_session(**USER)
    assert session.state == {"app:a": 1, "app:b": 2, "user:u": "\x00"}
    assert (await sessions.list_sessions(**USER)).sessions[0].id == session.id


@pytest.mark.parametrize(
    ("user_id", "delta"),
    [
        ("u", {"plain": 1}),
        ("u", {"temp:t": 1}),
        (None, {"user:u": 1}),
        ("u", {"user:u": lambda: 0, "app:a": {1: {2}}, "x": 1}),
        ("u", {"user:u": "x" * 1_100_000}),
        ("\x00", {"user:u": 1}),
    ],
)
async def test_other_states_are_refused(
    database_url: str, user_id: str | None, delta: dict[str, Any]
) -> None:
    async with DatabaseSessionService(database_url, settings=Settings(max_state_mb=1)) as sessions:
        with pytest.raises(InvalidInput):
            await sessions.update_state(app_name="app", user_id=user_id, state_delta=delta)
        assert await sessions.get_user_state(app_name="app", user_id="u") == {}


@pytest.mark.race
async def test_nobodys_key_is_lost(database: Database) -> None:
    services = [DatabaseSessionService(database) for _ in range(8)]
    await asyncio.gather(
        *(
            each.update_state(**USER, state_delta={f"app:{n}": n, f"user:{n}": n})
            for n, each in enumerate(services)
        )
    )
    session = await services[0].create_session(**USER)
    assert len(session.state) == 16


# Search


def called(name: str, **args: Any) -> Event:
    part = types.Part(function_call=types.FunctionCall(name=name, args=args))
    return Event(author="agent", content=types.Content(parts=[part]), actions=EventActions())


async def test_events_are_found_by_their_words(sessions: DatabaseSessionService) -> None:
    one = await sessions.create_session(**USER, session_id="one")
    two = await sessions.create_session(**USER, session_id="two")
    other = await sessions.create_session(app_name="app", user_id="other")
    said_in: list[tuple[Any, Event]] = [
        (one, said("I like Oolong tea", timestamp=1.0)),
        (two, said('100%_sure "quoted"\\ back\nline', timestamp=2.0, author="agent")),
        (one, said("ÄRGER mit oolong", timestamp=3.0)),
        (two, called("order", drink="Oolong", amount=42)),
        (other, said("oolong of another")),
    ]
    for session, event in said_in:
        await sessions.append_event(session, event)

    async def found(query: str, **asked: Any) -> list[str]:
        page = await sessions.search_events(**USER, query=query, **asked)
        order = [event.id for _, event in said_in]
        return [str(order.index(each.event.id)) for each in page.items]

    assert await found("OOLONG") == ["3", "2", "0"]
    assert await found("tea oolong") == ["0"]
    assert await found("ärger") == ["2"]
    assert await found("order 42") == ["3"]
    assert await found("100%_sure") == ["1"]
    assert await found("100x_sure") == []
    assert await found('"quoted"\\') == ["1"]
    assert await found("back line") == ["1"]
    assert await found("author state_delta") == []
    assert await found("oolong", session_id="one") == ["2", "0"]
    assert await found("oolong", authors=["agent"]) == ["3"]
    assert await found("oolong", after=2.0, before=4.0) == ["2"]
    first = await sessions.search_events(**USER, query="oolong", limit=2)
    assert [each.session_id for each in first.items] == ["two", "one"]
    rest = await sessions.search_events(**USER, query="oolong", limit=2, cursor=first.next_cursor)
    assert [each.event.timestamp for each in rest.items] == [1.0]
    assert rest.next_cursor is None


async def test_all_of_a_long_word_is_looked_for(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("ab" * 2_000, timestamp=1.0))
    await sessions.append_event(session, said(f"{'AB' * 1_000}c", timestamp=2.0))
    page = await sessions.search_events(**USER, query=f"{'ab' * 1_000}C")
    assert [each.event.timestamp for each in page.items] == [2.0]


async def test_a_search_reads_on_where_many_only_seem_to_match(
    sessions: DatabaseSessionService,
) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("the author", timestamp=1.0))
    for number in range(130):
        await sessions.append_event(session, said(f"{number}", timestamp=2.0 + number))
    page = await sessions.search_events(**USER, query="author", limit=1)
    assert [texts_of(each.event) for each in page.items] == ["the author"]
    assert page.next_cursor is None


def texts_of(event: Event) -> str | None:
    return event.content.parts[0].text if event.content and event.content.parts else None


@pytest.mark.parametrize(
    "asked", [{"query": " "}, {"query": "w " * 3 + " ".join(map(str, range(40)))}, {"limit": 0}]
)
async def test_wrong_searches_are_refused(
    sessions: DatabaseSessionService, asked: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await sessions.search_events(**USER, **{"query": "x", **asked})


async def test_strange_words_find_nothing(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(**USER)
    await sessions.append_event(session, said("a\x00b \ud800 c"))
    strange: list[tuple[str, int]] = [("a\x00b", 1), ("\ud800", 1), ("%", 0), ("_", 0)]
    for query, count in strange:
        found = await sessions.search_events(**USER, query=query)
        assert len(found.items) == count, query
    nobody: Callable[..., Any] = sessions.search_events
    assert (await nobody(app_name="\x00", user_id="u", query="x")).items == []


async def test_a_state_keeps_no_order_of_keys_and_an_event_does(
    sessions: DatabaseSessionService,
) -> None:
    """As docs/sessions.md says."""
    plan = {"step_one": "pack", "buy": "ticket", "go": "station"}
    session = await sessions.create_session(**USER, state={"plan": plan})
    assert list(session.state["plan"]) == ["go", "buy", "step_one"]
    asked = types.Part(function_call=types.FunctionCall(name="pack", args=plan))
    event = Event(author="agent", content=types.Content(role="model", parts=[asked]))
    await sessions.append_event(session, event)
    stored = await sessions.get_session(**USER, session_id=session.id)
    assert stored is not None
    (call,) = stored.events[0].get_function_calls()
    assert list(call.args or {}) == list(plan)
