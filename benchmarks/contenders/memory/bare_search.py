"""The least that a search of adkpg's tables can be: one statement that ranks by distance or BM25.

It leaves out what makes adkpg's answers better: neighbouring turns' words, what has expired or was
superseded, near-duplicates, floors, times, importance, reasons.
"""

from typing import Any

import asyncpg
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from benchmarks.contenders.memory.contender import APP, TOP_K, Embedding, Way
from benchmarks.figures import FLOOR

_BY_VECTORS = f"""
SELECT memories.body FROM (
  SELECT position FROM adkpg.memory_vectors
  WHERE app_name = $1 AND user_id = $2 AND model_id = $3
  ORDER BY embedding <#> $4 LIMIT {TOP_K}
) nearest JOIN adkpg.memories USING (position) WHERE app_name = $1 AND user_id = $2
"""  # noqa: S608
# Lucene's idf; k1 of 1.2, and no regard to lengths. How many memories there are is given.
_BY_WORDS = f"""
SELECT memories.body FROM (
  SELECT position FROM (
    SELECT position, frequency, count(*) OVER (PARTITION BY lexeme) AS found_in
    FROM adkpg.memory_lexemes
    WHERE app_name = $1 AND user_id = $2
      AND lexeme = ANY (tsvector_to_array(to_tsvector('english', $4)))
  ) postings GROUP BY position
  ORDER BY sum(ln(1 + ($3 - found_in + 0.5) / (found_in + 0.5)) * frequency / (frequency + 1.2))
    DESC LIMIT {TOP_K}
) best JOIN adkpg.memories USING (position) WHERE app_name = $1 AND user_id = $2
"""  # noqa: S608


class BareSearch:
    """Two statements on a raw asyncpg pool, over tables that adkpg filled.

    Args:
      url: Of adkpg's database.
      embedding: What answers for a question's vector.
      sizes: How many memories each user has.
    """

    name = FLOOR
    package = ""
    ways: tuple[Way, ...] = ("vectors", "words")
    whole = False

    def __init__(self, url: str, embedding: Embedding, sizes: dict[str, int]) -> None:
        self._url = url
        self._embedding = embedding
        self._sizes = sizes
        self._pool: Any = None
        self._model_id = 0
        bare = "one statement on adkpg's tables, on a raw asyncpg pool"
        self.search_notes: dict[Way, str] = {
            "vectors": f"{bare}: the nearest vectors, and their texts",
            "words": f"{bare}, told how many memories there are: BM25 of a memory's own words",
        }

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            self._url, min_size=1, max_size=1, init=register_vector
        )
        self._model_id = await self._pool.fetchval("SELECT model_id FROM adkpg.embedding_models")

    async def search(self, user: str | None, question: str, way: Way) -> list[str]:
        """Returns the texts of the best hits."""
        assert user is not None
        if way == "vectors":
            vector = HalfVector(self._embedding.of(question))
            rows = await self._pool.fetch(_BY_VECTORS, APP, user, self._model_id, vector)
        else:
            size = float(self._sizes[user])
            rows = await self._pool.fetch(_BY_WORDS, APP, user, size, question)
        return [row["body"].removeprefix("user: ") for row in rows]

    async def close(self) -> None:
        await self._pool.close()
