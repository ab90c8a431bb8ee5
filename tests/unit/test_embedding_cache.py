import asyncio

import pytest

from adkpg.embedding.cache import QueryCache
from adkpg.errors import EmbeddingError


class Counting:
    """An embedder that keeps the questions it was asked."""

    dimensions = 2

    def __init__(self, model: str = "counting") -> None:
        self.model = model
        self.asked: list[str] = []
        self.broken = False

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        if self.broken:
            raise RuntimeError("down")
        return [0.1, float(len(text))]


async def test_a_repeated_question_costs_no_call() -> None:
    cache, embedder = QueryCache(), Counting()
    first = await cache.vector(embedder, "why?")
    assert await cache.vector(embedder, "why?") == first == [0.1, 4.0]
    assert embedder.asked == ["why?"]


async def test_models_do_not_share_vectors() -> None:
    cache, one, two = QueryCache(), Counting("one"), Counting("two")
    await cache.vector(one, "q")
    await cache.vector(two, "q")
    assert (one.asked, two.asked) == (["q"], ["q"])


async def test_the_question_unused_for_longest_goes_first() -> None:
    cache, embedder = QueryCache(max_entries=2), Counting()
    for text in ("a", "b", "a", "c", "a", "b"):
        await cache.vector(embedder, text)
    assert embedder.asked == ["a", "b", "c", "b"]


async def test_a_cache_of_none_asks_each_time() -> None:
    cache, embedder = QueryCache(max_entries=0), Counting()
    await cache.vector(embedder, "a")
    await cache.vector(embedder, "a")
    assert embedder.asked == ["a", "a"]


async def test_callers_cannot_change_what_is_kept() -> None:
    cache, embedder = QueryCache(), Counting()
    (await cache.vector(embedder, "a")).clear()
    (await cache.vector(embedder, "a")).clear()
    assert await cache.vector(embedder, "a") == [0.1, 1.0]


async def test_a_failure_is_not_remembered() -> None:
    cache, embedder = QueryCache(), Counting()
    embedder.broken = True
    with pytest.raises(EmbeddingError):
        await cache.vector(embedder, "a")
    embedder.broken = False
    assert await cache.vector(embedder, "a") == [0.1, 1.0]


def test_one_cache_serves_loops_in_turn() -> None:
    cache, embedder = QueryCache(), Counting()
    vectors = [asyncio.run(cache.vector(embedder, "a")) for _ in range(2)]
    assert vectors == [[0.1, 1.0]] * 2
    assert embedder.asked == ["a"]
