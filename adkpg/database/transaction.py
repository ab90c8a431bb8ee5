"""Transaction: statements on one connection."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from adkpg.database.attempts import Attempt
from adkpg.database.driver import of_driver, translate
from adkpg.database.sending import Sending
from adkpg.errors import ConstraintViolated, InvalidInput
from adkpg.queries import Query, RowT
from adkpg.telemetry import calls

_SCOPE = ("app_name", "user_id", "app_names", "user_ids", "app_delta")


class Transaction:
    """Statements on one connection: of one transaction, or each of one of its own.

    Args:
      connection: The driver's.
      sending: How statements are sent to the tables.
      begun: Whether the caller began a transaction, and entered the scope in it.
      scope: What each statement enters by itself, as the arguments of ``enter_scope``; None:
        nothing.
      place: Where it is, for spans, if the call does not say so.
      keeps_prepared: Whether statements that this process prepares can be run again.

    Attributes:
      written: The scopes of the statements that may have changed something, as parameters.
      began_at: When it began, in monotonic seconds.
      answered_at: When the server last answered.
    """

    __slots__ = (
        "_begun",
        "_connection",
        "_keeps_prepared",
        "_place",
        "_scope",
        "_sending",
        "answered_at",
        "began_at",
        "written",
    )

    def __init__(
        self,
        connection: asyncpg.Connection,
        sending: Sending,
        *,
        begun: bool,
        scope: tuple[str, ...] | None = None,
        place: dict[str, str | int] | None = None,
        keeps_prepared: bool = True,
    ) -> None:
        self._connection = connection
        self._sending = sending
        self._begun = begun
        self._scope = scope
        self._place = place
        self._keeps_prepared = keeps_prepared
        self.written: list[Mapping[str, object]] = []
        self.began_at = self.answered_at = time.monotonic()

    async def fetch(
        self,
        query: Query[RowT],
        *,
        timeout_s: float | None = None,
        standing: str | None = None,
        attempt: Attempt | None = None,
    ) -> list[RowT]:
        """Runs one statement and returns its rows, which are read by column name.

        Args:
          query: It.
          timeout_s: Longest run in seconds; None is ``ADKPG_COMMAND_TIMEOUT_S``.
          standing: What the server is asked of itself along with it, as `Statement.text` says.
          attempt: Told what was sent, where a statement commits by itself.
        """
        statement, parameters = query
        if self._begun and statement.writes:
            self.written.append({name: parameters[name] for name in _SCOPE if name in parameters})
        found: list[Any] = []
        for sent in self._sending.sent(
            query,
            scope=self._scope,
            standing=standing,
            # In a transaction another connection's plans are of no use.
            plans_kept=self._begun or self._keeps_prepared,
        ):
            if attempt is not None:
                attempt.sent = True
            if calls.is_open():
                with calls.statement(sent.sql, self._place):
                    rows = await self._connection.fetch(
                        sent.sql, *sent.arguments, timeout=timeout_s
                    )
            else:
                rows = await self._connection.fetch(sent.sql, *sent.arguments, timeout=timeout_s)
            found += rows if sent.rows is None else sent.rows(rows)
            if attempt is not None:
                attempt.partly = statement.writes
        self.answered_at = time.monotonic()
        return found

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Takes back what is done within if the server refuses a row; the transaction goes on.

        Raises:
          InvalidInput: A value cannot be stored.
          ConstraintViolated: A constraint refuses a row.
        """
        await self._connection.execute("SAVEPOINT within")
        try:
            yield
        except Exception as exc:
            cause = of_driver(exc)
            failure = exc if cause is None else translate(cause, "the database")
            if not isinstance(failure, InvalidInput | ConstraintViolated):
                raise  # the attempt's to judge
            # Rolling back keeps the savepoint.
            await self._connection.execute("ROLLBACK TO SAVEPOINT within")
            await self._connection.execute("RELEASE SAVEPOINT within")
            if failure is exc:
                raise
            raise failure from cause
        await self._connection.execute("RELEASE SAVEPOINT within")
