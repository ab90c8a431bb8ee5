"""The HNSW index: for users with very many memories alone, and right at any moment."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect

from adkpg import Database, PgVectorMemoryService, SearchFilters, Settings
from adkpg.database.migrating import migrations
from adkpg.memory.search import statements
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.index import extend_indexes
from tests.fakes.conversation import USER, entry, found, text_of
from tests.fakes.locks import locked, until_connections
from tests.fakes.queries import written
from tests.fakes.query_plans import explain, rows_read
from tests.fakes.toys import SeededEmbedder

EMBEDDER = SeededEmbedder(dimensions=32, clusters=100)
TURNS = [f"turn {number}" for number in range(3_000)]
QUESTIONS = [f"question {number}" for number in range(10_000, 10_020)]
SMALL: dict[str, Any] = {"app_name": "app", "user_id": "small"}
INDEX = "memory_vectors_hnsw_1"


# The planner is led by settings in the URL.
pytestmark = pytest.mark.direct("the pooler refuses settings of the server in startup parameters")


@pytest.fixture
async def large(database_url: str) -> AsyncIterator[PgVectorMemoryService]:
    """One user of 3,000 memories and one of 100, with an exact limit of 1,000.

    For so few the planner would sort rather than use the index that is there, so it may not.
    """
    settings = Settings(exact_limit=1_000, embedding_batch_size=2_048)
    unsorted = {"server_settings": {"enable_sort": "off"}}
    async with Database(
        database_url, settings=settings, connect_args=unsorted, pool_size=1, max_overflow=0
    ) as database:
        memory = PgVectorMemoryService(database, embedder=EMBEDDER, mode="vector")
        await memory.add_memory(**USER, memories=[entry(turn) for turn in TURNS])
        await memory.add_memory(**SMALL, memories=[entry(turn) for turn in TURNS[:100]])
        yield memory


async def recall_of(memory: PgVectorMemoryService, texts: list[str]) -> float:
    truth = EMBEDDER.nearest(QUESTIONS, texts, 10)
    hits = [
        len(set(await found(memory, question, top_k=10)) & nearest)
        for question, nearest in zip(QUESTIONS, truth, strict=True)
    ]
    return sum(hits) / 10 / len(QUESTIONS)


async def told(memory: PgVectorMemoryService, database_url: str) -> None:
    """Ends the service's connections, whose statistics the server has then counted."""
    await memory.database.close()
    await until_connections(database_url, 1)  # the test's own


async def indexes_of(
    connection: asyncpg.Connection, user: dict[str, str], *, approximate: bool
) -> set[str]:
    """The indexes that a user's search reads vectors from."""
    shape = statements.Shape(
        lexical=False,
        vector=True,
        approximate=(1, EMBEDDER.dimensions) if approximate else None,
    )
    parameters = {
        **user,
        "also_user_id": user["user_id"],
        "approximate_user_ids": [user["user_id"]],
        "exact_user_ids": [],
        "top_k": 10,
        "passages": 500,
        "invocation_id": None,
        "wordiness": 1.0,
        "query_vector": str(EMBEDDER.vector("question 1")),
        "model": EMBEDDER.model,
        "dimensions": EMBEDDER.dimensions,
        "inactive": False,
    }
    await connection.execute("ANALYZE memory_vectors")
    await connection.execute("SET enable_sort = off")
    await connection.execute(f"SET hnsw.ef_search = {vector_statements.ef_search(100)}")
    names = set()
    for generic in (False, True):
        nodes = await explain(
            connection, statements.evidence_statement(shape), parameters, generic=generic
        )
        names |= {
            node["Index Name"]
            for node in nodes
            if str(node.get("Index Name", "")).startswith("memory_vectors")
            and rows_read(node) not in (0, RANKING.sampled)  # so many tell what is usual
            and node["Actual Loops"] == 1  # the hits' passages are looked up one by one
        }
    return names


