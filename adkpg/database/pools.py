"""One connection pool per event loop.

An asyncpg connection belongs to the loop that opened it, and ADK's synchronous ``Runner.run``
starts a new loop for every call. So each loop gets its own pool, cloned from one engine, and the
pool is closed with its loop: `asyncio.run` ends a loop by closing its asynchronous generators
(``loop.shutdown_asyncgens``), and each pool is held by such a generator.
"""

import asyncio
import logging
import os
import socket
import weakref
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool
from sqlalchemy.pool.base import _AdhocProxiedConnection, _ConnectionRecord
from sqlalchemy.util import EMPTY_DICT, greenlet_spawn

logger = logging.getLogger(__name__)

_LONGEST_FAREWELL_S = 5.0
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds until the first question, seconds between questions, and questions without answer."""

# Of pg_type, whose built-in types have the same numbers everywhere.
_ELEMENTS = {
    "bool": (1000, 16),
    "bytea": (1001, 17),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "varchar": (1015, 1043),
    "name": (1003, 19),
    "int8": (1016, 20),
    "float4": (1021, 700),
    "float8": (1022, 701),
    "timestamptz": (1185, 1184),
    "interval": (1187, 1186),
    "uuid": (2951, 2950),
}
_ARRAYS = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": "b",
        "basetype": None,
        "elemtype": element,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
        "elemtype_name": name,
    }
    for name, (array, element) in _ELEMENTS.items()
]


def clone(engine: AsyncEngine) -> AsyncEngine:
    """Returns an engine with a new pool and everything else of the given one.

    The pool's class, size and listeners, the dialect, its connect arguments and listeners, and
    the execution options are kept; connections are not shared.
    """
    original = engine.sync_engine
    copy = Engine(original.pool.recreate(), original.dialect, original.url)
    copy.update_execution_options(**original.get_execution_options())
    return AsyncEngine(copy)


class LoopPools:
    """The pools of one `Database`, one for each event loop that uses it.

    Making one binds to no loop and opens no connection.
    """

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._is_initialised = False  # the dialect, which all pools share
        self._pid = os.getpid()
        self._inherited: list[dict[asyncio.AbstractEventLoop, _LoopPool]] = []

    def get(self) -> AsyncEngine | None:
        """Returns the running loop's engine, or None before `open`."""
        pool = self._pools.get(asyncio.get_running_loop())
        return pool.engine if pool else None

    async def open(self, template: AsyncEngine) -> AsyncEngine:
        """Gives the running loop a pool of its own and returns its engine.

        Pools of loops that were closed without a proper shutdown are dropped on the way, and
        their connections closed.
        """
        loop = asyncio.get_running_loop()
        self._leave_to_parent()
        for other in list(self._pools):  # a copy: other loops' threads add theirs meanwhile
            if other.is_closed() and (ended := self._pools.pop(other, None)) is not None:
                ended.abandon()
        if loop not in self._pools:
            pool = self._pools[loop] = _LoopPool(clone(template))
            engine = pool.engine.sync_engine
            event.listen(engine.pool, "connect", lambda *opened: self._initialise(engine, *opened))
            pool.closer = self._closed_with_loop(loop, pool)
            await anext(pool.closer)
        return self._pools[loop].engine

    async def borrow(self, engine: AsyncEngine) -> Any:
        """Takes a connection out of the running loop's pool, or opens one.

        Where nothing is to be awaited no greenlet is made, which costs a fifth of an append.

        Args:
          engine: The running loop's.
        """
        pool: Any = engine.sync_engine.pool
        own = self._pools.get(asyncio.get_running_loop())
        if own is not None and not own.empty and _immediate(pool) and pool.checkedin():
            return pool.connect()
        try:
            return await engine.raw_connection()
        except BaseException:  # a cancelled connect leaves its place, too, and is raised on
            if own is not None:
                own.pass_place_on(pool)
            raise

    def exhausted(self, engine: AsyncEngine) -> bool:
        """Returns whether whoever borrows now waits until a connection is given back."""
        pool: Any = engine.sync_engine.pool
        return (
            type(pool) is AsyncAdaptedQueuePool
            and not pool.checkedin()
            and -1 < pool._max_overflow <= pool.overflow()
        )

    async def give_back(self, pooled: Any) -> None:
        """Puts a connection in no transaction back into its pool; awaits nothing outside of it."""
        if _immediate(pooled._pool) and pooled._pool.overflow() <= 0:
            pooled.close()
        else:
            await greenlet_spawn(pooled.close)

    def use(self) -> tuple[int, int, int]:
        """Returns how many connections of the running loop's pool are used, idle, and at most."""
        engine = self.get()
        pool: Any = None if engine is None else engine.sync_engine.pool
        if type(pool) is not AsyncAdaptedQueuePool:
            return 0, 0, 0
        return pool.checkedout(), pool.checkedin(), pool.size() + pool._max_overflow

    def discard(self, pooled: Any) -> None:
        """Takes a connection out of its pool and closes it, without an await.

        The statement that the server still works on is cancelled first, so that its locks go.

        Args:
          pooled: As the running loop's engine gave it.
        """
        connection = pooled.driver_connection
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is not None:
            pool.empty.add(pooled._connection_record)
        pooled.detach()
        if pool is None:
            connection.terminate()
        elif not connection.is_closed():
            pool.end(connection)

    async def close(self) -> None:
        """Closes the connections of every loop, wherever it runs; idempotent."""
        here = asyncio.get_running_loop()
        self._leave_to_parent()
        for loop, pool in list(self._pools.items()):
            self._pools.pop(loop, None)
            if loop is here:
                await pool.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.close(), loop))
            else:
                pool.abandon()

    def _initialise(self, engine: Engine, adapter: Any, record: Any) -> None:
        """Initialises the dialect, unless that is known to be done.

        SQLAlchemy does it in the first connection of all clones, for which those of another loop,
        in another thread, would not wait.
        """
        if self._is_initialised:
            return
        if len(self._pools) > 1 or not hasattr(engine.dialect, "default_isolation_level"):
            proxied = _AdhocProxiedConnection(adapter, record)
            connection = Connection(
                engine,
                connection=proxied,
                _has_events=False,
                _allow_revalidate=False,
                _allow_autobegin=False,
            )
            connection._execution_options = EMPTY_DICT  # the caller's are not for this
            engine.dialect.initialize(connection)
            engine.dialect.do_rollback(proxied)
        self._is_initialised = True

    def _leave_to_parent(self) -> None:
        """In a forked child, sets the parent's pools aside: its loops never run here."""
        if self._pid != os.getpid():
            self._inherited.append(self._pools)
            self._pools, self._pid = {}, os.getpid()

    async def _closed_with_loop(
        self, loop: asyncio.AbstractEventLoop, pool: "_LoopPool"
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._pools.pop(loop, None)
            await pool.dispose()


class _LoopPool:
    """A loop's engine.

    Attributes:
      engine: With the pool.
      closer: Ends with the loop, and the pool with it.
      empty: Places of the pool whose connection was closed, until they have another one.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.empty: weakref.WeakSet[Any] = weakref.WeakSet()
        self.closer: AsyncGenerator[None, None] | None = None
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._ending: set[asyncio.Task[None]] = set()
        event.listen(engine.sync_engine.pool, "connect", self._opened)
        event.listen(engine.sync_engine.pool, "close", self._closed)

    def _opened(self, adapter: Any, record: Any) -> None:
        self.empty.discard(record)
        self._connections.add(adapter.driver_connection)
        _keep_alive(adapter.driver_connection)
        _know_arrays(adapter.driver_connection)

    def _closed(self, _adapter: Any, record: Any) -> None:
        """The engine gives one up by itself, where a statement of its own is cancelled."""
        self.empty.add(record)

    def pass_place_on(self, pool: Any) -> None:
        """Gives whoever waits in a pool's queue the place of a connection that did not come to be.

        SQLAlchemy would wake nobody.

        Args:
          pool: The engine's when the connection was asked for; it may have another one since.
        """
        if type(pool) is not AsyncAdaptedQueuePool:
            return
        queue: Any = pool._pool
        if queue._queue._getters and not queue.full() and pool._inc_overflow():
            record = _ConnectionRecord(pool, connect=False)  # who takes it connects
            self.empty.add(record)
            queue.put_nowait(record)

    def end(self, connection: Any) -> None:
        """Closes a connection in a task of its own, which no scope of the caller's can cancel."""
        task = asyncio.get_running_loop().create_task(_ended(connection))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Closes them all, also those that were given up."""
        closing = [] if self.closer is None else [self.closer.aclose()]
        await asyncio.gather(*closing, *self._ending, return_exceptions=True)

    async def dispose(self) -> None:
        """Closes the idle connections, all at once: a server that hangs is waited for once."""
        idle = list(_taken(self.engine.sync_engine.pool))
        await self.engine.dispose()  # whoever borrows from now on has another pool
        connections = (each.driver_connection for each in idle)
        await asyncio.gather(*(_ended(each) for each in connections if each is not None))
        for each in idle:
            await greenlet_spawn(each.close)

    def abandon(self) -> None:
        """Closes the sockets of a loop that can no longer run, so the server sees them end."""
        for connection in list(self._connections):
            transport = getattr(connection, "_transport", None)
            sock = transport.get_extra_info("socket") if transport is not None else None
            if sock is not None and sock.fileno() != -1:
                # TransportSocket hides close(); the transport it belongs to cannot run any more.
                getattr(sock, "_sock", sock).close()
        self._connections.clear()


def _immediate(pool: Any) -> bool:
    """Whether nobody's hook, and no question to the server, may await something."""
    hooks = pool.dispatch
    return (
        type(pool) is AsyncAdaptedQueuePool
        and not (hooks.checkout or hooks.checkin or hooks.reset)
        and not pool._pre_ping
        and pool._recycle < 0
    )


def _taken(pool: Any) -> Iterator[Any]:
    """Takes the records of idle connections out of a pool, as its `dispose` does."""
    while isinstance(pool, QueuePool) and pool.checkedin():
        yield pool._pool.get(False)


def _keep_alive(connection: Any) -> None:
    """Lets the system ask over idle TCP connections, so that no network device forgets them."""
    sock = connection._transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _know_arrays(connection: Any) -> None:
    """Tells the driver what arrays the server has, which it would ask in each connection.

    Where Citus hides its parts from whoever reads the catalogs, the answer takes most of a second.
    """
    connection._protocol.get_settings().register_data_types(_ARRAYS)


async def _ended(connection: Any) -> None:
    try:
        await connection.close(timeout=_LONGEST_FAREWELL_S)
    except Exception as exc:  # noqa: BLE001 - it is lost either way, and nobody waits for it
        logger.debug("A connection that is given up did not close in order: %r", exc)
        connection.terminate()
