"""Vectors that need not be asked for again."""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Hashable

from adkpg.embedding.embedder import Embedder, embed_query_checked


class VectorCache:
    """Keeps the latest vectors, each under a key; tasks, loops and threads may share it."""

    def __init__(self, max_entries: int) -> None:
        """Makes an empty cache.

        Args:
          max_entries: Vectors kept; the one unused for longest goes first. 0 keeps none.
        """
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._vectors: OrderedDict[Hashable, array[float]] = OrderedDict()

    def get(self, key: Hashable) -> list[float] | None:
        """Returns the vector ``[d]`` as a list that is the caller's own, or None."""
        with self._lock:
            known = self._vectors.get(key)
            if known is None:
                return None
            self._vectors.move_to_end(key)
            return known.tolist()

    def put(self, key: Hashable, vector: list[float]) -> None:
        """Keeps a copy of the vector ``[d]``."""
        with self._lock:
            self._vectors[key] = array("d", vector)
            self._vectors.move_to_end(key)
            while len(self._vectors) > self._max_entries:
                self._vectors.popitem(last=False)


class QueryCache:
    """Remembers the vectors of the latest questions, so that a repeated one costs no call.

    ADK's ``preload_memory`` asks the same question on every model request of a turn. Safe to share
    between tasks, loops and threads; tasks that ask a new question at the same moment may each
    call the embedder once. A failure is not remembered.
    """

    def __init__(self, max_entries: int = 256) -> None:
        """Makes an empty cache.

        Args:
          max_entries: Questions kept; the one unused for longest goes first. 0 keeps none.
        """
        self._vectors = VectorCache(max_entries)

    async def vector(self, embedder: Embedder, text: str) -> list[float]:
        """Returns the question's vector ``[d]``, from the cache or by `embed_query_checked`.

        The list is the caller's own.

        Raises:
          EmbeddingError: As `embed_query_checked` says.
        """
        key = (embedder.model, embedder.dimensions, text)
        vector = self._vectors.get(key)
        if vector is None:
            vector = await embed_query_checked(embedder, text)
            self._vectors.put(key, vector)
        return vector
