"""Append queues: tasks that append through one live Session object are served in turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from google.adk.sessions.session import Session


class AppendQueues:
    """A queue for each live Session object and event loop, kept only while tasks wait in it.

    Across objects, processes and machines the database is the arbiter; this one only spares the
    tasks of one object a conflict with each other.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[int, int], _Queue] = {}

    @asynccontextmanager
    async def of(self, session: Session) -> AsyncIterator[None]:
        """Waits until this object is free, first come first served."""
        # The waiting tasks hold both objects, so their identities cannot be reused meanwhile.
        key = (id(asyncio.get_running_loop()), id(session))
        queue = self._queues.setdefault(key, _Queue())
        queue.length += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[key]


class _Queue:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0
