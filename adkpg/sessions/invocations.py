"""Invocations: runs of agents that take turns in a session, across processes and machines."""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from google.adk.platform import uuid as platform_uuid

from adkpg import jsontext, leases
from adkpg.database import COMPARED, Database
from adkpg.errors import (
    Busy,
    ConfigurationError,
    ConstraintViolated,
    DatabaseError,
    InvalidInput,
    InvocationLost,
    SessionNotFound,
)
from adkpg.keys import SessionKey, require_storable
from adkpg.outages.cancellation import uninterrupted
from adkpg.sessions import invocation_statements as statements

logger = logging.getLogger(__name__)

LARGEST_RESULT = 1_000_000
"""Characters of a result as JSON text."""

_SHORTEST_PAUSE_S = 0.02
_NEXT_PAUSE_S = 0.1  # at most, of who is next
_LONGEST_PAUSE_S = 0.5
_RESULT_TTL_S = 86_400.0
# Goes on while the machine sleeps, where the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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
          InvalidInput: It is not JSON, or too large.
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
                "store it elsewhere and give a reference to it."
            )
        self.result, self._text = jsontext.mended(result), text


def require_key(key: str) -> None:
    """Refuses an idempotency key that cannot be stored.

    Raises:
      InvalidInput: It is empty, too long, or not text that Postgres can hold.
    """
    require_storable(key=key)
    if not key:
        raise InvalidInput("key='' is empty; give each request a key of its own, or None.")


def lease_here(database: Database, place: SessionKey) -> "Lease | None":
    """Returns the lease of the run in a session that this code belongs to; None if to none."""
    for lease in leases.current((database.url, database.schema)):
        if lease.place == place and isinstance(lease, Lease):
            return lease
    return None


def holder_here(database: Database, place: SessionKey) -> str | None:
    """Returns the token of the run in a session that this code belongs to; None if to none."""
    lease = lease_here(database, place)
    return None if lease is None else lease.holder


@asynccontextmanager
async def invocation(
    database: Database, place: SessionKey, *, timeout_s: float | None, key: str | None
) -> AsyncIterator[Invocation]:
    """Yields when it is this one's turn; see `DatabaseSessionService.invocation`."""
    lease = Lease(database, place, key)
    begun = await lease.begin(timeout_s)
    run = Invocation(done=begun["done"], result=jsontext.read(begun["result"] or "null"))
    result = None
    with leases.within((lease,)):
        try:
            yield run
            result = run._text
        finally:
            await uninterrupted(lease.release(result))


