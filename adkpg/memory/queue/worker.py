"""Worker: does what is still to be done with memories, alongside any number of others."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from adkpg.errors import (
    AdkpgError,
    ModelUnavailable,
    PermissionDenied,
    RetryableError,
    SchemaError,
)
from adkpg.scopes import every_scope, narrowed

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 60.0
_GIVING_BACK_S = 5.0  # what was claimed; if the database does not answer, its lease lapses


class Work(Protocol):
    """Work that waits user by user."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    def pause_s(self) -> float:
        """Returns for how many seconds its model is not asked, since it is away; else 0.0."""
        ...

    def forgive(self) -> None:
        """Has a model that is away asked again now."""
        ...

    async def due_users(self) -> list[tuple[str, str]]:
        """Returns (app_name, user_id) of users with work that no worker has claimed."""
        ...

    async def work(self, app_name: str, user_id: str) -> int:
        """Claims and does one batch of a user's work; returns how many memories it was.

        Raises:
          ModelUnavailable: It failed, as any other user's would now.
          AdkpgError: It failed; what was claimed is given back, due again after a while.
        """
        ...


class Worker:
    """Runs until it is stopped: claims work user by user, in batches, so that no user waits long.

    Failures are logged, and their work is due again after a delay. Many workers share the work, in
    one process or in many. One that is killed leaves leases, which lapse after
    ``ADKPG_JOB_LEASE_S``. While the database refuses or loses statements it waits, longer each
    time. While a model is away, nothing is claimed for it, longer each time too; then it is asked
    for one user, and for the others once it has answered.

    Args:
      works: The kinds of work to do.
      chores: Done now and then as well, such as tidying; none keeps the work waiting.
      chore_interval_s: How often, in seconds; sooner after a chore that failed.
      poll_interval_s: Pause when nothing is due, in seconds.
      concurrency: Most users whose batches run side by side.
      stop_timeout_s: How long batches may run on after a stop, in seconds.

    Attributes:
      done_by: How many memories it worked on, by the name of the work.
    """

    def __init__(
        self,
        works: Sequence[Work],
        *,
        chores: Sequence[Callable[[], Awaitable[object]]] = (),
        chore_interval_s: float = 600.0,
        poll_interval_s: float = 1.0,
        concurrency: int = 2,
        stop_timeout_s: float = 5.0,
    ) -> None:
        self._works = works
        self._chores = chores
        self._chore_interval_s = chore_interval_s
        self._next_chores = float("-inf")
        self._poll_interval_s = poll_interval_s
        self._concurrency = concurrency
        self._stop_timeout_s = stop_timeout_s
        self.done_by: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event | None = None) -> int:
        """Works until `stop` is set: batches that run may end, and no more are begun.

        What does not end in time is cancelled, as it is if this is cancelled: it gives back what it
        has claimed. Chores are cancelled: they go on the next time.

        Returns:
          How many memories it worked on.

        Raises:
          SchemaError: The schema is missing, or at another revision.
          PermissionDenied: The role may not enter every scope.
        """
        stop = stop or asyncio.Event()
        chores = asyncio.create_task(self._do_chores_until(stop))
        try:
            return await self._work_until(stop)
        finally:
            chores.cancel()
            await asyncio.wait([chores])

    async def _work_until(self, stop: asyncio.Event) -> int:
        before = self.done_by.total()
        pause_s = self._poll_interval_s
        while not stop.is_set():
            try:
                progress = await self._batches(stop)
            except (SchemaError, PermissionDenied):
                raise
            except AdkpgError as exc:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                logger.warning("The worker waits for the database: %s", exc)
                progress = 0
            else:
                pause_s = self._poll_interval_s
            if not progress:
                await _pause(stop, pause_s * random.uniform(0.5, 1))
        return self.done_by.total() - before

    async def run_once(self, stop: asyncio.Event | None = None) -> int:
        """Does the chores if it is time, and a batch for each user with due work.

        Models that are away are asked, too.

        Args:
          stop: Ends it, as `run` says.

        Returns:
          How many memories it worked on.

        Raises:
          DatabaseError: The server refused a statement, or is unavailable.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._next_chores:
            self._next_chores = now + await self._do_chores()
        for work in self._works:
            work.forgive()
        return await self._batches(stop or asyncio.Event())

    async def _do_chores_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await _pause(stop, await self._do_chores() * random.uniform(0.9, 1))

    async def _do_chores(self) -> float:
        """Does each chore, whatever becomes of the others; returns when to do them again."""
        pause_s = self._chore_interval_s
        for chore in self._chores:
            try:
                with every_scope():
                    await chore()
            except Exception as exc:
                pause_s = min(self._chore_interval_s, _LONGEST_PAUSE_S)
                known = isinstance(exc, AdkpgError)
                logger.warning(
                    "A chore failed and is tried again later: %s", exc, exc_info=not known
                )
        return pause_s

    async def _batches(self, stop: asyncio.Event) -> int:
        """Does a round of each work; after a stop it has some time, then it is cancelled."""
        before = self.done_by.total()
        running = asyncio.create_task(self._rounds(stop))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait({running}, timeout=self._stop_timeout_s)
        finally:
            stopping.cancel()
            running.cancel()
            await asyncio.wait({running, stopping}, timeout=_GIVING_BACK_S)
        if running.done() and not running.cancelled():
            running.result()
        return self.done_by.total() - before

    async def _rounds(self, stop: asyncio.Event) -> None:
        for work in self._works:
            if not work.pause_s():
                await self._round(work, stop)

    async def _round(self, work: Work, stop: asyncio.Event) -> None:
        with every_scope():
            users = await work.due_users()
        random.shuffle(users)  # workers that start together begin apart

        async def serve() -> None:
            while users and not stop.is_set():
                app_name, user_id = users.pop()
                try:
                    with every_scope(), narrowed(app_name, user_id):
                        worked = await work.work(app_name, user_id)
                    self.done_by[work.name] += worked  # not in one: it is read before the wait
                except RetryableError:
                    raise
                except AdkpgError as exc:
                    if isinstance(exc, ModelUnavailable):
                        users.clear()  # nor would it answer for them
                        if not exc.asked:
                            continue
                    logger.warning(
                        "%s failed for a user of app %r and is tried again later: %s",
                        work.name.capitalize(),
                        app_name,
                        exc,
                    )

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(serve())
        except* RetryableError as group_error:
            raise group_error.exceptions[0] from None


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
