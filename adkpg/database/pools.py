"""One connection pool per event loop.

An asyncpg connection belongs to the loop that opened it, and ADK's synchronous ``Runner.run``
starts a new loop for every call. So each loop gets an engine of its own, and its pool is closed
with the loop: `asyncio.run` ends a loop by closing its asynchronous generators
(``loop.shutdown_asyncgens``), and each pool is held by such a generator.

A connection is opened in a task of its own. A caller that is cancelled leaves the task alone, and
the connection goes into the pool: the next call needs it, and no half of a handshake is left.
"""

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy import Engine, event
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import MissingGreenlet, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from adkpg.database.driver import Closed, EngineFailed
from adkpg.database.places import Places
from adkpg.errors import AdkpgError, ConfigurationError

logger = logging.getLogger(__name__)

_LONGEST_FAREWELL_S = 5.0
_LONGEST_OPENING_S = 0.5  # for a connection whose caller has gone
_PLAIN = {"pool_size", "max_overflow", "pool_timeout", "pool_use_lifo", "echo", "echo_pool"}
"""Engine options with which nothing is awaited where an idle connection is taken."""

_DRIVERS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    SQLAlchemyError,
    AsyncAdapt_asyncpg_dbapi.Error,
    OSError,
    AdkpgError,
)


def clone(engine: AsyncEngine) -> AsyncEngine:
    """Returns an engine with a new pool and everything else of the given one.

    The pool's class, size and listeners, the dialect, its connect arguments and listeners, and
    the execution options are kept, except schema_translate_map: adkpg's tables have a schema of
    their own. Connections are not shared.
    """
    original = engine.sync_engine
    copy = Engine(original.pool.recreate(), original.dialect, original.url)
    options = dict(original.get_execution_options())
    options.pop("schema_translate_map", None)
    copy.update_execution_options(**options)
    return AsyncEngine(copy)


@dataclass(frozen=True)
class Template:
    """What the engines of all loops are made from.

    Attributes:
      connect: Opens a connection.
      options: Arguments of `create_async_engine`.
    """

    connect: Callable[[], Coroutine[Any, Any, asyncpg.Connection]]
    options: Mapping[str, Any]


