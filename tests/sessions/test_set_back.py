"""Storage goes back: a restored backup, or a standby that had not got everything yet."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from adkpg.errors import SessionNotFound, StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

ID: dict[str, Any] = USER | {"session_id": "s"}
Mode = Literal["raise", "merge"]
Restore = Callable[[], Awaitable[None]]

_TABLES = ("sessions", "events", "app_states", "user_states")


@pytest.fixture
def merging(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, on_conflict="merge")


@pytest.fixture(params=["raise", "merge"])
def service(request: pytest.FixtureRequest, database: Database) -> DatabaseSessionService:
    """A service of either way with conflicts."""
    return DatabaseSessionService(database, on_conflict=request.param)


@pytest.fixture
async def backup(connection: asyncpg.Connection) -> Callable[[], Awaitable[Restore]]:
    """Saves the session tables; what it returns puts their rows back as they were."""

    async def restore() -> None:
        async with connection.transaction():
            for table in reversed(_TABLES):
                await connection.execute(f"DELETE FROM adkpg.{table}")
            for table in _TABLES:
                await connection.execute(f"INSERT INTO adkpg.{table} TABLE saved_{table}")

    async def save() -> Restore:
        for table in _TABLES:
            await connection.execute(f"CREATE TEMP TABLE saved_{table} AS TABLE adkpg.{table}")
        return restore

    return save


Backup = Callable[[], Awaitable[Restore]]


@pytest.fixture
async def behind(service: DatabaseSessionService, backup: Backup) -> AsyncIterator[Session]:
    """A live object of five events; storage went back to four."""
    live = await service.create_session(**ID)
    for number in range(4):
        await service.append_event(live, said(str(number)))
    restore = await backup()
    await service.append_event(live, said("lost", state={"n": 1, "user:n": 1}))
    await restore()
    yield live
    assert texts(live) == ["0", "1", "2", "3", "lost"]


async def _get(service: DatabaseSessionService) -> Session:
    session = await service.get_session(**ID)
    assert session is not None
    return session


@pytest.mark.parametrize("others", [0, 1, 2, 3])
async def test_an_object_with_lost_events_is_told_so(
    service: DatabaseSessionService, behind: Session, others: int
) -> None:
    """Whatever others appended since; with one event, the revision number is the same again."""
    other = await _get(service)
    for number in range(others):
        await service.append_event(other, said(f"other {number}"))
    for _ in range(2):
        with pytest.raises(StaleSession, match="went back in storage: a failover"):
            await service.append_event(behind, said("on top", state={"n": 2, "app:n": 2}))
    stored = await _get(service)
    assert texts(stored) == ["0", "1", "2", "3", *(f"other {n}" for n in range(others))]
    assert stored.state == {}
    await service.append_event(stored, said("goes on"))


async def test_the_lost_event_itself_is_refused_and_accepted_once_loaded_again(
    service: DatabaseSessionService, behind: Session
) -> None:
    lost = behind.events[-1]
    with pytest.raises(StaleSession, match="went back"):
        await service.append_event(behind, lost.model_copy(deep=True))
    again = await _get(service)
    await service.append_event(again, lost.model_copy(deep=True))
    assert await _get(service) == again
    assert texts(again) == texts(behind)
    # The same event at the same place, but in another history.
    with pytest.raises(StaleSession, match="went back"):
        await service.append_event(behind, said("on top"))


@pytest.mark.parametrize("others", [0, 1, 2])
async def test_an_object_rebuilt_from_json_is_told_so(
    service: DatabaseSessionService, behind: Session, others: int
) -> None:
    rebuilt = Session.model_validate_json(behind.model_dump_json())
    other = await _get(service)
    for number in range(others):  # by a clock that is late
        await service.append_event(other, said("other", timestamp=float(number)))
    with pytest.raises(StaleSession, match="went back"):
        await service.append_event(rebuilt, said("on top"))
    assert len((await _get(service)).events) == 4 + others


async def test_an_object_of_what_was_kept_goes_on(
    service: DatabaseSessionService, backup: Backup
) -> None:
    live = await service.create_session(**ID)
    await service.append_event(live, said("0"))
    restore = await backup()
    await service.append_event(await _get(service), said("lost"))
    await restore()
    await service.append_event(live, said("1"))
    assert await _get(service) == live


async def test_a_session_that_is_merely_ahead_did_not_go_back(
    sessions: DatabaseSessionService,
) -> None:
    live = await sessions.create_session(**ID)
    await sessions.append_event(live, said("0"))
    await sessions.append_event(await _get(sessions), said("1"))
    with pytest.raises(StaleSession, match="has been modified in storage") as caught:
        await sessions.append_event(live, said("2"))
    assert "went back" not in str(caught.value)


async def test_merging_goes_on_where_events_were_deleted(
    merging: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    live = await merging.create_session(**ID)
    await merging.append_event(live, said("0"))
    await merging.append_event(await _get(merging), said("1"))
    await connection.execute("DELETE FROM adkpg.events WHERE seq = 1")
    await merging.append_event(live, said("2"))
    assert texts(await _get(merging)) == ["1", "2"]


async def test_a_session_whose_creation_was_lost_is_not_found(
    service: DatabaseSessionService, backup: Backup
) -> None:
    restore = await backup()
    live = await service.create_session(**ID)
    await restore()
    with pytest.raises(SessionNotFound, match="a failover or a restored backup lost it"):
        await service.append_event(live, said("0"))


async def test_events_that_others_repeat_in_another_order_are_another_history(
    database: Database, merging: DatabaseSessionService, backup: Backup
) -> None:
    """Three writers lose an event each and repeat it: same revision, same last event."""
    sharing = DatabaseSessionService(database, shared_events_mb=10)
    await merging.create_session(**ID)
    restore = await backup()
    lost = [said(text) for text in "abc"]

    async def append(event: Event) -> None:
        await merging.append_event(await _get(merging), event.model_copy(deep=True))

    for event in lost:
        await append(event)
    before = await _get(sharing)
    assert texts(before) == ["a", "b", "c"]
    await restore()
    for event in (lost[1], lost[0], lost[2]):
        await append(event)
    assert texts(await _get(sharing)) == ["b", "a", "c"]
    for service in (merging, sharing):
        with pytest.raises(StaleSession, match="went back"):
            await service.append_event(before, said("on top"))


@pytest.mark.prepared
@pytest.mark.parametrize("mode", ["raise", "merge"])
async def test_being_told_so_takes_three_more_round_trips(
    proxy: Proxy, backup: Backup, mode: Mode
) -> None:
    async with DatabaseSessionService(proxy.url, on_conflict=mode) as service:
        live = await service.create_session(**ID)
        restore = await backup()
        for text in "abc":
            before = proxy.round_trips
            await service.append_event(live, said(text))
        assert proxy.round_trips - before == 1
        await restore()
        # Why, whether somebody is about to commit what is missing, and why again. The second time
        # these questions are prepared.
        for number in range(2):
            before = proxy.round_trips
            with pytest.raises(StaleSession, match="went back"):
                await service.append_event(live, said("on top", id=f"e{number}"))
        assert proxy.round_trips - before == 4
