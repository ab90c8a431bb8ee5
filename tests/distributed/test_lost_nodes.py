"""A worker is killed and comes back: nothing lost, nothing doubled, and others go on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.events import Event

from adkpg import Database, DatabaseSessionService, Settings
from tests.fakes.citus import CitusServer, Cluster, said

pytestmark = [pytest.mark.cluster, pytest.mark.fault]

WRITERS, EVENTS = 8, 25

Own = tuple[Cluster, CitusServer, str]


async def _node_of(url: str, user_id: str) -> int:
    rows = await said(
        url,
        "SELECT nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid) WHERE shardid ="
        f" get_shard_id_for_distribution_column('adkpg.sessions', '{user_id}')",
    )
    return int(rows[0]["nodeport"])


class Writers:
    """Eight users who append at the same time, and what each was told was stored."""

    def __init__(self, url: str) -> None:
        self.database = Database(url, settings=Settings(retry_timeout_s=60.0))
        self.sessions = DatabaseSessionService(self.database)
        self.told: dict[str, list[str]] = {}
        self.reached = asyncio.Event()

    async def write(self, user_id: str) -> None:
        session = await self.sessions.create_session(
            app_name="app", user_id=user_id, session_id="s"
        )
        self.told[user_id] = []
        for number in range(EVENTS):
            event = Event(author="user", id=f"e{number}", invocation_id="i")
            await self.sessions.append_event(session, event)
            self.told[user_id].append(event.id)
            if sum(map(len, self.told.values())) > WRITERS * EVENTS // 8:
                self.reached.set()

    async def check(self) -> None:
        for user_id, told in self.told.items():
            stored = await self.sessions.get_session(
                app_name="app", user_id=user_id, session_id="s"
            )
            assert stored is not None
            assert [event.id for event in stored.events] == told
            assert len(told) == EVENTS


@pytest.fixture
async def own(cluster_programs: Path) -> AsyncIterator[Own]:
    cluster = Cluster(cluster_programs)
    try:
        await cluster.start()
        server = CitusServer(cluster.url)
        await server.prepare()
        yield cluster, server, await server.create(template=server.template)
    finally:
        cluster.stop()


async def test_a_worker_is_killed_and_comes_back(own: Own) -> None:
    cluster, server, database = own
    writers = Writers(server.url_of(database))
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(writers.write(f"u{number}"))
        await writers.reached.wait()
        cluster.nodes[1].kill()
        group.create_task(cluster.nodes[1].start())
    await writers.check()
    await writers.database.close()


async def test_others_go_on_while_a_worker_is_away(own: Own) -> None:
    cluster, server, database = own
    url = server.url_of(database)
    away = cluster.nodes[1].port
    others = [f"u{n}" for n in range(40) if await _node_of(url, f"u{n}") != away][:WRITERS]
    cluster.nodes[1].kill()
    writers = Writers(url)
    async with asyncio.TaskGroup() as group:
        for user_id in others:
            group.create_task(writers.write(user_id))
    await writers.check()
    await writers.database.close()
    await cluster.nodes[1].start()