async def test_a_large_user_is_answered_through_the_index(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    assert await recall_of(large, TURNS) == 1.0
    assert await large.index_large_scopes() == 3_000
    assert await indexes_of(connection, USER, approximate=True) == {INDEX}
    # Nearly all vectors are this user's, so the table is as good as the primary key.
    assert INDEX not in await indexes_of(connection, USER, approximate=False)
    assert await indexes_of(connection, SMALL, approximate=False) == {"memory_vectors_pkey"}
    marked = await connection.fetch(
        "SELECT user_id, count(*) FROM memory_vectors WHERE approximate GROUP BY 1"
    )
    assert [tuple(row) for row in marked] == [("user", 3_000)]
    # A service looks for the index once a minute; another one's first search learns of it.
    large = PgVectorMemoryService(large.database, embedder=EMBEDDER, mode="vector")
    await found(large, QUESTIONS[0])
    used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1"
    await told(large, database_url)
    await connection.execute("SELECT pg_stat_force_next_flush()")  # what `indexes_of` has read
    before = await connection.fetchval(used, INDEX)
    assert await recall_of(large, TURNS) >= 0.95
    assert await found(large, "turn 7", **SMALL) == await found(
        PgVectorMemoryService(large.database, embedder=EMBEDDER, mode="vector"), "turn 7", **SMALL
    )
    await told(large, database_url)
    assert await connection.fetchval(used, INDEX) == before + len(QUESTIONS)

    assert await large.index_large_scopes() == 0
    hybrid = await found(large, "turn 17", mode="hybrid")
    assert hybrid[0] == "turn 17"
    await large.add_memory(**USER, memories=[entry(f"later {n}") for n in range(150)])
    # Only what came later is looked at one by one.
    assert await indexes_of(connection, USER, approximate=True) == {
        INDEX,
        "memory_vectors_model_idx",
    }


async def fresh(connection: asyncpg.Connection) -> int:
    """How many vectors of the large user the index does not hold."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM memory_vectors WHERE user_id = 'user' AND NOT approximate"
    )
    return count


async def test_what_comes_later_is_found_before_and_after_it_enters_the_index(
    large: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    later = [f"later {n}" for n in range(10_000, 10_150)]
    await large.index_large_scopes()
    await found(large, QUESTIONS[0])  # learns that the index is there
    await large.add_memory(**USER, memories=[entry(text) for text in later])
    assert await fresh(connection) == len(later)
    for moved in (len(later), 0, 0):
        for number in range(10_000, 10_020):
            assert (await found(large, f"question {number}"))[0] == f"later {number}"
        assert await recall_of(large, [*TURNS, *later]) >= 0.95
        hits = await found(large, QUESTIONS[0], top_k=400)
        assert len(hits) == len(set(hits)) == 400
        assert await extend_indexes(large.database) == moved
        assert await fresh(connection) == 0


async def test_a_changed_memory_is_found_by_what_it_says_now(
    large: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await large.index_large_scopes()
    await found(large, QUESTIONS[0])
    (hit, *_) = await large.search(**USER, query="turn 7")
    assert hit.memory.id is not None
    changed = entry("later 20000", hit.memory.id)
    await large.add_memory(**USER, memories=[changed])
    for entered in (False, True):
        assert (await fresh(connection) == 0) is entered
        assert (await found(large, "question 20000"))[0] == "later 20000"
        assert "turn 7" not in await found(large, "turn 7", top_k=10)
        await extend_indexes(large.database)


async def test_passages_of_one_memory_that_are_in_the_index_and_fresh_are_one_hit(
    database_url: str, connection: asyncpg.Connection
) -> None:
    long = " ".join(f"word{n} says something of its own." for n in range(400))
    async with Database(database_url, settings=Settings(exact_limit=5)) as database:
        memory = PgVectorMemoryService(database, embedder=EMBEDDER, mode="vector")
        await memory.add_memory(
            **USER, memories=[entry(long), *(entry(turn) for turn in TURNS[:20])]
        )
        await memory.index_large_scopes()
        await found(memory, "turn 1")
        await connection.execute(
            "UPDATE memory_vectors SET approximate = false WHERE passage % 2 = 1"
        )
        assert await fresh(connection) > 1
        hits = await memory.search(**USER, query="turn 1", top_k=30, min_relevance=-1)
        assert len(hits) == 21
        (own,) = (hit for hit in hits if text_of(hit.memory) == long)
        exact = await memory.search(
            **USER,
            query="turn 1",
            top_k=30,
            filters=SearchFilters(kinds=["note"]),
            min_relevance=-1,
        )
        (same,) = (hit for hit in exact if text_of(hit.memory) == long)
        assert own.reason.cosine == pytest.approx(same.reason.cosine, abs=1e-6)


async def test_what_somebody_holds_enters_the_index_the_next_time(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await large.index_large_scopes()
    await large.add_memory(**USER, memories=[entry(f"later {n}") for n in range(3)])
    held = "SELECT 1 FROM adkpg.memory_vectors WHERE NOT approximate AND user_id = 'user' LIMIT 1"
    async with locked(database_url, f"{held} FOR UPDATE"):
        assert await extend_indexes(large.database) == 2
        assert await fresh(connection) == 1
    assert await extend_indexes(large.database) == 1


async def test_workers_put_vectors_into_the_index_together(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    """None twice, while more come; a worker that runs does it by itself."""
    await large.index_large_scopes()
    later = [f"later {n}" for n in range(450)]
    await large.add_memory(**USER, memories=[entry(text) for text in later[:400]])
    async with Database(database_url, settings=large.database.settings) as other:
        done = await asyncio.gather(
            extend_indexes(large.database),
            extend_indexes(other),
            large.add_memory(**USER, memories=[entry(text) for text in later[400:]]),
        )
    assert sum(filter(None, done)) + await fresh(connection) == len(later)
    stop = asyncio.Event()
    worker = asyncio.create_task(large.run_worker(stop, poll_interval_s=0.01))
    async with asyncio.timeout(30):
        while await fresh(connection):
            await asyncio.sleep(0)
    stop.set()
    await worker
    assert await found(large, "later 449", top_k=1) == ["later 449"]


async def test_filters_hide_nothing_from_a_large_user(large: PgVectorMemoryService) -> None:
    """A walk through the index ended before it came by the few that a filter asks for."""
    told_apart = {"topics": ["rare"]}
    rare = [f"turn {n}" for n in range(5_000, 5_010)]
    memories = [entry(turn, custom_metadata=told_apart) for turn in rare]
    await large.add_memory(**USER, memories=memories)
    await large.index_large_scopes()
    await found(large, QUESTIONS[0])  # learns that the index is there
    for question in QUESTIONS:
        for filters in (SearchFilters(topics=["rare"]), SearchFilters(kinds=["note"])):
            hits = await found(large, question, filters=filters, top_k=10, min_relevance=-1)
            if filters.topics:
                assert set(hits) == set(rare)
            assert len(hits) == 10


async def test_a_large_user_has_as_many_hits_as_are_asked_for(
    large: PgVectorMemoryService,
) -> None:
    everything: dict[str, Any] = {"mode": "vector"}
    await large.index_large_scopes()
    await found(large, QUESTIONS[0])
    for top_k in (150, 400, 1_000):
        (nearest,) = EMBEDDER.nearest(QUESTIONS[:1], TURNS, top_k)
        hits = await found(large, QUESTIONS[0], top_k=top_k, **everything)
        assert len(hits) == top_k
        assert len(set(hits) & nearest) >= 0.95 * top_k


async def test_a_walk_that_ends_too_early_is_answered_exactly(
    large: PgVectorMemoryService, database_url: str
) -> None:
    """Among many other users' vectors it ends before it came by enough of one's own."""
    other: dict[str, Any] = {"app_name": "app", "user_id": "other"}
    turns = [f"turn {number}" for number in range(5_000, 6_100)]
    await large.add_memory(**other, memories=[entry(turn) for turn in turns])
    await large.index_large_scopes()
    short = {"server_settings": {"hnsw.max_scan_tuples": "1"}}
    async with Database(database_url, connect_args=short) as database:
        memory = PgVectorMemoryService(database, embedder=EMBEDDER, mode="vector")
        await found(memory, QUESTIONS[0], **other)
        truth = EMBEDDER.nearest(QUESTIONS, turns, 300)
        for question, nearest in zip(QUESTIONS, truth, strict=True):
            hits = await found(memory, question, top_k=300, **other)
            assert set(hits) == nearest


async def test_searches_through_the_index_are_planned_for_the_user_they_ask_for(
    large: PgVectorMemoryService,
) -> None:
    """The plan for any user, which Postgres came to prefer, left the index out."""
    await large.index_large_scopes()
    for question in QUESTIONS:
        await found(large, question)
    plans = await large.database.run.fetch(
        written(
            "SELECT sum(generic_plans) AS generic, sum(custom_plans) AS custom"
            " FROM pg_prepared_statements WHERE statement LIKE 'WITH%indexed AS MATERIALIZED%'"
        )
    )
    assert [tuple(row) for row in plans] == [(0, len(QUESTIONS) - 1)]


async def test_searches_are_exact_until_the_index_is_ready(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    await large.index_large_scopes()
    await connection.execute("UPDATE approximate_scopes SET ready = false")
    await large.search(**USER, query="turn 7")
    await large.search(**USER, query="turn 7")
    assert await recall_of(large, TURNS) == 1.0
    await told(large, database_url)
    assert (
        await connection.fetchval(
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1", INDEX
        )
        == 0
    )


async def test_an_index_that_a_build_left_invalid_is_built_again(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    lock = "LOCK TABLE adkpg.memory_vectors IN ROW EXCLUSIVE MODE"
    async with locked(database_url, lock):
        await connection.execute("SET statement_timeout = '300ms'")
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute(
                vector_statements.create_index("adkpg", 1, EMBEDDER.dimensions)
            )
        await connection.execute("RESET statement_timeout")
    select_valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = $1::regclass"
    assert await connection.fetchval(select_valid, INDEX) is False
    assert await large.index_large_scopes() == 3_000
    assert await connection.fetchval(select_valid, INDEX) is True


async def test_a_vector_on_its_way_while_the_index_is_built_is_in_it(
    large: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    """Its statement began before its user was listed, and ended after the others were marked."""
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, "
        "timestamp, content, body, length, digest) "
        "VALUES ('app', 'user', 1, 'm', 'turn', '', now(), '{}', '', 0, '')"
    )
    on_its_way = (
        "INSERT INTO adkpg.memory_vectors (app_name, user_id, model_id, position, embedding) "
        "SELECT app_name, user_id, model_id, 1, embedding FROM adkpg.memory_vectors "
        "WHERE user_id = 'user' LIMIT 1"
    )
    async with locked(database_url, on_its_way) as lock:
        building = asyncio.create_task(large.index_large_scopes())
        await lock.until_blocked(1)
        await lock.release()
    assert await building == 3_001


async def test_large_vectors_are_indexed_too(database_url: str) -> None:
    embedder = SeededEmbedder(dimensions=1_400, clusters=20)
    texts = TURNS[:250]
    async with Database(database_url, settings=Settings(exact_limit=100, pool_size=1)) as database:
        memory = PgVectorMemoryService(database, embedder=embedder, mode="vector")
        await memory.add_memory(**USER, memories=[entry(turn) for turn in texts])
        assert await memory.index_large_scopes() == 250
        await found(memory, "turn 1")
        (nearest,) = embedder.nearest(["question 9"], texts, 5)
        assert set(await found(memory, "question 9", top_k=5)) == nearest
        asked = written(
            "SELECT count(*) AS asked FROM pg_prepared_statements"
            " WHERE statement LIKE 'WITH%indexed AS MATERIALIZED%'"
        )
        assert [tuple(row) for row in await memory.database.run.fetch(asked)] == [(1,)]


async def test_the_index_is_no_drift_of_the_schema(large: PgVectorMemoryService) -> None:
    await large.index_large_scopes()
    config = Config()
    config.set_main_option("script_location", str(migrations.scripts()))
    config.attributes["schema"] = large.database.schema

    def check(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.check(config)  # raises AutogenerateDiffsDetected

    engine = await large.database.engine()
    async with engine.connect() as connection:
        await connection.run_sync(check)
        indexes = await connection.run_sync(
            lambda sync: inspect(sync).get_indexes("memory_vectors", schema="adkpg")
        )
    assert INDEX in {index["name"] for index in indexes}
