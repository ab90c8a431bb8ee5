"""A node is added and parts move to it under load: nothing lost, nothing doubled, nobody told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any

import asyncpg
import pytest
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
)
from adkpg.telemetry import calls
from adkpg.tooling.testing import said as turn
from adkpg.tooling.testing import texts
from tests.fakes.citus import Own, home_of, said
from tests.fakes.citus_lives import Lives
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


def _on_the_other_but(*known: str) -> str:
    """The same of all tables but some."""
    names = ", ".join(f"'adkpg.{each}'::regclass" for each in known)
    return (
        f"{_ON_THE_OTHER} AND shardid NOT IN"
        f" (SELECT shardid FROM pg_dist_shard WHERE logicalrelid IN ({names}))"
    )


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


@pytest.mark.parametrize("mode", ["force_logical", "block_writes"])
async def test_parts_move_under_all_kinds_of_writes(own: Own, mode: str) -> None:
    parts = await users_of_parts(own.url, 1)
    users = list(chain.from_iterable(parts.values()))
    lives = Lives(await own.server.nodes_of(own.database))
    moved = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user_id in users:
            group.create_task(lives.live(user_id, moved))
        await lives.reached(2, users)
        before = [await node_of(own.url, user_id) for user_id in users]
        await own.cluster.add(own.database)
        await said(own.url, f"SELECT rebalance_table_shards(shard_transfer_mode => '{mode}')")
        await lives.reached(2, users)
        moved.set()
    assert before != [await node_of(own.url, user_id) for user_id in users]
    await lives.check()
    await lives.close()


def _quietly(change: str) -> str:
    """Makes a change of a catalog, and no process is told of it."""
    return f"DO $$ BEGIN SET LOCAL session_replication_role = replica; {change}; END $$"


@asynccontextmanager
async def _missing_a_move(url: str) -> AsyncIterator[None]:
    """A node's parts are elsewhere, and no process on it that knew where they were is told so.

    Citus loses the news that come while a process reads where all parts are.
    """
    await said(url, _quietly(_ON_THE_OTHER))
    try:
        yield
    finally:
        await said(url, _quietly(_ON_THE_OTHER))


async def _append(service: DatabaseSessionService, session: Session) -> None:
    await service.append_event(session, turn("tea", id="e"))


async def _create(service: DatabaseSessionService, session: Session) -> None:
    del session
    await service.create_session(**USER, session_id="another")


async def _ingest(service: DatabaseSessionService, session: Session) -> None:
    await PgVectorMemoryService(service.database, mode="text").add_session_to_memory(session)


async def _ingest_what_is_kept_elsewhere(service: DatabaseSessionService, session: Session) -> None:
    """The session is not stored: nothing is written before its memories are."""
    del session
    await _ingest(service, Session(id="elsewhere", events=[turn("juice", id="juice")], **USER))


async def _merge(service: DatabaseSessionService, session: Session) -> None:
    del session
    await service.update_state(**USER, state_delta={"user:tea": "green"})


@pytest.mark.parametrize("through", ["its node", "the coordinator"])
@pytest.mark.parametrize(
    "call", [_append, _create, _merge, _ingest, _ingest_what_is_kept_elsewhere]
)
async def test_a_process_that_missed_a_move_ends_instead_of_writing_to_what_is_left_there(
    database: Database,
    nodes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[DatabaseSessionService, Session], Coroutine[Any, Any, None]],
    through: str,
) -> None:
    told = asyncio.Event()
    monkeypatch.setattr(calls, "retried", told.set)
    session = await DatabaseSessionService(database).create_session(**USER, session_id="s")
    await DatabaseSessionService(database).append_event(session, turn("coffee"))
    url = await home_of(nodes[0], USER["user_id"])
    asked = url if through == "its node" else nodes[0]
    async with Database(asked, pool_size=1, max_overflow=0) as at_node:
        service = DatabaseSessionService(at_node)
        own = await service.get_session(**USER, session_id="s")
        assert own is not None
        await _ingest(service, own)
        await service.append_event(own, turn("milk"))
        await service.create_session(**USER)
        await service.update_state(**USER, state_delta={"user:tea": "black"})
        told.clear()
        async with _missing_a_move(url):
            calling = asyncio.create_task(call(service, own))
            await asyncio.wait(
                [calling, asyncio.create_task(told.wait())], return_when="FIRST_COMPLETED"
            )
        assert told.is_set()
        await calling
    stored = await DatabaseSessionService(database).get_session(**USER, session_id="s")
    assert stored is not None
    assert texts(stored) == ["coffee", "milk", *(["tea"] if call is _append else [])]
    listed = await DatabaseSessionService(database).list_sessions(**USER)
    assert ("another" in {each.id for each in listed.sessions}) == (call is _create)
    memories = await PgVectorMemoryService(database, mode="text").count_memories(**USER)
    assert memories == (1 if call in (_append, _create, _merge) else 2)
    tea = {"tea": "green" if call is _merge else "black"}
    assert await DatabaseSessionService(database).get_user_state(**USER) == tea


async def _converse(database: Database, session: Session) -> None:
    service = DatabaseSessionService(database)
    state = {"own": 1, "user:tea": "green"}
    await service.append_event(session, turn("tea", id="e", state=state))
    await service.create_session(**USER, session_id="another", state={"user:cups": 1})


async def _run(database: Database, session: Session) -> None:
    service = DatabaseSessionService(database)
    async with service.invocation(**USER, session_id=session.id, key="k") as run:
        run.finish("done")
    await service.delete_session(**USER, session_id="old")


async def _keep(database: Database, session: Session) -> None:
    files = DatabaseArtifactService(database)
    part = types.Part(inline_data=types.Blob(data=b"tea", mime_type="text/plain"))
    await files.save_artifact(**USER, session_id=session.id, filename="f", artifact=part)


@pytest.mark.parametrize("call", [_converse, _run, _keep])
async def test_what_a_process_believes_of_further_tables_sends_no_write_astray(
    database: Database,
    nodes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Database, Session], Awaitable[None]],
) -> None:
    """It missed a move of them alone: those of one table were read when that was over.

    What it sends there is refused, and made anew once, in a process that knows.
    """
    repeated: list[None] = []
    monkeypatch.setattr(calls, "retried", lambda: repeated.append(None))
    service = DatabaseSessionService(database)
    session = await service.create_session(**USER, session_id="s")
    await service.create_session(**USER, session_id="old")
    url = await home_of(nodes[0], USER["user_id"])
    tables = await said(
        url, "SELECT logicalrelid::text FROM pg_dist_partition WHERE partmethod = 'h'"
    )
    # By the one a call finds its node, and keeps the parts there by the other.
    known = ["sessions"] if call is _converse else ["sessions", "user_states"]
    on_the_other = _on_the_other_but(*known)
    async with Database(url, pool_size=1, max_overflow=0, remember=True) as at_node:
        await at_node.check()
        await said(url, on_the_other)
        async with (await at_node.engine()).connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            for (table,) in tables:
                with suppress(asyncpg.PostgresError):  # the other node has no such part
                    await driver.execute(f"DELETE FROM {table} WHERE user_id = 'u' AND false")
                    await driver.fetch(f"SELECT FROM {table} WHERE user_id = '{USER['user_id']}'")
        await said(url, _quietly(on_the_other))
        await call(at_node, session)
    assert len(repeated) <= 1
    stored = await service.get_session(**USER, session_id="s")
    assert stored is not None
    listed = {each.id for each in (await service.list_sessions(**USER)).sessions}
    memories = await PgVectorMemoryService(database, mode="text").count_memories(**USER)
    files = await DatabaseArtifactService(database).list_artifact_keys(**USER, session_id="s")
    if call is _converse:
        assert texts(stored) == ["tea"]
        assert dict(stored.state) == {"own": 1, "user:tea": "green", "user:cups": 1}
        assert (memories, listed) == (1, {"s", "old", "another"})
    else:
        assert (files, listed) == ((["f"], {"s", "old"}) if call is _keep else ([], {"s"}))


async def test_a_process_that_missed_a_move_merges_no_state_into_what_is_left_there(
    database: Database, nodes: list[str]
) -> None:
    await DatabaseSessionService(database).create_session(**USER, state={"user:tea": "green"})
    url = await home_of(nodes[0], USER["user_id"])
    merge = "SELECT merge_user_state_1($1, $2, $3, 1000000)"
    given = USER["app_name"], USER["user_id"]
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path = adkpg")
        await connection.fetchval(merge, *given, '{"cups": 1}')
        async with _missing_a_move(url):
            with pytest.raises((asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError)):
                await connection.fetchval(merge, *given, '{"cups": 2}')
    finally:
        await connection.close()
    service = DatabaseSessionService(database)
    assert await service.get_user_state(**USER) == {"tea": "green", "cups": 1}


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
    url = await home_of(nodes[0], USER["user_id"])
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
