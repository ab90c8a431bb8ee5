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
from adkpg.memory.queue.jobs import Jobs
from adkpg.memory.vectors import statements
from adkpg.memory.vectors.index import build_index
from adkpg.tables import INLINE_DIMENSIONS, MAX_DIMENSIONS

logger = logging.getLogger(__name__)

_TOGETHER = 2  # attempts up to which texts are sent in one batch
_UNREGISTERED = 0  # numbers begin at 1


def require_indexable(model: str, dimensions: int) -> None:
    """Returns if Postgres can index a model's vectors.

    Raises:
      ConfigurationError: Vectors of this length cannot be indexed.
    """
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigurationError(
            f"Model {model!r} has {dimensions} dimensions; Postgres indexes 1 to {MAX_DIMENSIONS}: "
            "ask the model for fewer."
        )


def given_vectors(rows: Sequence[Any], vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Returns the arrays of `vector_statements.store_vectors`.

    Args:
      rows: Memories as they were read: app_name, user_id, position, digest.
      vectors: One for each, ``[n, d]``.
    """
    return {
        "app_names": [row["app_name"] for row in rows],
        "user_ids": [row["user_id"] for row in rows],
        "positions": [row["position"] for row in rows],
        "digests": [row["digest"] for row in rows],
        "values": [value for vector in vectors for value in records.unit_vector(vector)],
        "dimensions": len(vectors[0]) if vectors else 0,
    }


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
        require_indexable(embedder.model, embedder.dimensions)
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
        self._model_id = _UNREGISTERED

    async def of_query(self, text: str) -> list[float]:
        """Returns a question's vector of unit length, from the cache if it was asked before.

        Raises:
          EmbeddingError: The embedder failed.
        """
        return records.unit_vector(await self._queries.vector(self.embedder, text))

    async def embed_pending(self, app_name: str | None, user_id: str | None) -> int:
        """Does what `PgVectorMemoryService.embed_pending` says.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
          ModelNotActive: The vectors of the app that was asked for are of another model.
        """
        if app_name is not None:
            await self.require_active(app_name)
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

        Nothing if the app's vectors are of another model; the first vectors of an app make this
        one its active model. A text that failed twice is tried alone, so that it fails alone.

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
        found = await self._app_models(app_name)
        self._model_id = found["own"] or _UNREGISTERED
        first = found["active"] is None
        if not first and found["active"] != found["own"]:
            return 0
        batch_size = self._database.settings.embedding_batch_size
        total = 0
        failure: EmbeddingError | None = None
        # Somebody else may make this the app's model just now; what is stored is checked again.
        claimed_for = None if first else self._model_id
        while rows := await self._jobs.claim(
            app_name, user_id, batch_size, model_id=claimed_for, eager=eager
        ):
            fresh = [row for row in rows if row["attempts"] <= _TOGETHER]
            apart = [[row] for row in rows if row["attempts"] > _TOGETHER]
            apart += [fresh] if fresh else []
            stored = 0
            left = list(rows)
            try:
                for batch in apart:
                    try:
                        stored += await self._embed(batch, first=first)
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
        """Embeds what a user has pending; if it cannot be, that is a warning and loses nothing."""
        try:
            if not await self.embed_user(app_name, user_id, eager=True):
                await self.require_active(app_name)
        except ModelNotActive as exc:
            logger.warning(
                "The memories are stored and found by their words, but wait for vectors: %s", exc
            )
        except EmbeddingError as exc:
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
        found = await self._app_models(app_name)
        # Registered anew, it has another number than before.
        self._model_id = found["own"] or _UNREGISTERED
        if found["active"] not in (None, found["own"]):
            raise self.not_active(app_name, found["name"], found["dimensions"])

    def not_active(self, app_name: str, name: str, dimensions: int) -> ModelNotActive:
        """Returns the error that says that an app is searched with another model."""
        return ModelNotActive(
            f"App {app_name!r} is searched with model {name!r} ({dimensions} dimensions), not with "
            f"this service's {self.embedder.model!r} ({self.embedder.dimensions}): use an embedder "
            "of the first, or change the app over to the second by adkpg reembed."
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

    async def _embed(self, rows: Sequence[Any], *, first: bool) -> int:
        vectors = await embed_checked(self.embedder, [row["body"] for row in rows])
        model_id = await self._registered()
        if first:
            await self._database.fetch(
                statements.activate_first_model(),
                {"app_name": rows[0]["app_name"], "model_id": model_id},
            )
        row = await self._database.fetch_one(
            statements.store_vectors(large=self.large),
            {"model_id": model_id, **given_vectors(rows, vectors)},
        )
        stored: int = row["stored"] if row else 0
        if stored < len(rows):  # changed meanwhile, held by a writer, or the models were changed
            await self._jobs.release(rows)
        return stored

    async def index_large_scopes(self) -> int:
        """Does what `PgVectorMemoryService.index_large_scopes` says."""
        model_id = await self._registered()
        return await build_index(self._database, model_id, self.embedder.dimensions)

    async def numbered_model(self) -> tuple[int, int]:
        """Returns the model's number and dimensions; 0, no model's number, before its first use."""
        if self._model_id == _UNREGISTERED:
            row = await self._database.fetch_one(statements.select_model(), self.model)
            self._model_id = row["model_id"] if row else _UNREGISTERED
        return self._model_id, self.embedder.dimensions

    async def _registered(self) -> int:
        while not (await self.numbered_model())[0]:
            await self._database.fetch(statements.insert_model(), self.model)
        return self._model_id

    async def _app_models(self, app_name: str) -> Any:
        found = await self._database.fetch_one(
            statements.select_app_models(), {"app_name": app_name, **self.model}
        )
        assert found is not None
        return found
