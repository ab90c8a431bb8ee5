"""Erasing reads what it erases and not all that its user has, on every version of Postgres."""

import asyncpg
import pytest

from adkpg import PgVectorMemoryService

pytestmark = pytest.mark.plan

_FILL = """
INSERT INTO embedding_models (name, dimensions) VALUES ('other', 3);
INSERT INTO memories (app_name, user_id, position, memory_id, kind, session_id, timestamp, content,
    body, length, digest)
  SELECT 'app', 'user', n, 'm' || n, 'note', '', now(), '{"parts":[{"text":"x"}]}', 'x', 1, ''
  FROM generate_series(1, 20000) n;
INSERT INTO memory_vectors (app_name, user_id, model_id, position, embedding)
  SELECT 'app', 'user', (SELECT min(model_id) FROM embedding_models), n, '[1,0,0]'
  FROM generate_series(1, 20000) n;
ANALYZE;
"""
_PAGES = """
SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
FROM pg_statio_user_tables WHERE relid = 'memory_vectors'::regclass
"""


async def _pages(connection: asyncpg.Connection) -> int:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    pages: int = await connection.fetchval(_PAGES)
    return pages


async def test_erasing_some_memories_reads_few_pages_of_their_users_vectors(
    connection: asyncpg.Connection, memory: PgVectorMemoryService
) -> None:
    await connection.execute(_FILL)
    before = await _pages(connection)
    await connection.execute("DELETE FROM memories WHERE position <= 100")
    read = await _pages(connection) - before
    # All of the user's vectors are more than 200 pages, for each memory.
    assert read < 100 * 20
    assert await memory.count_memories(app_name="app", user_id="user") == 19_900
