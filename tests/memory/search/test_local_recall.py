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


async def test_one_threshold_tells_what_was_said_from_what_was_never_said(
    database: Database, embedder: LocalEmbedder
) -> None:
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry(text, author="alice") for text in MEMORIES])
    for question in (
        "How do volcanoes erupt?",
        "What is the capital of Peru?",
        "Which stocks should I buy?",
    ):
        assert await found(memory, question)
        assert await found(memory, question, min_relevance=0.22) == []
    kept = 0
    for question, answer in QUESTIONS.items():
        kept += MEMORIES[answer] in await found(memory, question, min_relevance=0.22)
    assert kept == len(QUESTIONS)


async def test_so_it_does_by_words_in_a_language_that_the_model_does_not_know(
    database: Database, embedder: LocalEmbedder
) -> None:
    """An English model finds all Chinese near all Chinese, and each has some of any one's words."""
    memory = PgVectorMemoryService(database, embedder=embedder)
    places = ("图书馆", "菜市场", "体育馆", "火车站", "咖啡店", "动物园", "游泳池", "美术馆")
    friends = ("小明", "王老师", "表姐", "同事", "邻居", "奶奶")
    said = [f"我和{friend}一起去了{place},很开心。" for friend in friends for place in places]
    await memory.add_memory(
        **USER, memories=[entry(text, author="user") for text in [*said, "我的猫叫年糕。"]]
    )
    for question in ("谁设计了那座大桥?", "比特币的价格是多少?", "怎么修理漏水的管道?"):
        assert len(await found(memory, question, top_k=20, min_relevance=0.5)) <= 10
    question = "我的猫叫什么名字?"
    assert (await found(memory, question, min_relevance=0.5))[0] == "我的猫叫年糕。"
