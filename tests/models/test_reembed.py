"""Reembedding: online, resumed after anything, switched at once, and nothing is left out."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.queries import Query
from adkpg.tooling.models import statements
from adkpg.tooling.models.reembedding import Progress, Reembedded
from adkpg.tooling.models.service import Models
from tests.fakes.conversation import USER, conversation, entry, found
from tests.fakes.locks import locked
from tests.fakes.model_apps import (
    TEXTS,
    PickyEmbedder,
    active,
    asked_of,
    jobs,
    remember,
    vectors,
)
from tests.fakes.query_plans import explain, rows_read, scans
from tests.fakes.toys import GatedEmbedder, ToyEmbedder


@pytest.mark.usefixtures("by_threes")
async def test_every_memory_gets_a_vector_of_the_new_model_and_keeps_the_old_one(
    models: Models, old: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    await remember(old, "the kitten is ours", user=None)
    await old.add_session_to_memory(conversation("the puppy", "the hound"))
    told: list[Progress] = []
    embedder = ToyEmbedder("new")
    assert await models.reembed(embedder, app_name="app", progress=told.append) == [
        Reembedded("app", 11, 0)
    ]
    assert [len(batch) for batch in embedder.documents] == [3, 3, 3, 2]
    assert told[:4] == [Progress("app", covered, 11) for covered in (0, 3, 6, 9)]
    assert told[-1] == Progress("app", 11, 11)
    assert (await active(connection), await jobs(connection)) == ("new", 0)
    assert (await vectors(connection, "old"), await vectors(connection, "new")) == (11, 11)
    new = PgVectorMemoryService(database, embedder=embedder)
    assert set(await found(new, "feline", mode="vector")) == {*TEXTS[::2], "the kitten is ours"}
    assert await models.reembed(embedder, app_name="app") == [Reembedded("app", 0, 0)]
    assert len(asked_of(embedder)) == 11


async def test_all_apps_are_changed_over_unless_one_is_named(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for app in ("a", "b"):
        await remember(old, "the kitten sleeps", app=app)
    await models.activate("old", app_name="empty")
    await models.reembed(ToyEmbedder("new"), app_name="a")
    assert (await active(connection, "a"), await active(connection, "b")) == ("new", "old")
    assert await models.reembed(ToyEmbedder("new")) == [
        Reembedded("a", 0, 0),
        Reembedded("b", 1, 0),
        Reembedded("empty", 0, 0),
    ]
    assert {await active(connection, app) for app in ("a", "b", "empty")} == {"new"}


async def test_an_app_that_is_not_there_yet_is_prepared(
    models: Models, connection: asyncpg.Connection
) -> None:
    assert await models.reembed(ToyEmbedder("new"), app_name="app") == [Reembedded("app", 0, 0)]
    assert await active(connection) == "new"


async def test_searches_answer_from_the_old_model_until_the_switch(
    models: Models, old: PgVectorMemoryService, database: Database
) -> None:
    await remember(old, *TEXTS)
    embedder = GatedEmbedder("new")
    new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
    running = asyncio.create_task(models.reembed(embedder, app_name="app"))
    await embedder.asked.wait()
    assert len(await found(old, "feline")) == 4
    assert await found(new, "feline") == []
    embedder.gate.set()
    await running
    assert await found(old, "feline") == []
    assert len(await found(new, "feline")) == 4


async def test_no_transaction_is_open_while_texts_are_embedded(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    embedder = GatedEmbedder("new")
    running = asyncio.create_task(models.reembed(embedder, app_name="app"))
    await embedder.asked.wait()
    states = await connection.fetch(
        "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    assert {row["state"] for row in states} == {"idle"}
    embedder.gate.set()
    await running


@pytest.mark.usefixtures("by_threes")
async def test_what_comes_changes_and_goes_meanwhile_is_covered(
    models: Models, old: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    embedder = GatedEmbedder("new")
    running = asyncio.create_task(models.reembed(embedder, app_name="app"))
    await embedder.asked.wait()
    read = await connection.fetch("SELECT memory_id FROM memories ORDER BY position LIMIT 3")
    changed, gone, _ = (row["memory_id"] for row in read)
    await old.add_memory(**USER, memories=[entry("the automobile", changed)])
    await old.delete_memory(**USER, memory_id=gone)
    await remember(old, "the oolong", "the hound at the end")
    await remember(old, "the vehicle", user="another")
    await remember(old, "the tea", user=None)
    embedder.gate.set()
    (done,) = await running
    assert done.embedded + done.queued == 8 - 1 + 4
    assert (await active(connection), await jobs(connection)) == ("new", 0)
    assert await vectors(connection, "new") == 11
    new = PgVectorMemoryService(database, embedder=ToyEmbedder("new"))
    assert await found(new, "car", mode="vector") == ["the automobile"]
    assert set(await found(new, "brew", mode="vector")) == {"the oolong", "the tea"}


async def test_what_comes_between_the_last_pass_and_the_switch_is_queued_and_embedded(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, *TEXTS)
    embedder = ToyEmbedder("new")
    async with locked(database_url, "SELECT FROM adkpg.app_settings FOR SHARE") as lock:
        running = asyncio.create_task(models.reembed(embedder, app_name="app"))
        await lock.until_blocked(1)
        await remember(old, "the late kitten")
        await lock.release()
    assert await running == [Reembedded("app", 8, 1)]
    assert (await active(connection), await jobs(connection)) == ("new", 0)
    assert await vectors(connection, "new") == 9


async def test_an_ingest_on_its_way_at_the_switch_stays_queued_for_the_new_model(
    models: Models, database: Database, connection: asyncpg.Connection
) -> None:
    """Its old vector would take away its place in the queue and never be compared."""
    await remember(PgVectorMemoryService(database, embedder=ToyEmbedder("old")), *TEXTS)
    slow = GatedEmbedder("old")
    ingest = asyncio.create_task(
        remember(PgVectorMemoryService(database, embedder=slow), "the late kitten")
    )
    await slow.asked.wait()
    (done,) = await models.reembed(ToyEmbedder("new"), app_name="app")
    slow.gate.set()
    await ingest
    assert (await vectors(connection, "old"), await vectors(connection, "new")) == (8, 9)
    assert (done.embedded, await jobs(connection)) == (9, 0)


async def test_a_vector_of_the_old_model_waits_for_the_switch_and_is_not_stored(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, *TEXTS)
    await models.add("new", dimensions=8)
    switching = (
        "UPDATE adkpg.app_settings SET model_id ="
        " (SELECT model_id FROM adkpg.embedding_models WHERE name = 'new')"
    )
    async with locked(database_url, switching) as lock:
        ingest = asyncio.create_task(remember(old, "the late kitten"))
        await lock.until_blocked(1)
        await lock.release()
    await ingest
    assert (await vectors(connection, "old"), await jobs(connection)) == (8, 1)


async def test_a_writer_of_other_columns_is_not_waited_for(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await remember(old, *TEXTS)
    async with connection.transaction():
        await connection.execute("UPDATE memories SET importance = 1")
        (done,) = await models.reembed(ToyEmbedder("new"), app_name="app")
    assert done == Reembedded("app", 8, 0)


async def test_the_switch_waits_for_a_writer_that_rewrites_a_memory(
    models: Models, old: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await remember(old, *TEXTS)
    rewriting = (
        "SELECT FROM adkpg.memories WHERE position ="
        " (SELECT min(position) FROM adkpg.memories) FOR UPDATE"
    )
    async with locked(database_url, rewriting) as lock:
        running = asyncio.create_task(models.reembed(ToyEmbedder("new"), app_name="app"))
        await lock.until_blocked(1)
        await lock.release()
    assert await running == [Reembedded("app", 7, 1)]
    assert (await vectors(connection, "new"), await jobs(connection)) == (8, 0)


async def test_jobs_of_the_old_model_end_where_the_new_vectors_are(
    models: Models, database: Database, connection: asyncpg.Connection
) -> None:
    """Dead letters of the old embedder need no second embedding by the new one."""
    await remember(PgVectorMemoryService(database, embedder=ToyEmbedder("old")), "the kitten")
    picky = PgVectorMemoryService(database, embedder=PickyEmbedder("old"))
    await remember(picky, *TEXTS)
    await connection.execute("UPDATE memory_jobs SET dead = position % 2 = 0")
    embedder = ToyEmbedder("new")
    await models.reembed(embedder, app_name="app")
    assert (await jobs(connection), len(asked_of(embedder))) == (0, 9)


@pytest.mark.plan
@pytest.mark.parametrize("covered", [0, 20_000])
async def test_what_lacks_a_vector_is_looked_up_by_key_from_where_the_pass_is(
    models: Models, connection: asyncpg.Connection, covered: int
) -> None:
    """Whatever the planner knows: else each batch would read all that the app has."""
    await models.add("new", dimensions=8)
    await models.add("old", dimensions=8)
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, timestamp,"
        " content, body, length, digest) SELECT 'app', 'user', n, n, 'turn', '', now(), '{}', '',"
        " 0, '' FROM generate_series(1, 20000) n;"
        "INSERT INTO memory_vectors (app_name, user_id, model_id, position)"
        " SELECT app_name, user_id, model_id, position FROM memories, embedding_models"
        f" WHERE model_id = 2 OR position <= {covered}"
    )
    app: Any = {"app_name": "app", "model_id": 1}
    places = statements.select_lacking(**app, after_user="user", after_position=10_000, limit=64)
    keys: Any = {"user_ids": ["user"] * 64, "positions": list(range(1, 65))}
    asked: list[tuple[Query[Any], int]] = [
        (places, 10_000),
        (statements.select_texts(**app, **keys), 64),
    ]
    for analyze in ("SELECT", "ANALYZE"):
        await connection.execute(analyze)
        for generic in (False, True):
            for query, most in asked:
                nodes = await explain(connection, query, generic=generic)
                for table, models_each in (("memories", 1), ("memory_vectors", 2)):
                    for node in scans(nodes, table):
                        assert "Seq Scan" not in node["Node Type"]
                        assert rows_read(node) <= models_each * most
                (looked_up,) = scans(nodes, "memory_vectors")
                assert looked_up["Index Name"].startswith("memory_vectors_p")
