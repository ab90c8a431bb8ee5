"""Policies change no plan: what a statement looks up by an index it looks up by it in a scope."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import asyncpg
import pytest

from adkpg import Database
from adkpg.keys import APP_WIDE
from adkpg.memory.search import statements as searches
from adkpg.memory.search.counts import UNKNOWN
from adkpg.tables import SCHEMA, metadata
from tests.fakes.query_plans import explain, rows_read, scans
from tests.fakes.roles import guarded_roles
from tests.fakes.statements import statements as made_statements
from tests.fakes.toys import SeededEmbedder

pytestmark = pytest.mark.plan

EMBEDDER = SeededEmbedder(dimensions=16)

MEMORIES = """
INSERT INTO embedding_models (name, dimensions) VALUES ('seeded', 16);
INSERT INTO app_settings (app_name, model_id) SELECT 'app', model_id FROM embedding_models;
INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, timestamp, content,
                      body, length, digest)
SELECT 'app', owner, side * n, owner || n, 'turn', '', now(), '{}', 'turn', 2, ''
FROM (VALUES ('small', 300, 1), ('middle', 4000, 1), ('large', 40000, 1), (U&'\\0001app', 50, -1))
     AS users (owner, most, side), generate_series(1, most) n;
INSERT INTO memory_lexemes (app_name, user_id, lexeme, position, frequency, memory_length)
SELECT app_name, user_id, 'word' || abs(position) % 50, position, 1, length
FROM memories;
INSERT INTO memory_vectors (app_name, user_id, model_id, position, embedding)
SELECT app_name, user_id, model_id, position,
       (SELECT array_agg(random()) FROM generate_series(1, 16) WHERE position <> 0)::vector::halfvec
FROM memories, embedding_models;
"""


async def told(connection: asyncpg.Connection, url: str) -> str:
    """Fills the tables, and gathers statistics of them."""
    await connection.execute(MEMORIES)
    # VACUUM calls visible only what is on disk; a commit that waits for it takes the rest along.
    await connection.execute("SET synchronous_commit = on")
    await connection.execute("ANALYZE")
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        await connection.execute(f"VACUUM {table}")
    return url


async def test_each_search_keeps_to_its_indexes(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """At 4,300 vectors the look-up of each candidate once became a scan of them all."""
    await told(connection, database_url)
    shapes_asked = [
        searches.Shape(lexical=True, vector=True),
        searches.Shape(lexical=True, vector=True, dated=True),
        searches.Shape(lexical=False, vector=True),
        searches.Shape(lexical=True, vector=False),
    ]
    async with guarded_roles(database_url) as roles:
        own = await asyncpg.connect(roles.url("serve"))
        for user in ("small", "middle", "large"):
            for shape in shapes_asked:
                for generic in (False, True):
                    parameters = question(user)
                    statement = searches.evidence_statement(shape)
                    nodes = await explain(
                        own, statement, parameters, generic=generic, scope=("app", user)
                    )
                    free = await explain(connection, statement, parameters, generic=generic)
                    assert reads(nodes) == pytest.approx(reads(free), rel=0.05, abs=200)
                    for table in ("memories", "memory_lexemes", "memory_vectors"):
                        assert kinds(nodes, table) == kinds(free, table)
        await own.close()


def kinds(nodes: list[dict[str, Any]], table: str) -> set[str]:
    return {node["Node Type"] for node in scans(nodes, table)}


def reads(nodes: list[dict[str, Any]]) -> float:
    """How many rows are read from tables and their indexes."""
    tables = (table.name for table in metadata.sorted_tables)
    return sum(rows_read(node) for table in tables for node in scans(nodes, table))


def question(user: str) -> dict[str, Any]:
    return {
        "app_name": "app",
        "user_id": user,
        "also_user_id": APP_WIDE,
        "query": "word7 word8",
        "script": None,
        "config": "english",
        "top_k": 20,
        "passages": 500,
        "wordiness": 1.0,
        "since": "{2026-01-01}",
        "until": "{2026-01-02}",
        "first": True,
        # Of null nothing is asked, but Postgres 15 keeps a scan in the plan that never runs.
        "invocation_id": "i",
        "query_vector": str(EMBEDDER.vector("question 3")),
        "model": "seeded",
        "dimensions": 16,
        "inactive": False,
        **UNKNOWN,
    }


async def test_every_statement_about_one_user_is_looked_up_alike(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """By the columns that are looked up in each table, of the plans that are kept."""
    await told(connection, database_url)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    plain = {each: await looked_up(connection, each, None) for each in statements()}
    async with guarded_roles(database_url) as roles:
        own = await asyncpg.connect(roles.url("serve"))
        await own.execute("SET plan_cache_mode = force_generic_plan")
        for each, expected in plain.items():
            found = await looked_up(own, each, 2)
            assert all(any(want <= got for got in found) for want in expected), each
        await own.close()


@cache
def statements() -> dict[str, Any]:
    """Each shape of each statement about one user.

    Functions enter the scope themselves, see test_leaks.py; their plans are in tests/sessions.
    """
    return {
        f"{name} {number}": statement
        for number, (name, statement, _) in enumerate(made_statements())
        if {"app_name", "user_id"} <= set(statement.names) and statement.function is None
    }


async def looked_up(
    connection: asyncpg.Connection, statement: str, gate: int | None
) -> list[set[str]]:
    """Which columns of which tables a statement compares in an index: a set for each look-up."""
    asked = statements()[statement]
    await connection.execute(f"PREPARE asked AS {asked.text(SCHEMA, gate)}")
    count = len(asked.names) + (gate or 0)
    given = f"({', '.join(['NULL'] * count)})" if count else ""
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{given}"))
    await connection.execute("DEALLOCATE asked")
    return list(_conditions(plan[0]["Plan"]))


def _conditions(plan: dict[str, Any]) -> Iterator[set[str]]:
    place = plan.get("Relation Name") or plan.get("Index Name")
    if place is not None:
        columns = re.findall(r'\(?"?(\w+)"? (?:=|>=|<=|>|<) ', plan.get("Index Cond", ""))
        yield {place, *columns} - {"col1"}
    for part in plan.get("Plans", ()):
        yield from _conditions(part)


def test_statements_are_compared() -> None:
    assert len(statements()) > 60


async def test_the_scope_is_entered_before_a_row_is_read(
    database: Database, connection: asyncpg.Connection
) -> None:
    """Every statement's outermost node asks it once, before those below it run."""
    async with guarded_roles(str(database.url)) as roles:
        own = await asyncpg.connect(roles.url("serve"))
        await own.execute("SET plan_cache_mode = force_generic_plan")
        for name, statement in statements().items():
            await own.execute(f"PREPARE asked AS {statement.text(SCHEMA, 2)}")
            given = ", ".join(["NULL"] * (len(statement.names) + 2))
            plan = json.loads(await own.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({given})"))[
                0
            ]["Plan"]
            await own.execute("DEALLOCATE asked")
            assert plan["Node Type"] == "Result", name
            assert re.fullmatch(r"\(?(NOT )?adkpg\.enter_scope\(.*\)", plan["One-Time Filter"]), (
                name
            )
        await own.close()
