"""Calls: how an embedder asks its service for the vectors of many texts."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from adkpg.embedding.batch import batches, well_formed
from adkpg.embedding.cache import VectorCache
from adkpg.embedding.embedder import checked_vectors
from adkpg.embedding.limits import LoopLimit
from adkpg.errors import ConfigurationError

Ask = Callable[[list[str]], Awaitable[Iterable[Sequence[float]]]]


class Calls:
    """Ask for each text once, in batches, a few at a time, and remember the latest vectors.

    Texts are remembered by their hash, so the cache keeps no one's words. Bound to no event loop;
    safe to share between threads that run a loop each.
    """

    def __init__(
        self,
        *,
        model: str,
        dimensions: int,
        batch_size: int,
        max_batch_bytes: int,
        concurrency: int,
        cache_size: int,
    ) -> None:
        """Store the limits.

        Args:
            model: The embedder's name, for errors.
            dimensions: Length d of the vectors.
            batch_size: Texts a call, 1 or more.
            max_batch_bytes: UTF-8 bytes a call, but one text at least.
            concurrency: Batches at once in one event loop, 1 or more, and as many questions, which
                so never wait behind batches.
            cache_size: Vectors of documents remembered, 0 or more.

        Raises:
            ConfigurationError: A number is too small.
        """
        for name, value, least in (
            ("dimensions", dimensions, 1),
            ("batch_size", batch_size, 1),
            ("concurrency", concurrency, 1),
            ("cache_size", cache_size, 0),
        ):
            if value < least:
                raise ConfigurationError(
                    f"{name} of embedder {model!r} is {value}; give {least} or more."
                )
        self._model = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._max_batch_bytes = max_batch_bytes
        self._cache = VectorCache(cache_size)
        self._batches = LoopLimit(concurrency)
        self._questions = LoopLimit(concurrency)

    async def documents(
        self, texts: Sequence[str], ask: Ask, *, max_text_bytes: int | None = None
    ) -> list[list[float]]:
        """Return vectors ``[n, d]`` in the order of the texts.

        A batch that fails cancels those still under way; the vectors of those done are remembered.

        Args:
            texts: Any texts; a lone surrogate is sent as ``?``.
            ask: Answers one batch of different texts with a vector for each.
            max_text_bytes: UTF-8 bytes sent of each text; None is all.

        Raises:
            EmbeddingMismatch: As `adkpg.embedding.embedder.embed_checked` says.
        """
        sent = [well_formed(text, max_text_bytes) for text in texts]
        vectors: dict[str, list[float]] = {}
        unknown: list[str] = []
        for text in dict.fromkeys(sent):
            known = self._cache.get(_key(text))
            if known is None:
                unknown.append(text)
            else:
                vectors[text] = known
        tasks = [
            asyncio.create_task(self._batch(batch, ask))
            for batch in batches(
                unknown, max_texts=self._batch_size, max_bytes=self._max_batch_bytes
            )
        ]
        try:
            for answered in await asyncio.gather(*tasks):
                vectors.update(answered)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [vectors[text].copy() for text in sent]

    async def query(self, text: str, ask: Ask, *, max_text_bytes: int | None = None) -> list[float]:
        """Return the vector ``[d]`` of a question, which is not remembered: `QueryCache` does that.

        Raises:
            EmbeddingMismatch: As `documents` says.
        """
        async with self._questions.here():
            [vector] = await self._checked([well_formed(text, max_text_bytes)], ask)
        return vector

    async def _batch(self, batch: list[str], ask: Ask) -> dict[str, list[float]]:
        async with self._batches.here():
            answer = dict(zip(batch, await self._checked(batch, ask), strict=True))
        for text, vector in answer.items():
            self._cache.put(_key(text), vector)
        return answer

    async def _checked(self, batch: list[str], ask: Ask) -> list[list[float]]:
        return checked_vectors(
            await ask(batch), count=len(batch), model=self._model, dimensions=self._dimensions
        )


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
