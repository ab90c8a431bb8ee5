"""Running: the tasks that this process works on, and that they have ended elsewhere."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from adkpg.a2a import statements
from adkpg.a2a.task import TaskKey
from adkpg.database import COMPARED, Database
from adkpg.errors import AdkpgError

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 5.0
"""How long a run goes on, at most, after its task has ended elsewhere, unless it saves sooner."""

_Key = tuple[str, str, str]


class Running:
    """Tells the database that the tasks which this process works on have their process still.

    A task is worked on by the ``asyncio.Task`` that saves it, the sdk's consumer of its events. So
    what is known of it here goes with that one, however it ends.

    Args:
      database: Where the tasks are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lease_s = database.settings.invocation_lease_s
        self._saved: weakref.WeakKeyDictionary[asyncio.Task[object], dict[_Key, _Sign]] = (
            weakref.WeakKeyDictionary()
        )
        self._stops: dict[_Key, Callable[[], None]] = {}

    def saved(self, place: TaskKey, *, runs: bool) -> None:
        """Notes that the current ``asyncio.Task`` saved a task.

        Args:
          place: The task.
          runs: Whether a process works on it from here on.
        """
        saver = asyncio.current_task()
        assert saver is not None  # a coroutine runs in one
        tasks = self._saved.setdefault(saver, {})
        sign = tasks.setdefault(_key(place), _Sign())
        if not runs:
            sign.end()
        elif sign.heart is None:
            loop = asyncio.get_running_loop()
            sign.heart = self._database.heart.run(self._keep(place, loop))
            weakref.finalize(saver, sign.end).atexit = False
            saver.add_done_callback(lambda _: sign.end())

    def has_saved(self, place: TaskKey) -> bool:
        """Whether the current ``asyncio.Task`` has saved a task before."""
        saver = asyncio.current_task()
        return saver is not None and _key(place) in self._saved.get(saver, {})

    def forget(self, place: TaskKey) -> None:
        """Notes that a task was deleted by who works on it."""
        for tasks in list(self._saved.values()):
            if (sign := tasks.pop(_key(place), None)) is not None:
                sign.end()

    def runs_here(self, place: TaskKey) -> bool:
        """Whether this process works on a task."""
        signs = [tasks.get(_key(place)) for tasks in list(self._saved.values())]
        return any(sign is not None and sign.heart is not None for sign in signs)

    @contextmanager
    def stopped_by(self, place: TaskKey, stop: Callable[[], None]) -> Iterator[None]:
        """Calls `stop`, in another thread, if the task ends elsewhere while the block runs."""
        self._stops[_key(place)] = stop
        try:
            yield
        finally:
            self._stops.pop(_key(place), None)

    async def _keep(self, place: TaskKey, loop: asyncio.AbstractEventLoop) -> None:
        renew = statements.renew(**place, lease_s=self._lease_s)
        while not loop.is_closed():
            await asyncio.sleep(min(self._lease_s / 3, _LONGEST_PAUSE_S))
            try:
                renewed = await self._database.run.fetch(renew, policy=COMPARED)
            except AdkpgError as exc:
                logger.warning("A running task was not renewed: %s", exc)
                continue
            if not renewed:
                if (stop := self._stops.get(_key(place))) is not None:
                    stop()
                return


class _Sign:
    """What renews a task, while it is worked on."""

    def __init__(self) -> None:
        self.heart: Future[None] | None = None

    def end(self) -> None:
        """Renews it no more; idempotent."""
        if self.heart is not None:
            self.heart.cancel()
            self.heart = None


def _key(place: TaskKey) -> _Key:
    return place["app_name"], place["user_id"], place["task_id"]
