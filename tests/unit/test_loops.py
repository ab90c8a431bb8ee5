import asyncio

import pytest

from adkpg.loops import PerLoop


async def test_a_loop_has_one_semaphore() -> None:
    limit = PerLoop(lambda: asyncio.Semaphore(2))
    assert limit.here() is limit.here()


def test_each_loop_has_its_own_and_closed_loops_are_forgotten() -> None:
    limit = PerLoop(lambda: asyncio.Semaphore(1))

    async def contend() -> asyncio.Semaphore:
        async def hold() -> None:
            async with limit.here():
                await asyncio.sleep(0)

        await asyncio.gather(hold(), hold())
        return limit.here()

    one, two = asyncio.run(contend()), asyncio.run(contend())
    assert one is not two
    assert len(limit._held) == 1


def test_outside_of_a_loop_there_is_none() -> None:
    with pytest.raises(RuntimeError):
        PerLoop(lambda: asyncio.Semaphore(1)).here()