class LoopPools:
    """The pools of one `Database`, one for each event loop that uses it.

    Making one binds to no loop and opens no connection.
    """

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._model: tuple[Template, AsyncEngine] | None = (
            None  # with a dialect that is initialised
        )
        self._is_initialised = False  # the dialect of a user's engine, which its clones share
        self._initialising: Future[None] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._inherited: list[dict[asyncio.AbstractEventLoop, _LoopPool]] = []

    def get(self) -> AsyncEngine | None:
        """Returns the running loop's engine, or None before `open`."""
        pool = self._pools.get(asyncio.get_running_loop())
        return pool.engine if pool else None

    async def open(self, template: AsyncEngine | Template) -> AsyncEngine:
        """Gives the running loop an engine of its own and returns it.

        Pools of loops that were closed without a proper shutdown are dropped on the way; their
        connections end when Python collects them.

        Args:
          template: What the engine is made from, or one that the user gave, which is cloned.

        Raises:
          ConfigurationError: SQLAlchemy refused the engine's options.
        """
        loop = asyncio.get_running_loop()
        self._leave_to_parent()
        for other in list(self._pools):  # a copy: other loops' threads add theirs meanwhile
            if other.is_closed():
                self._pools.pop(other, None)
        if isinstance(template, AsyncEngine):
            await self._initialise(template)
        if loop not in self._pools:
            pool = self._pools[loop] = _LoopPool(self._prototype(template), template)
            pool.closer = self._closed_with_loop(loop, pool)
            await anext(pool.closer)
        return self._pools[loop].engine

    @asynccontextmanager
    async def until_closed(self) -> AsyncIterator[None]:
        """Ends the block at `close`, since it uses connections that were not borrowed.

        Raises:
          Closed: The running loop's pool was closed.
        """
        own = self._pools.get(asyncio.get_running_loop())
        if own is None:
            raise Closed
        try:
            async with asyncio.timeout(None) as scope:
                own.scopes.add(scope)
                yield
        except TimeoutError as exc:
            if scope.expired():
                raise Closed from exc
            raise
        finally:
            own.scopes.discard(scope)

    async def borrow(self, engine: AsyncEngine) -> Any:
        """Takes a connection out of the running loop's pool, or opens one.

        Args:
          engine: The running loop's.

        Raises:
          Closed: It was closed meanwhile.
        """
        own = self._pools.get(asyncio.get_running_loop())
        if own is None or own.engine is not engine:
            raise Closed
        if own.places is not None and not own.places.take():
            await own.places.wait(own.timeout_s)
        pooled = own.taken() or await own.opened()
        if self._model is None and own.template is not None:
            self._model = own.template, own.prototype
        return pooled

    def _prototype(self, template: AsyncEngine | Template) -> AsyncEngine:
        """Returns an engine for a loop's to be cloned from, which itself has no connection.

        A dialect asks the server ten questions at its first connection. Loops make prototypes of
        their own until the dialect of one is initialised, and share that one from then on.
        """
        if isinstance(template, AsyncEngine):
            return template
        if self._model is not None and self._model[0] is template:
            return self._model[1]
        self._model = None

        async def connect() -> asyncpg.Connection:
            pool = self._pools.get(asyncio.get_running_loop())
            if pool is None:
                raise Closed
            return await pool.connected(template.connect)

        try:
            return create_async_engine(
                "postgresql+asyncpg://",
                async_creator=lambda *_, **__: _Connecting(connect),
                **template.options,
            )
        except TypeError as exc:
            raise ConfigurationError(
                f"SQLAlchemy refused the engine options {sorted(template.options)} ({exc}); "
                "correct them or leave them out."
            ) from exc

    def exhausted(self, engine: AsyncEngine) -> bool:
        """Returns whether a caller that borrows now waits until a connection is given back.

        With an engine of the user's own it is not known.
        """
        own = self._pools.get(asyncio.get_running_loop())
        if own is None or own.engine is not engine or own.places is None:
            return False
        return not own.places.free

    async def give_back(self, pooled: Any) -> None:
        """Puts a connection in no transaction back into its pool; awaits nothing outside of it."""
        own = self._pools.get(asyncio.get_running_loop())
        try:
            if own is None or not own.returned(pooled):
                await greenlet_spawn(pooled.close)
        finally:
            if own is not None and own.places is not None:
                own.places.give()

    def use(self) -> tuple[int, int, int]:
        """Returns how many connections of the running loop's pool are used, idle, and at most.

        The most of a user's own engine is its pool's size, with what that opened beyond it.
        """
        own = self._pools.get(asyncio.get_running_loop())
        pool: Any = None if own is None else own.engine.sync_engine.pool
        if own is None or not isinstance(pool, AsyncAdaptedQueuePool):
            return 0, 0, 0
        if own.places is not None:
            return own.places.most - own.places.free, pool.checkedin(), own.places.most
        return pool.checkedout(), pool.checkedin(), pool.size() + max(pool.overflow(), 0)

    def discard(self, pooled: Any) -> None:
        """Takes a connection out of its pool and closes it, without an await.

        The statement that the server still works on is cancelled first, so that its locks go.

        Args:
          pooled: As the running loop's engine gave it.
        """
        own = self._pools.get(asyncio.get_running_loop())
        if own is not None:
            own.discarded(pooled)
        else:
            connection = pooled.driver_connection
            pooled.detach()
            connection.terminate()

    async def close(self) -> None:
        """Closes the connections of every loop, wherever it runs; idempotent.

        Also those that are borrowed, whose statements are cancelled: their callers fail.
        """
        here = asyncio.get_running_loop()
        self._leave_to_parent()
        for loop, pool in list(self._pools.items()):
            self._pools.pop(loop, None)
            if loop is here:
                await pool.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.close(), loop))
            elif not loop.is_closed():
                pool.terminate()

    async def _initialise(self, template: AsyncEngine) -> None:
        """Initialises the dialect of a user's engine, unless that is known to be done.

        SQLAlchemy does it in the first connection of all clones, for which those of another loop,
        in another thread, would not wait.
        """
        while not self._is_initialised:
            with self._lock:
                others = self._initialising
                if others is None:
                    own: Future[None] = Future()
                    self._initialising = own
            if others is not None:
                await asyncio.wait({asyncio.wrap_future(others)})
                continue
            first = clone(template)
            try:
                with _of_engine(), suppress(*_DRIVERS):  # the caller's own connection says why
                    async with first.connect():
                        pass
                    self._is_initialised = True
                return
            finally:
                self._initialising = None
                own.set_result(None)
                await first.dispose()

    def _leave_to_parent(self) -> None:
        """In a forked child, sets the parent's pools aside: its loops never run here."""
        if self._pid != os.getpid():
            self._inherited.append(self._pools)
            self._pools, self._pid = {}, os.getpid()
            self._lock, self._initialising = threading.Lock(), None

    async def _closed_with_loop(
        self, loop: asyncio.AbstractEventLoop, pool: "_LoopPool"
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._pools.get(loop) is pool:  # else the loop has another one since `close`
                del self._pools[loop]
            await pool.dispose()


class _LoopPool:
    """A loop's engine.

    Args:
      prototype: What the engine is cloned from.
      template: What that was made from.

    Attributes:
      prototype: As given.
      engine: With the pool.
      template: What it was made from; None: an engine of the user's own.
      places: The pool's; None: there is no limit, or a user's engine has the limit itself.
      timeout_s: How long a caller waits for a place.
      closer: Ends with the loop, and the pool with it.
      scopes: Timeouts around blocks that connect by themselves; they end with the pool.
    """

    def __init__(self, prototype: AsyncEngine, template: AsyncEngine | Template) -> None:
        self.prototype = prototype
        self.engine = clone(prototype)
        self.template = template if isinstance(template, Template) else None
        self.places: Places | None = None
        self.timeout_s = 0.0
        self.closer: AsyncGenerator[None, None] | None = None
        self.scopes: set[asyncio.Timeout] = set()
        self._is_plain = self._is_closed = False
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._opening: set[asyncio.Task[Any]] = set()
        self._left: set[asyncio.Task[asyncpg.Connection]] = set()  # for the next that connects
        self._ending: set[asyncio.Task[Any]] = set()
        pool = self.engine.sync_engine.pool
        if self.template is None:
            event.listen(pool, "connect", self._connected)
            return
        options = self.template.options
        if type(pool) is AsyncAdaptedQueuePool and "max_overflow" in options:
            over: int = options["max_overflow"]
            if over >= 0 and pool.size():
                self.places = Places(pool.size() + over)
                self.timeout_s = options["pool_timeout"]
            self._is_plain = options.keys() <= _PLAIN

    async def connected(
        self, connect: Callable[[], Coroutine[Any, Any, asyncpg.Connection]]
    ) -> asyncpg.Connection:
        """Opens a connection, or waits for one that a cancelled caller has begun to open."""
        if self._left:
            task = self._left.pop()
        else:
            task = asyncio.get_running_loop().create_task(connect())
            self._opening.add(task)
            task.add_done_callback(self._settled)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._left.add(task)
            if task.done():
                self._settled(task)
            raise
        if task.cancelled():  # by `dispose`
            raise Closed
        return task.result()

    def _settled(self, task: asyncio.Task[asyncpg.Connection]) -> None:
        """Notes a connection that is open, and ends it if no caller waits for it any more."""
        self._opening.discard(task)
        if not task.cancelled() and task.exception() is None:
            # Before SQLAlchemy is told, which asks the server of itself on the first one.
            self._connections.add(task.result())
            if task in self._left:
                self.spawn(_ended(task.result()))
        self._left.discard(task)

    def taken(self) -> Any:
        """Takes an idle connection without an await; None if there is none, or a hook may await.

        No greenlet is made, which costs a fifth of an append.
        """
        pool: Any = self.engine.sync_engine.pool
        if not self._is_plain or not pool.checkedin() or pool.dispatch.checkout:
            return None
        try:
            return pool.connect()
        except MissingGreenlet:  # the place has no connection yet, and is free again
            return None

    async def opened(self) -> Any:
        """Takes a connection out of the pool, or opens one, in a task that goes on if cancelled."""
        task = asyncio.get_running_loop().create_task(self._open())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(self._keep)
            raise
        if self._is_closed:
            self._keep(task)
            raise Closed
        try:
            return task.result()
        except BaseException:  # CancelledError, too, as the loop ends: else the place stays taken
            if self.places is not None:
                self.places.give()
            raise

    async def _open(self) -> Any:
        with _of_engine():
            return await self.engine.raw_connection()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Puts a connection that no caller waits for any more into the pool."""
        if not task.cancelled() and (exc := task.exception()) is not None:
            logger.debug("A connection could not be opened, and its caller was cancelled: %r", exc)
        elif not task.cancelled() and self._is_closed:
            self.discarded(task.result())
            return
        elif not task.cancelled() and not self.returned(pooled := task.result()):
            self.spawn(greenlet_spawn(pooled.close))
        if self.places is not None:
            self.places.give()

    def returned(self, pooled: Any) -> bool:
        """Puts a connection back into the pool without an await, unless a hook may await there."""
        pool: Any = self.engine.sync_engine.pool
        hooks = pool.dispatch
        if not self._is_plain or pool.overflow() > 0 or hooks.checkin or hooks.reset:
            return False
        pooled.close()
        return True

    def discarded(self, pooled: Any) -> None:
        """Takes a connection out of the pool and ends it, without an await."""
        connection = pooled.driver_connection
        pooled.detach()
        # One that was borrowed before the pool was closed has no place in the next pool.
        if self.places is not None and connection in self._connections:
            self.places.give()
        if not connection.is_closed():
            self.spawn(_ended(connection))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Ends a connection in a task of its own, which no scope of the caller's can cancel."""
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Closes them all, also those that are borrowed, or were given up."""
        closing = [] if self.closer is None else [self.closer.aclose()]
        await asyncio.gather(*closing, *self._ending, return_exceptions=True)

    async def dispose(self) -> None:
        """Closes all connections, simultaneously: a server that hangs is waited for once."""
        self._is_closed = True
        if self.places is not None:
            self.places.close()
        for scope in self.scopes:
            scope.reschedule(0)
        held = set(self._connections)  # the pool holds those that are idle, and goes
        await self.engine.dispose(close=False)
        await asyncio.gather(self._opened_or_ended(), *map(_ended, held))
        opened_meanwhile = set(self._connections) - held
        await asyncio.gather(*map(_ended, opened_meanwhile), *self._ending, return_exceptions=True)

    def terminate(self) -> None:
        """Gives the connections of a loop that stands still up; they end when it runs again."""
        self._is_closed = True
        for connection in list(self._connections):
            connection.terminate()

    async def _opened_or_ended(self) -> None:
        """Waits for connections that are being opened, since one that is cut off makes noise."""
        if self._opening:
            _, late = await asyncio.wait(self._opening, timeout=_LONGEST_OPENING_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _connected(self, adapter: Any, _record: Any) -> None:
        self._connections.add(adapter.driver_connection)


@contextmanager
def _of_engine() -> Iterator[None]:
    """Makes an outage of what functions of the user's raise that an engine calls to connect."""
    try:
        yield
    except _DRIVERS:
        raise
    except Exception as exc:
        raise EngineFailed(f"{type(exc).__name__}: {exc}") from exc


class _Connecting:
    """A connection that is opened when it is awaited; unlike a coroutine, it need not be."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, asyncpg.Connection]]) -> None:
        self._connect = connect

    def __await__(self) -> Generator[Any, None, asyncpg.Connection]:
        return self._connect().__await__()


async def _ended(connection: Any) -> None:
    try:
        await connection.close(timeout=_LONGEST_FAREWELL_S)
    except Exception as exc:  # noqa: BLE001 - it is lost either way, and no caller waits for it
        logger.debug("A connection that is given up did not close cleanly: %r", exc)
        connection.terminate()
