"""A worker is killed and comes back: nothing lost, nothing doubled, and others go on."""

import asyncio
from itertools import chain

import pytest

from tests.fakes.citus import Own
from tests.fakes.citus_writers import Writers, node_of, users_of_parts

pytestmark = [pytest.mark.cluster, pytest.mark.fault]

EVENTS = 25


async def test_a_worker_is_killed_and_comes_back(own: Own) -> None:
    users = list(chain.from_iterable((await users_of_parts(own.url, 2)).values()))
    assert len(users) == 8
    writers = Writers([own.url])
    back = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user_id in users:
            group.create_task(writers.write(user_id, EVENTS, back))
        await writers.reached(5, users)
        own.cluster.nodes[1].kill()
        await own.cluster.nodes[1].start()
        back.set()
    await writers.check()
    await writers.close()


async def test_only_users_of_that_node_wait(own: Own) -> None:
    lost = own.cluster.nodes[1]
    users = list(chain.from_iterable((await users_of_parts(own.url, 2)).values()))
    theirs = [user_id for user_id in users if await node_of(own.url, user_id) == lost.port]
    others = [user_id for user_id in users if user_id not in theirs]
    assert len(theirs) == len(others) == 4
    writers = Writers([own.url])
    back = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(writers.write(each, EVENTS, back)) for each in theirs]
        await writers.reached(5, theirs)
        lost.kill()
        async with asyncio.TaskGroup() as meanwhile:
            for user_id in others:
                meanwhile.create_task(writers.write(user_id, EVENTS))
        assert not any(task.done() for task in waiting)
        await lost.start()
        await writers.reached(1, theirs)
        back.set()
    await writers.check()
    await writers.close()
