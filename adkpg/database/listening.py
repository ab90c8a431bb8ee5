"""Listening: being told by the server, on a connection beside the pool, where it can be had.

Behind a pooler that gives each transaction another connection the server tells no listener
anything. So each listener also looks by itself, more often while nothing is heard.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import asyncpg

from adkpg.errors import AdkpgError

logger = logging.getLogger(__name__)

CHANNEL = "adkpg"
"""What is told on it is which session has a new event; `adkpg.sessions.statements` says so."""

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_PING_S = 30.0
_LONGEST_PING_S = 5.0
_FAILURES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, AdkpgError)


class Listener:
    """The one connection of an event loop on which the server tells, while anybody listens.

    Args:
      connect: Opens a connection; None says that nothing would be heard on it.
    """

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection | None]]) -> None:
        self._connect = connect
        self._events: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None
        self._hears = False

    @property
    def hears(self) -> bool:
        """Whether it is told now, as far as anybody knows."""
        return self._hears

    @contextmanager
    def listening(self, key: str) -> Iterator[asyncio.Event]:
        """Yields what is set when the key is told, and when something may have been missed."""
        woken = asyncio.Event()
        self._events.setdefault(key, set()).add(woken)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield woken
        finally:
            self._events[key].discard(woken)
            if not self._events[key]:
                del self._events[key]
            if not self._events:
                self.close()

    def close(self) -> None:
        """Ends the connection; listeners still look by themselves."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        pause_s = _SHORTEST_PAUSE_S
        while True:
            connection = None
            try:
                connection = await self._connect()
                if connection is None:
                    return
                await self._hear(connection)
                pause_s = _SHORTEST_PAUSE_S
            except _FAILURES as exc:
                logger.debug("Nothing is heard from the server: %s", exc)
            finally:
                self._hears = False
                if connection is not None:
                    connection.terminate()
            self._wake()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _hear(self, connection: asyncpg.Connection) -> None:
        """Listens until the connection is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(CHANNEL, self._told)
        self._hears = True
        self._wake()  # for what came before
        while not lost.is_set():
            with suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it loses a cancellation that comes as it ends.
                async with asyncio.timeout(_PING_S):
                    await lost.wait()
                return
            await connection.execute("SELECT 1", timeout=_LONGEST_PING_S)

    def _told(self, _connection: object, _pid: int, _channel: str, key: object) -> None:
        for woken in self._events.get(str(key), ()):
            woken.set()

    def _wake(self) -> None:
        for listening in self._events.values():
            for woken in listening:
                woken.set()
