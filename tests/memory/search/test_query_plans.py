"""How Postgres answers a search: from covering indexes, whatever else the tables hold."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.keys import APP_WIDE
from adkpg.memory import statements as reading
from adkpg.memory.filters import NO_FILTERS, SearchFilters, parameters_of
from adkpg.memory.queue import statements as job_statements
from adkpg.memory.queue.claims import Claims
from adkpg.memory.search import statements as searches
from adkpg.memory.search.counts import UNKNOWN
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.statements import ModelKey
from adkpg.memory.write import statements
from adkpg.queries import Query
from tests.fakes.conversation import USER, entry
from tests.fakes.locks import until_connections
from tests.fakes.queries import statement_of
from tests.fakes.query_plans import explain, rows_read, scans
from tests.fakes.toys import SeededEmbedder

pytestmark = pytest.mark.plan

OTHERS = """
INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, timestamp, content,
                      body, length, digest)
SELECT 'app', 'other ' || n % 200, n, n, 'turn', '', now(), '{}', 'turn', 2, ''
FROM generate_series(1, 20000) n;
INSERT INTO memory_lexemes (app_name, user_id, lexeme, position, frequency, memory_length)
SELECT app_name, user_id, lexeme, position, 1, length
FROM memories, unnest('{turn,tea,word}'::text[]) lexeme;
INSERT INTO memory_vectors (app_name, user_id, model_id, position, embedding)
SELECT app_name, user_id, model_id, position,
       (SELECT array_agg(random()) FROM generate_series(1, 64) WHERE position > 0)::vector::halfvec
