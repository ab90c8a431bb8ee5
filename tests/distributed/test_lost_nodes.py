"""A worker is killed and comes back: nothing lost, nothing doubled, and others go on."""

import asyncio
from itertools import chain
from typing import Any

import asyncpg
import pytest
from google.genai import types

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
    Settings,
)
from adkpg.documents import Documents
from adkpg.erasure import forget
from adkpg.errors import DatabaseUnavailable
from adkpg.keys import APP_WIDE
from adkpg.memory.search.options import MODES
from adkpg.tooling.evaluation.asking import Memory
from adkpg.tooling.evaluation.dataset import Question
from adkpg.tooling.testing import said as said_of
from tests.fakes.citus import Own, said
from tests.fakes.citus_lives import Lives
from tests.fakes.citus_writers import Writers, node_of, user_on, users_of_parts
from tests.fakes.conversation import entry
from tests.fakes.locks import locked
from tests.fakes.toys import GatedEmbedder, ToyEmbedder

pytestmark = [pytest.mark.cluster, pytest.mark.fault]

EVENTS = 25
BATCH = 10


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


async def test_nodes_are_killed_and_come_back_under_all_kinds_of_writes(own: Own) -> None:
    """Each of three nodes in turn, to each of which some users are connected."""
    users = list(chain.from_iterable((await users_of_parts(own.url, 1)).values()))
    assert {await node_of(own.url, each) for each in users} == {
        node.port for node in own.cluster.nodes[1:]
    }
    lives = Lives(await own.server.nodes_of(own.database))
    back = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user_id in users:
            group.create_task(lives.live(user_id, back))
        for lost in own.cluster.nodes:
            await lives.reached(2, users)
            lost.kill()
            await lost.start()
        await lives.reached(2, users)
        back.set()
    await lives.check()
    await lives.close()


async def test_only_users_of_that_node_wait(own: Own) -> None:
    lost = own.cluster.nodes[1]
    users = list(chain.from_iterable((await users_of_parts(own.url, 2)).values()))
    theirs = [user_id for user_id in users if await node_of(own.url, user_id) == lost.port]
    others = [user_id for user_id in users if user_id not in theirs]
    assert len(theirs) == len(others) == 4
    writers = Writers([own.url])
    back = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for user_id in theirs:
            group.create_task(writers.write(user_id, EVENTS, back))
        await writers.reached(5, theirs)
        lost.kill()
        stored = {user_id: len(writers.told[user_id]) for user_id in theirs}
        async with asyncio.TaskGroup() as meanwhile:
            for user_id in others:
                meanwhile.create_task(writers.write(user_id, EVENTS))
        for user_id, events in stored.items():
            assert len(writers.told[user_id]) <= events + 1, "one answer was under way"
        await lost.start()
        await writers.reached(1, theirs)
        back.set()
    await writers.check()
    await writers.close()


async def test_whatever_a_user_of_another_node_calls_is_done_meanwhile(own: Own) -> None:
    lost, kept = own.cluster.nodes[1], own.cluster.nodes[2]
    place: dict[str, Any] = {"app_name": "app", "user_id": await user_on(own.url, kept.port)}
    settings = Settings.model_validate({"retry_timeout_s": 0.0})
    urls = [
        own.url,
        *(url for url in await own.server.nodes_of(own.database) if str(kept.port) in url),
    ]
    part = types.Part(text="tea")
    for number, url in enumerate(urls):
        async with Database(url, settings=settings) as database:
            sessions = DatabaseSessionService(database)
            artifacts = DatabaseArtifactService(database)
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
            # Whoever stores an app's first vector registers the model, on all nodes.
            await memory.add_memory(**place, memories=[entry("a kitten", f"first {number}")])
            lost.kill()
            session = await sessions.create_session(**place)
            await sessions.append_event(session, said_of("a kitten"))
            async with sessions.invocation(**place, session_id=session.id, key="k") as run:
                run.finish("done")
            await memory.add_memory(**place, memories=[entry("a kitten", f"m{number}")])
            await memory.add_session_to_memory(session)
            await memory.update_memory(**place, memory_id=f"m{number}", text="a puppy")
            (hit, *_) = await memory.search(**place, query="dog", mode="vector")
            assert hit.memory.id == f"m{number}"
            await memory.delete_memory(**place, memory_id=f"m{number}")
            saved = {**place, "session_id": session.id, "filename": "f"}
            assert await artifacts.save_artifact(**saved, artifact=part) == 0
            await artifacts.delete_artifact(**saved)
            fork = await sessions.fork_session(**place, session_id=session.id)
            assert len(fork.events) == 1
            await Documents(memory).add(**place, source="d.txt", text="A kitten sleeps. " * 50)
            await Documents(memory).delete(**place, source="d.txt")
            await sessions.delete_session(**place, session_id=session.id)
            await forget(database, **place)
            await lost.start()


