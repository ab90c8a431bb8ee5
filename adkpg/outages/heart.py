"""Heart: what goes on while the event loop that began it stands still."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

_IDLE_S = 5.0


class Heart:
    """An event loop in a thread of its own, for signs of life that must not depend on another loop.

    The thread begins with the first work, ends some seconds after the last, and keeps no process
    from ending. Threads and loops may share one; a forked child begins its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._working = 0
        self._worked = False

    def run(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Runs work in the thread's loop, in the caller's context; to cancel it is to end it."""
        if self._pid != os.getpid():
            self._lock, self._loop, self._pid, self._working = (
                threading.Lock(),
                None,
                os.getpid(),
                0,
            )
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                beat = threading.Thread(
                    target=self._beat, args=(self._loop,), name="adkpg-heart", daemon=True
                )
                beat.start()
            self._working += 1
            self._worked = True
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(self._done)
        return future

    def _done(self, _: Future[None]) -> None:
        with self._lock:
            self._working -= 1

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until_idle())

    async def _until_idle(self) -> None:
        while True:
            await asyncio.sleep(_IDLE_S)
            with self._lock:
                if not self._working and not self._worked:
                    self._loop = None
                    return
                self._worked = False
