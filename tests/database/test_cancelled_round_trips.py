"""A call cancelled at any of its round trips costs nobody else anything, and leaves no lock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import asyncpg
import pytest

from adkpg import Database, Settings
from adkpg.database import LOOK
from adkpg.errors import DatabaseUnavailable
from adkpg.tooling.operations.catalog_statements import select_recovery
from adkpg.tooling.testing import said
from tests.fakes.locks import until_connections
from tests.fakes.proxy import Part, Proxy
from tests.fakes.world import BEFORE, CALLS, World, held_by_others

pytestmark = pytest.mark.fault

BOB: dict[str, Any] = {"app_name": "bob's app", "user_id": "bob"}

Cancelled = tuple[asyncio.Task[None], Callable[[], object]]


def by_asyncio(call: Callable[[], Awaitable[object]]) -> Cancelled:
    """Starts a call; returns its task and what cancels it once."""

    async def run() -> None:
        await call()

    task = asyncio.create_task(run())
    return task, task.cancel


def by_anyio(call: Callable[[], Awaitable[object]]) -> Cancelled:
    """Starts a call; returns its task and what cancels it as ADK's server does: each await."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await call()

    return asyncio.create_task(run()), scope.cancel


@pytest.fixture
async def world(proxy: Proxy) -> AsyncIterator[World]:
    async with Database(proxy.url) as database:
        yield World(database)


