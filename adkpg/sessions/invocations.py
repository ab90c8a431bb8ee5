"""Invocations: runs of agents that take turns in a session, across processes and machines."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from google.adk.platform import uuid as platform_uuid

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import (
    Busy,
    ConfigurationError,
    ConstraintViolated,
    DatabaseError,
    InvalidInput,
    InvocationLost,
    SessionNotFound,
)
from adkpg.keys import SessionKey
from adkpg.outages.cancellation import uninterrupted
from adkpg.sessions import invocation_statements as statements

logger = logging.getLogger(__name__)

LARGEST_RESULT = 1_000_000
"""Characters of a result as JSON text."""

_SHORTEST_PAUSE_S = 0.02
_NEXT_PAUSE_S = 0.1  # at most, of who is next
_LONGEST_PAUSE_S = 0.5
_RESULT_TTL_S = 86_400.0

_Place = tuple[str, str, str, str, str]
_LEASES: ContextVar[Mapping[_Place, "_Lease"]] = ContextVar(
    "adkpg_invocations", default=MappingProxyType({})
)


class Invocation:
    """One run of an agent in a session, while no other runs there.

    Attributes:
      done: Whether an invocation with this key has finished already: then run no agent, and
        answer with its result.
      result: What it left.
    """

    def __init__(self, *, done: bool, result: Any) -> None:
        self.done = done
        self.result = result
        self._text = "null"

    def __repr__(self) -> str:
        return f"Invocation(done={self.done})"

    def finish(self, result: Any) -> None:
        """Says what a retried request is answered with; stored when the block ends without error.

        Without it the result is None; the last one counts. Without a key nothing is stored.

        Args:
          result: Plain JSON values, at most 1 MB as text.

        Raises:
          ConfigurationError: The invocation with this key has finished already.
          InvalidInput: It is no JSON, or too large.
        """
        if self.done:
            raise ConfigurationError(
                "An invocation with this key has finished already; answer with its result, and "
                "leave the block."
            )
        try:
            text = jsontext.write(result)
        except (TypeError, ValueError, RecursionError) as exc:
            raise InvalidInput(
                f"The result cannot be written as JSON ({exc}); give plain values."
            ) from exc
        if len(text) > LARGEST_RESULT:
            raise InvalidInput(
                f"The result has {len(text)} characters of JSON, more than {LARGEST_RESULT}; "
                "store it elsewhere and give what finds it."
            )
        self.result, self._text = result, text


def holder_here(database: Database, place: SessionKey) -> str | None:
    """Returns the token of the invocation of a session that this code runs in; None in none."""
    leases = _LEASES.get()
    lease = leases.get(_key_of(database, place)) if leases else None
    return None if lease is None or lease.left() else lease.holder


@asynccontextmanager
async def invocation(
    database: Database, place: SessionKey, *, timeout_s: float, key: str | None
) -> AsyncIterator[Invocation]:
    """Yields when it is this one's turn; see `DatabaseSessionService.invocation`."""
    lease = _Lease(database, place, key)
    begun = await lease.begin(timeout_s)
    result = jsontext.read(begun["result"]) if begun["done"] else None
    run = Invocation(done=begun["done"], result=result)
    # Not reset by a token: a generator may be closed in another context than it began in.
    outer = _LEASES.get()
    _LEASES.set({**outer, _key_of(database, place): lease})
    heart = None if run.done else asyncio.create_task(lease.keep())
    try:
        yield run
    except BaseException:
        if heart is not None:
            await uninterrupted(lease.release(heart))
        raise
    else:
        if heart is not None:
            await uninterrupted(lease.release(heart, run._text))
    finally:
        lease.ended = True
        _LEASES.set(outer)


def _key_of(database: Database, place: SessionKey) -> _Place:
    return (
        database.url,
        database.schema,
        place["app_name"],
        place["user_id"],
        place["session_id"],
    )


class _Lease:
    """One invocation's right to run; it lapses unless it is renewed."""

    def __init__(self, database: Database, place: SessionKey, key: str | None) -> None:
        self.holder = platform_uuid.new_uuid()
        self.ended = False
        self._task = asyncio.current_task()
        self._database = database
        self._place = place
        self._key = key
        self._lease_s = database.settings.invocation_lease_s

    def left(self) -> bool:
        """Whether its own task goes on after it, where closing a generator could not tell."""
        return self.ended and asyncio.current_task() is self._task

    async def begin(self, timeout_s: float) -> Any:
        """Waits for its turn, asking again after pauses; a cancelled one leaves the line."""
        until = time.monotonic() + timeout_s
        pause_s = _SHORTEST_PAUSE_S
        try:
            while True:
                row = await uninterrupted(self._ask())
                if row["taken"] or row["done"]:
                    return row
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise Busy(
                        f"Session {self._place['session_id']} is busy: another invocation ran in "
                        f"it for {timeout_s:g} s; try again later, or raise timeout_s.",
                        written=False,
                        public=f"Session {self._place['session_id']} is busy; try again later.",
                    )
                longest_s = _LONGEST_PAUSE_S if row["ahead"] else _NEXT_PAUSE_S
                pause_s = min(1.5 * pause_s, longest_s)
                await asyncio.sleep(min(random.uniform(0.5, 1) * pause_s, left_s))
        except (asyncio.CancelledError, Busy):
            await uninterrupted(self.release())
            raise

    async def keep(self) -> None:
        """Renews the lease until it is cancelled, or another has taken its place."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                row = await self._database.run.fetch_one(
                    statements.renew(**self._place, holder=self.holder, lease_s=self._lease_s)
                )
            except DatabaseError as exc:
                logger.warning("The lease of an invocation was not renewed: %s", exc)
                continue
            if row is None:
                logger.warning("Another invocation took session %s.", self._place["session_id"])
                return

    async def release(
        self, heart: asyncio.Task[None] | None = None, result: str | None = None
    ) -> None:
        """Lets the next one run.

        If the database does not let it, the lease lapses, but a result that is not stored is an
        error.

        Args:
          heart: What renews the lease.
          result: What is kept under the key, as JSON text; None if nothing has finished.

        Raises:
          DatabaseError: The result may not be stored.
          InvocationLost: Another had taken its place, so that the result is not stored.
        """
        if heart is not None:
            heart.cancel()
            await asyncio.wait({heart})
        if self._key is None:
            result = None
        try:
            row = await self._database.run.fetch_one(
                statements.end(
                    **self._place,
                    holder=self.holder,
                    key=None if result is None else self._key,
                    result=result,
                    ttl_s=_RESULT_TTL_S,
                )
            )
        except DatabaseError as exc:
            if result is not None:
                raise
            logger.warning("A session stays taken until its lease lapses: %s", exc)
            return
        if result is not None and not (row and row["ended"]):
            raise lost(self._place["session_id"])

    async def _ask(self) -> Any:
        try:
            row = await self._database.run.fetch_one(
                statements.begin(
                    **self._place, holder=self.holder, key=self._key, lease_s=self._lease_s
                )
            )
        except ConstraintViolated:  # it was deleted in the meantime
            row = None
        if row is None:
            raise SessionNotFound(
                f"Session {self._place['session_id']} not found; create it before its invocation."
            )
        return row


def lost(session_id: str) -> InvocationLost:
    """Returns the error of an invocation that another has taken the place of."""
    return InvocationLost(
        f"This invocation of session {session_id} has ended, or its lease lapsed and another has "
        "begun; load the session again in a new one. What blocks the event loop keeps a lease from "
        "being renewed: move it into a thread, or raise ADKPG_INVOCATION_LEASE_S."
    )
