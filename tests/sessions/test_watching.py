"""Watching a session: each event once, in order, whatever process appends it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import asyncpg
import pytest
from google.adk.sessions.session import Session
from sqlalchemy.ext.asyncio import create_async_engine

import adkpg
from adkpg import Database, DatabaseSessionService, WatchedEvent
from adkpg.errors import InvalidInput, ScopeMissing, SessionNotFound, StaleSession
from adkpg.sessions.watching import watch
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER
from tests.fakes.roles import GUARDED, guarded_roles

PLACE: dict[str, Any] = {**USER, "session_id": "s"}
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE 'LISTEN%' AND state = 'idle'"
)
WRITER = """
import asyncio, sys
from adkpg import DatabaseSessionService
from adkpg.tooling.testing import said

async def main(url, name, count):
    async with DatabaseSessionService(url, on_conflict="merge") as sessions:
        session = await sessions.get_session(app_name="app", user_id="user", session_id="s")
        for number in range(int(count)):
            await sessions.append_event(session, said(f"{name} {number}"))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by looking now and then: who is told nothing waits for ever."""
    monkeypatch.setattr(watch, "_LISTENING_POLL_S", 3600.0)


@pytest.fixture
async def session(sessions: DatabaseSessionService) -> Session:
    made = await sessions.create_session(**PLACE)
    await sessions.append_event(made, said("before"))
    return made


def text(watched: WatchedEvent) -> str:
    content = watched.event.content
    assert content is not None
    assert content.parts is not None
    return content.parts[0].text or ""


async def listening(connection: asyncpg.Connection) -> int:
    """Returns the server's process that tells the watcher, once there is one."""
    async with asyncio.timeout(30):
        while (pid := await connection.fetchval(LISTENERS)) is None:
            await asyncio.sleep(0)
    return int(pid)


async def heard(database: Database) -> None:
    async with asyncio.timeout(30):
        while not database.run.listener().hears:
            await asyncio.sleep(0)


async def taken(events: AsyncIterator[WatchedEvent], count: int) -> list[str]:
    return [text(await anext(events)) for _ in range(count)]


@pytest.mark.direct("listens")
@pytest.mark.usefixtures("only_told")
async def test_events_are_told_as_they_come(
    database: Database, session: Session, sessions: DatabaseSessionService, database_url: str
) -> None:
    async with (
        DatabaseSessionService(database_url) as other,
        aclosing(sessions.watch_session(**PLACE, after=session)) as events,
    ):
        waiting = asyncio.create_task(taken(events, 1))
        await heard(database)
        copy = await other.get_session(**PLACE)
        assert copy is not None
        await other.append_event(copy, said("one"))
        assert await waiting == ["one"]
        for number in range(3):
            await other.append_event(copy, said(str(number)))
            assert await taken(events, 1) == [str(number)]
        await other.append_event(copy, said("two"))
        await other.append_event(copy, said("three"))
        assert await taken(events, 2) == ["two", "three"]


async def test_it_goes_on_where_it_ended(
    session: Session, sessions: DatabaseSessionService, database_url: str
) -> None:
    """From what was loaded, from a cursor in another process, from the beginning."""
    loaded = await sessions.get_session(**PLACE)
    for number in range(250):
        await sessions.append_event(session, said(str(number)))
    async with aclosing(sessions.watch_session(**PLACE, after=loaded)) as events:
        first = [await anext(events) for _ in range(120)]
    async with (
        DatabaseSessionService(database_url) as other,
        aclosing(other.watch_session(**PLACE, after=first[-1].cursor)) as events,
    ):
        rest = await taken(events, 130)
    assert [text(each) for each in first] + rest == [str(number) for number in range(250)]


async def test_without_a_place_it_begins_at_the_end(
    session: Session, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    async with aclosing(sessions.watch_session(**PLACE, poll_interval_s=0.05)) as events:
        waiting = asyncio.create_task(taken(events, 1))
        while not await connection.fetchval("SELECT watched_until > now() FROM sessions"):
            await asyncio.sleep(0)
        await sessions.append_event(session, said("new"))
        assert await waiting == ["new"]


@pytest.mark.fault
@pytest.mark.direct("listens")
@pytest.mark.usefixtures("only_told")
async def test_a_killed_listener_misses_and_doubles_nothing(
    database: Database,
    session: Session,
    sessions: DatabaseSessionService,
    connection: asyncpg.Connection,
) -> None:
    async with aclosing(sessions.watch_session(**PLACE, after=session)) as events:
        waiting = asyncio.create_task(taken(events, 40))
        for number in range(40):
            if number % 10 == 0:
                await heard(database)
                await connection.fetchval(
                    "SELECT pg_terminate_backend($1)", await listening(connection)
                )
            await sessions.append_event(session, said(str(number)))
        assert await waiting == [str(number) for number in range(40)]


@pytest.mark.fault
async def test_cut_connections_miss_and_double_nothing(
    session: Session,
    sessions: DatabaseSessionService,
    connection: asyncpg.Connection,
) -> None:
    """All of this database but the test's own, again and again."""
    async with aclosing(
        sessions.watch_session(**PLACE, after=session, poll_interval_s=0.02)
    ) as events:
        waiting = asyncio.create_task(taken(events, 30))
        for number in range(30):
            await sessions.append_event(session, said(str(number)))
            if number % 7 == 0:
                await connection.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        assert await waiting == [str(number) for number in range(30)]


@pytest.mark.program
@pytest.mark.race
async def test_events_of_other_processes_come_once_and_in_order(
    session: Session, sessions: DatabaseSessionService, database_url: str
) -> None:
    async with aclosing(
        sessions.watch_session(**PLACE, after=session, poll_interval_s=0.05)
    ) as events:
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", WRITER, database_url, name, "25"
            )
            for name in "ab"
        ]
        watchers = [
            sessions.watch_session(**PLACE, after=session, poll_interval_s=0.05) for _ in range(2)
        ]
        seen = await asyncio.gather(*(taken(each, 50) for each in (events, *watchers)))
        assert [await each.wait() for each in writers] == [0, 0]
        for each in watchers:
            await each.aclose()
    stored = await sessions.get_session(**PLACE)
    assert stored is not None
    order = [each.content.parts[0].text for each in stored.events[1:]]  # type: ignore[union-attr,index]
    assert seen == [order] * 3
    for name in "ab":
        assert [each for each in order if each and each[0] == name] == [
            f"{name} {number}" for number in range(25)
        ]


