"""Work that a cancellation does not stop halfway."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Runs work to its end even if the caller is cancelled; then the cancellation goes on.

    So that what is committed and what the live object says never differ, and nothing stays claimed.
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
