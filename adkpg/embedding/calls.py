"""Calls: how an embedder asks its service for the vectors of many texts."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from adkpg.embedding.cache import VectorCache
from adkpg.embedding.embedder import checked_vectors, well_formed
from adkpg.errors import ConfigurationError
from adkpg.loops import PerLoop

Ask = Callable[[list[str]], Awaitable[Iterable[Sequence[float]]]]


class Calls:
    """Asks for each text once, in batches, a few at a time, and remember the latest vectors.

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
        max_text_bytes: int | None = None,
    ) -> None:
        """Stores the limits.

        Args:
          model: The embedder's name, for errors.
          dimensions: Length d of the vectors.
          batch_size: Texts a call, 1 or more.
          max_batch_bytes: UTF-8 bytes a call, but one text at least.
          concurrency: Most simultaneous batches in one event loop; as many questions, which
            so never wait for batches.
          cache_size: Vectors of documents remembered, 0 or more.
          max_text_bytes: UTF-8 bytes sent of each text; None is all.

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
        self._max_text_bytes = max_text_bytes
        self._cache = VectorCache(cache_size)
        self._batches = PerLoop(lambda: asyncio.Semaphore(concurrency))
        self._questions = PerLoop(lambda: asyncio.Semaphore(concurrency))

    async def documents(self, texts: Sequence[str], ask: Ask) -> list[list[float]]:
        """Returns vectors ``[n, d]`` in the order of the texts.

        A batch that fails cancels those still under way; the vectors of those done are remembered.

        Args:
          texts: Any texts; a lone surrogate is sent as ``?``.
          ask: Answers one batch of different texts with a vector for each.

        Raises:
          ModelError: As `adkpg.embedding.embedder.embed_checked` says.
        """
        sent = [well_formed(text, self._max_text_bytes) for text in texts]
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

    async def query(self, text: str, ask: Ask) -> list[float]:
        """Returns the vector ``[d]`` of a question; `GuardedEmbedder` remembers those.

        Raises:
          ModelError: As `documents` says.
        """
        async with self._questions.here():
            [vector] = await self._checked([well_formed(text, self._max_text_bytes)], ask)
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


def batches(texts: Sequence[str], *, max_texts: int, max_bytes: int) -> Iterator[list[str]]:
    """Splits texts, in order, into batches of at most ``max_texts`` and ``max_bytes`` of UTF-8.

    A text larger than ``max_bytes`` makes a batch of its own.
    """
    batch: list[str] = []
    size = 0
    for text in texts:
        text_bytes = len(text.encode())
        if batch and (len(batch) == max_texts or size + text_bytes > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += text_bytes
    if batch:
        yield batch
