"""Looks: where the primary and its standby stand, asked now and then for all who read."""

import asyncio
import contextvars
import logging
import math
import threading
from collections.abc import Callable

import asyncpg

from adkpg.database.attempts import GLANCE, GLANCE_APART, Attempt
from adkpg.database.replicas.horizon import History
from adkpg.database.replicas.seen import Seen
from adkpg.database.replicas.standby import NotHere, Runs, Standby
from adkpg.database.replicas.statements import identify
from adkpg.errors import AdkpgError, Busy, RetryableError
from adkpg.outages.health import Health

logger = logging.getLogger(__name__)

_LEAST_PAUSE_S = 0.05  # between the beginnings of two looks
_LONGEST_LOOK_S = 1.0  # at the primary
_PRIMARY_PAUSE_S = 1.0  # the longest between two looks for a primary that is away
_AWAY_S = _PRIMARY_PAUSE_S + _LONGEST_LOOK_S + 1.0  # for so long it counts as away after a failure
_RENEWAL_S = 30.0  # between two searches for a standby, where the primary answers in its place
_LONGEST_FAREWELL_S = 1.0  # of a look that may end by itself
_TOO_MANY_CONNECTIONS = "53300"


class Looks:
    """Looks, one after the other, in a task of an event loop that reads; no read waits for one.

    A look takes the time, then asks the primary where its log ends, and then the standby how far it
    is. Threads may share it: a loop that ends takes its look along, and another loop begins the
    next one.

    Args:
      primary: The Database.
      standby: Its standby.
      seen: Is told if the primary has another history.
      when_away: Called when a look finds the primary away.
    """

    def __init__(
        self, primary: Runs, standby: Standby, seen: Seen, when_away: Callable[[], None]
    ) -> None:
        self._primary = primary
        self._standby = standby
        self._seen = seen
        self._when_away = when_away
        self._primary_health = Health(longest_pause_s=_PRIMARY_PAUSE_S)
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = self._under_way = False
        self._began_at = -math.inf  # the last one
        self._begins_at = -math.inf  # the next one, at the earliest
        self._renewed_at = seen.now()
        self._apart: tuple[float, History] | None = None

    @property
    def primary_is_away(self) -> bool:
        """Whether the primary could not be reached a moment ago."""
        return self._primary_health.is_away(_AWAY_S)

    def primary_failed(self, exc: BaseException) -> None:
        """Notes that a read did not reach the primary, if its failure means that."""
        if _means_away(exc) and not isinstance(exc.__cause__, TimeoutError):
            self._primary_health.failed(None, str(exc))

    def want(self, since: float = math.inf, *, pause_s: float = 0.0) -> None:
        """Has it looked soon, unless a look is under way that began then or later.

        Args:
          since: A moment, in monotonic seconds.
          pause_s: How much later the look begins at the earliest, if none is wanted yet.
        """
        with self._lock:
            if self._loop is not None and not self._loop.is_running():
                self._task, self._under_way = None, False  # its loop has stopped
            if self._under_way and self._began_at >= since:
                return
            self._wanted = True
            if self._task is None:
                self._begins_at = self._seen.now() + pause_s
                self._loop = asyncio.get_running_loop()
                # In a context of its own, because it is no part of the caller's call.
                self._task = self._loop.create_task(self._run(), context=contextvars.Context())
                # Held until it ends, also if its loop stops and another one looks meanwhile.
                self._tasks.add(self._task)
                self._task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Ends the look that is under way; idempotent."""
        with self._lock:
            task, loop, self._wanted = self._task, self._loop, False
            longest_s = _LONGEST_FAREWELL_S if self._under_way else 0.0
        if task is None or loop is None:
            return
        if loop is asyncio.get_running_loop():
            await asyncio.wait({task}, timeout=longest_s)
            task.cancel()
            await asyncio.wait({task})
        elif loop.is_running():
            loop.call_soon_threadsafe(task.cancel)

    async def _run(self) -> None:
        own = asyncio.current_task()
        try:
            while self._begins():
                begins_at = max(self._began_at + _LEAST_PAUSE_S, self._begins_at)
                pause_s = begins_at - self._seen.now()
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                with self._lock:
                    self._wanted, self._under_way = False, True
                    self._began_at = self._seen.now()
                try:
                    await self._look(self._began_at)
                except NotHere as exc:
                    logger.debug("A look found no standby: %s", exc)
        finally:
            with self._lock:
                if self._task is own:
                    self._task, self._wanted, self._under_way = None, False, False

    def _begins(self) -> bool:
        """Whether another look is wanted; else the task ends."""
        with self._lock:
            self._under_way = False
            if not self._wanted:
                self._task = None
            return self._wanted

    async def _look(self, now: float) -> None:
        permit = self._standby.health.admit(self._standby.timeout_s)
        if permit is None:
            return
        try:
            primary = await self._stand_of_primary(permit)
            if primary is not None:
                await self._look_at_standby(now, primary, permit)
        finally:
            self._standby.health.withdrawn(permit)

    async def _look_at_standby(self, now: float, primary: asyncpg.Record, permit: int) -> None:
        standby, horizon, history = self._standby, self._standby.horizon, _history_of(primary)
        if horizon.follow(history):
            self._seen.void()
        before, attempt = horizon.standings(), Attempt()
        with standby.asking(permit, attempt):
            async with asyncio.timeout(2 * standby.timeout_s):  # connecting may take as long
                (found,) = await standby.runner.fetch(
                    identify(),
                    policy=GLANCE,
                    timeout_s=standby.timeout_s,
                    attempt=attempt,
                )
        theirs, number = _history_of(found), horizon.number(found["server"])
        if theirs._replace(timeline=history.timeline) != history:
            raise standby.gone(
                f"{standby.url} is another database than {self._primary.connections.url}; correct "
                "ADKPG_READ_URL.",
                permit,
            )
        if found["standby"] and theirs == history:
            await self._require_ahead(primary, found["position"], number, permit)
        elif not found["standby"] and now > self._renewed_at + _RENEWAL_S:
            self._renewed_at = now
            standby.runner.connections.renew()
        standby.primary_server = primary["server"]
        if primary["position"] is not None:
            horizon.primary_at(
                now,
                primary["position"],
                history,
                flushed=primary["flushed"],
                flush_delay_s=primary["flush_delay_s"],
            )
        if not horizon.met(number, theirs):
            self._say_apart(found["server"], history, theirs)
            return
        standby.heard(
            found["server"], found["position"], is_standby=found["standby"], before=before
        )

    async def _stand_of_primary(self, permit: int) -> asyncpg.Record | None:
        """Returns where the primary stands; None if it does not say so.

        Raises:
          NotHere: It will never say so.
        """
        health, attempt = self._primary_health, Attempt()
        of_primary = health.admit(_LONGEST_LOOK_S)
        if of_primary is None:
            return None
        used, idle, most = self._primary.connections.use()
        try:
            async with asyncio.timeout(_LONGEST_LOOK_S):
                if most and used >= most and not idle:
                    # It is not away because this process keeps all of its own connections busy.
                    (found,) = await self._primary.fetch(identify(), policy=GLANCE_APART)
                else:
                    (found,) = await self._primary.fetch(identify(), policy=GLANCE, attempt=attempt)
        except (RetryableError, TimeoutError) as exc:
            logger.debug("The primary does not say where it stands: %s", exc)
            waited = attempt.waited_for_pool(self._seen.now(), _LONGEST_LOOK_S / 2)
            if waited:
                self.want()  # the next one takes a connection of its own
            elif _means_away(exc):
                health.failed(of_primary, str(exc))
                self._when_away()
            return None
        except AdkpgError as exc:
            raise self._standby.gone(str(exc), permit) from exc
        finally:
            health.withdrawn(of_primary)
        health.answered()
        return found

    async def _require_ahead(
        self, primary: asyncpg.Record, position: int | None, number: float, permit: int
    ) -> None:
        """Requires that a standby has replayed nothing that its primary has not written.

        Raises:
          NotHere: It has; or the primary does not say so any more.
        """
        written = primary["position"]
        if primary["standby"] or position is None or position <= written:
            return
        again = await self._stand_of_primary(permit)
        if again is None or again["standby"]:
            raise NotHere("behind")
        if again["server"] != primary["server"]:
            raise NotHere("behind")
        if position > again["position"]:
            self._standby.horizon.forget(number)
            raise self._standby.gone(
                f"{self._standby.url} has replayed changes that {self._primary.connections.url} "
                "does not have: the primary was set back, as by a snapshot of its disk; create "
                "the standby again.",
                permit,
            )

    def _say_apart(self, server: float, history: History, theirs: History) -> None:
        """Says once of a server that it does not follow the primary, or has not said so yet."""
        if self._apart != (server, history):
            self._apart = (server, history)
            logger.warning(
                "The primary answers reads that a server at %s might: that one is on timeline %d, "
                "and the primary on %d. After a failover it says so within checkpoint_timeout; if "
                "it does not, it follows another primary: rewind it, or make it anew.",
                self._standby.url,
                theirs.timeline,
                history.timeline,
            )


def _means_away(exc: BaseException) -> bool:
    """Whether a failure means that a server could not be reached, and not that it is busy."""
    if getattr(exc.__cause__, "sqlstate", None) == _TOO_MANY_CONNECTIONS:
        return False
    return isinstance(exc, (RetryableError, TimeoutError)) and not isinstance(exc, Busy)


def _history_of(found: asyncpg.Record) -> History:
    return History(found["cluster"], found["database"], found["timeline"])
