"""Two scopes that are asked apart, as on a cluster, rank as one statement ranks them."""

from datetime import timedelta
from typing import Any

import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.memory.filters import SearchFilters
from adkpg.memory.search.options import MODES, Mode
from tests.fakes.conversation import USER, entry
from tests.fakes.ranked_stories import NOW, QUESTIONS, WORDS, BagEmbedder, remember

PAGES = [
    f"{first} {second} {first} of the {WORDS[n % 7]}"
    for n, (first, second) in enumerate(
        (first, second) for first in WORDS[:9] for second in WORDS[3:12]
    )
]
OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "many": {"top_k": 60},
    "that fade": {"half_life": timedelta(weeks=20)},
    "of some authors": {"filters": SearchFilters(authors=("user", "handbook"))},
    "to be gathered": {"gather": True},
}


class Apart(Database):
    """Its searches ask each scope by itself."""

    async def is_distributed(self) -> bool:
        return True


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("known", "common"),
    [("en", 0), ("zh", 0), ("en", 1)],
    ids=["a language it knows", "one it does not", "all is above the floor"],
)
async def test_the_same_is_found_in_the_same_order_with_the_same_reasons(
    database: Database, database_url: str, known: str, common: float, mode: Mode
) -> None:
    embedder = BagEmbedder((known,), common)
    together = PgVectorMemoryService(database, embedder=embedder)
    await remember(together)
    await together.add_memory(
        app_name="app",
        user_id=None,
        memories=[entry(page, author="handbook", timestamp=NOW.isoformat()) for page in PAGES],
    )
    shared = 0
    async with Apart(database_url) as asked_apart:
        apart = PgVectorMemoryService(asked_apart, embedder=embedder)
        for options in OPTIONS.values():
            for query in QUESTIONS:
                asked = {**USER, "query": query, "mode": mode, "now": NOW, **options}
                whole, parts = await together.search(**asked), await apart.search(**asked)
                assert [hit.memory.id for hit in parts] == [hit.memory.id for hit in whole], asked
                assert list(map(told, parts)) == [pytest.approx(told(hit)) for hit in whole]
                for one, other in zip(parts, whole, strict=True):
                    assert one.reason.lexemes == other.reason.lexemes
                    assert one.reason.idfs == pytest.approx(other.reason.idfs)
                shared += any(hit.memory.author == "handbook" for hit in whole)
    assert shared, "or one scope alone was ranked"


def told(hit: Hit) -> list[float]:
    """What a hit says of its score."""
    reason = hit.reason
    return [
        *(hit.score, reason.lexical, reason.cosine or 0.0, reason.recency, reason.importance),
        *(reason.date, reason.speaker, reason.newer),
    ]