async def test_a_search_answers_from_the_users_own_memories_while_the_apps_node_is_lost(
    own: Own, caplog: pytest.LogCaptureFixture
) -> None:
    port = await node_of(own.url, APP_WIDE)
    lost = next(node for node in own.cluster.nodes if node.port == port)
    kept = next(node for node in own.cluster.nodes[1:] if node is not lost)
    place: dict[str, Any] = {"app_name": "app", "user_id": await user_on(own.url, kept.port)}
    urls = [url for url in await own.server.nodes_of(own.database) if str(lost.port) not in url]
    assert len(urls) == 2
    for mode in MODES:
        asked: dict[str, Any] = {**place, "query": "a kitten", "mode": mode}
        for number, url in enumerate(urls):
            async with Database(url) as database:
                memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
                page, turn = f"page {mode} {number}", f"turn {mode} {number}"
                of_app: dict[str, Any] = {"app_name": "app", "user_id": None}
                await memory.add_memory(**of_app, memories=[entry(f"a kitten of {page}", page)])
                await memory.add_memory(**place, memories=[entry(f"a kitten of {turn}", turn)])
                found = {hit.memory.id for hit in await memory.search(**asked)}
                assert {page, turn} <= found
                lost.kill()
                caplog.clear()
                for neighbours in (0, 1, 1):
                    hits = await memory.search(**asked, neighbours=neighbours)
                    assert turn in {hit.memory.id for hit in hits}
                    assert page not in {hit.memory.id for hit in hits}
                    assert all(hit.reason.own_alone for hit in hits)
                assert "without the memories that app 'app' shares" in caplog.text
                measured = Memory(memory, "app", overrides={"mode": mode})
                recalled = await measured.ask(place["user_id"], Question("a kitten"))
                assert recalled.own_alone
                await lost.start()
                while (hits := await memory.search(**asked))[0].reason.own_alone:
                    await asyncio.sleep(0.05)
                assert {page, turn} <= {hit.memory.id for hit in hits}
                await memory.delete_memory(**of_app, memory_id=page)
                await memory.delete_memory(**place, memory_id=turn)


async def test_a_search_leaves_nobody_a_connection_that_waits_for_a_hanging_node(own: Own) -> None:
    port = await node_of(own.url, APP_WIDE)
    hanging = next(node for node in own.cluster.nodes if node.port == port)
    kept = next(node for node in own.cluster.nodes[1:] if node is not hanging)
    place: dict[str, Any] = {"app_name": "app", "user_id": await user_on(own.url, kept.port)}
    asked: dict[str, Any] = {**place, "query": "a kitten", "mode": "text"}
    settings = Settings.model_validate({"pool_size": 2})
    async with Database(own.url, settings=settings) as database:
        memory = PgVectorMemoryService(database)
        of_app: dict[str, Any] = {"app_name": "app", "user_id": None}
        await memory.add_memory(**of_app, memories=[entry("a kitten of all", "page")])
        await memory.add_memory(**place, memories=[entry("a kitten of one's own", "turn")])
        assert {hit.memory.id for hit in await memory.search(**asked)} == {"page", "turn"}
        with hanging.frozen():
            async with asyncio.timeout(settings.command_timeout_s / 2):
                for _ in range(5):
                    (hit,) = await memory.search(**asked)
                    assert hit.memory.id == "turn"
                    assert hit.reason.own_alone
        async with asyncio.timeout(60):
            while len(await memory.search(**asked)) < 2:
                await asyncio.sleep(0.05)


