"""Threads for calls that block and cannot be cancelled."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

ArgumentT = TypeVar("ArgumentT")
AnswerT = TypeVar("AnswerT")


class Threads:
    """Runs each call in a thread of its own, which no one has to wait for.

    The event loop's own threads are few, and a process waits for them before it ends. A call that
    hangs in one of them would keep others, such as looking up a host's name, from running at all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = 0

    @property
    def left(self) -> int:
        """How many calls run on though their callers have gone."""
        return self._left

    async def run(self, function: Callable[[ArgumentT], AnswerT], argument: ArgumentT) -> AnswerT:
        """Returns what the function returns; if the caller is cancelled, it runs on unheard."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[AnswerT] = loop.create_future()
        context = contextvars.copy_context()
        ended = left = False

        def work() -> None:
            nonlocal ended
            try:
                result = context.run(function, argument)
            except BaseException as exc:  # noqa: BLE001 - it is the caller's
                settle = _failing(answer, exc)
            else:
                settle = _answering(answer, result)
            with self._lock:
                ended = True
                self._left -= left
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=work, name="adkpg-call", daemon=True).start()
        try:
            return await answer
        except asyncio.CancelledError:
            with self._lock:
                left = not ended
                self._left += left
            raise


def _answering(answer: asyncio.Future[AnswerT], result: AnswerT) -> Callable[[], None]:
    def settle() -> None:
        if not answer.done():
            answer.set_result(result)

    return settle


def _failing(answer: asyncio.Future[AnswerT], error: BaseException) -> Callable[[], None]:
    if isinstance(error, StopIteration):  # which no future takes
        error = RuntimeError(f"The function raised {type(error).__name__}.")

    def settle() -> None:
        if not answer.done():
            answer.set_exception(error)

    return settle
