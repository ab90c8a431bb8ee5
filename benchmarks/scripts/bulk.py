"""Many memories, made by the server itself, in the shape that adkpg's own calls give them.

Users come in groups: one of 1,000 memories and twenty-five of 40, in sessions of 20 turns of twelve
words, as often as words are (Zipf). Ids are as ADK makes them, of 36 characters. Each turn is an
event, a memory with its words and date, and a vector of 384 dimensions. Written in the order in
which many users say them in turn, so that pages fill as they do in service.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import numpy as np
from google.adk.events.event import Event
from google.genai import types
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from adkpg import Database, jsontext
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.statements import ModelKey
from benchmarks.scripts.hnsw import CLUSTERS, DIMENSIONS, clustered
from benchmarks.sentences import Sentences

APP = "benchmark"
MODEL = "benchmark"
TURNS = 20
LARGE, SMALL, SMALL_USERS = 1_000, 40, 25
GROUP = LARGE + SMALL * SMALL_USERS
"""Memories of a group of users."""

GROUPS_AT_ONCE = 5
VECTORS = 4_096

_TABLES = """
create schema if not exists bulk;
create table bulk.words (number int primary key, word text not null);
create table bulk.vectors (number int primary key, embedding halfvec not null);
alter table bulk.vectors alter embedding set storage plain;
create table bulk.done (batch int primary key);
"""

_SAID = """
create temp table said on commit drop as
with people as (
    select case n when 0 then 'large ' else 'small ' end || g || ' ' || n as name,
           case n when 0 then {large} else {small} end / {turns} as sessions
    from generate_series($1::int, $2::int) g, generate_series(0, {small_users}) n
), talks as (
    select md5(name)::uuid::text as user_id, gen_random_uuid()::text as session_id,
           (random() * 4611686018427387903)::bigint as block,
           case sessions when {large} / {turns} then s else floor(random() * 50) end as place,
           timestamptz '2026-01-01' + random() * interval '300 days' as began
    from people, generate_series(1, sessions) s
), turns as (
    select talks.*, t as turn, row_number() over () as number from talks,
           generate_series(0, {turns} - 1) t
), spoken as (
    select turns.number, w, 1 + floor(20 * (power(($3 + 20) / 20.0, random()) - 1))::int as word
    from turns, generate_series(1, 12) w
), texts as (
    select spoken.number, string_agg(words.word, ' ' order by w) || '.' as said
    from spoken join bulk.words on words.number = least(spoken.word, $3) group by 1
), whole as (
    select turns.*, texts.said, began + turn * interval '20 seconds' as at,
           case turn % 2 when 0 then 'user' else 'assistant' end as author,
           gen_random_uuid()::text as event_id, gen_random_uuid()::text as memory_id,
           'e-' || md5(session_id || turn / 2)::uuid as invocation_id
    from turns join texts using (number)
)
select *, (select coalesce(sum(cardinality(positions)), 0) from unnest(own)) as words
from whole, to_tsvector('english', said) as own order by place, turn, user_id
"""

_SESSIONS = """
insert into {schema}.sessions (app_name, user_id, session_id, revision, payload_bytes, created_at,
                               updated_at, memory_position)
select $1, user_id, session_id, {turns}, sum(length(said)) + {turns} * $2, min(at), max(at),
       min(block) + {turns}
from said group by user_id, session_id
"""

_EVENTS = """
insert into {schema}.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
select $1, user_id, session_id, turn + 1, event_id, at,
       replace(replace(replace(replace(replace($2::text, 'the text', said), 'the author', author),
               'the id', event_id), 'the invocation', invocation_id),
               '"the time"', extract(epoch from at)::text)::json
from said
"""

_MEMORIES = """
insert into {schema}.memories (app_name, user_id, position, memory_id, kind, session_id, event_id,
                               invocation_id, author, timestamp, body, length, digest)
select $1, user_id, block + turn, memory_id, 'turn', session_id, event_id, invocation_id, author,
       at, author || ': ' || said, words, md5(said)
from said
"""

_WORDS = """
insert into {schema}.memory_lexemes (app_name, user_id, lexeme, position, frequency, memory_length)
select $1, user_id, lexeme, block + turn, cardinality(positions), words
from said, unnest(own) as held (lexeme, positions)
"""

_VECTORS = """
insert into {schema}.memory_vectors (app_name, user_id, model_id, position, embedding)
select $1, user_id, $2, block + turn, embedding
from said join bulk.vectors on vectors.number = abs(hashtext(event_id)::bigint) % {vectors}
"""


def large_user(group: int) -> str:
    """The SQL of the id of a group's user of 1,000 memories."""
    return f"md5('large {group} 0')::uuid::text"


