"""Append queues: tasks that append through one live Session object are served in turn."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from google.adk.sessions.session import Session

T = TypeVar("T")


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


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Runs work to its end even if the caller is cancelled; then the cancellation goes on.

    So that what is committed and what the live object says never differ.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with _out_of_reach():
            while not task.done():
                try:
                    await asyncio.wait({task})
                except asyncio.CancelledError:  # cancelled again: the work still ends first
                    continue
        if not task.cancelled():
            task.exception()  # the cancellation is what the caller hears of
        raise


def _out_of_reach() -> AbstractContextManager[object]:
    """A place that anyio's scopes do not reach: they cancel again at every turn of the loop."""
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)