FROM memories, embedding_models;
"""
READ = """
SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_xact_user_tables
WHERE relname = 'memories'
"""
EMBEDDER = SeededEmbedder()
ALONE = searches.Shape(lexical=False, vector=True)
CLAIM = "00000000-0000-4000-8000-000000000000"
QUESTION = {
    **USER,
    "also_user_id": APP_WIDE,
    "query": "turn 7 with word 8",
    "script": None,
    "config": "english",
    "top_k": 20,
    "passages": 500,
    "model_id": None,
    "wordiness": 1.0,
    "invocation_id": None,
    "query_vector": str(EMBEDDER.vector("question 3")),
    "model": EMBEDDER.model,
    "dimensions": EMBEDDER.dimensions,
    "inactive": False,
    **parameters_of(NO_FILTERS, UTC),
    **UNKNOWN,
}


@pytest.fixture
async def crowded(database: Database, connection: asyncpg.Connection) -> PgVectorMemoryService:
    """300 memories of one user beside 20,000 of two hundred others."""
    memory = PgVectorMemoryService(database, embedder=EMBEDDER)
    model: ModelKey = {"model": EMBEDDER.model, "dimensions": EMBEDDER.dimensions}
    await database.run.fetch(vector_statements.insert_model(**model))
    await connection.execute(OTHERS)
    await memory.add_memory(**USER, memories=[entry(f"word {n % 7} turn {n}") for n in range(300)])
    # VACUUM calls visible only what is on disk; a commit that waits for it takes the rest along.
    await connection.execute("SET synchronous_commit = on")
    await connection.execute("ANALYZE")
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        await connection.execute(f"VACUUM {table}")
    return memory


async def test_a_search_reads_one_users_rows_from_covering_indexes(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    statement = searches.evidence_statement(searches.Shape(lexical=True, vector=True))
    for generic in (False, True):
        nodes = await explain(connection, statement, QUESTION, generic=generic)
        for table in ("memories", "memory_lexemes", "memory_vectors"):
            assert scans(nodes, table)
            assert "Seq Scan" not in {node["Node Type"] for node in scans(nodes, table)}
        indexes = {node.get("Index Name"): node for node in nodes}
        read = indexes["memory_vectors_model_idx"]
        assert (read["Node Type"], read["Heap Fetches"]) == ("Index Only Scan", 0)
        # Once for what is near, and once for what is usual.
        assert [rows_read(each) for each in scans(nodes, "memory_vectors")] == [300, 300]
        assert indexes["memory_lexemes_pkey"]["Node Type"] == "Index Only Scan"
        assert indexes["memory_lexemes_pkey"]["Heap Fetches"] == 0
        # A look-up for each of the question's words, never all of the user's.
        assert indexes["memory_lexemes_pkey"]["Actual Loops"] == 4


@pytest.mark.parametrize("analyzed", [False, True])
async def test_what_is_found_is_looked_up_by_its_places(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection, analyzed: bool
) -> None:
    if not analyzed:
        await connection.execute("DELETE FROM pg_statistic")
    places = await connection.fetch(
        "SELECT position FROM memories WHERE user_id = $1 LIMIT 25", USER["user_id"]
    )
    for model_id in (None, 1):
        parameters = QUESTION | {
            "positions": [row["position"] for row in places],
            "model_id": model_id,
        }
        statement = statement_of(searches.select_found)
        for generic in (False, True):
            nodes = await explain(connection, statement, parameters, generic=generic)
            assert nodes[0]["Actual Rows"] == len(places)
            for table in ("memories", "memory_vectors"):
                assert "Seq Scan" not in {node["Node Type"] for node in scans(nodes, table)}
                assert sum(map(rows_read, scans(nodes, table))) <= len(places)


async def test_a_time_that_a_question_names_is_looked_for_in_a_covering_index(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """All memories are of it, so that none is looked at for that alone."""
    await crowded.add_memory(**USER, memories=[entry(f"other w{n}") for n in range(2_200)])
    await connection.execute("VACUUM ANALYZE memories, memory_lexemes")
    statement = searches.evidence_statement(searches.Shape(lexical=True, vector=False, dated=True))
    times = {"since": "{2000-01-01}", "until": "{2100-01-01}", "first": False}
    for generic in (False, True):
        nodes = await explain(connection, statement, QUESTION | times, generic=generic)
        read = [node for node in scans(nodes, "memories") if node["Actual Loops"]]
        assert "Seq Scan" not in {node["Node Type"] for node in read}
        # To count them all, and for the time; what promises most, and what is before it.
        assert sorted(rows_read(node) > 1_000 for node in read)[-3:] == [False, True, True]


async def test_what_has_ended_is_left_out_without_reading_what_has_not(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """A search read all keys of its user to find that hardly any had ended."""
    ended = await connection.fetch(
        "UPDATE memories SET expires_at = now() - interval '1 day' * n,"
        " superseded_by = CASE WHEN n = 1 THEN 'another' END"
        " FROM (SELECT position AS place, row_number() OVER () AS n FROM memories"
        " WHERE user_id = $1 LIMIT 3) AS few"
        " WHERE user_id = $1 AND position = place RETURNING memory_id",
        USER["user_id"],
    )
    statement = searches.evidence_statement(ALONE)
    for analyze in ("SELECT", "VACUUM ANALYZE memories"):
        await connection.execute(analyze)
        for generic in (False, True):
            nodes = await explain(connection, statement, QUESTION, generic=generic)
            read = {node.get("Index Name"): node for node in scans(nodes, "memories")}
            assert rows_read(read["memories_ended_idx"]) == 3
            assert sum(map(rows_read, read.values())) <= 2 * 3 + RANKING.candidates
    found = await crowded.search(**USER, query="word 3", mode="vector", top_k=300)
    assert not {row["memory_id"] for row in ended} & {hit.memory.id for hit in found}
    assert found


async def test_no_vector_is_compared_twice_where_memories_have_passages(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO memory_vectors (app_name, user_id, model_id, position, passage, embedding)"
        " SELECT app_name, user_id, model_id, position, 1, embedding FROM memory_vectors"
        " WHERE user_id = 'user'"
    )
    await connection.execute("VACUUM ANALYZE memory_vectors")
    nodes = await explain(connection, searches.evidence_statement(ALONE), QUESTION, generic=True)
    compared = [
        node
        for node in scans(nodes, "memory_vectors")
        if node.get("Index Name") == "memory_vectors_model_idx" and node["Actual Loops"]
    ]
    assert [rows_read(node) for node in compared] == [600, 600], "what is near, what is usual"
    asked: Query[Any] = Query(searches.evidence_statement(ALONE), QUESTION)
    (row,) = await crowded.database.run.fetch(asked)
    assert row["seen"] == 300, "what is usual is told by memories, not by their passages"


async def test_a_plan_for_any_user_suits_a_small_one_beside_a_large_one(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The plan that is kept read the whole table, since most of it is one user's."""
    memory = PgVectorMemoryService(database, embedder=EMBEDDER)
    for user, size in ((USER, 20), (USER | {"user_id": "large"}, 2_000)):
        entries = [entry(f"word {n % 7} turn {n}") for n in range(size)]
        await memory.add_memory(**user, memories=entries)
    await connection.execute("VACUUM ANALYZE memories, memory_lexemes, memory_vectors")
    for shape in (
        searches.Shape(lexical=True, vector=True),
        ALONE,
    ):
        statement = searches.evidence_statement(shape)
        nodes = await explain(connection, statement, QUESTION, generic=True)
        assert "Seq Scan" not in {node["Node Type"] for node in nodes}
        assert max(rows_read(node) for node in scans(nodes, "memory_vectors")) <= 20


