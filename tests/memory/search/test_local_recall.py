"""The offline model and the words together: memories are found by questions put otherwise."""

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import USER, entry, found
from tests.fakes.paraphrases import MEMORIES, QUESTIONS


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    """Loaded once; a test's own loop is no matter to it."""
    return LocalEmbedder()


async def test_both_ways_together_find_more_than_either(
    database: Database, embedder: LocalEmbedder
) -> None:
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry(text, author="user") for text in MEMORIES])
    modes: tuple[Mode, ...] = ("hybrid", "vector", "text")
    hits = dict.fromkeys(modes, 0)
    for mode in modes:
        for question, answer in QUESTIONS.items():
            hits[mode] += MEMORIES[answer] in await found(memory, question, top_k=5, mode=mode)
    assert hits["hybrid"] >= 17
    assert hits["hybrid"] >= max(hits["vector"], hits["text"])


async def test_what_was_never_said_is_not_made_up(
    database: Database, embedder: LocalEmbedder
) -> None:
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry(text, author="alice") for text in MEMORIES])
    for question in (
        "How do volcanoes erupt?",
        "What is the capital of Peru?",
        "Which stocks should I buy?",
    ):
        assert await found(memory, question) == []
