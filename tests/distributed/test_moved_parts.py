"""A node is added and parts move to it under load: nothing lost, nothing doubled, nobody told."""

import asyncio
from itertools import chain

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.telemetry import calls
from tests.fakes.citus import Own, said
from tests.fakes.citus_writers import Writers, node_of, users_of_parts
from tests.fakes.conversation import USER, entry

pytestmark = [pytest.mark.cluster, pytest.mark.fault]

_ON_THE_OTHER = (
    "UPDATE pg_dist_placement SET groupid ="
    " (SELECT sum(groupid) FROM pg_dist_node WHERE groupid <> 0) - groupid"
    " WHERE shardid IN (SELECT shardid FROM pg_dist_shard JOIN pg_dist_partition"
    " USING (logicalrelid) WHERE partmethod = 'h')"
)
"""Has a node believe that each part is on the other worker; run again, what is true."""


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


async def test_who_deletes_while_a_node_does_not_know_its_new_part_yet_is_told_nothing(
    database: Database, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("a kitten sleeps", "m")])
    here = await node_of(nodes[0], USER["user_id"])
    (url,) = [each for each in nodes if f":{here}/" in each]
    repeated = asyncio.Event()
    monkeypatch.setattr(calls, "retried", repeated.set)
    # As between a move's commit on the coordinator and on the node that the parts move to.
    await said(url, _ON_THE_OTHER)
    deleting = asyncio.create_task(memory.delete_memory(**USER, memory_id="m"))
    await asyncio.wait(
        [deleting, asyncio.create_task(repeated.wait())], return_when="FIRST_COMPLETED"
    )
    assert repeated.is_set()
    await said(url, _ON_THE_OTHER)
    await deleting
    assert await memory.count_memories(**USER) == 0
