"""A node is added and parts move to it under load: nothing lost, nothing doubled, nobody told."""

import asyncio
from itertools import chain

import pytest

from adkpg import Database
from tests.fakes.citus import Own, said
from tests.fakes.citus_writers import Writers, node_of, users_of_parts

pytestmark = [pytest.mark.cluster, pytest.mark.fault]


async def test_parts_move_to_a_new_node_under_writers(own: Own) -> None:
    parts = await users_of_parts(own.url, 2)
    users = list(chain.from_iterable(parts.values()))
    assert len(users) == 8
    writers = Writers(await own.server.nodes_of(own.database))
    moved = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user_id in users:
            group.create_task(writers.write(user_id, 25, moved))
        await writers.reached(5, users)
        added = await own.cluster.add(own.database)
        await said(own.url, "SELECT citus_rebalance_start(shard_transfer_mode => 'force_logical')")
        await said(own.url, "SELECT citus_rebalance_wait()")
        await writers.reached(5, users)
        moved.set()
    assert added.port in {await node_of(own.url, user_id) for user_id in users}
    await writers.check()
    await writers.close()


async def test_what_a_move_does_not_carry_is_given_back(own: Own) -> None:
    added = await own.cluster.add(own.database)
    await said(own.url, "SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')")
    async with Database(own.url) as database:
        steps = await database.distribute()
        assert steps
        assert all("n_distinct" in step for step in steps)
        assert await database.distribute() == []
    on_it = await said(own.url, f"SELECT count(*) FROM citus_shards WHERE nodeport = {added.port}")
    assert on_it[0]["count"] > 0