async def test_writes_of_one_session_read_no_table_whole(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    asked: tuple[tuple[Any, Any], ...] = (
        statements.select_session_memories(**USER, session_id="s"),
        statements.select_by_ids(**USER, memory_ids=["m"]),
        (
            statement_of(job_statements.claim_eagerly),
            {
                **USER,
                "work": "embed",
                "claim": CLAIM,
                "limit": 64,
                "lease_s": 1.0,
                "model_id": 1,
            },
        ),
    )
    for statement, parameters in asked:
        for generic in (False, True):
            nodes = await explain(connection, statement, parameters, generic=generic)
            assert scans(nodes, "memories")
            assert "Seq Scan" not in {node["Node Type"] for node in scans(nodes, "memories")}


@pytest.mark.newest
async def test_the_queue_is_read_in_the_order_of_its_index(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """A claim sorted all that one user had waiting, and each poll grouped everybody's jobs."""
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work)"
        " SELECT app_name, user_id, position, 'embed' FROM memories"
    )
    most = await connection.fetchrow(
        "SELECT app_name, user_id, count(*) FROM memory_jobs GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 1"
    )
    assert most is not None
    scope = {"app_name": most[0], "user_id": most[1], "work": "embed", "model_id": 1}
    claimed = {**scope, "claim": CLAIM, "limit": 20, "lease_s": 60.0}
    users = {
        **scope,
        "after_app": "",
        "after_user": "",
        "limit": 50,
        "eager": False,
        "lease_s": 60.0,
    }
    for analyze in ("SELECT", "ANALYZE"):
        await connection.execute(analyze)
        for generic in (False, True):
            for statement, parameters, reads in (
                (statement_of(job_statements.claim), claimed, 300),
                (statement_of(job_statements.claim_eagerly), claimed, 300),
                (statement_of(job_statements.select_users), users, 400),
                (statement_of(job_statements.select_users_of_app), users, 400),
            ):
                nodes = await explain(connection, statement, parameters, generic=generic)
                jobs = scans(nodes, "memory_jobs")
                assert jobs
                assert sum(map(rows_read, jobs + scans(nodes, "memories"))) <= reads
    queue = Claims(crowded.database, work="embed")
    due = await queue.due_users() + await queue.due_users()
    assert len(due) == len(set(due)) == 201
    assert await queue.due_users() == due[:200]


async def test_deleting_a_memory_finds_its_words_and_vectors_by_index(
    crowded: PgVectorMemoryService, connection: asyncpg.Connection, database_url: str
) -> None:
    """The cascade's own statements: a foreign key without an index would read every table."""
    tables = ("memory_lexemes", "memory_vectors")
    select_scans = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname = ANY($1)"
    (hit,) = await crowded.search(**USER, query="turn 123", top_k=1)
    await crowded.database.close()
    await until_connections(database_url, 1)  # those that end have told what they read
    before = await connection.fetch(select_scans, tables)
    await crowded.delete_memory(**USER, memory_id=hit.memory.id)
    await crowded.database.close()
    await until_connections(database_url, 1)
    assert await connection.fetch(select_scans, tables) == before


