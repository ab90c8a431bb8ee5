"""Doors: requests that begin a run in a session which the server alone works out.

A server opens one for each request. The session that the request asks for first is the one that it
runs in, whichever door of the server it came by and however that names its session.
"""

import asyncio
import logging
import re
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from google.adk.sessions.session import Session

from adkpg import jsontext, leases
from adkpg.database import Database
from adkpg.errors import AdkpgError, RetryableError, SessionNotFound
from adkpg.keys import SessionKey
from adkpg.outages.cancellation import uninterrupted
from adkpg.sessions.invocations import Lease, lease_here

logger = logging.getLogger(__name__)


class Door:
    """One request, whose run takes its turn in the session that it asks for first.

    The turn lasts until the request has ended, and the task that asked for the session with it:
    some servers answer while a run goes on. A task that asks later than that has it as long as it
    keeps the Session.

    Args:
      timeout_s: As for `DatabaseSessionService.invocation`.
      key: The same, of the request.
      path: Where the request was sent to.
      on_turn: Called when the turn has come, and when there is no session to have it in.

    Attributes:
      timeout_s: As given.
      path: As given.
      done: Whether a run with the key has finished already.
      result: What it left.
      refusal: Why there is no turn, if there is none.
    """

    def __init__(
        self,
        *,
        timeout_s: float | None = None,
        key: str | None = None,
        path: str = "",
        on_turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self.path = path
        self._key = key
        self._on_turn = on_turn
        self.done = False
        self.result: Any = None
        self.refusal: RetryableError | None = None
        self._entering = asyncio.Lock()
        self._missing: SessionKey | None = None
        self._held: list[Lease] = []
        self._loop = asyncio.get_running_loop()
        self._request = asyncio.current_task()
        self._is_open = True
        self._run: asyncio.Task[Any] | None = None
        self._answer: str | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def has_turn(self) -> bool:
        """Whether the request has taken its turn."""
        return bool(self._held)

    @property
    def is_shut(self) -> bool:
        """Whether the request runs nothing: its turn did not come, or it was answered before."""
        return self.done or self.refusal is not None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lets what runs inside, and the tasks that it begins, come by this door."""
        outer = _DOOR.get()
        _DOOR.set(self)
        try:
            with leases.within(self._held):
                yield
        finally:
            _DOOR.set(outer)

    async def enter(self, database: Database, place: SessionKey) -> None:
        """Takes the turn in a session, if the request has asked for none before.

        Raises:
          Busy: The turn did not come in time.
          InvocationLost: A run with the key has finished already.
        """
        async with self._entering:
            if self._held or lease_here(database, place) is not None:
                return
            lease = Lease(database, place, self._key)
            try:
                begun = await lease.begin(self.timeout_s)
            except SessionNotFound:
                self._missing = place
                if self._on_turn is not None:
                    await self._on_turn()
                return
            except RetryableError as exc:
                self.refusal = exc
                raise
            self._held.append(lease)
            self._missing = None
            task = asyncio.current_task()
            if task is not None and task is not self._request:
                self._run = task
                task.add_done_callback(self._over)
            if self._on_turn is not None:
                await self._on_turn()
            if begun["done"]:
                self.done, self.result = True, jsontext.read(begun["result"] or "null")
                await lease.require()

    def lacks(self, place: SessionKey) -> bool:
        """Whether the request has asked for a session that there was not."""
        return self._missing == place

    def keep(self, session: Session) -> None:
        """Ends the turn with the Session, at the latest, if the request has ended before."""
        if not self._is_open and self._held:
            weakref.finalize(session, self._over).atexit = False

    async def close(self, *, finished: bool = False, answer: Any = None) -> None:
        """Ends the request; the turn, too, unless the run goes on.

        Args:
          finished: Whether a retried request with the key runs no agent.
          answer: What that is answered with.
        """
        self._is_open = False
        self._answer = jsontext.write(answer) if finished else None
        self._leave(over=False)
        if self._leaving is not None:
            await uninterrupted(_ended(self._leaving))

    def _over(self, _: object = None) -> None:
        """Hears, in whatever thread, that the run is over."""
        with suppress(RuntimeError):  # the loop is closed, and the lease lapses
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self, *, over: bool = True) -> None:
        """Ends the turn if nothing needs it any more."""
        runs = not over and self._run is not None and not self._run.done()
        if not self._is_open and not runs and self._held and self._leaving is None:
            self._leaving = self._loop.create_task(self._release())

    async def _release(self) -> None:
        try:
            await self._held[0].release(self._answer)
        except AdkpgError as exc:
            logger.warning("The answer of a request is not kept under its key: %s", exc)


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


_A2A = re.compile(r"(?:^|/)a2a/([^/]+)/?$")


def app_of(path: str) -> str | None:
    """Returns the app that ADK serves by A2A at a path, ``/a2a/<app>``; None at any other."""
    found = _A2A.search(path)
    return None if found is None else found[1]


_DOOR: ContextVar[Door | None] = ContextVar("adkpg_door", default=None)


def door_here() -> Door | None:
    """Returns the door that this code came by; None by none."""
    return _DOOR.get()
