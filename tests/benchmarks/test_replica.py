"""The replica that rankings are tried on ranks as the service does."""

from datetime import timedelta
from typing import Any

import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.memory.filters import KINDS, SearchFilters
from adkpg.memory.search.options import MODES
from adkpg.memory.search.ranking import RANKING
from adkpg.tooling.evaluation.figures import DEPTH
from benchmarks.replica import rank, read_question, read_scope
from tests.fakes.conversation import entry
from tests.fakes.ranked_stories import NOW, QUESTIONS, START, WORDS, BagEmbedder, remember

USER: Any = {"app_name": "app", "user_id": "user"}


@pytest.mark.parametrize(
    ("known", "common"),
    [("en", 0), ("zh", 0), ("en", 1)],
    ids=["a language it knows", "one it does not", "all is above the floor"],
)
async def test_it_finds_the_same_in_the_same_order_with_the_same_scores(
    database: Database, known: str, common: float
) -> None:
    embedder = BagEmbedder((known,), common)
    memory = PgVectorMemoryService(database, embedder=embedder)
    await remember(memory)
    scope = await read_scope(database, **USER)
    for mode in MODES:
        found_any = 0
        for text in QUESTIONS:
            asked = await read_question(database, "app", text, NOW, embedder)
            replicated = rank(scope, asked, embedder.floor, mode)
            hits = await memory.search(**USER, query=text, mode=mode, top_k=DEPTH, now=NOW)
            assert [hit.memory.id for hit in replicated] == [hit.memory.id for hit in hits], text
            assert told(replicated) == [pytest.approx(own, abs=1e-4) for own in told(hits)]
            found_any += len(hits)
        assert found_any > DEPTH, "or nothing was compared"


@pytest.mark.parametrize("text", ["Which green boat of 2026?", "Who has the 17 March 2026 ticket?"])
async def test_dates_count_alike_where_too_many_memories_have_them_to_be_led_to(
    database: Database, text: str
) -> None:
    """So many memories are of one year that it does not lead to them."""
    embedder = BagEmbedder(("en",), 0)
    memory = PgVectorMemoryService(database, embedder=embedder)
    await remember(memory)
    crowd = RANKING.leading_postings + 100
    days = [START + timedelta(days=number % 60) for number in range(crowd)]
    notes = [
        entry(f"{WORDS[number % len(WORDS)]} {number}", timestamp=day.isoformat())
        for number, day in enumerate(days)
    ]
    await memory.add_memory(**USER, memories=notes)
    scope = await read_scope(database, **USER)
    asked = await read_question(database, "app", text, NOW, embedder)
    hits = await memory.search(**USER, query=text, mode="text", top_k=DEPTH, now=NOW)
    assert any("2026" in hit.reason.lexemes for hit in hits), "the year was not looked at"
    replicated = rank(scope, asked, embedder.floor, "text")
    assert told(replicated) == [pytest.approx(own, abs=1e-4) for own in told(hits)]
    filters = SearchFilters(kinds=KINDS)
    met = await memory.search(**USER, query=text, mode="text", top_k=20, now=NOW, filters=filters)
    lexical = {hit.memory.id: hit.reason.lexical for hit in hits}
    both = [hit for hit in met if hit.memory.id in lexical]
    assert len(both) >= 5, "or nothing was compared"
    assert [hit.reason.lexical for hit in both] == [
        pytest.approx(lexical[hit.memory.id], abs=1e-4) for hit in both
    ]


def told(hits: list[Hit]) -> list[tuple[float, ...]]:
    """What the hits say of their scores."""
    return [
        (
            hit.score,
            hit.reason.lexical,
            hit.reason.date,
            hit.reason.speaker,
            hit.reason.newer,
        )
        for hit in hits
    ]
