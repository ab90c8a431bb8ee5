"""Places of a pool: callers that wait are served in turn, and none is lost."""

import asyncio
import random

import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adkpg.database.driver import Closed
from adkpg.database.places import Places

LONG_S = 60.0


async def test_callers_that_wait_are_served_in_turn() -> None:
    places, served = Places(1), []
    assert places.take()

    async def wait(number: int) -> None:
        await places.wait(LONG_S)
        served.append(number)
        places.give()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(wait(number))
        await asyncio.sleep(0)
        assert not places.take(), "others came first"
        places.give()
    assert (served, places.free) == ([0, 1, 2, 3, 4], 1)


@pytest.mark.parametrize("given_first", [True, False])
async def test_a_caller_that_gives_up_leaves_its_place_to_the_next(given_first: bool) -> None:
    places = Places(1)
    assert places.take()
    first = asyncio.create_task(places.wait(LONG_S))
    second = asyncio.create_task(places.wait(LONG_S))
    await asyncio.sleep(0)
    if given_first:
        places.give()
        first.cancel()
    else:
        first.cancel()
        places.give()
    await asyncio.wait({first})
    assert first.cancelled()
    await second
    assert places.free == 0


async def test_a_place_that_does_not_become_free_in_time_is_an_error_of_the_pool() -> None:
    places = Places(1)
    assert places.take()
    with pytest.raises(PoolTimeoutError):
        await places.wait(0.0)
    places.give()
    assert places.free == 1


async def test_closing_ends_the_wait() -> None:
    places = Places(1)
    assert places.take()
    waiting = asyncio.create_task(places.wait(LONG_S))
    await asyncio.sleep(0)
    places.close()
    with pytest.raises(Closed):
        await waiting


async def test_no_place_is_lost_or_doubled_whoever_gives_up() -> None:
    chance, places, used = random.Random(7), Places(3), 0

    async def call() -> None:
        nonlocal used
        if not places.take():
            await places.wait(LONG_S)
        used += 1
        assert used <= 3
        try:
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
        finally:
            used -= 1
            places.give()

    for _ in range(200):
        calls = [asyncio.create_task(call()) for _ in range(8)]
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        for each in chance.sample(calls, 4):
            each.cancel()
        await asyncio.wait(calls)
        assert all(each.cancelled() or each.exception() is None for each in calls)
        assert (places.free, used) == (3, 0)
