"""The replica that rankings are tried on ranks as the service does."""

from typing import Any

import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.evaluation.figures import DEPTH
from adkpg.memory.search.options import MODES
from benchmarks.replica import rank, read_question, read_scope
from tests.fakes.ranked_stories import NOW, QUESTIONS, BagEmbedder, remember

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
