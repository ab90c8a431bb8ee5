"""One Database in several event loops and threads; their connections end with their loop."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, DatabaseSessionService
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.locks import connections_of, locked, until_connections
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.race


async def _turn(service: DatabaseSessionService, text: str) -> None:
    session = await service.get_session(**USER, session_id="x")
    session = session or await service.create_session(**USER, session_id="x")
    await service.append_event(session, said(text))


def test_successive_runs_leave_no_connection_behind(database_url: str) -> None:
    service = DatabaseSessionService(database_url)
    for number in range(3):
        asyncio.run(_turn(service, str(number)))
        asyncio.run(until_connections(database_url, 0))
    session = asyncio.run(service.get_session(**USER, session_id="x"))
    assert texts(session) == ["0", "1", "2"]
    asyncio.run(service.close())


# Python and asyncpg rightly say of such a loop that it left its connections open.
@pytest.mark.filterwarnings("ignore:.*unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_closed_without_shutdown_loses_its_connections_at_the_next_use(
    database_url: str,
) -> None:
    service = DatabaseSessionService(database_url)
    for number in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_turn(service, str(number)))
        loop.close()
        assert asyncio.run(connections_of(database_url)) == 1
        asyncio.run(_turn(service, f"{number} again"))
        del loop
        gc.collect()
        asyncio.run(until_connections(database_url, 0))
    asyncio.run(service.close())


def test_several_loops_at_once_share_one_database(database_url: str) -> None:
    service = DatabaseSessionService(database_url, on_conflict="merge")
    asyncio.run(service.create_session(**USER, session_id="x"))
    together = threading.Barrier(4)

    def run(name: int) -> None:
        async def append() -> None:
            session = await service.get_session(**USER, session_id="x")
            assert session is not None
            together.wait(timeout=30)
            for number in range(10):
                await service.append_event(session, said(f"{name}.{number}"))

        asyncio.run(append())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    session = asyncio.run(service.get_session(**USER, session_id="x"))
    assert session is not None
    assert len(session.events) == 40
    asyncio.run(until_connections(database_url, 0))
    asyncio.run(service.close())


def test_a_loop_waits_for_none_that_is_still_at_its_first_connection(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy initialises the dialect once, for the connections of all loops."""
    begun, answered = threading.Event(), threading.Event()
    initialize: Any = PGDialect_asyncpg.initialize

    def slow_at_first(dialect: PGDialect_asyncpg, connection: Connection) -> None:
        if not begun.is_set():
            begun.set()
            assert answered.wait(30)
        initialize(dialect, connection)

    monkeypatch.setattr(PGDialect_asyncpg, "initialize", slow_at_first)
    service = DatabaseSessionService(database_url)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(lambda: asyncio.run(_turn(service, "first")))
        assert begun.wait(30)
        asyncio.run(service.create_session(**USER, session_id="y"))
        answered.set()
        first.result()
    assert asyncio.run(service.get_session(**USER, session_id="x")) is not None
    asyncio.run(service.close())
    asyncio.run(until_connections(database_url, 0))


async def test_a_further_loop_asks_the_server_no_more_than_a_connection_takes(proxy: Proxy) -> None:
    service, trips = DatabaseSessionService(proxy.url), []
    for _ in range(3):
        before = proxy.round_trips
        await asyncio.to_thread(asyncio.run, service.get_user_state(**USER))
        trips.append(proxy.round_trips - before)
    assert trips[1] == trips[2] <= 4


def test_closing_reaches_a_loop_that_runs_in_another_thread(database_url: str) -> None:
    service = DatabaseSessionService(database_url)
    used, closed = threading.Event(), threading.Event()

    async def use() -> None:
        await service.get_user_state(**USER)
        used.set()
        await asyncio.to_thread(closed.wait, 30)

    thread = threading.Thread(target=asyncio.run, args=(use(),))
    thread.start()
    assert used.wait(30)
    asyncio.run(service.close())
    asyncio.run(until_connections(database_url, 0))
    closed.set()
    thread.join()


def test_closing_reaches_a_loop_that_stands_still_as_soon_as_it_runs(database_url: str) -> None:
    service = DatabaseSessionService(database_url)
    with asyncio.Runner() as runner:
        runner.run(_turn(service, "x"))
        with ThreadPoolExecutor(1) as other:
            other.submit(asyncio.run, service.close()).result()
        runner.run(until_connections(database_url, 0))
        runner.run(_turn(service, "y"))
    asyncio.run(until_connections(database_url, 0))


async def test_closing_reaches_a_connection_that_is_in_use(database_url: str) -> None:
    service = DatabaseSessionService(database_url)
    session = await service.create_session(**USER)
    async with locked(database_url) as lock:
        append = asyncio.ensure_future(service.append_event(session, said("x")))
        await lock.until_blocked(1)
        await service.close()
        with pytest.raises(DatabaseUnavailable, match="was closed while a call was under way"):
            await append
        await lock.until_unblocked()
        await lock.release()
    assert session.events == []
    await until_connections(database_url, 0)
    assert await service.get_session(**USER, session_id=session.id) == session
    await service.close()
    await until_connections(database_url, 0)


async def test_what_a_listener_of_the_engine_given_began_is_no_part_of_a_call(
    database_url: str,
) -> None:
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://", 1))

    @event.listens_for(engine.sync_engine, "connect")
    def _set_up(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("SET work_mem = '5MB'")  # begins a transaction and leaves it open
        cursor.close()

    async with Database(engine=engine) as database:
        service = DatabaseSessionService(database)
        assert await service.get_user_state(**USER) == {}
        sessions = await asyncio.gather(*(service.create_session(**USER) for _ in range(4)))
        for session in sessions:
            await service.append_event(session, said("x"))
            assert await service.get_session(**USER, session_id=session.id) == session


def test_each_loop_gets_a_pool_cloned_from_the_engine_given(database_url: str) -> None:
    engine = create_async_engine(
        database_url.replace("postgresql://", "postgresql+asyncpg://", 1),
        connect_args={"server_settings": {"application_name": "mine"}},
    )
    database = Database(engine=engine)

    async def name() -> str:
        own = await database.engine()
        assert own is not engine
        async with own.connect() as connection:
            found: str = (await connection.exec_driver_sql("SHOW application_name")).scalar_one()
            return found

    assert [asyncio.run(name()) for _ in range(2)] == ["mine", "mine"]
    assert engine.sync_engine.pool.checkedin() == 0  # type: ignore[attr-defined] # QueuePool has it
    asyncio.run(until_connections(database_url, 0))
    asyncio.run(database.close())
