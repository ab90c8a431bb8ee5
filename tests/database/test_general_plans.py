"""The plans that are kept for anybody's values read what a plan for one's own values reads."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from adkpg.keys import APP_WIDE, ScopeKey
from adkpg.memory.filters import NO_FILTERS, parameters_of
from adkpg.memory.search import statements as searches
from adkpg.memory.search.counts import UNKNOWN
from adkpg.queries import Query
from adkpg.sessions import reading_statements
from adkpg.sessions.watching import statements as watching
from tests.fakes.query_plans import literals
from tests.fakes.roles import guarded_roles
from tests.fakes.toys import SeededEmbedder

pytestmark = pytest.mark.plan

EMBEDDER = SeededEmbedder(dimensions=16)
# A user of 4,000 memories and 400 sessions beside one of ten times as many, and 200 small ones.
LOAD = """
INSERT INTO adkpg.embedding_models (name, dimensions) VALUES ('seeded', 16);
INSERT INTO adkpg.app_settings (app_name, model_id) SELECT 'app', model_id FROM embedding_models;
INSERT INTO adkpg.sessions (app_name, user_id, session_id, revision, created_at, updated_at,
                            settled_at)
SELECT 'app', owner, 's' || n, 20, now() - n * interval '1 hour', now(),
       CASE WHEN n > 7 THEN now() END
FROM (VALUES ('user', 400), ('large', 4000)) AS users (owner, most), generate_series(1, most) n;
INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
SELECT app_name, user_id, session_id, n, session_id || n, now() - n * interval '1 minute',
       json_build_object('author', 'a', 'text', repeat('word ', 40))
FROM adkpg.sessions, generate_series(1, 20) n;
INSERT INTO adkpg.user_states (app_name, user_id, state)
SELECT 'app', 'other ' || n, '{"k": 1}' FROM generate_series(1, 2000) n;
INSERT INTO adkpg.memories (app_name, user_id, position, memory_id, kind, session_id, event_id,
                            timestamp, content, body, length, digest)
SELECT 'app', owner, side * n, 'm' || n, 'turn', 's' || n / 10, n, now() - n * interval '1 minute',
       '{}', 'turn', 2, ''
FROM (VALUES ('user', 4000, 1), ('large', 40000, 1), (U&'\\0001app', 50, -1))
     AS users (owner, most, side), generate_series(1, most) n;
INSERT INTO adkpg.memory_lexemes (app_name, user_id, lexeme, position, frequency, memory_length)
SELECT app_name, user_id, 'word' || abs(position) % 50, position, 1, length FROM adkpg.memories;
INSERT INTO adkpg.memory_vectors (app_name, user_id, model_id, position, embedding)
SELECT app_name, user_id, model_id, position,
       (SELECT array_agg(random()) FROM generate_series(1, 16) WHERE position <> 0)::vector::halfvec
FROM adkpg.memories, adkpg.embedding_models;
"""
SCOPE: ScopeKey = {"app_name": "app", "user_id": "user"}
TOKEN = "00000000-0000-4000-8000-000000000000"
TIME = datetime(2026, 1, 2, tzinfo=UTC)
QUESTION: searches.EvidenceParameters = {
    "app_name": "app",
    "user_id": "user",
    "also_user_id": APP_WIDE,
    "top_k": 10,
    "invocation_id": "i",
    "query": "word7 word8",
    "script": None,
    "config": "english",
    "query_vector": str(EMBEDDER.vector("question 3")),
    "model": "seeded",
    "dimensions": 16,
    "inactive": False,
    "passages": 500,
    "exact_user_ids": [],
    "approximate_user_ids": [],
    "wordiness": 1.0,
    "since": [],
    "until": [],
    "first": False,
    **parameters_of(NO_FILTERS, UTC),
    **UNKNOWN,
}


@dataclass(frozen=True)
class Hot:
    """A query that is asked often.

    Attributes:
      name: For a failure.
      query: With the values of one call.
    """

    name: str
    query: Query[Any]


def hot() -> Iterator[Hot]:
    for lexical, vector in ((True, True), (True, False), (False, True)):
        shape = searches.Shape(lexical=lexical, vector=vector)
        yield Hot(f"evidence {lexical=} {vector=}", searches.evidence(shape, **QUESTION))
    for model_id in (None, 1):
        yield Hot(
            f"found {model_id=}",
            searches.select_found(
                app_name="app",
                user_id="user",
                also_user_id=APP_WIDE,
                invocation_id=None,
                positions=list(range(100, 113)),
                query_vector=None if model_id is None else str(EMBEDDER.vector("question 3")),
                model_id=model_id,
                **parameters_of(NO_FILTERS, UTC),
            ),
        )

    session: Any = {**SCOPE, "session_id": "s5"}
    yield Hot("get", reading_statements.select_session(**session, after=None))
    yield Hot("get since", reading_statements.select_session(**session, after=TIME))
    yield Hot("recent", reading_statements.select_recent_session(**session, after=None, limit=5))
    for revision in (None, 20):
        again = reading_statements.select_session_again(
            **session,
            incarnation=None if revision is None else TOKEN,
            revision=revision,
            revision_token=None if revision is None else TOKEN,
            count=revision,
        )
        yield Hot(f"again {revision=}", again)
    yield Hot("events", reading_statements.list_events_page(**session, after_seq=5, limit=10))
    yield Hot(
        "news",
        watching.select_news(**session, revision=15, revision_token=TOKEN, limit=10),
    )
    for after_time, after_session_id in ((None, None), (datetime.now(UTC), "s5")):
        listed = reading_statements.list_sessions(
            **SCOPE,
            after_time=after_time,
            after_session_id=after_session_id,
            limit=20,
            most_bytes=1_000_000,
        )
        yield Hot(f"list {after_session_id=}", listed)


async def pages(connection: asyncpg.Connection, mode: str, arguments: str) -> int:
    """How many pages the statement that was prepared reads."""
    await connection.execute(f"SET plan_cache_mode = {mode}")
    plan = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE hot{arguments}"
    )
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


@pytest.mark.parametrize("guarded", [False, True])
async def test_hot_queries_are_planned_once_and_read_no_more_for_that(
    database_url: str, connection: asyncpg.Connection, guarded: bool
) -> None:
    await connection.execute(LOAD)
    await connection.execute("SET synchronous_commit = on")
    await connection.execute("VACUUM ANALYZE")
    async with guarded_roles(database_url) as roles:
        gate = (SCOPE["app_name"], SCOPE["user_id"]) if guarded else None
        own = await asyncpg.connect(roles.url("serve") if guarded else database_url)
        for each in hot():
            statement, parameters = each.query
            arguments = literals(statement.arguments(parameters, gate))
            text = statement.text("adkpg", len(gate) if gate else None)
            await own.execute(f"SET plan_cache_mode = auto; PREPARE hot AS {text}")
            for _ in range(12):
                await own.execute(f"EXECUTE hot{arguments}")
            general = await own.fetchval(
                "SELECT generic_plans FROM pg_prepared_statements WHERE name = 'hot'"
            )
            assert general > 0, f"{each.name} is planned each time"
            own_plan = await pages(own, "force_custom_plan", arguments)
            assert await pages(own, "force_generic_plan", arguments) <= 1.2 * own_plan + 20, (
                each.name
            )
            await own.execute("DEALLOCATE hot")
        await own.close()
