"""Threads with event loops of their own, and closing in the middle of a read."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, found, remember_apart
from tests.fakes.proxy import Part
from tests.fakes.replicated import PAUSE_S, Replicated
from tests.fakes.replication import until

pytestmark = pytest.mark.fault

PLACE = {**USER, "session_id": "s"}
THREADS = 4
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'"


async def test_threads_with_loops_of_their_own_share_what_is_known(both: Replicated) -> None:
    """What one thread has written, each reads, while replay stands still now and then."""
    database = both.database()
    service, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
    await service.create_session(**PLACE)
    await remember_apart(memory, "I like plums")
    written = 0
    ended = False

    async def read_on() -> int:
        reads = shown = 0
        while not ended:
            sent = written
            session = await service.get_session(**PLACE)
            assert session is not None
            now = len(session.events)
            assert now >= max(sent, shown), "older than what was written or seen"
            shown = now
            assert await found(memory, "plums") == ["I like plums"]
            reads += 1
        return reads

    with ThreadPoolExecutor(THREADS) as threads:
        reading = [threads.submit(asyncio.run, read_on()) for _ in range(THREADS)]
        try:
            live = await service.get_session(**PLACE)
            assert live is not None
            for number in range(20):
                if number % 6 == 3:
                    await both.pause()
                if number % 6 == 5:
                    await both.resume()
                await service.append_event(live, said(str(number)))
                written += 1
                await asyncio.sleep(PAUSE_S)
        finally:
            ended = True
            await asyncio.to_thread(lambda: [each.result() for each in reading])
    assert all(each.result() > 0 for each in reading)
    assert both.standby.round_trips > 20
    await database.close()
    for node in (both.pair.primary, both.pair.standby):

        async def gone(value: Callable[[str], Awaitable[object]] = node.value) -> bool:
            return await value(CONNECTED.format(both.name)) == 0

        await until(gone)


@pytest.mark.parametrize("part", ["question", "answer"])
async def test_closing_while_a_read_is_under_way_on_the_standby(
    both: Replicated, part: Part
) -> None:
    """The read ends as if nothing was, and its connection is not kept."""
    async with both.database() as database:
        service = DatabaseSessionService(database)
        live = await service.create_session(**PLACE)
        await both.caught_up()

        async def answers() -> bool:
            await asyncio.sleep(PAUSE_S)
            before = both.primary.round_trips
            assert await service.get_session(**PLACE) == live
            return both.primary.round_trips == before

        await until(answers)
        both.standby.hold(1, part)
        reading = asyncio.create_task(service.get_session(**PLACE))
        await both.standby.held.wait()
        closing = asyncio.create_task(database.close())
        await closing
        both.standby.release()
        assert await reading == live
    for node in (both.pair.primary, both.pair.standby):

        async def gone(value: Callable[[str], Awaitable[object]] = node.value) -> bool:
            return await value(CONNECTED.format(both.name)) == 0

        await until(gone)
