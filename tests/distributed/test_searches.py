"""A search of what a user and the app know ranks on a cluster as on one server."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.memory.search.options import MODES, Mode
from tests.fakes.citus import CitusServer
from tests.fakes.citus_writers import node_of
from tests.fakes.conversation import USER, entry, text_of
from tests.fakes.ranked_stories import NOW, QUESTIONS, WORDS, BagEmbedder, remember

pytestmark = pytest.mark.cluster

PAGES = [f"The {first} of page {n} is by the {WORDS[n % 7]}." for n, first in enumerate(WORDS * 3)]


@pytest.fixture
async def plain(cluster: CitusServer) -> AsyncIterator[Database]:
    """A database of the coordinator without Citus."""
    name = await cluster.create()
    async with Database(cluster.url_of(name)) as opened:
        await opened.upgrade()
        yield opened
    await cluster.drop(name)


@pytest.mark.parametrize("mode", MODES)
async def test_the_order_is_that_of_one_server(
    database: Database, plain: Database, mode: Mode
) -> None:
    services = []
    for each in (plain, database):
        memory = PgVectorMemoryService(each, embedder=BagEmbedder(("en",)))
        await remember(memory)
        pages = [entry(page, author="handbook", timestamp=NOW.isoformat()) for page in PAGES]
        await memory.add_memory(app_name="app", user_id=None, memories=pages)
        services.append(memory)
    shared = 0
    for query in QUESTIONS:
        asked: dict[str, Any] = {**USER, "query": query, "mode": mode, "now": NOW, "top_k": 30}
        wanted, found = [await service.search(**asked) for service in services]
        assert ordered(found) == ordered(wanted)
        shared += any(hit.memory.author == "handbook" for hit in wanted)
    assert shared, "or one scope alone was ranked"


async def test_the_users_node_keeps_the_plan_of_a_search(
    cluster: CitusServer, database: Database, database_url: str
) -> None:
    await remember(PgVectorMemoryService(database, embedder=BagEmbedder(("en",))))
    port = await node_of(database_url, USER["user_id"])
    name = database_url.rpartition("/")[2]
    (owner,) = [url for url in await cluster.nodes_of(name) if f":{port}/" in url]
    async with Database(owner, pool_size=1, max_overflow=0) as direct:
        memory = PgVectorMemoryService(direct, embedder=BagEmbedder(("en",)))
        for question in QUESTIONS * 2:
            await memory.search(**USER, query=question, mode="text", app_wide=False, now=NOW)
        async with (await direct.engine()).connect() as pooled:
            kept = await pooled.execute(
                text(
                    "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
                    " WHERE from_sql AND name LIKE 'adkp%'"
                )
            )
            rows = kept.all()
    assert len(rows) > 1, "questions of several shapes were asked"
    assert max(row.generic_plans for row in rows) > 1
    for row in rows:
        # The part's own name: what Citus plans it plans anew each time.
        assert re.search(r"adkpg\.memories_[0-9]+ AS memories\b", row.statement)
        assert not re.search(r"adkpg\.[a-z_]+[a-z]\b", row.statement)


def ordered(hits: list[Hit]) -> list[tuple[float, str]]:
    """Scores and texts, the best first; equal scores by text, since places are drawn at random."""
    return sorted((-round(hit.score, 6), text_of(hit.memory)) for hit in hits)
