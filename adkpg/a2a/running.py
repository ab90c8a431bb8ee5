"""Running: the tasks that this process works on, and that they have ended elsewhere."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from a2a.types import TaskState

from adkpg.a2a import statements
from adkpg.a2a.task import FINAL, RUNNING, TaskKey
from adkpg.a2a.words import GONE
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
        self._signs: weakref.WeakKeyDictionary[asyncio.Task[object], dict[_Key, _Sign]] = (
            weakref.WeakKeyDictionary()
        )
        self._stops: dict[_Key, Callable[[], None]] = {}

    def saving(self, place: TaskKey, token: str) -> None:
        """Notes that the current ``asyncio.Task`` is about to save a task, and by which token."""
        self._sign(place).token = token

    def saved(self, place: TaskKey, state: int) -> None:
        """Notes that the current ``asyncio.Task`` has saved a task, which is in a state now."""
        sign = self._sign(place)
        if state in FINAL:
            sign.end()
        elif state in RUNNING and sign.heart is None:
            loop = asyncio.get_running_loop()
            sign.heart = self._database.heart.run(self._keep(place, sign, loop))

    def _sign(self, place: TaskKey) -> "_Sign":
        saver = asyncio.current_task()
        assert saver is not None  # a coroutine runs in one
        signs = self._signs.setdefault(saver, {})
        sign = signs.get(_key(place))
        if sign is None:
            sign = signs[_key(place)] = _Sign(place)
            saver.add_done_callback(sign.end)
            # Tasks of a closed loop are never done.
            weakref.finalize(saver, sign.end).atexit = False
        return sign

    def held(self) -> list[TaskKey]:
        """Returns the tasks that this process works on."""
        signs = [sign for each in list(self._signs.values()) for sign in list(each.values())]
        return [sign.place for sign in signs if sign.heart is not None]

    async def release(self, places: list[TaskKey]) -> None:
        """Ends those of some tasks that run still, because their process ends.

        Raises:
          DatabaseError: The database refused; they end when their lease does.
        """
        for place in places:
            # Now it is due; an ended one stays as it is.
            await self._database.run.fetch(statements.renew(**place, lease_s=0), policy=COMPARED)
            await self._database.run.fetch(
                statements.fail_lapsed(**place, reason=GONE), policy=COMPARED
            )

    async def state(self, place: TaskKey) -> int | None:
        """Returns the state of a task, which is renewed if it runs; None if it is gone."""
        rows = await self._database.run.fetch(
            statements.renew(**place, lease_s=self._lease_s), policy=COMPARED
        )
        return TaskState.Value(rows[0]["state"]) if rows else None

    @contextmanager
    def stopped_by(self, place: TaskKey, stop: Callable[[], None]) -> Iterator[None]:
        """Calls `stop`, in another thread, if the task ends elsewhere while the block runs."""
        self._stops[_key(place)] = stop
        try:
            yield
        finally:
            self._stops.pop(_key(place), None)

    async def _keep(self, place: TaskKey, sign: "_Sign", loop: asyncio.AbstractEventLoop) -> None:
        """Renews a task until it has ended, or waits for input and no run is under way."""
        renew = statements.renew(**place, lease_s=self._lease_s)
        while not loop.is_closed():
            await asyncio.sleep(min(self._lease_s / 3, _LONGEST_PAUSE_S))
            try:
                rows = await self._database.run.fetch(renew, policy=COMPARED)
            except AdkpgError as exc:
                logger.warning("A running task was not renewed: %s", exc)
                continue
            state = TaskState.Value(rows[0]["state"]) if rows else None
            stop = self._stops.get(_key(place))
            if state is None or (state in FINAL and rows[0]["token"] != sign.token):
                if stop is not None:
                    stop()
                return
            if state in FINAL or (state not in RUNNING and stop is None):
                sign.heart = None
                return


class _Sign:
    """What renews a task, while it is worked on.

    Args:
      place: The task.

    Attributes:
      place: The task.
      token: The last save by this process has it.
      heart: Renews it; None while it need not be renewed.
    """

    def __init__(self, place: TaskKey) -> None:
        self.place = place
        self.token = ""
        self.heart: Future[None] | None = None

    def end(self, _: object = None) -> None:
        """Renews it no more; idempotent."""
        if self.heart is not None:
            self.heart.cancel()
            self.heart = None


def _key(place: TaskKey) -> _Key:
    return place["app_name"], place["user_id"], place["task_id"]
