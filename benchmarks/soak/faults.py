"""Faults: what is done to the server, its clients and the network, and whether it hit anything."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from adkpg.embedded import EmbeddedServer
from adkpg.embedded.postmaster import Postmaster
from benchmarks.soak.proxy import Cable

_TERMINATE = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
      kind: What was done.
      at_s: When, since the start, in seconds.
      took_s: Until everything was there again, by what was done alone.
      hit: How many server processes, clients or connections it ended.
    """

    kind: str
    at_s: float
    took_s: float
    hit: int


class Faults:
    """Does one after another, in every order, until it is cancelled.

    Args:
      server: The server.
      cable: Between it and some of the clients.
      kill_client: Kills a client, starts it again, and returns how many it killed.
      between_s: Shortest and longest pause, in seconds.
    """

    def __init__(
        self,
        server: EmbeddedServer,
        cable: Cable,
        kill_client: Callable[[], Awaitable[int]],
        between_s: tuple[float, float],
    ) -> None:
        self._server = server
        self._cable = cable
        self._kill_client = kill_client
        self._between_s = between_s
        self._pgdata = Path(server.directory) / "pgdata"
        self._began = time.monotonic()
        self.done: list[Fault] = []

    async def run(self) -> None:
        """Until it is cancelled; a fault that has begun is over first."""
        for kind, fault in self._in_any_order():
            await asyncio.sleep(random.uniform(*self._between_s))
            doing = asyncio.create_task(self._do(kind, fault))
            try:
                await asyncio.shield(doing)
            except asyncio.CancelledError:
                await doing
                raise

    async def _do(self, kind: str, fault: Callable[[], Awaitable[int]]) -> None:
        began = time.monotonic()
        hit = await fault()
        self.done.append(Fault(kind, began - self._began, time.monotonic() - began, hit))

    def _in_any_order(self) -> Iterator[tuple[str, Callable[[], Awaitable[int]]]]:
        kinds: list[tuple[str, Callable[[], Awaitable[int]]]] = [
            ("server killed (SIGKILL)", self._kill_server),
            ("server restarted", self._restart_server),
            ("all connections terminated", self._terminate),
            ("writer killed (SIGKILL)", self._kill_client),
            ("network cut", self._cut),
        ]
        while True:
            yield from random.sample(kinds, len(kinds))

    async def _kill_server(self) -> int:
        postmaster = Postmaster.of(self._pgdata)
        if postmaster is None:
            return 0
        os.kill(postmaster.pid, signal.SIGKILL)
        await asyncio.sleep(random.uniform(0.2, 2))
        await asyncio.to_thread(self._server.start)
        return 1

    async def _restart_server(self) -> int:
        postmaster = Postmaster.of(self._pgdata)
        if postmaster is None:
            return 0
        await asyncio.to_thread(postmaster.stop, time.monotonic() + 60)
        await asyncio.to_thread(self._server.start)
        return 1

    async def _terminate(self) -> int:
        connection = await asyncpg.connect(self._server.url)
        try:
            ended: int = await connection.fetchval(_TERMINATE)
        finally:
            await connection.close()
        return ended

    async def _cut(self) -> int:
        return await self._cable.cut(random.uniform(0.5, 3))
