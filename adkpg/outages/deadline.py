"""Deadlines that hold, whatever is waited for."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT")

_GRACE_S = 1.0  # for what a cancelled call has to clean up
_AT_ONCE = 3  # turns of the event loop: two tasks, one within the other, and what they wait for

# The event loop itself keeps weak references only.
_abandoned: set[asyncio.Task[Any]] = set()


class Overdue(TimeoutError):
    """An answer took longer than it is waited for."""


async def answer_within(call: Coroutine[Any, Any, AnswerT], timeout_s: float) -> AnswerT:
    """Returns what a call returns, unless it takes too long; then the call is cancelled.

    A call that does not end by that is left behind after a second, as it is when its caller is
    cancelled.

    Raises:
      Overdue: It took too long.
      ConnectionAbortedError: It ended as cancelled, though no caller had cancelled it.
    """
    task = asyncio.create_task(call)
    try:
        await ended(task, timeout_s)
    except asyncio.CancelledError:
        await abandon(task)
        raise
    if not task.done():
        await abandon(task)
        raise Overdue
    if task.cancelled():
        raise ConnectionAbortedError("the call cancelled itself")
    return task.result()


async def ended(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Waits for the end of a task, no longer than a time.

    What answers at once, as from memory, needs no timer, which would take longer than the answer.
    """
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + timeout_s
    for _ in range(_AT_ONCE):
        if task.done():
            return
        await asyncio.sleep(0)
    await asyncio.wait({task}, timeout=max(until_s - now_s(), 0))


async def abandon(task: asyncio.Task[Any]) -> None:
    """Cancels a task, and waits for its end no longer than a second."""
    _abandoned.add(task)
    task.add_done_callback(_heard)
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE_S)


def _heard(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn of it
