"""Memory in this process: words, cosines, `top_k`, `min_relevance`, and what it refuses.

The conformance suite has what it shares with the other memory services.
"""

import math
import subprocess
import sys

import pytest

from adkpg import InMemoryVectorMemoryService
from adkpg.errors import ConfigurationError, InvalidInput, ModelUnavailable
from tests.fakes.conversation import USER, conversation, entry, said, text_of
from tests.fakes.toys import BrokenEmbedder, ToyEmbedder


async def found(memory: InMemoryVectorMemoryService, query: str, **scope: str) -> list[str]:
    response = await memory.search_memory(**{**USER, **scope}, query=query)
    return [text_of(each) for each in response.memories]


async def test_five_memories_are_found_unless_more_or_fewer_are_asked_for() -> None:
    for memory, expected in (
        (InMemoryVectorMemoryService(), 5),
        (InMemoryVectorMemoryService(top_k=7), 7),
        (InMemoryVectorMemoryService(top_k=2), 2),
    ):
        await memory.add_memory(**USER, memories=[entry(f"kitten {n}") for n in range(9)])
        assert len(await found(memory, "kitten")) == expected


async def test_words_have_no_case_and_a_part_of_a_text_is_found() -> None:
    memory = InMemoryVectorMemoryService()
    await memory.add_memory(
        **USER, memories=[entry("ORDER-9981 für Straße"), entry("我喜欢乌龙茶")]
    )
    for asked in ("order 9981", "9981", "STRASSE", "rder-99"):
        assert await found(memory, asked) == ["ORDER-9981 für Straße"]
    assert await found(memory, "乌龙") == ["我喜欢乌龙茶"]


async def test_more_of_the_questions_words_are_better() -> None:
    memory = InMemoryVectorMemoryService()
    await memory.add_memory(**USER, memories=[entry("a garden"), entry("a garden with a zebra")])
    assert await found(memory, "zebra garden") == ["a garden with a zebra", "a garden"]


async def test_the_least_relevance_is_of_meaning_and_of_words() -> None:
    texts = ["kitten", "kitten and hound", "car"]
    for least, expected in ((0.0, texts[:2]), (0.8, texts[:1])):
        memory = InMemoryVectorMemoryService(embedder=ToyEmbedder(), min_relevance=least)
        await memory.add_memory(**USER, memories=[*map(entry, texts)])
        assert await found(memory, "feline") == expected
    for least, expected in ((0.0, texts[:2]), (1.0, texts[1:2])):
        memory = InMemoryVectorMemoryService(min_relevance=least)
        await memory.add_memory(**USER, memories=[*map(entry, texts)])
        assert set(await found(memory, "hound kitten")) == set(expected)
        assert await found(memory, "feline") == [], "there are no vectors"


async def test_a_deleted_turn_stays_away_and_a_deleted_entry_may_come_back() -> None:
    memory = InMemoryVectorMemoryService()
    session = conversation("Hi", "My password is swordfish", "Thanks")
    await memory.add_session_to_memory(session)
    (secret,) = (await memory.search_memory(**USER, query="swordfish")).memories
    await memory.delete_memory(**USER, memory_id=secret.id)
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(**USER, events=session.events, session_id="s")
    assert await found(memory, "swordfish password") == []
    for _ in range(2):
        await memory.add_memory(**USER, memories=[entry("kitten", "m")])
        assert await found(memory, "kitten") == ["kitten"]
        await memory.delete_memory(**USER, memory_id="m")
        assert await found(memory, "kitten") == []


async def test_what_is_returned_and_what_was_given_is_the_callers_own() -> None:
    memory = InMemoryVectorMemoryService()
    given = entry("kitten", "m", custom_metadata={"tags": ["a"]})
    await memory.add_memory(**USER, memories=[given], custom_metadata={"of": "all"})
    given.custom_metadata["tags"].append("given")
    (first,) = (await memory.search_memory(**USER, query="kitten")).memories
    before = first.model_copy(deep=True)
    assert before.custom_metadata == {"tags": ["a"], "of": "all"}
    first.custom_metadata["tags"].append("b")
    first.content.parts = []
    assert (await memory.search_memory(**USER, query="kitten")).memories == [before]


async def test_metadata_of_added_events_is_kept() -> None:
    memory = InMemoryVectorMemoryService()
    await memory.add_events_to_memory(
        **USER, events=[said("kitten")], session_id="s", custom_metadata={"of": "all"}
    )
    (found,) = (await memory.search_memory(**USER, query="kitten")).memories
    assert found.custom_metadata == {"of": "all"}


async def unavailable(_texts: list[str]) -> list[list[float]]:
    raise ModelUnavailable("The model is down; ask again later.")


async def test_what_a_failing_embedder_refuses_is_not_remembered_until_it_is_repeated() -> None:
    embedder = BrokenEmbedder(failure=unavailable)
    memory = InMemoryVectorMemoryService(embedder=embedder)
    session = conversation("the kitten sleeps")
    with pytest.raises(ModelUnavailable):
        await memory.add_session_to_memory(session)
    embedder.failure = None
    assert await found(memory, "kitten") == []
    await memory.add_session_to_memory(session)
    assert await found(memory, "feline") == ["the kitten sleeps"]


async def test_a_memory_is_embedded_once_unless_it_says_something_else() -> None:
    embedder = ToyEmbedder()
    memory = InMemoryVectorMemoryService(embedder=embedder)
    session = conversation("the kitten", "an automobile")
    for _ in range(3):
        await memory.add_session_to_memory(session)
    session.events[0].content = said("the hound").content
    await memory.add_session_to_memory(session)
    assert [len(texts) for texts in embedder.documents if texts] == [2, 1]
    assert await found(memory, "feline") == []


@pytest.mark.program
def test_words_and_an_own_embedder_need_no_extra() -> None:
    program = (
        "import sys; sys.modules.update(numpy=None, onnxruntime=None)\n"
        "import adkpg; adkpg.InMemoryVectorMemoryService()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="top_k=0"):
        InMemoryVectorMemoryService(top_k=0)
    for least in (-0.1, 1.1, math.nan):
        with pytest.raises(ConfigurationError, match="min_relevance="):
            InMemoryVectorMemoryService(min_relevance=least)
    with pytest.raises(InvalidInput, match="without text"):
        await InMemoryVectorMemoryService().add_memory(**USER, memories=[entry("x"), entry(" ")])
