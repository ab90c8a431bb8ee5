"""HoldingsVectors: an embedder, and the vectors it keeps up to date in a `Holdings`."""

import asyncio
import logging
import math
from collections.abc import Sequence

from adkpg.embedding.cache import QueryCache
from adkpg.embedding.embedder import Embedder, embed_checked, floor_of
from adkpg.errors import EmbedderUnavailable, EmbeddingError
from adkpg.memory.collection import Entry
from adkpg.memory.holdings import Holdings, Scope
from adkpg.settings import Settings

logger = logging.getLogger(__name__)

_TOGETHER = 2  # attempts up to which texts are sent in one batch
_SHORTEST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class HoldingsVectors:
    """Embeds questions and memories with one model.

    Args:
      holdings: Where the memories are.
      embedder: What turns texts into vectors.
      settings: Sizes of batches and of the cache, and when to give a text up.

    Attributes:
      embedder: The same.
      floor: The cosine under which the model finds noise.
    """

    def __init__(self, holdings: Holdings, embedder: Embedder, settings: Settings) -> None:
        self.embedder = embedder
        self.floor = floor_of(embedder)
        self._holdings = holdings
        self._settings = settings
        self._queries = QueryCache(settings.query_cache_size)

    async def of_query(self, text: str) -> list[float]:
        """Returns a question's vector of unit length, from the cache if it was asked before.

        Raises:
          EmbeddingError: The embedder failed.
        """
        return _unit(await self._queries.vector(self.embedder, text))

    async def embed_pending(self, app_name: str | None, user_id: str | None) -> int:
        """Does what `InMemoryVectorMemoryService.embed_pending` says.

        Raises:
          EmbeddingError: The embedder failed; the rest stays pending.
        """
        total = 0
        failure: EmbeddingError | None = None
        for scope in self._holdings.pending_scopes(app_name, user_id):
            try:
                total += await self._embed(scope)
            except EmbedderUnavailable:
                raise
            except EmbeddingError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure
        return total

    async def embed_quietly(self, scope: Scope) -> None:
        """Embeds what a scope has pending; if it cannot be, that is a warning and loses nothing."""
        try:
            await self._embed(scope)
        except EmbeddingError as exc:
            logger.warning(
                "The memories are found by their words, but wait for vectors: %s "
                "The next ingest, or embed_pending(), catches up.",
                exc,
            )

    async def flush(self, app_name: str | None, user_id: str | None) -> None:
        """Returns once nothing waits; what fails is tried again, after longer and longer pauses."""
        pause_s = _SHORTEST_PAUSE_S
        while True:
            try:
                await self.embed_pending(app_name, user_id)
            except EmbeddingError as exc:
                logger.warning("Flushing goes on: %s", exc)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if not self._holdings.waiting(app_name, user_id, self._settings.job_max_attempts):
                return
            await asyncio.sleep(pause_s)

    async def _embed(self, scope: Scope) -> int:
        """Embeds what a scope has pending and nobody else has claimed; returns how many.

        Raises:
          EmbeddingError: The embedder failed for some; the others have their vectors.
        """
        batch_size, attempts = self._settings.embedding_batch_size, self._settings.job_max_attempts
        total = 0
        failure: EmbeddingError | None = None
        while failure is None and (claimed := self._holdings.claim(scope, batch_size, attempts)):
            try:
                for batch in _batches(claimed):
                    try:
                        texts = [entry.draft.body for entry in batch]
                        vectors = await embed_checked(self.embedder, texts)
                        total += self._holdings.embed(scope, batch, list(map(_unit, vectors)))
                    except EmbedderUnavailable:
                        raise
                    except EmbeddingError as exc:
                        failure = failure or exc
                        self._holdings.refuse(batch)
            finally:  # also if it was cancelled: somebody else may go on at once
                self._holdings.release(claimed)
        if failure is not None:
            raise failure
        return total


def _batches(entries: Sequence[Entry]) -> list[list[Entry]]:
    """What failed twice goes alone, so that it fails alone."""
    fresh = [entry for entry in entries if entry.attempts < _TOGETHER]
    apart = [[entry] for entry in entries if entry.attempts >= _TOGETHER]
    return [*apart, fresh] if fresh else apart


def _unit(vector: Sequence[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [value / norm for value in vector]
