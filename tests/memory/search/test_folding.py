"""Near-duplicates in the answers of a real search."""

import pytest

from adkpg import PgVectorMemoryService
from tests.fakes.conversation import USER, conversation, entry, found, said, session_of, text_of


async def remember_times(memory: PgVectorMemoryService, *texts: str) -> None:
    """Remembers texts apart from each other, each a day later than the one before."""
    await memory.add_memory(
        **USER,
        memories=[
            entry(text, f"m{day}", timestamp=f"2026-01-{day:02}T00:00:00Z")
            for day, text in enumerate(texts, 1)
        ],
    )


async def test_the_latest_of_the_same_stands_for_all_at_the_best_place(
    memory: PgVectorMemoryService,
) -> None:
    await remember_times(
        memory, "I love oolong tea", "we drink oolong at five", "I LOVE oolong, tea!", "bread"
    )
    hits = await memory.search(**USER, query="love oolong tea")
    assert [(hit.memory.id, hit.folded) for hit in hits] == [("m3", ("m1",)), ("m2", ())]
    assert hits[0].score == hits[0].reason.score > hits[1].score


async def test_what_differs_in_a_number_or_in_who_does_what_is_not_folded(
    memory: PgVectorMemoryService,
) -> None:
    await remember_times(
        memory,
        "Your order 9981 has shipped",
        "Your order 9982 has shipped",
        "Ana sold the kitten to Bob",
        "Bob sold the kitten to Ana",
    )
    assert len(await found(memory, "order shipped")) == 2
    assert len(await found(memory, "who sold the kitten?")) == 2


async def test_the_same_of_two_authors_is_two_hits(memory: PgVectorMemoryService) -> None:
    await memory.add_memory(
        **USER,
        memories=[entry("I love oolong", author="ana"), entry("I love oolong", author="bob")],
    )
    assert len(await found(memory, "oolong")) == 2


@pytest.mark.parametrize(("count", "top_k"), [(40, 5), (150, 5), (600, 20)])
async def test_many_of_one_kind_do_not_take_the_places_of_the_others(
    memory: PgVectorMemoryService, count: int, top_k: int
) -> None:
    """Whoever was thanked a hundred times found nothing else of what shares the word."""
    await memory.add_memory(**USER, memories=[entry("Thanks!") for _ in range(count)])
    others = [f"thanks for the {thing} you sent me" for thing in ("bread", "tea", "car", "hat")]
    await memory.add_memory(**USER, memories=[entry(text) for text in others])
    for mode in ("hybrid", "text"):
        hits = await memory.search(**USER, query="thanks", top_k=top_k, mode=mode)
        assert text_of(hits[0].memory) == "Thanks!"
        assert len(hits[0].folded) == count - 1
        assert sorted(text_of(hit.memory) for hit in hits[1:]) == sorted(others)


async def test_a_turn_said_again_in_another_session_is_one_hit_with_its_own_neighbours(
    memory: PgVectorMemoryService,
) -> None:
    await memory.add_session_to_memory(conversation("hello", "my kitten sleeps", session_id="1"))
    await memory.add_session_to_memory(
        session_of(said("hi", "a"), said("My kitten sleeps.", "b"), session_id="2")
    )
    hits = await memory.search(**USER, query="kitten sleeps", neighbours=1, mode="vector")
    (hit,) = hits
    assert hit.memory.session_id == "2"
    assert [text_of(each) for each in hit.neighbours] == ["hi"]
    assert len(hit.folded) == 1
    folded = await memory.get_memory(**USER, memory_id=hit.folded[0])
    assert folded is not None
    assert folded.session_id == "1"
