"""Transaction: statements on one connection."""

import time
from collections.abc import Mapping
from typing import Any

import asyncpg

from adkpg.database.attempts import Attempt
from adkpg.database.prepared_statements import call_of, prepared, rows_of
from adkpg.sql import ParametersT, Statement
from adkpg.telemetry import calls

_SCOPE = ("app_name", "user_id", "app_names", "user_ids", "app_delta")


class Transaction:
    """Statements on one connection: of one transaction, or each of one of its own.

    Args:
      connection: The driver's.
      schema: Of the tables.
      begun: Whether the caller began a transaction, and entered the scope in it.
      scope: What each statement enters by itself, as the arguments of ``enter_scope``; None:
        nothing.
      place: Where it is, for spans, if the call does not say so.
      distributed: Whether the tables are distributed by Citus.
      keeps_prepared: Whether statements that this process prepares can be run again.

    Attributes:
      is_distributed: Whether the tables are distributed by Citus.
      written: The scopes of the statements that may have changed something, as parameters.
      began_at: When it began, in monotonic seconds.
      answered_at: When the server last answered.
    """

    __slots__ = (
        "_begun",
        "_connection",
        "_keeps_prepared",
        "_place",
        "_schema",
        "_scope",
        "answered_at",
        "began_at",
        "is_distributed",
        "written",
    )

    def __init__(
        self,
        connection: asyncpg.Connection,
        schema: str,
        *,
        begun: bool,
        scope: tuple[str, ...] | None = None,
        place: dict[str, str | int] | None = None,
        distributed: bool = False,
        keeps_prepared: bool = True,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._begun = begun
        self._scope = scope
        self._place = place
        self._keeps_prepared = keeps_prepared
        self.is_distributed = distributed
        self.written: list[Mapping[str, object]] = []
        self.began_at = self.answered_at = time.monotonic()

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
        standing: str | None = None,
        attempt: Attempt | None = None,
    ) -> list[Any]:
        """Runs one statement and returns its rows, which are read by column name.

        Args:
          statement: Built once and kept.
          parameters: By the names of its bind parameters; others are ignored.
          timeout_s: Longest run in seconds; None is ``ADKPG_COMMAND_TIMEOUT_S``.
          standing: What the server is asked of itself along with it, as `Statement.fitting` says.
          attempt: Told what was sent, where a statement commits by itself.
        """
        distributed, scope = self.is_distributed, self._scope
        if self._begun and statement.writes:
            self.written.append({name: parameters[name] for name in _SCOPE if name in parameters})
        gate = None if scope is None else len(scope)
        statement = statement.form(distributed=distributed)
        call: Statement[Any] | None = None
        alone = not self._begun and standing is None  # else its plan is made anew each time
        if distributed and statement.writes_parts:
            call = call_of(writes=True)
        elif alone and statement.long and (distributed or not self._keeps_prepared):
            call = call_of(writes=statement.writes_parts)
        if standing is not None:
            sql = statement.fitting(self._schema, gate, standing)
        else:
            sql = (call or statement).text(self._schema, gate, distributed=distributed and not call)
        found: list[Any] = []
        for own in statement.split(parameters) if distributed else (parameters,):
            if call is None:
                arguments = statement.arguments(own)
            else:
                given = prepared(statement, own, self._schema, distributed=distributed)
                arguments = call.arguments(given)
            if scope is not None:
                arguments = (call or statement).entering(arguments, scope)
            if attempt is not None:
                attempt.sent = True
            if calls.is_open():
                with calls.statement(sql, self._place):
                    rows = await self._connection.fetch(sql, *arguments, timeout=timeout_s)
            else:
                rows = await self._connection.fetch(sql, *arguments, timeout=timeout_s)
            found += rows if call is None else rows_of(statement, rows[0]["answer"])
            if attempt is not None:
                attempt.partly = statement.writes
        self.answered_at = time.monotonic()
        return found

    async def command(self, statement: Statement[ParametersT], parameters: ParametersT) -> None:
        """Runs one statement, which on a cluster has another node do it, in a transaction there.

        Its rows are what nodes answered: success and result. What one refused is raised as if it
        had been asked itself, so that what passes is repeated.
        """
        for answer in await self.fetch(statement, parameters):
            if not answer["success"]:
                raise asyncpg.InternalServerError(answer["result"])