async def test_a_search_before_the_first_analyze_does_not_multiply(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The planner expects one row of each user then, and took ten seconds for 2,000 memories."""
    memory = PgVectorMemoryService(database, embedder=EMBEDDER)
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    words = " ".join(f"w{n}" for n in range(1000))
    entries = [entry(words), *(entry(f"word {n % 7} turn {n}") for n in range(999))]
    await memory.add_memory(**USER, memories=entries)
    hybrid = searches.Shape(lexical=True, vector=True)
    for shape in (hybrid, searches.Shape(lexical=True, vector=False)):
        for query in (QUESTION["query"], f"turn 7 of {words}"):
            nodes = await explain(
                connection, searches.evidence_statement(shape), QUESTION | {"query": query}
            )
            # Of some 1,000 memories and 1,000 words, each posting spread over six places.
            assert max(map(rows_read, nodes)) <= 20_000
            assert "memory_lexemes_pkey" in {node.get("Index Name") for node in nodes}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_page_of_memories_reads_a_users_keys_once_whatever_is_known_of_users(
    database: Database, connection: asyncpg.Connection, analyzed: bool
) -> None:
    """The plan that is kept read all that a user has for each row of a page: 1 s at 50,000."""
    await connection.execute("ALTER TABLE memories SET (autovacuum_enabled = off)")
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, event_id,"
        " timestamp, body, length, digest) SELECT 'app', 'user', n, n, 'turn', n / 10, n, now(),"
        " 'turn', 2, '' FROM generate_series(1, 5000) n"
    )
    if analyzed:
        await connection.execute("VACUUM ANALYZE memories")
    for later in (None, datetime(2999, 1, 1, tzinfo=UTC)):
        for live_only in (False, True):
            page = reading.list_memories(
                **USER,
                after=None,
                before=None,
                live_only=live_only,
                after_timestamp=later,
                after_position=None if later is None else 0,
                limit=101,
            )
            for generic in (False, True):
                nodes = await explain(connection, page, generic=generic)
                assert nodes[0]["Actual Rows"] == 101
                assert sum(map(rows_read, scans(nodes, "memories"))) <= 5101


async def test_what_filters_choose_is_found_by_their_index_whatever_is_asked_first(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The plan that is kept may be made for authors, whom no index serves."""
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, event_id,"
        " timestamp, body, length, digest) SELECT 'app', 'user', n, n,"
        " CASE WHEN n <= 3 THEN 'fact' ELSE 'turn' END, n / 4, n, now(), 'turn', 2, ''"
        " FROM generate_series(1, 5000) n"
    )
    await connection.execute("VACUUM ANALYZE memories")
    for filters in (SearchFilters(kinds=["fact", "summary"]), SearchFilters(session_ids=["0"])):
        asked = parameters_of(filters, UTC)
        page = reading.list_chosen_memories(
            **USER,
            **asked,
            live_only=True,
            after_timestamp=None,
            after_position=None,
            limit=101,
        )
        count = reading.count_chosen_memories(**USER, **asked)
        for generic in (False, True):
            for query, rows in ((page, 3), (count, 1)):
                nodes = await explain(connection, query, generic=generic)
                assert nodes[0]["Actual Rows"] == rows
                assert sum(map(rows_read, scans(nodes, "memories"))) <= 10


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_session_is_found_among_all_that_its_user_has(
    database: Database, connection: asyncpg.Connection, analyzed: bool
) -> None:
    """Each ingest of a user of 16,000 memories read them all, once to twice: 3 ms each time."""
    await connection.execute("ALTER TABLE memories SET (autovacuum_enabled = off)")
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, event_id,"
        " timestamp, body, length, digest) SELECT 'app', 'user', n / 10 * (1::bigint << 30) + n,"
        " n, 'turn', n / 10, n, now(), 'turn', 2, '' FROM generate_series(1, 5000) n"
    )
    if analyzed:
        await connection.execute("VACUUM ANALYZE memories")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    for session_id, event_ids in (("new", ["a", "b"]), ("77", ["770", "771", "new"])):
        place = {**USER, "session_id": session_id}
        digests = [""] * len(event_ids)
        for query in (
            statements.select_last_position(**place),
            statements.select_session_memories(**place),
            statements.select_differences(**place, event_ids=event_ids, digests=digests),
        ):
            nodes = await explain(connection, query, generic=True)
            assert sum(map(rows_read, scans(nodes, "memories"))) <= 40
        # Before the first ANALYZE the planner takes every user for small.
        for whole in (False, True) if analyzed else (True,):
            ingest, turns = statements.ingest_turns(
                **place,
                whole=whole,
                event_ids=event_ids,
                digests=digests,
                given_ids=[],
                memories="[]",
                config="english",
                place=0,
                model_id=None,
                claim=CLAIM,
                lease_s=1.0,
            )
            async with connection.transaction():
                await connection.fetch(ingest.text(database.schema), *ingest.arguments(turns))
                read = await connection.fetchval(READ)
            assert read <= 100


async def test_a_row_is_found_by_its_own_key_before_the_first_analyze(
    database: Database, connection: asyncpg.Connection
) -> None:
    """A posting's foreign key read all of its user's memories, so ingestion was quadratic."""
    memory = PgVectorMemoryService(database, embedder=EMBEDDER)
    await memory.add_memory(**USER, memories=[entry(f"word {n % 7} turn {n}") for n in range(100)])
    for table in ("memories", "memory_lexemes"):
        plan = await connection.fetch(
            f"EXPLAIN SELECT 1 FROM ONLY {table} x"
            " WHERE app_name = 'app' AND user_id = 'user' AND position = 7 FOR KEY SHARE OF x"
        )
        condition = next(line for (line,) in plan if "Index Cond" in line)
        assert "position" in condition
