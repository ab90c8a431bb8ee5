"""Sessions of many or large events: read in pages, as of one moment, while others are served."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy

ID = USER | {"session_id": "s"}
PAGE = 1_000

_FILL = """
INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
SELECT 'app', 'user', 's', n, 'event ' || n, to_timestamp(n),
  replace(replace($1, '#id', 'event ' || n), '#text', n::text)::json
FROM generate_series(1, $2) n
"""


async def _filled(service: DatabaseSessionService, url: str, events: int) -> None:
    """A session ``s`` of so many events, whose texts and timestamps are their numbers."""
    await service.create_session(**ID)
    connection = await asyncpg.connect(url)
    payload = said("#text", id="#id", timestamp=0.0).model_dump_json(exclude_none=True)
    await connection.execute(_FILL, payload, events)
    await connection.execute("UPDATE adkpg.sessions SET revision = $1", events)
    await connection.close()


async def _get(service: DatabaseSessionService, **config: float) -> Session:
    session = await service.get_session(**ID, config=GetSessionConfig.model_validate(config))
    assert session is not None
    return session


@pytest.fixture
async def through_proxy(proxy: Proxy) -> AsyncIterator[DatabaseSessionService]:
    async with Database(proxy.url) as database:
        yield DatabaseSessionService(database)


@pytest.mark.parametrize("shared_events_mb", [0, 100])
@pytest.mark.parametrize("events", [1, PAGE, 2 * PAGE + 1])
async def test_all_events_come_in_order_whatever_their_number(
    database: Database, database_url: str, events: int, shared_events_mb: int
) -> None:
    service = DatabaseSessionService(database, shared_events_mb=shared_events_mb)
    await _filled(service, database_url, events)
    for _ in range(2):
        session = await service.get_session(**ID)
        assert texts(session) == [str(number) for number in range(1, events + 1)]
    assert session is not None
    await service.append_event(session, said("after"))


@pytest.mark.parametrize(
    ("config", "first"),
    [
        ({"num_recent_events": 2_100}, 401),
        ({"after_timestamp": 1_300.0}, 1_300),
        ({"after_timestamp": 300.0, "num_recent_events": 1_500}, 1_001),
        ({"after_timestamp": 2_000.0, "num_recent_events": 1_500}, 2_000),
    ],
)
async def test_windows_of_more_than_a_page(
    sessions: DatabaseSessionService, database_url: str, config: dict[str, float], first: int
) -> None:
    await _filled(sessions, database_url, 2_500)
    session = await _get(sessions, **config)
    assert texts(session) == [str(number) for number in range(first, 2_501)]


@pytest.mark.prepared
async def test_a_session_of_a_page_takes_one_round_trip(
    through_proxy: DatabaseSessionService, proxy: Proxy, database_url: str
) -> None:
    await _filled(through_proxy, database_url, 900)
    configs: tuple[dict[str, float], ...] = ({}, {"num_recent_events": 900}, {"after_timestamp": 9})
    for config in configs:
        await _get(through_proxy, **config)  # prepares the statement
        before = proxy.round_trips
        await _get(through_proxy, **config)
        assert proxy.round_trips - before == 1


async def test_a_session_counts_the_bytes_of_its_events(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    session = await sessions.create_session(**ID)
    for text in ("short", "ä" * 5_000, "last"):
        await sessions.append_event(session, said(text))
    connection = await asyncpg.connect(database_url)
    counted = await connection.fetchval("SELECT payload_bytes FROM adkpg.sessions")
    stored = await connection.fetchval("SELECT sum(octet_length(payload::text)) FROM adkpg.events")
    await connection.close()
    assert counted == stored > 10_000


@pytest.mark.prepared
async def test_large_events_share_a_page_with_few(
    through_proxy: DatabaseSessionService, proxy: Proxy
) -> None:
    session = await through_proxy.create_session(**ID)
    noise = "".join(f"{number * 7919 % 1_000_003:x}" for number in range(300_000))
    for number in range(6):
        await through_proxy.append_event(session, said(f"{number}{noise}"))
    await _get(through_proxy)
    before = proxy.round_trips
    read = await _get(through_proxy)
    assert texts(read) == texts(session)
    assert proxy.round_trips - before > 1


@pytest.mark.prepared
async def test_events_appended_while_it_is_read_are_no_part_of_it(
    through_proxy: DatabaseSessionService,
    sessions: DatabaseSessionService,
    proxy: Proxy,
    database_url: str,
) -> None:
    await _filled(sessions, database_url, PAGE + 10)
    live = await _get(sessions)
    await through_proxy.get_session(**USER, session_id="none")
    proxy.hold(1, "answer")
    reading = asyncio.create_task(_get(through_proxy))
    await proxy.held.wait()
    await sessions.append_event(live, said("later"))
    proxy.release()
    read = await reading
    assert len(read.events) == PAGE + 10
    assert read.state == {}


@pytest.mark.prepared
async def test_one_deleted_and_created_again_while_it_is_read_is_never_mixed(
    through_proxy: DatabaseSessionService,
    sessions: DatabaseSessionService,
    proxy: Proxy,
    database_url: str,
) -> None:
    await _filled(sessions, database_url, PAGE + 10)
    await through_proxy.get_session(**USER, session_id="none")
    proxy.hold(1, "answer")
    reading = asyncio.create_task(_get(through_proxy))
    await proxy.held.wait()
    await sessions.delete_session(**ID)
    again = await sessions.create_session(**ID, state={"another": True})
    await sessions.append_event(again, Event(author="user", id="new"))
    proxy.release()
    read = await reading
    assert [event.id for event in read.events] == ["new"]
    assert read.state == {"another": True}


async def test_others_are_served_while_a_long_session_is_parsed(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    await _filled(sessions, database_url, 3 * PAGE)
    reading = asyncio.create_task(_get(sessions))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await reading).events) == 3 * PAGE
    assert turns >= 15  # a slice is 200 events
