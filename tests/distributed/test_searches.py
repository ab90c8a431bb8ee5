"""A search of what a user and the app know ranks on a cluster as on one server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.memory.search.options import MODES, Mode
from tests.fakes.citus import CitusServer
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


def ordered(hits: list[Hit]) -> list[tuple[float, str]]:
    """Scores and texts, the best first; equal scores by text, since places are drawn at random."""
    return sorted((-round(hit.score, 6), text_of(hit.memory)) for hit in hits)