async def fill(
    database: Database,
    url: str,
    memories: int,
    *,
    writers: int = 2,
    written: Callable[[int], object] = lambda count: None,
) -> None:
    """Fills an upgraded database up to a number of memories; goes on where it was stopped.

    Args:
      database: Which.
      url: Its address.
      memories: How many there are to be; rounded to whole batches.
      writers: Connections that write at the same time.
      written: Told how many memories more there are.
    """
    batches = max(1, round(memories / (GROUP * GROUPS_AT_ONCE)))
    model_id = await _prepare(database, url)
    waiting: asyncio.Queue[int] = asyncio.Queue()
    admin: Any = await asyncpg.connect(url)
    try:
        done = {row["batch"] for row in await admin.fetch("select batch from bulk.done")}
    finally:
        await admin.close()
    written(len(done) * GROUP * GROUPS_AT_ONCE)
    for batch in range(batches):
        if batch not in done:
            waiting.put_nowait(batch)

    async def write() -> None:
        connection: Any = await asyncpg.connect(url)
        try:
            await connection.execute("set synchronous_commit = off; set work_mem = '64MB'")
            while not waiting.empty():
                await _write(connection, database.schema, waiting.get_nowait(), model_id)
                written(GROUP * GROUPS_AT_ONCE)
        finally:
            await connection.close()

    await asyncio.gather(*(write() for _ in range(writers)))


async def _prepare(database: Database, url: str) -> int:
    """Writes the model, the vocabulary and the vectors, if they are not there; the model's id."""
    model: ModelKey = {"model": MODEL, "dimensions": DIMENSIONS}
    await database.run.fetch(vector_statements.insert_model(**model))
    row = await database.run.fetch_one(vector_statements.select_model(**model))
    assert row is not None
    model_id: int = row["model_id"]
    await database.run.fetch(
        vector_statements.activate_first_model(app_name=APP, model_id=model_id)
    )
    connection: Any = await asyncpg.connect(url)
    try:
        if await connection.fetchval("select to_regclass('bulk.done')") is None:
            async with connection.transaction():
                await connection.execute(_TABLES)
                await register_vector(connection)
                await connection.copy_records_to_table(
                    "words",
                    schema_name="bulk",
                    records=list(enumerate(Sentences(1).words, start=1)),
                )
                await connection.copy_records_to_table(
                    "vectors",
                    schema_name="bulk",
                    records=[(n, HalfVector(v)) for n, v in enumerate(vectors(VECTORS, 1))],
                )
            await connection.execute("analyze bulk.words; analyze bulk.vectors")
    finally:
        await connection.close()
    return model_id


def vectors(count: int, seed: int) -> Any:
    """Unit vectors around the same centres."""
    centers = np.random.default_rng(0).normal(size=(CLUSTERS, DIMENSIONS)).astype(np.float32)
    return clustered(count, centers, seed)


async def _write(connection: Any, schema: str, batch: int, model_id: int) -> None:
    """Writes a batch whole or not at all."""
    first = batch * GROUPS_AT_ONCE
    fixed = {
        "schema": f'"{schema}"',
        "large": LARGE,
        "small": SMALL,
        "small_users": SMALL_USERS,
        "turns": TURNS,
        "vectors": VECTORS,
    }
    count = len(Sentences(1).words)
    async with connection.transaction():
        said = _SAID.format(**fixed)
        for number, value in (("$1", first), ("$2", first + GROUPS_AT_ONCE - 1), ("$3", count)):
            said = said.replace(number, str(value))  # CREATE TABLE AS takes no parameters
        await connection.execute(said)
        event = _event()
        await connection.execute(_SESSIONS.format(**fixed), APP, len(event))
        await connection.execute(_EVENTS.format(**fixed), APP, event)
        await connection.execute(_MEMORIES.format(**fixed), APP)
        await connection.execute(_WORDS.format(**fixed), APP)
        await connection.execute(_VECTORS.format(**fixed), APP, model_id)
        await connection.execute("insert into bulk.done values ($1)", batch)


def _event() -> str:
    """An event as adkpg writes it, to be filled in."""
    event = Event(
        id="the id",
        invocation_id="the invocation",
        author="the author",
        content=types.Content(role="user", parts=[types.Part(text="the text")]),
        timestamp=0,
    )
    return jsontext.write_event(event).replace('"timestamp":0.0', '"timestamp":"the time"')