class Lease:
    """One run's right to its session; it lapses unless it is renewed.

    Args:
      database: Where the session is.
      place: The session.
      key: The run's idempotency key, if it has one.

    Attributes:
      holder: The token of this attempt to run.
      where: As for `leases.Held`.
      place: As for `leases.Held`.
      ended: As for `leases.Held`.
    """

    def __init__(self, database: Database, place: SessionKey, key: str | None) -> None:
        self.holder = platform_uuid.new_uuid()
        self.where: leases.Where = (database.url, database.schema)
        self.ended = False
        self._database = database
        self.place = place
        self._key = key
        self._lease_s = database.settings.invocation_lease_s
        self._lost: InvocationLost | None = None
        self._lasts_until = -math.inf
        self._heart: Future[None] | None = None

    async def begin(self, timeout_s: float | None) -> statements.Begun:
        """Waits for its turn, asking again after pauses; a cancelled one leaves the line.

        It has its turn when the session is free, or when its holder gives no sign of life for as
        long as the holder's lease. The server's clock decides or, should that go back, this
        process's own.

        Args:
          timeout_s: Longest wait, in seconds; None is ``ADKPG_INVOCATION_TIMEOUT_S``.

        Raises:
          Busy: Its turn did not come in time.
          SessionNotFound: There is no such session.
        """
        if timeout_s is None:
            timeout_s = self._database.settings.invocation_timeout_s
        until = time.monotonic() + timeout_s
        pause_s = _SHORTEST_PAUSE_S
        seen: datetime | None = None
        seen_at = 0.0
        silent = False
        try:
            while True:
                row = await uninterrupted(self._ask(seen if silent else None))
                if row["taken"] or row["done"]:
                    break
                now = time.monotonic()
                if row["holds_until"] != seen:
                    seen, seen_at = row["holds_until"], now
                silent = now - seen_at > row["lease_s"]
                left_s = until - now
                if left_s <= 0:
                    raise self._busy(timeout_s)
                longest_s = _LONGEST_PAUSE_S if row["ahead"] else _NEXT_PAUSE_S
                pause_s = min(1.5 * pause_s, longest_s)
                await asyncio.sleep(min(random.uniform(0.5, 1) * pause_s, left_s))
        except (asyncio.CancelledError, Busy):
            await uninterrupted(self.release())
            raise
        if row["done"]:
            self._lost = _answered(self.place["session_id"])
        else:
            # In a thread, since what the run does may keep this loop from turning.
            self._heart = self._database.heart.run(self._keep())
        return row

    async def require(self) -> None:
        """Raises unless it has its session still; asks the database only after its time.

        Raises:
          InvocationLost: Another has taken its place.
        """
        if self._lost is None and time.clock_gettime(_CLOCK) >= self._lasts_until:
            await self._renew()
        if self._lost is not None:
            raise self._lost

    async def release(self, result: str | None = None) -> None:
        """Lets the next one run, or leaves the line.

        If the database does not let it, the lease lapses, but a result that is not stored is an
        error.

        Args:
          result: What is kept under the key, as JSON text; None if nothing has finished.

        Raises:
          DatabaseError: The result may not be stored.
          InvocationLost: Another had taken its place, so that the result is not stored.
        """
        try:
            if self._lost is None or self._heart is not None:
                await self._end(None if self._key is None else result)
        finally:
            self.ended = True

    async def _end(self, result: str | None) -> None:
        if self._heart is not None:
            self._heart.cancel()
        try:
            (row,) = await self._database.run.fetch(
                statements.end(
                    **self.place,
                    holder=self.holder,
                    key=None if result is None else self._key,
                    result=result,
                    ttl_s=_RESULT_TTL_S,
                ),
                policy=COMPARED,
            )
        except DatabaseError as exc:
            if result is not None:
                raise
            logger.warning("A session stays taken until its lease lapses: %s", exc)
            return
        if result is not None and not row["ended"]:
            raise lost(self.place["session_id"])

    async def _ask(self, unrenewed: datetime | None) -> statements.Begun:
        asked_at = time.clock_gettime(_CLOCK)
        try:
            rows = await self._database.run.fetch(
                statements.begin(
                    **self.place,
                    holder=self.holder,
                    key=self._key,
                    lease_s=self._lease_s,
                    unrenewed=unrenewed,
                ),
                policy=COMPARED,
            )
        except ConstraintViolated:  # it was deleted in the meantime
            rows = []
        if not rows:
            raise SessionNotFound(
                f"Session {self.place['session_id']} not found; create it before its invocation."
            )
        self._lasts_until = asked_at + self._lease_s
        return rows[0]

    async def _keep(self) -> None:
        """Renews the lease until it is cancelled, or another has taken its place."""
        while self._lost is None:
            await asyncio.sleep(self._lease_s / 3)
            try:
                await self._renew()
            except DatabaseError as exc:
                logger.warning("The lease of an invocation was not renewed: %s", exc)

    async def _renew(self) -> None:
        asked_at = time.clock_gettime(_CLOCK)
        renewed = await self._database.run.fetch(
            statements.renew(**self.place, holder=self.holder, lease_s=self._lease_s),
            policy=COMPARED,
        )
        if renewed:
            self._lasts_until = asked_at + self._lease_s
        elif self._lost is None and not self.ended:
            self._lost = lost(self.place["session_id"])
            logger.warning("Another invocation took session %s.", self.place["session_id"])

    def _busy(self, timeout_s: float) -> Busy:
        return Busy(
            f"Session {self.place['session_id']} is busy: another invocation ran in it for "
            f"{timeout_s:g} s; try again later, or raise timeout_s or ADKPG_INVOCATION_TIMEOUT_S.",
            written=False,
            public=f"Session {self.place['session_id']} is busy; try again later.",
        )


def lost(session_id: str) -> InvocationLost:
    """Returns the error of an invocation that another has taken the place of."""
    return InvocationLost(
        f"This invocation of session {session_id} writes nothing more: its lease lapsed and "
        "another has begun; load the session again in a new one. A process that stands still, or "
        "cannot reach the database, for longer than ADKPG_INVOCATION_LEASE_S loses its session."
    )


def _answered(session_id: str) -> InvocationLost:
    return InvocationLost(
        f"An invocation of session {session_id} with this key has finished already, so that this "
        "one writes nothing; answer with its result."
    )
