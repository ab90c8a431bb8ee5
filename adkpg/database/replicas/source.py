"""Source: where a read gets its rows, be it the primary or a standby."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import asyncpg

from adkpg.database.attempts import PROMPT, Attempt
from adkpg.queries import Query, RowT

T = TypeVar("T")


class Source(Protocol):
    """What a `Database` does for its readers."""

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> list[RowT]:
        """Runs one statement and returns its rows."""

    async def fetch_one(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> RowT | None:
        """Runs one statement like `fetch` and returns its first row, or None."""
        rows = await self.fetch(query, timeout_s=timeout_s)
        return rows[0] if rows else None

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction, which is given to it."""


class Prompt(Source):
    """A `Database` that says at once that a node of a cluster is away.

    Args:
      database: The Database.
    """

    def __init__(self, database: Any) -> None:
        self._database = database
        self._attempt = Attempt()

    @property
    def queued(self) -> bool:
        """Whether a question waits in the pool's queue, and not since a connection failed."""
        return self._attempt.queued and self._attempt.fault is None

    @property
    def borrowed_at(self) -> float:
        """When it had a connection after that, in monotonic seconds."""
        return self._attempt.borrowed_at

    def left_s(self, limit_s: float) -> float:
        """Returns for how many seconds an answer may still be waited for.

        Args:
          limit_s: How long the server may take: what went by in the pool's queue is not its.
        """
        if self.queued:
            return limit_s
        return self._attempt.borrowed_at + limit_s - time.monotonic()

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
    ) -> list[RowT]:
        """Runs one statement and returns its rows."""
        self._attempt = Attempt(borrowed_at=self._attempt.borrowed_at)
        rows: list[asyncpg.Record] = await self._database.run.fetch(
            query,
            timeout_s=timeout_s,
            policy=PROMPT,
            attempt=self._attempt,
        )
        return rows

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Does work in one transaction, which is given to it."""
        self._attempt = Attempt(borrowed_at=self._attempt.borrowed_at)
        done: T = await self._database.run.transact(work, policy=PROMPT, attempt=self._attempt)
        return done
