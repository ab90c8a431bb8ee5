"""A call whose answer is lost at any of its round trips does what it would have done, once."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from adkpg import Database
from adkpg.tables import metadata
from tests.fakes.proxy import Proxy
from tests.fakes.world import BEFORE, CALLS, World, held_by_others

pytestmark = pytest.mark.fault

# All but words, which are the text's, and that is another each time.
TABLES = [
    table.name
    for table in metadata.sorted_tables
    if "user_id" in table.c and table.name != "memory_lexemes"
]


@pytest.fixture
async def world(proxy: Proxy) -> AsyncIterator[World]:
    async with Database(proxy.url) as database:
        yield World(database)


async def rows_of(connection: asyncpg.Connection, user_id: str) -> dict[str, int]:
    return {
        name: await connection.fetchval(f"SELECT count(*) FROM {name} WHERE user_id = $1", user_id)
        for name in TABLES
    }


@pytest.mark.parametrize("name", CALLS)
async def test_nobody_hears_of_it_and_nothing_is_there_twice(
    world: World, proxy: Proxy, connection: asyncpg.Connection, name: str
) -> None:
    before, call = BEFORE.get(name), CALLS[name]
    await world.facts.enable("app")
    await world.models.add("toy", dimensions=8)
    await world.models.add("spare", dimensions=8)
    left: list[dict[str, int]] = []
    round_trip = 0
    while True:
        round_trip += 1
        await world.prepare()
        if before is not None:
            await before(world)
        proxy.hold(round_trip, "answer")
        task = asyncio.ensure_future(call(world))
        waiting = asyncio.create_task(proxy.held.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        waiting.cancel()
        reached = proxy.held.is_set()
        if reached:
            proxy.cut()
        proxy.release()
        async with asyncio.timeout(30):
            await task
        assert await held_by_others(connection) == [], f"after round trip {round_trip}"
        left.append(await rows_of(connection, world.user["user_id"]))
        if not reached:
            break
    assert round_trip > 1, "the call makes no round trip"
    assert left == [left[-1]] * round_trip