async def test_with_an_engine_of_the_callers_it_polls(
    session: Session, sessions: DatabaseSessionService, database_url: str
) -> None:
    url = database_url.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url)
    async with (
        DatabaseSessionService(db_engine=engine) as other,
        aclosing(
            other.watch_session(**PLACE, after=session.model_copy(deep=True), poll_interval_s=0.05)
        ) as events,
    ):
        waiting = asyncio.create_task(taken(events, 2))
        await sessions.append_event(session, said("one"))
        await sessions.append_event(session, said("two"))
        assert await waiting == ["one", "two"]
        assert not other.database.run.listener().hears
    await engine.dispose()


@pytest.mark.direct("listens")
async def test_appends_that_nobody_watches_tell_nothing(
    session: Session, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    told: list[Any] = []
    await connection.add_listener("adkpg", lambda *said: told.append(said[3]))
    await sessions.append_event(session, said("x"))
    await connection.fetchval("SELECT 1")
    assert told == []
    async with aclosing(sessions.watch_session(**PLACE, after=session)) as events:
        waiting = asyncio.create_task(taken(events, 1))
        while not await connection.fetchval("SELECT watched_until > now() FROM sessions"):
            await asyncio.sleep(0)
        await sessions.append_event(session, said("y"))
        await waiting
    await connection.fetchval("SELECT 1")
    assert len(told) == 1
    assert "app" not in told[0]  # nobody's names are told


async def test_its_connection_ends_with_it(
    session: Session, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    events = sessions.watch_session(**PLACE, after=session, poll_interval_s=0.05)
    waiting = asyncio.create_task(taken(events, 1))
    await sessions.append_event(session, said("x"))
    await waiting
    await events.aclose()
    async with asyncio.timeout(30):
        while await connection.fetchval(LISTENERS) is not None:
            await asyncio.sleep(0)
    assert await connection.fetchval(LISTENERS) is None


async def test_what_became_of_the_session_is_said(
    session: Session, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.append_event(session, said("x"))
    async with aclosing(sessions.watch_session(**PLACE, after=session)) as events:
        await connection.execute(
            "DELETE FROM events WHERE seq = 2; UPDATE sessions SET revision = 1"
        )
        with pytest.raises(StaleSession, match="went back"):
            await anext(events)
    await sessions.delete_session(**PLACE)
    async with aclosing(sessions.watch_session(**PLACE, after=session)) as events:
        with pytest.raises(SessionNotFound):
            await anext(events)
    await sessions.create_session(**PLACE)
    async with aclosing(sessions.watch_session(**PLACE, after=session)) as events:
        with pytest.raises(StaleSession, match="created again"):
            await anext(events)


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": "nonsense"},
        {"after": Session(id="s", app_name="app", user_id="user")},
        {"poll_interval_s": 0},
        {"poll_interval_s": float("nan")},
        {"session_id": "\x00"},
    ],
)
async def test_wrong_places_are_refused(
    sessions: DatabaseSessionService, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        sessions.watch_session(**{**PLACE, **wrong})


async def test_nobody_watches_anothers_session(
    session: Session, sessions: DatabaseSessionService, database_url: str
) -> None:
    async with (
        guarded_roles(database_url) as roles,
        Database(roles.url("serve"), settings=GUARDED) as guarded,
    ):
        service = DatabaseSessionService(guarded)
        events = service.watch_session(**PLACE, after=session)
        with pytest.raises(ScopeMissing):
            await anext(events)
        with adkpg.scope(app_name="app", user_id="mallory"), pytest.raises(SessionNotFound):
            await anext(service.watch_session(**PLACE, after=session))
        loaded = session.model_copy(deep=True)
        await sessions.append_event(session, said("mine"))
        with adkpg.scope(**USER):
            async with aclosing(service.watch_session(**PLACE, after=loaded)) as own:
                assert await taken(own, 1) == ["mine"]


@pytest.mark.direct("listens")
@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_that_comes_as_a_watcher_wakes_ends_it(
    database: Database, sessions: DatabaseSessionService, session: Session, turns: int
) -> None:
    """However many turns of the event loop lie between both."""
    watching = sessions.watch_session(**PLACE, after=session)
    async with aclosing(watching):
        following = asyncio.ensure_future(anext(watching))
        listener = database.run.listener()
        while not any(listener._events.values()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # it has looked and waits
        listener._wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.wait({following}, timeout=5)
        assert following.cancelled()