@pytest.mark.parametrize(("start", "part"), [(by_anyio, "question"), (by_asyncio, "answer")])
@pytest.mark.parametrize("name", CALLS)
async def test_others_lose_nothing_and_wait_for_nothing(
    world: World,
    proxy: Proxy,
    connection: asyncpg.Connection,
    name: str,
    start: Callable[[Callable[[], Awaitable[object]]], Cancelled],
    part: Part,
) -> None:
    before, call = BEFORE.get(name), CALLS[name]
    await world.facts.enable("app")
    await world.models.add("toy", dimensions=8)
    await world.models.add("spare", dimensions=8)
    bob = await world.sessions.create_session(**BOB)
    told: list[str] = []
    round_trip = 0
    while True:
        round_trip += 1
        await world.prepare()
        if before is not None:
            await before(world)
        proxy.hold(round_trip, part)
        task, cancel = start(lambda: call(world))
        waiting = asyncio.create_task(proxy.held.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        waiting.cancel()
        reached = proxy.held.is_set()
        if reached:
            cancel()
        await asyncio.sleep(0)
        proxy.release()
        await asyncio.wait({task}, timeout=30)
        assert task.done(), f"round trip {round_trip} goes on after its cancellation"
        if not reached:
            task.result()
            break
        event = await world.sessions.append_event(bob, said(f"{round_trip}", id=f"b{round_trip}"))
        told.append(event.id)
        assert await held_by_others(connection) == [], f"after round trip {round_trip}"
        taken = "SELECT count(*) FROM sessions WHERE invocation_expires_at IS NOT NULL"
        assert await connection.fetchval(taken) == 0, f"after round trip {round_trip}"
        claimed = "SELECT count(*) FROM memory_jobs WHERE lease_expires_at > now()"
        assert await connection.fetchval(claimed) == 0, f"after round trip {round_trip}"
    rows = await connection.fetch(
        "SELECT event_id FROM events WHERE user_id = 'bob' ORDER BY event_id"
    )
    assert [row["event_id"] for row in rows] == sorted(told)
    rows = await connection.fetch("SELECT event_id FROM memories WHERE user_id = 'bob'")
    assert sorted(row["event_id"] for row in rows) == sorted(told)
    assert told, "the call makes no round trip"


async def test_a_look_that_was_cancelled_takes_no_connection_from_the_next_call(
    world: World, proxy: Proxy
) -> None:
    """The engine closes a connection by itself, and leaves its place in the pool empty."""
    for look in (
        world.database.installation.found,
        world.database.connections.lies_behind,
        lambda: world.database.run.fetch(select_recovery(), policy=LOOK),
    ):
        await look()
        for round_trip in (1, 2):
            proxy.hold(round_trip, "answer")
            looking, cancel = by_asyncio(look)
            held = asyncio.create_task(proxy.held.wait())
            await asyncio.wait((looking, held), return_when=asyncio.FIRST_COMPLETED)
            cancel()
            proxy.release()
            await asyncio.wait((looking,))
            held.cancel()
            assert await world.sessions.get_session(**BOB, session_id="s") is None


async def test_a_connection_whose_server_does_not_hear_of_a_cancellation_is_nobodys(
    proxy: Proxy,
) -> None:
    settings = Settings.model_validate({"pool_size": 1})
    async with Database(proxy.url, settings=settings) as database:
        await database.run.fetch(select_recovery())
        proxy.hold(1, "answer")
        asking, cancel = by_asyncio(lambda: database.run.fetch(select_recovery()))
        await proxy.held.wait()
        cancel()
        await asyncio.wait({asking})
        async with asyncio.timeout(30):  # half of what a call may wait for the server
            assert len(await database.run.fetch(select_recovery())) == 1
        assert asking.cancelled()
        proxy.release()


@pytest.mark.parametrize("start", [by_asyncio, by_anyio])
async def test_whoever_waits_behind_a_call_that_is_cancelled_as_it_connects_connects_instead(
    proxy: Proxy, start: Callable[[Callable[[], Awaitable[object]]], Cancelled]
) -> None:
    """As soon as the connection that was begun has failed."""
    settings = Settings.model_validate(
        {"pool_size": 1, "pool_timeout_s": 600.0, "connect_timeout_s": 0.5}
    )
    async with Database(proxy.url, settings=settings) as database:
        await database.run.fetch(select_recovery())
        await database.close()
        proxy.hold(1, "answer")
        connecting, cancel = start(lambda: database.run.fetch(select_recovery()))
        await proxy.held.wait()
        waiting = asyncio.create_task(database.run.fetch(select_recovery()))
        await asyncio.sleep(0)
        cancel()
        async with asyncio.timeout(60):
            assert len(await waiting) == 1
        await asyncio.wait({connecting})
        assert database.connections.use()[0] == 0
        proxy.release()


async def test_places_of_connections_that_are_refused_are_free_again(proxy: Proxy) -> None:
    settings = Settings.model_validate(
        {"pool_size": 1, "pool_timeout_s": 600.0, "retry_timeout_s": 0.0}
    )
    async with Database(proxy.url, settings=settings, max_overflow=2) as database:
        await database.run.fetch(select_recovery())
        await database.close()
        await proxy.leave()
        asking = (database.run.fetch(select_recovery()) for _ in range(8))
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(each) for each in answers} == {DatabaseUnavailable}
        assert database.connections.use()[0] == 0
        await proxy.come_back()
        asking = (database.run.fetch(select_recovery()) for _ in range(8))
        assert len(await asyncio.gather(*asking)) == 8


@pytest.mark.direct("a pooler keeps its connections to the server")
@pytest.mark.parametrize("start", [by_asyncio, by_anyio])
async def test_a_close_that_is_cancelled_closes_all_the_same(
    proxy: Proxy,
    database_url: str,
    start: Callable[[Callable[[], Awaitable[object]]], Cancelled],
) -> None:
    database = Database(proxy.url)
    await asyncio.gather(*(database.run.fetch(select_recovery()) for _ in range(3)))
    proxy.hold(1, "answer")
    given_up, give_up = by_asyncio(lambda: database.run.fetch(select_recovery()))
    await proxy.held.wait()
    give_up()
    await asyncio.wait({given_up})
    closing, cancel = start(database.close)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not closing.done(), "it waits for a connection that says nothing"
    cancel()
    proxy.release()
    await until_connections(database_url, 0)
    await asyncio.wait({closing})
    assert database.connections.use() == (0, 0, 0)