async def test_what_a_lost_node_did_not_do_is_not_said_to_be_done(own: Own) -> None:
    lost = own.cluster.nodes[1]
    async with Database(own.url) as database:
        lost.kill()
        await database.upgrade()  # nothing is new: processes may start
        with pytest.raises(DatabaseUnavailable, match=r"did not set n_distinct .* db distribute$"):
            await database.distribute()
        await lost.start()
        assert await database.distribute() == []


async def test_a_batch_of_memories_is_stored_once_though_its_node_dies_in_its_middle(
    own: Own,
) -> None:
    lost = own.cluster.nodes[1]
    user_id = await user_on(own.url, lost.port)
    # Whoever stores the fifth waits for this one, with four that are written.
    fifth = (
        "INSERT INTO adkpg.memories (app_name, user_id, position, memory_id, kind, session_id,"
        " timestamp, content, body, length, digest)"
        f" VALUES ('app', '{user_id}', 7, 'm4', 'note', '', now(), '{{}}', '', 0, '')"
    )
    async with Database(own.url) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        async with locked(own.url, fifth) as lock:
            adding = asyncio.create_task(add_batch(memory, user_id))
            await lock.until_blocked(1)
            lost.kill()
            await lost.start()
            await adding
        await check_batch(memory, own.url, user_id)


async def test_a_batch_of_memories_is_stored_once_though_its_node_dies_before_its_commit(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = own.cluster.nodes[1]
    user_id = await user_on(own.url, lost.port)
    execute, committed = asyncpg.Connection.execute, 0

    async def killing(connection: asyncpg.Connection, query: str, *args: Any, **kwargs: Any) -> str:
        nonlocal committed
        if query == "COMMIT":
            committed += 1
            if committed == 1:
                lost.kill()
                await lost.start()
        status: str = await execute(connection, query, *args, **kwargs)
        return status

    async with Database(own.url) as database:
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        await database.check()
        monkeypatch.setattr(asyncpg.Connection, "execute", killing)
        await add_batch(memory, user_id)
        monkeypatch.undo()
        assert committed > 1, "or it was not repeated"
        await check_batch(memory, own.url, user_id)


async def test_vectors_of_a_batch_are_stored_once_though_its_node_dies_before_them(
    own: Own,
) -> None:
    lost = own.cluster.nodes[1]
    user_id = await user_on(own.url, lost.port)
    async with Database(own.url) as database:
        embedder = GatedEmbedder()
        memory = PgVectorMemoryService(database, embedder=embedder)
        adding = asyncio.create_task(add_batch(memory, user_id))
        await embedder.asked.wait()
        lost.kill()
        embedder.gate.set()
        await lost.start()
        await adding
        await check_batch(memory, own.url, user_id)


async def add_batch(memory: PgVectorMemoryService, user_id: str) -> None:
    await memory.add_memory(
        app_name="app",
        user_id=user_id,
        memories=[entry(f"tea number {number}", f"m{number}") for number in range(BATCH)],
    )


async def check_batch(memory: PgVectorMemoryService, url: str, user_id: str) -> None:
    """Each memory is stored once and found, and has one vector and nothing that waits."""
    assert await memory.embed_pending() == 0
    listed = await memory.list_memories(app_name="app", user_id=user_id)
    assert sorted(str(each.id) for each in listed.items) == [f"m{n}" for n in range(BATCH)]
    (first,) = await memory.search(app_name="app", user_id=user_id, query="number 4", top_k=1)
    assert first.memory.id == "m4"
    rows = await said(
        url,
        "SELECT (SELECT count(*) FROM adkpg.memory_vectors),"
        " (SELECT count(*) FROM adkpg.memory_jobs)",
    )
    assert tuple(rows[0]) == (BATCH, 0)
