"""Vectors: a memory service's embedder, and the vectors it keeps up to date in the database."""

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from adkpg.database import Database
from adkpg.embedding.cache import QueryCache
from adkpg.embedding.embedder import Embedder, embed_checked, floor_of
from adkpg.errors import (
    ConfigurationError,
    EmbedderUnavailable,
    EmbeddingError,
    ModelNotActive,
)
from adkpg.memory import records
from adkpg.memory import vector_statements as statements
from adkpg.memory.jobs import Jobs
from adkpg.tables import INLINE_DIMENSIONS, MAX_DIMENSIONS

logger = logging.getLogger(__name__)

_TOGETHER = 2  # attempts up to which texts are sent in one batch


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
        self._jobs = Jobs(database, "embed")
        self._model_id: int | None = None
        self._active: set[str] = set()

    async def of_query(self, text: str) -> str:
        """Returns a question's vector as pgvector reads it, from the cache if it was asked before.

        Raises:
          EmbeddingError: The embedder failed.
        """
        return records.vector_text(await self._queries.vector(self.embedder, text))

    async def embed_pending(self, app_name: str | None, user_id: str | None) -> int:
        """Does what `PgVectorMemoryService.embed_pending` says."""
        total = 0
        failure: EmbeddingError | None = None
        async for app, user in self._pending_users(app_name, user_id):
            try:
                total += await self.embed_user(app, user, eager=True)
            except EmbedderUnavailable:
                raise
            except EmbeddingError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure
        return total

    async def embed_user(
        self, app_name: str, user_id: str, *, eager: bool, batches: int | None = None
    ) -> int:
        """Embeds what one user has pending and nobody else has claimed.

        A text that failed twice is tried alone, so that it fails alone.

        Args:
          app_name: The app.
          user_id: The user, or the reserved id of the app-wide scope.
          eager: With what waits after a failure too.
          batches: At most so many; None takes all there is.

        Returns:
          How many vectors were stored.

        Raises:
          EmbeddingError: The embedder failed for some; they are given back, the others stored.
        """
        model_id, _ = await self.numbered_model()
        batch_size = self._database.settings.embedding_batch_size
        total = 0
        failure: EmbeddingError | None = None
        while rows := await self._jobs.claim(
            app_name, user_id, batch_size, model_id=model_id, eager=eager
        ):
            fresh = [row for row in rows if row["attempts"] <= _TOGETHER]
            apart = [[row] for row in rows if row["attempts"] > _TOGETHER]
            apart += [fresh] if fresh else []
            stored = 0
            left = list(rows)
            try:
                for batch in apart:
                    try:
                        stored += await self._embed(app_name, user_id, batch)
                    except EmbeddingError as exc:
                        failure = failure or exc
                        refused = not isinstance(exc, EmbedderUnavailable)
                        await self._jobs.fail(batch, exc, refused=refused)
                        if not refused:
                            break
                    left = [row for row in left if row not in batch]
            finally:  # cancelled, or the service is down: somebody else may go on at once
                await self._jobs.release(left)
            total += stored
            batches = None if batches is None else batches - 1
            if batches == 0 or failure is not None or len(rows) < batch_size or stored == 0:
                break
        if failure is not None:
            raise failure
        return total

    async def embed_quietly(self, app_name: str, user_id: str) -> None:
        """Embeds what a user has pending; a failing embedder is a warning and loses nothing."""
        try:
            await self.require_active(app_name)
            await self.embed_user(app_name, user_id, eager=True)
        except (EmbeddingError, ModelNotActive) as exc:
            logger.warning(
                "The memories are stored and found by their words, but wait for vectors: %s "
                "The next ingest, a worker, or embed_pending(), catches up.",
                exc,
            )

    async def require_active(self, app_name: str) -> None:
        """Returns if the app's vectors are of this model, or it has none yet.

        Raises:
          ModelNotActive: They are of another.
        """
        active = await self._database.fetch_one(
            statements.select_active_model(), {"app_name": app_name}
        )
        if active is not None and dict(active) != {
            "model_id": active["model_id"],
            "name": self.embedder.model,
            "dimensions": self.embedder.dimensions,
        }:
            raise self.not_active(app_name, active["name"], active["dimensions"])

    def not_active(self, app_name: str, name: str, dimensions: int) -> ModelNotActive:
        """Returns the error that says that an app is searched with another model."""
        return ModelNotActive(
            f"App {app_name!r} is searched with model {name!r} ({dimensions} dimensions), not with "
            f"this service's {self.embedder.model!r} ({self.embedder.dimensions}): use an embedder "
            f"of the first, or run adkpg reembed --app {app_name} --model for the second."
        )

    async def _pending_users(
        self, app_name: str | None, user_id: str | None
    ) -> AsyncIterator[tuple[str, str]]:
        if app_name is not None and user_id is not None:
            yield app_name, user_id
            return
        model_id, _ = await self.numbered_model()
        seen: set[tuple[str, str]] = set()
        while new := [
            scope
            for scope in await self._jobs.due_users(model_id=model_id, eager=True)
            if scope not in seen and app_name in (None, scope[0])
        ]:
            seen.update(new)
            for scope in new:
                yield scope

    async def _embed(self, app_name: str, user_id: str, rows: Sequence[Any]) -> int:
        vectors = await embed_checked(self.embedder, [row["body"] for row in rows])
        model_id, _ = await self.numbered_model()
        if app_name not in self._active:
            await self._database.fetch(
                statements.activate_first_model(), {"app_name": app_name, "model_id": model_id}
            )
            self._active.add(app_name)
        row = await self._database.fetch_one(
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
        stored: int = row["stored"] if row else 0
        if stored < len(rows):  # changed meanwhile, held by a writer, or the models were changed
            await self._jobs.release(rows)
        return stored

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
