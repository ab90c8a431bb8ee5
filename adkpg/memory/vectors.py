"""Vectors: a memory service's embedder, and the vectors it keeps up to date in the database."""

import logging
from typing import Any

from adkpg.database import Database
from adkpg.embedding.cache import QueryCache
from adkpg.embedding.embedder import Embedder, embed_checked, floor_of
from adkpg.errors import ConfigurationError, EmbeddingError
from adkpg.memory import records
from adkpg.memory import vector_statements as statements
from adkpg.tables import INLINE_DIMENSIONS, MAX_DIMENSIONS

logger = logging.getLogger(__name__)


class Vectors:
    """Embeds questions and memories with one model.

    Args:
      database: Where the memories are.
      embedder: What turns texts into vectors.

    Attributes:
      embedder: The same.
      floor: The cosine under which the model finds noise.
      large: Whether the vectors are too long for the covering index.
      model: The model's key, as statements take it.

    Raises:
      ConfigurationError: Postgres cannot index vectors of this length.
    """

    def __init__(self, database: Database, embedder: Embedder) -> None:
        if not 1 <= embedder.dimensions <= MAX_DIMENSIONS:
            raise ConfigurationError(
                f"Embedder {embedder.model!r} has {embedder.dimensions} dimensions; Postgres "
                f"indexes 1 to {MAX_DIMENSIONS}: ask the model for fewer."
            )
        self.embedder = embedder
        self.floor = floor_of(embedder)
        self.large = embedder.dimensions > INLINE_DIMENSIONS
        self.model: dict[str, Any] = {
            "model": embedder.model,
            "dimensions": embedder.dimensions,
        }
        self._database = database
        self._queries = QueryCache(database.settings.query_cache_size)
        self._model_id: int | None = None

    async def of_query(self, text: str) -> str:
        """Returns a question's vector as pgvector reads it, from the cache if it was asked before.

        Raises:
          EmbeddingError: The embedder failed.
        """
        return records.vector_text(await self._queries.vector(self.embedder, text))

    async def embed_pending(self, app_name: str | None, user_id: str | None) -> int:
        """Does what `PgVectorMemoryService.embed_pending` says."""
        one_user = app_name is not None and user_id is not None
        batch_size = self._database.settings.embedding_batch_size
        parameters = {"app_name": app_name, "user_id": user_id, "limit": batch_size}
        total = 0
        while rows := await self._database.fetch(
            statements.select_pending(one_user=one_user), parameters
        ):
            vectors = await embed_checked(self.embedder, [row["body"] for row in rows])
            model_id, _ = await self.numbered_model()
            stored = await self._database.fetch_one(
                statements.store_vectors(large=self.large),
                {
                    "model_id": model_id,
                    "app_names": [row["app_name"] for row in rows],
                    "user_ids": [row["user_id"] for row in rows],
                    "positions": [row["position"] for row in rows],
                    "digests": [row["digest"] for row in rows],
                    "vectors": [records.vector_text(vector) for vector in vectors],
                },
            )
            count: int = stored["stored"] if stored else 0
            total += count
            if len(rows) < batch_size or count == 0:
                break
        return total

    async def embed_quietly(self, app_name: str, user_id: str) -> None:
        """Embeds what a user has pending; a failing embedder is a warning and loses nothing."""
        try:
            await self.embed_pending(app_name, user_id)
        except EmbeddingError as exc:
            logger.warning(
                "The memories are stored and found by their words, but wait for vectors: %s "
                "The next ingest, or embed_pending(), catches up.",
                exc,
            )

    async def index_large_scopes(self) -> int:
        """Lists the users above the limit, marks their vectors, builds the index, opens it.

        The order keeps searches right at any moment: vectors stored meanwhile are marked as they
        come, and no search uses the index before it holds every vector of the user.

        Returns:
          How many vectors were marked.
        """
        database = self._database
        model_id, dimensions = await self.numbered_model()
        model = {"model_id": model_id}
        timeout_s = database.settings.migration_timeout_s
        await database.fetch(
            statements.insert_approximate_scopes(),
            {**model, "exact_limit": database.settings.exact_limit},
        )
        first = await database.fetch_one(statements.mark_approximate(), model, timeout_s=timeout_s)
        broken = {"schema": database.schema, "index": statements.index_name(model_id)}
        if await database.fetch(statements.select_broken_index(), broken):
            drop = statements.drop_index(database.schema, model_id)
            await database.run_ddl(drop, timeout_s=timeout_s)
        create = statements.create_index(database.schema, model_id, dimensions)
        await database.run_ddl(create, timeout_s=timeout_s)
        # A vector may have been on its way when its user was listed; the build waited for it.
        late = await database.fetch_one(statements.mark_approximate(), model, timeout_s=timeout_s)
        await database.fetch(statements.open_approximate_scopes(), model)
        return sum(found["marked"] for found in (first, late) if found)

    async def numbered_model(self) -> tuple[int, int]:
        """Returns the model's number and dimensions; registers it the first time."""
        while self._model_id is None:
            row = await self._database.fetch_one(statements.select_model(), self.model)
            if row is not None:
                self._model_id = row["model_id"]
            else:
                await self._database.fetch(statements.insert_model(), self.model)
        return self._model_id, self.embedder.dimensions
