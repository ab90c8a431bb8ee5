"""How many calls an embedder makes at once."""

import asyncio
import threading


class LoopLimit:
    """Give each event loop a semaphore of its own, since a semaphore serves one loop only.

    Safe to share between threads that run a loop each.
    """

    def __init__(self, size: int) -> None:
        """Store the limit.

        Args:
            size: Calls that may run at once in one loop, 1 or more.
        """
        self._size = size
        self._lock = threading.Lock()
        self._held: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def here(self) -> asyncio.Semaphore:
        """Return the running loop's semaphore; enter it with ``async with``."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [held for held in self._held if held.is_closed()]:
                del self._held[closed]
            return self._held.setdefault(loop, asyncio.Semaphore(self._size))
