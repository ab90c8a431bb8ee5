"""A service in a process of its own, which writes into a session that others write too."""

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

import asyncpg
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from sqlalchemy.exc import DBAPIError

from benchmarks.contenders.sessions.contender import Contender, Service
from benchmarks.suites.session_stage import USER


@cache
def _context() -> Any:
    """Starts a server that imports the packages once, without threads or a loop, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["session_process", "session_contenders"])
    before = os.environ.get("PYTHONPATH")
    # Python 3.11's server does not take over sys.path, and leaves out what it does not find.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


@dataclass
class Written:
    """What a process did with the events it was given.

    Attributes:
      times: Of each append that came through, refusals included, in ms.
      refused: How often a session was stale and was read again.
      faults: Appends that failed, in words.
    """

    times: list[float] = field(default_factory=list)
    refused: int = 0
    faults: list[str] = field(default_factory=list)


class ServiceProcess:
    """A process with a service.

    Args:
      pipe: To it.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    async def load(self, session_id: str, events: Sequence[Event]) -> None:
        """Gives it its events, and returns once it has read the session."""
        self._pipe.send((session_id, list(events)))
        await asyncio.to_thread(self._pipe.recv)

    async def write(self) -> Written:
        """Lets it append them, and returns what it did."""
        self._pipe.send("go")
        written: Written = await asyncio.to_thread(self._pipe.recv)
        return written


@asynccontextmanager
async def service_process(contender: Contender, url: str) -> AsyncIterator[ServiceProcess]:
    """Yields a process with a service of a contender, whose pool has one connection.

    Args:
      contender: Whose service.
      url: Its database.
    """
    ours, theirs = _context().Pipe()
    process = _context().Process(target=_run, args=(contender, url, theirs), daemon=True)
    await asyncio.to_thread(process.start)
    try:
        yield ServiceProcess(ours)
    finally:
        if process.is_alive():
            ours.send(None)
        ours.close()  # or one that was loaded and never let write would wait for ever
        await asyncio.to_thread(process.join)


def _run(contender: Contender, url: str, pipe: Connection) -> None:
    asyncio.run(_serve(contender, url, pipe))


async def _serve(contender: Contender, url: str, pipe: Connection) -> None:
    async with contender.open(url, 1, shared=True) as service:
        while (given := pipe.recv()) is not None:  # nothing else runs here meanwhile
            session_id, events = given
            prepared = [service.prepared(event) for event in events]
            live = await service.get(USER, session_id)
            pipe.send("read")
            pipe.recv()
            pipe.send(await write(service, session_id, live, prepared))


async def write(service: Service, session_id: str, live: Any, events: Sequence[Any]) -> Written:
    """Appends prepared events to a session that others write too, each until it is in."""
    written = Written()
    for event in events:
        start = time.perf_counter()
        while True:
            try:
                await service.append(live, event)
                break
            except StaleSessionError:  # what its user does: reload and try again
                written.refused += 1
                live = await service.get(USER, session_id)
            except (DBAPIError, asyncpg.PostgresError) as exc:
                written.faults.append(f"an append failed: {type(exc).__name__}")
                break
        written.times.append((time.perf_counter() - start) * 1000)
    return written
