"""A session that is read again: what is asked of the server, what is shared, and with whom."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService, jsontext
from adkpg.erasure import forget
from adkpg.jsontext import UNREADABLE
from adkpg.sessions.cache import again
from adkpg.sessions.records import Marker
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

ID: dict[str, Any] = USER | {"session_id": "s"}


@pytest.fixture
def sharing(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, shared_events_mb=10)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


async def _session(service: DatabaseSessionService, count: int = 3) -> Session:
    """A session ``s`` with a state of its own and some events."""
    session = await service.create_session(**ID, state={"state": {"of": "s"}})
    for number in range(count):
        await service.append_event(session, said(str(number), timestamp=float(number)))
    return session


async def _get(service: DatabaseSessionService) -> Session:
    session = await service.get_session(**ID)
    assert session is not None
    return session


def _shares(one: Session, other: Session) -> list[bool]:
    return [a is b for a, b in zip(one.events, other.events, strict=False)]


async def test_by_default_nothing_is_shared(sessions: DatabaseSessionService) -> None:
    await _session(sessions)
    first = await _get(sessions)
    first.events[0].author = "changed"
    first.events[1].custom_metadata = {"k": 1}
    first.state["state"]["of"] = "another"
    second = await _get(sessions)
    assert _shares(first, second) == [False] * 3
    assert [event.author for event in second.events] == ["user"] * 3
    assert second.events[1].custom_metadata is None
    assert second.state == {"state": {"of": "s"}}


async def test_events_are_shared_lists_and_states_are_not(
    sharing: DatabaseSessionService,
) -> None:
    await _session(sharing)
    first = await _get(sharing)
    for _ in range(2):
        caller = await _get(sharing)
        assert texts(caller) == ["0", "1", "2"]
        assert _shares(first, caller) == [True] * 3
        assert caller.state == {"state": {"of": "s"}}
        caller.events.pop(0)
        caller.events.append(said("the caller's own"))
        caller.state["state"]["of"] = "another"


async def test_only_new_events_are_read(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    live = await _session(sessions)
    first = await _get(sharing)
    for number in (3, 4):
        await sessions.append_event(live, said(str(number), state={"k": number, "user:u": number}))
    second = await _get(sharing)
    assert _shares(first, second) == [True] * 3
    assert second == await _get(sessions)
    assert second.state == {"state": {"of": "s"}, "k": 4, "user:u": 4}


async def test_the_writers_own_event_is_not_shared(sharing: DatabaseSessionService) -> None:
    live = await _session(sharing, 1)
    await _get(sharing)
    event = await sharing.append_event(live, said("1"))
    event.author = "changed"
    assert [event.author for event in (await _get(sharing)).events] == ["user", "user"]


async def test_a_session_read_again_goes_on(sharing: DatabaseSessionService) -> None:
    await _session(sharing)
    await _get(sharing)
    again = await _get(sharing)
    await sharing.append_event(again, said("3"))
    assert await _get(sharing) == again


async def test_other_states_are_fresh(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    await _session(sharing)
    await _get(sharing)
    await sessions.create_session(**USER, state={"app:a": 1, "user:u": 2})
    assert (await _get(sharing)).state == {"state": {"of": "s"}, "app:a": 1, "user:u": 2}


async def test_windows_are_read_from_the_database(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    await _session(sharing)
    await _get(sharing)
    for config in (
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(num_recent_events=2),
        GetSessionConfig(after_timestamp=1.0),
        GetSessionConfig(after_timestamp=0.0),
        GetSessionConfig(num_recent_events=1, after_timestamp=1.0),
    ):
        window = await sharing.get_session(**ID, config=config)
        assert window == await sessions.get_session(**ID, config=config)
    assert texts(await _get(sharing)) == ["0", "1", "2"]


async def test_a_session_created_again_is_another(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    old = await _session(sessions)
    await _get(sharing)
    await sessions.delete_session(**ID)
    live = await sessions.create_session(**ID)
    for event in old.events:  # the same events under the same id and revisions
        event.author = "another"
        await sessions.append_event(live, event)
    assert [event.author for event in (await _get(sharing)).events] == ["another"] * 3


@pytest.mark.parametrize("forget", [False, True])
async def test_a_deleted_session_is_gone(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService, forget: bool
) -> None:
    await _session(sharing)
    await _get(sharing)
    await sessions.delete_session(**ID, forget=forget)
    assert await sharing.get_session(**ID) is None


async def test_nothing_is_kept_of_a_forgotten_person(
    sharing: DatabaseSessionService, database: Database
) -> None:
    assert sharing._shared is not None
    for user_id in ("ana", "bob"):
        session = await sharing.create_session(app_name="app", user_id=user_id, session_id="s")
        await sharing.append_event(session, said("my password is swordfish"))
        await sharing.get_session(app_name="app", user_id=user_id, session_id="s")
    await forget(database, app_name="app", user_id="ana")
    assert sharing._shared.get(("app", "ana", "s")) is None
    assert sharing._shared.get(("app", "bob", "s")) is not None
    await DatabaseSessionService(database).delete_session(
        app_name="app", user_id="bob", session_id="s", forget=True
    )
    assert sharing._shared._prefixes == {}


async def test_deleting_and_not_finding_leave_nothing_in_memory(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    shared = sharing._shared
    assert shared is not None
    for deleting in (sharing, sessions):
        await _session(sharing)
        await _get(sharing)
        assert shared.get(("app", "user", "s")) is not None
        await deleting.delete_session(**ID)
        if deleting is sessions:
            assert await sharing.get_session(**ID) is None
        assert shared.get(("app", "user", "s")) is None


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("seq <= 2", ["2", "3"]),
        ("seq = 2", ["0", "2", "3"]),
        ("seq = 4", ["0", "1", "2"]),
        ("true", []),
    ],
)
async def test_events_deleted_by_others_are_gone(
    sharing: DatabaseSessionService, connection: asyncpg.Connection, gone: str, left: list[str]
) -> None:
    live = await _session(sharing, 4)
    await _get(sharing)
    await connection.execute(f"DELETE FROM adkpg.events WHERE {gone}")
    assert texts(await _get(sharing)) == left
    assert texts(await _get(sharing)) == left
    await sharing.append_event(live, said("new"))
    assert texts(await _get(sharing)) == [*left, "new"]


async def test_a_restored_database_with_another_history(
    sharing: DatabaseSessionService,
    sessions: DatabaseSessionService,
    connection: asyncpg.Connection,
) -> None:
    """A standby that took over without the last events, say: same revisions, other events."""
    live = await _session(sharing, 4)
    before = await _get(sessions)
    await sharing.append_event(live, said("lost"))
    assert texts(await _get(sharing)) == ["0", "1", "2", "3", "lost"]
    await connection.execute("DELETE FROM adkpg.events WHERE seq = 5")
    await connection.execute("UPDATE adkpg.sessions SET revision = 4")
    await sharing.append_event(before, said("another"))
    await sharing.append_event(before, said("more"))
    assert texts(await _get(sharing)) == ["0", "1", "2", "3", "another", "more"]
    assert await _get(sharing) == await _get(sessions)


async def test_events_that_cannot_be_read_are_read_again(
    sharing: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    live = await _session(sharing)
    await _get(sharing)
    await sharing.append_event(live, said("readable"))
    readable = await connection.fetchval("SELECT payload::text FROM adkpg.events WHERE seq = 4")
    update = "UPDATE adkpg.events SET payload = $1::text::json WHERE seq = 4"
    await connection.execute(update, '{"author": 1}')
    for _ in range(2):
        assert (await _get(sharing)).events[3].error_code == UNREADABLE
    await connection.execute(update, readable)
    assert texts(await _get(sharing)) == ["0", "1", "2", "readable"]


async def test_a_new_incarnation_ends_what_is_kept(
    sharing: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await _session(sharing)
    await _get(sharing)
    await connection.execute(
        'UPDATE adkpg.events SET payload = (payload::jsonb || \'{"author": "[redacted]"}\')::json'
    )
    await connection.execute(f"UPDATE adkpg.sessions SET incarnation = '{uuid4()}'")
    assert [event.author for event in (await _get(sharing)).events] == ["[redacted]"] * 3


async def test_ids_under_other_users_and_apps_are_others(sharing: DatabaseSessionService) -> None:
    places = [("app", "u"), ("app", "v"), ("other", "u")]
    for app, user in places:
        session = await sharing.create_session(app_name=app, user_id=user, session_id="s")
        await sharing.append_event(session, said(f"{app} {user}"))
    for _ in range(2):
        found = [
            await sharing.get_session(app_name=app, user_id=user, session_id=" s ")
            for app, user in places
        ]
        assert [texts(session) for session in found] == [[f"{app} {user}"] for app, user in places]


@pytest.mark.prepared
async def test_it_is_one_flight_with_and_without_what_is_kept(proxy: Proxy) -> None:
    async with DatabaseSessionService(proxy.url, shared_events_mb=1) as service:
        live = await service.create_session(**USER)
        for text in ("0", "1"):
            await service.append_event(live, said(text))
        place = USER | {"session_id": live.id}
        counted = []
        for _ in range(8):  # past the fifth execution, when Postgres may change to a generic plan
            before = proxy.round_trips
            await service.get_session(**place)
            counted.append(proxy.round_trips - before)
            await service.append_event(live, said("more"))
    assert counted[1:] == [1] * 7


async def test_kept_events_are_not_sent_again(
    sharing: DatabaseSessionService, database: Database
) -> None:
    live = await _session(sharing)
    await _get(sharing)
    await sharing.append_event(live, said("new"))
    assert sharing._shared is not None
    kept = sharing._shared.get(("app", "user", "s"))
    row = await database.run.fetch_one(again(("app", "user", "s"), kept))
    assert row is not None
    assert [jsontext.read_event(text) for text in row["payloads"]] == [live.events[3]]


async def test_readers_and_writers_on_many_loops(database_url: str) -> None:
    """Each answer has every event up to its revision, whoever writes and whatever is displaced."""
    service = DatabaseSessionService(database_url, on_conflict="merge", shared_events_mb=1)
    names = ("s", "t", "u")
    failures: list[BaseException] = []

    async def use(number: int) -> None:
        for turn in range(12):
            place = USER | {"session_id": names[(number + turn) % 3]}
            session = await service.get_session(**place)
            assert session is not None
            marker = Marker.of(session)
            assert marker is not None
            assert len(session.events) == marker.revision
            assert len({event.id for event in session.events}) == len(session.events)
            for _ in range(2):
                await service.append_event(session, said("x" * 3_000, author=str(number)))

    async def tasks(number: int) -> None:
        await asyncio.gather(*(use(number * 2 + task) for task in range(2)))

    def run(number: int) -> None:
        try:
            asyncio.run(tasks(number))
        except BaseException as exc:  # noqa: BLE001 - raised below, in the test's own thread
            failures.append(exc)

    for name in names:
        await service.create_session(**USER, session_id=name)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    if failures:
        raise failures[0]
    found = [await service.get_session(**USER, session_id=name) for name in names]
    await service.close()
    assert sum(len(session.events) for session in found if session) == 3 * 2 * 12 * 2


async def test_rewinds_are_events_like_others(
    sharing: DatabaseSessionService, sessions: DatabaseSessionService
) -> None:
    live = await _session(sharing)
    await _get(sharing)
    rewind = Event(author="user", invocation_id="r")
    rewind.actions.rewind_before_invocation_id = "e"
    rewind.actions.state_delta = {"state": None}
    await sharing.append_event(live, rewind)
    again = await _get(sharing)
    assert again == await _get(sessions)
    assert again.state == {"state": None}
    assert again.events[3].actions.rewind_before_invocation_id == "e"
